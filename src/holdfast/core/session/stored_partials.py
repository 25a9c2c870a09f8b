"""Reads of partial text: what has been kept of blocks that a model is writing, or that its process left behind.

A reader shows it where a message has no text yet. It is no event and no projection: it moves no cursor."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.core.database.read import Read
from holdfast.schema.codec import decode_any, encode
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.session.stored_messages import StoredMessage

PART_KINDS = {"text": "text", "reasoning": "reasoning", "input": "tool"}
"""The kind of part that a block is in its message, in the order in which open blocks are closed."""


class PartialRow(Frozen):
    """A piece of the text of a block."""

    message_id: str
    kind: str
    key: str
    text: str
    place: int | None


class PartialText(Frozen):
    """The text so far of a block. `place` is that of its part in the message; None if the Session does not have the
    message any more."""

    message_id: str
    kind: str
    key: str
    place: int | None
    text: str


def partial_read(session_id: str) -> Read:
    return Read("partial.of_session", {"session_id": session_id}, PartialRow)


def partial_texts(rows: Iterable[PartialRow]) -> list[PartialText]:
    """Put pieces together, which are in their order."""
    blocks = groupby(rows, key=attrgetter("message_id", "kind", "key", "place"))
    return [PartialText(*block, "".join(row.text for row in pieces)) for block, pieces in blocks]


def with_partials(messages: Sequence[StoredMessage], partials: Sequence[PartialText]) -> list[StoredMessage]:
    """Add what is kept of open blocks to messages that were read afterwards. A block that ended meanwhile has its whole
    text there."""
    by_message: dict[str, list[PartialText]] = {}
    for partial in partials:
        by_message.setdefault(partial.message_id, []).append(partial)
    return [
        replace(message, wire=_with_partials(message.wire, by_message[message.id]))
        if message.id in by_message
        else message
        for message in messages
    ]


def _with_partials(wire: bytes, partials: Sequence[PartialText]) -> bytes:
    document = decode_any(wire)
    # A provider may use an id again in one message; the newest block is the open one.
    parts = {(part["type"], part["id"]): part for part in document["content"]}
    for partial in partials:
        part = parts.get((partial.kind, partial.key))
        if part is None:
            continue
        target, field = (part["state"], "input") if partial.kind == "tool" else (part, "text")
        if target.get(field) == "":
            target["partial"] = partial.text
    return encode(document)
