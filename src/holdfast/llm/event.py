"""The canonical events of a provider turn.

Lifecycle, which every decoder keeps: `StepStart` once before the first content; each block id exactly one start, any
deltas, one end; a call's input events before its `ToolCall`; then `StepFinish` and `Finish`, or one `ProviderError`."""

from __future__ import annotations

from typing import Any

import msgspec

ProviderMetadata = dict[str, dict[str, Any]]


class LLMEvent(msgspec.Struct, frozen=True, gc=False):
    pass


class StepStart(LLMEvent, frozen=True):
    index: int = 0


class TextStart(LLMEvent, frozen=True):
    id: str


class TextDelta(LLMEvent, frozen=True):
    id: str
    text: str


class TextEnd(LLMEvent, frozen=True):
    id: str


class ReasoningStart(LLMEvent, frozen=True):
    id: str
    metadata: ProviderMetadata | None = None


class ReasoningDelta(LLMEvent, frozen=True):
    id: str
    text: str


class ReasoningEnd(LLMEvent, frozen=True):
    id: str
    metadata: ProviderMetadata | None = None


class ToolInputStart(LLMEvent, frozen=True):
    id: str
    name: str


class ToolInputDelta(LLMEvent, frozen=True):
    id: str
    name: str
    text: str


class ToolInputEnd(LLMEvent, frozen=True):
    id: str
    name: str


class ToolCall(LLMEvent, frozen=True):
    """`invalid` says why the arguments could not be understood; `input` is then empty and must not be executed."""

    id: str
    name: str
    input: dict[str, Any]
    invalid: str | None = None
    provider_executed: bool = False


class Usage(msgspec.Struct, frozen=True):
    """Totals are inclusive: cached input counts as input, reasoning as output. Unknown stays None."""

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None


class StepFinish(LLMEvent, frozen=True):
    reason: str
    usage: Usage | None = None
    index: int = 0


class Finish(LLMEvent, frozen=True):
    reason: str
    usage: Usage | None = None


class ProviderError(LLMEvent, frozen=True):
    """The provider reported a failure inside a stream that was otherwise well."""

    message: str
    usage: Usage | None = None


Event = (
    StepStart
    | TextStart
    | TextDelta
    | TextEnd
    | ReasoningStart
    | ReasoningDelta
    | ReasoningEnd
    | ToolInputStart
    | ToolInputDelta
    | ToolInputEnd
    | ToolCall
    | StepFinish
    | Finish
    | ProviderError
)
