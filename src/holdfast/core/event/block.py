"""Blocks of an answer: which deltas and which end belong together."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.schema.codec import decoder
from holdfast.schema.record import Record

if TYPE_CHECKING:
    Block = tuple[str, str, str]
    """The kind of block, its message and its own id."""

DELTA = ".delta"
ENDS = {
    "session.next.text.ended": "session.next.text",
    "session.next.reasoning.ended": "session.next.reasoning",
    "session.next.tool.input.ended": "session.next.tool.input",
    "session.next.shell.ended": "session.next.shell",
    "session.next.compaction.ended": "session.next.compaction",
    "session.next.compaction.failed": "session.next.compaction",
}


class _Names(Record):
    assistant_message_id: str = ""
    message_id: str = ""
    text_id: str = ""
    reasoning_id: str = ""
    call_id: str = ""


def block_of_delta(type: str, data: msgspec.Raw) -> Block | None:
    """The block that a delta continues; None for any other event."""
    return _block(type.removesuffix(DELTA), data) if type.endswith(DELTA) else None


def block_of_end(type: str, data: msgspec.Raw) -> Block | None:
    """The block that a durable event ends; None for any other event."""
    kind = ENDS.get(type)
    return None if kind is None else _block(kind, data)


def _block(kind: str, data: msgspec.Raw) -> Block | None:
    try:
        names: _Names = decoder(_Names).decode(data)
    except msgspec.DecodeError:
        return None
    return kind, names.assistant_message_id or names.message_id, names.text_id or names.reasoning_id or names.call_id
