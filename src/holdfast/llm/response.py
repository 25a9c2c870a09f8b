"""Folds the events of a turn into a response."""

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
from holdfast.llm.text_buffer import TextBuffer

if TYPE_CHECKING:
    from collections.abc import Iterable


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """`reason` is None for a stream that did not finish; `parts` then holds what arrived."""

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
        self.text = TextBuffer()
        self.metadata = metadata


class Fold:
    """Builds a response from events. Parts are in order of their first start; metadata at the end of a
    block replaces that at its start."""

    def __init__(self) -> None:
        self._items: list[_Block | Part] = []
        self._blocks: dict[str, _Block] = {}
        self._usage: ev.Usage | None = None
        self._error: ev.ProviderError | None = None
        self.reason: str | None = None
        self.metadata: ProviderMetadata | None = None

    def add(self, events: Iterable[ev.Event]) -> None:
        for event in events:
            match event:
                case ev.TextStart(id, given) | ev.ReasoningStart(id, given):
                    block = _Block("text" if isinstance(event, ev.TextStart) else "reasoning", given)
                    self._blocks[id] = block
                    self._items.append(block)
                case ev.TextDelta(id, text) | ev.ReasoningDelta(id, text):
                    self._blocks[id].text.add(text)
                case ev.TextEnd(id, given) | ev.ReasoningEnd(id, given):
                    self._blocks[id].metadata = given or self._blocks[id].metadata
                case ev.ToolCall():
                    self._items.append(
                        ToolCallPart(
                            id=event.id,
                            name=event.name,
                            input=event.input,
                            provider_executed=event.provider_executed,
                            provider_metadata=event.metadata,
                        )
                    )
                case ev.ToolResultEvent():
                    self._items.append(
                        ToolResultPart(
                            id=event.id,
                            name=event.name,
                            result=event.result,
                            provider_executed=event.provider_executed,
                            provider_metadata=event.metadata,
                        )
                    )
                case ev.StepFinish():
                    self._usage = event.usage or self._usage
                case ev.Finish():
                    self._usage = event.usage or self._usage
                    self.reason, self.metadata = event.reason, event.metadata
                case ev.ProviderError():
                    self._usage = event.usage or self._usage
                    self.reason, self._error = self.reason or "error", event
                case _:
                    pass

    def response(self) -> Response:
        parts = tuple(_part(item) if isinstance(item, _Block) else item for item in self._items)
        return Response(parts=parts, reason=self.reason, usage=self._usage, error=self._error, metadata=self.metadata)


def fold(events: Iterable[ev.Event]) -> Response:
    folding = Fold()
    folding.add(events)
    return folding.response()


def _part(block: _Block) -> Part:
    text = block.text.whole()
    if block.kind == "text":
        return TextPart(text=text, provider_metadata=block.metadata)
    return ReasoningPart(text=text, provider_metadata=block.metadata)
