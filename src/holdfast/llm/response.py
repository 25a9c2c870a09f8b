"""What the events of a turn fold into."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.llm import event as ev
from holdfast.llm.request import (
    Part,
    ProviderMetadata,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)

if TYPE_CHECKING:
    from collections.abc import Iterable


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """`reason` is None for a stream that did not end; its parts are what had arrived."""

    parts: tuple[Part, ...]
    reason: str | None
    usage: ev.Usage | None
    error: ev.ProviderError | None = None
    metadata: ProviderMetadata | None = None

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def calls(self) -> tuple[ToolCallPart, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolCallPart) and not part.provider_executed)


class _Block:
    def __init__(self, kind: str, metadata: ProviderMetadata | None) -> None:
        self.kind = kind
        self.pieces: list[str] = []
        self.metadata = metadata


def fold(events: Iterable[ev.Event]) -> Response:
    """Parts in order of their first start; metadata at the end of a block wins over that at its start."""
    items: list[_Block | Part] = []
    open_blocks: dict[str, _Block] = {}
    reason: str | None = None
    usage: ev.Usage | None = None
    error: ev.ProviderError | None = None
    metadata: ProviderMetadata | None = None
    for event in events:
        match event:
            case ev.TextStart(id, given) | ev.ReasoningStart(id, given):
                block = _Block("text" if isinstance(event, ev.TextStart) else "reasoning", given)
                open_blocks[id] = block
                items.append(block)
            case ev.TextDelta(id, text) | ev.ReasoningDelta(id, text):
                open_blocks[id].pieces.append(text)
            case ev.TextEnd(id, given) | ev.ReasoningEnd(id, given):
                open_blocks[id].metadata = given or open_blocks[id].metadata
            case ev.ToolCall():
                items.append(
                    ToolCallPart(
                        id=event.id,
                        name=event.name,
                        input=event.input,
                        provider_executed=event.provider_executed,
                        provider_metadata=event.metadata,
                    )
                )
            case ev.ToolResultEvent():
                items.append(
                    ToolResultPart(
                        id=event.id,
                        name=event.name,
                        result=event.result,
                        provider_executed=event.provider_executed,
                        provider_metadata=event.metadata,
                    )
                )
            case ev.StepFinish():
                usage = event.usage or usage
            case ev.Finish():
                reason, usage, metadata = event.reason, event.usage or usage, event.metadata
            case ev.ProviderError():
                reason, error, usage = reason or "error", event, event.usage or usage
            case _:
                pass
    parts = tuple(_part(item) if isinstance(item, _Block) else item for item in items)
    return Response(parts=parts, reason=reason, usage=usage, error=error, metadata=metadata)


def _part(block: _Block) -> Part:
    text = "".join(block.pieces)
    if block.kind == "text":
        return TextPart(text=text, provider_metadata=block.metadata)
    return ReasoningPart(text=text, provider_metadata=block.metadata)
