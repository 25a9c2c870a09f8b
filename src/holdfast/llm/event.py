"""The canonical events of a provider turn, and what they fold into.

Lifecycle, guaranteed by every decoder: `StepStart` once before the first content; each block id exactly one start, any
deltas, one end; a call's input events before its `ToolCall`; then `StepFinish` and `Finish` with the same reason and
usage, or one `ProviderError` and no `Finish`."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.llm.request import ProviderMetadata, ToolResult


class LLMEvent(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, rename="camel", tag_field="type"):
    pass


class StepStart(LLMEvent, frozen=True, tag="step-start"):
    index: int = 0


class TextStart(LLMEvent, frozen=True, tag="text-start"):
    id: str
    metadata: ProviderMetadata | None = msgspec.field(name="providerMetadata", default=None)


class TextDelta(LLMEvent, frozen=True, tag="text-delta"):
    id: str
    text: str


class TextEnd(LLMEvent, frozen=True, tag="text-end"):
    id: str
    metadata: ProviderMetadata | None = msgspec.field(name="providerMetadata", default=None)


class ReasoningStart(LLMEvent, frozen=True, tag="reasoning-start"):
    id: str
    metadata: ProviderMetadata | None = msgspec.field(name="providerMetadata", default=None)


class ReasoningDelta(LLMEvent, frozen=True, tag="reasoning-delta"):
    id: str
    text: str


class ReasoningEnd(LLMEvent, frozen=True, tag="reasoning-end"):
    id: str
    metadata: ProviderMetadata | None = msgspec.field(name="providerMetadata", default=None)


class ToolInputStart(LLMEvent, frozen=True, tag="tool-input-start"):
    id: str
    name: str


class ToolInputDelta(LLMEvent, frozen=True, tag="tool-input-delta"):
    id: str
    name: str
    text: str


class ToolInputEnd(LLMEvent, frozen=True, tag="tool-input-end"):
    id: str
    name: str


class ToolCall(LLMEvent, frozen=True, tag="tool-call"):
    """`invalid` says why the arguments could not be decoded; `input` is then empty and nothing may be executed.
    `raw` is the text that the model wrote."""

    id: str
    name: str
    input: dict[str, Any]
    invalid: str | None = None
    raw: str | None = None
    provider_executed: bool = False
    metadata: ProviderMetadata | None = msgspec.field(name="providerMetadata", default=None)


class ToolResultEvent(LLMEvent, frozen=True, tag="tool-result"):
    """The outcome of a call that the provider executed."""

    id: str
    name: str
    result: ToolResult
    provider_executed: bool = True
    metadata: ProviderMetadata | None = msgspec.field(name="providerMetadata", default=None)


class Usage(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Totals are inclusive: cached input counts as input, reasoning as output. Counts that the
    provider does not report are absent."""

    input: int | None = msgspec.field(name="inputTokens", default=None)
    output: int | None = msgspec.field(name="outputTokens", default=None)
    total: int | None = msgspec.field(name="totalTokens", default=None)
    non_cached: int | None = msgspec.field(name="nonCachedInputTokens", default=None)
    cache_read: int | None = msgspec.field(name="cacheReadInputTokens", default=None)
    cache_write: int | None = msgspec.field(name="cacheWriteInputTokens", default=None)
    reasoning: int | None = msgspec.field(name="reasoningTokens", default=None)
    metadata: ProviderMetadata | None = msgspec.field(name="providerMetadata", default=None)

    @property
    def visible_output(self) -> int:
        return max(0, (self.output or 0) - (self.reasoning or 0))


class StepFinish(LLMEvent, frozen=True, tag="step-finish"):
    reason: str
    usage: Usage | None = None
    index: int = 0
    metadata: ProviderMetadata | None = msgspec.field(name="providerMetadata", default=None)


class Finish(LLMEvent, frozen=True, tag="finish"):
    reason: str
    usage: Usage | None = None
    metadata: ProviderMetadata | None = msgspec.field(name="providerMetadata", default=None)


class ProviderError(LLMEvent, frozen=True, tag="provider-error"):
    """The provider reported a failure inside a stream. Reasons are those of LLMError."""

    message: str
    reason: str = "UnknownProvider"
    classification: str | None = None
    retryable: bool = False
    retry_after_ms: int | None = None
    code: str | None = None
    usage: Usage | None = None
    metadata: ProviderMetadata | None = msgspec.field(name="providerMetadata", default=None)


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
    | ToolResultEvent
    | StepFinish
    | Finish
    | ProviderError
)


def usage(
    *,
    input: int | None = None,
    non_cached: int | None = None,
    cache_read: int | None = None,
    cache_write: int | None = None,
    output: int | None = None,
    reasoning: int | None = None,
    total: int | None = None,
    namespace: str,
    raw: Any,
) -> Usage:
    """Usage with the counts that can be computed from the reported ones; differences are at least zero. Raises
    TypeError for values that are not numbers."""
    input, non_cached, output = count(input), count(non_cached), count(output)
    cache_read, cache_write = count(cache_read), count(cache_write)
    reasoning, total = count(reasoning), count(total)
    read, write = cache_read or 0, cache_write or 0
    if input is None and non_cached is not None:
        input = non_cached + read + write
    elif non_cached is None and input is not None:
        non_cached = max(0, input - read - write)
    if total is None and (input is not None or output is not None):
        total = (input or 0) + (output or 0)
    return Usage(
        input=input,
        output=output,
        total=total,
        non_cached=non_cached,
        cache_read=cache_read,
        cache_write=cache_write,
        reasoning=reasoning if reasoning is None or output is None else min(reasoning, output),
        metadata={namespace: raw} if isinstance(raw, dict) else None,
    )


def count(value: Any) -> int | None:
    """A count of tokens; None if it is negative or absent. Raises TypeError."""
    if value is None:
        return None
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not whole:
        raise TypeError(f"{value!r:.40} is no count of tokens")
    return int(value) if value >= 0 else None
