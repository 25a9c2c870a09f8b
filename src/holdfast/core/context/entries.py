"""`api/KEY`: the instruction entries of a Session, one Context Source each. A change is told at the next boundary."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.context.source import JsonCodec, Source, constant
from holdfast.core.context.system_context import EMPTY, combine, make
from holdfast.core.tagged_text import inside_tag
from holdfast.schema.codec import encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.context.system_context import SystemContext
    from holdfast.schema.instruction import InstructionEntry

NAMESPACE = "api"
TAG = "instruction-entry"
BASELINE = "The instruction entry `{key}` applies to this conversation:"
UPDATE = "The instruction entry `{key}` has changed. From now on it is:"
REMOVED = "The instruction entry `{key}` was removed. Disregard what it said."

_CODEC: JsonCodec[Any] = JsonCodec(object)


def instruction_entries(entries: Sequence[InstructionEntry]) -> SystemContext:
    return combine(make(_source(entry)) for entry in entries) if entries else EMPTY


def _source(entry: InstructionEntry) -> Source[Any]:
    key = entry.key
    return Source(
        key=f"{NAMESPACE}/{key}",
        codec=_CODEC,
        load=constant(entry.value),
        baseline=lambda value: f"{BASELINE.format(key=key)}\n{_block(key, value)}",
        update=lambda _, value: f"{UPDATE.format(key=key)}\n{_block(key, value)}",
        removed=lambda _: REMOVED.format(key=key),
        immediate=True,
    )


def _block(key: str, value: Any) -> str:
    """Text as it is, anything else as indented JSON; neither can end the tag around it."""
    text = value if isinstance(value, str) else msgspec.json.format(encode(value), indent=2).decode()
    return f'<{TAG} key="{key}">\n{inside_tag(TAG, text)}\n</{TAG}>'
