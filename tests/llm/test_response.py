"""What the events of a turn fold into, and what usage adds up to."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.llm.support import HELLO_CHAT, HELLO_CLAUDE, Playback, chat_model, claude, play

from holdfast.llm import event as ev
from holdfast.llm.errors import LLMError
from holdfast.llm.request import (
    MediaPart,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResult,
    ToolResultPart,
    make_request,
)
from holdfast.llm.response import Response, fold
from holdfast.llm.stream import generate

TURN: list[ev.Event] = [
    ev.StepStart(),
    ev.ReasoningStart("r", {"openai": {"itemId": "start"}}),
    ev.TextStart("t", {"openai": {"phase": "commentary"}}),
    ev.ReasoningDelta("r", "th"),
    ev.TextDelta("t", "a"),
    ev.ReasoningDelta("r", "ink"),
    ev.ReasoningEnd("r", {"openai": {"itemId": "end"}}),
    ev.TextDelta("t", "b"),
    ev.ToolInputStart("c", "f"),
    ev.ToolInputDelta("c", "f", '{"x":1}'),
    ev.TextEnd("t"),
    ev.ToolInputEnd("c", "f"),
    ev.TextStart("u"),
    ev.TextDelta("u", "!"),
    ev.ToolCall("c", "f", {"x": 1}, metadata={"google": {"thoughtSignature": "s"}}),
    ev.ToolCall("h", "web_search", {}, provider_executed=True),
    ev.ToolResultEvent("h", "web_search", ToolResult(type="json", value=[1])),
    ev.TextEnd("u"),
    ev.StepFinish("tool-calls", ev.Usage(input=1, output=1)),
    ev.Finish("tool-calls", ev.Usage(input=2, output=1), {"openai": {"responseId": "x"}}),
]


def test_parts_come_in_the_order_of_their_start() -> None:
    """LLM-071: deltas join, metadata at the end wins, a call is a part once complete, usage of the finish counts."""
    assert fold(TURN) == Response(
        parts=(
            ReasoningPart(text="think", provider_metadata={"openai": {"itemId": "end"}}),
            TextPart(text="ab", provider_metadata={"openai": {"phase": "commentary"}}),
            TextPart(text="!"),
            ToolCallPart(id="c", name="f", input={"x": 1}, provider_metadata={"google": {"thoughtSignature": "s"}}),
            ToolCallPart(id="h", name="web_search", input={}, provider_executed=True),
            ToolResultPart(
                id="h", name="web_search", result=ToolResult(type="json", value=[1]), provider_executed=True
            ),
        ),
        reason="tool-calls",
        usage=ev.Usage(input=2, output=1),
        metadata={"openai": {"responseId": "x"}},
    )


def test_only_local_calls_are_for_the_caller() -> None:
    """LLM-067: what the provider executed is not dispatched."""
    assert [call.id for call in fold(TURN).calls] == ["c"]
    assert fold(TURN).text == "ab!"


@pytest.mark.parametrize("length", range(len(TURN)))
def test_an_unfinished_stream_gives_what_arrived_and_no_reason(length: int) -> None:
    """LLM-071"""
    response = fold(TURN[:length])
    assert response.reason is None
    texts = "".join(event.text for event in TURN[:length] if isinstance(event, ev.TextDelta))
    assert response.text == texts
    assert len([part for part in response.parts if isinstance(part, ToolCallPart)]) == sum(
        isinstance(event, ev.ToolCall) for event in TURN[:length]
    )


def test_the_last_usage_counts_when_the_finish_has_none() -> None:
    """LLM-071"""
    events: list[ev.Event] = [ev.StepStart(), ev.StepFinish("stop", ev.Usage(input=7)), ev.Finish("stop")]
    assert fold(events).usage == ev.Usage(input=7)


def test_an_error_is_the_reason_unless_there_is_one() -> None:
    """LLM-071, LLM-090"""
    failed = ev.ProviderError("m", usage=ev.Usage(output=3))
    assert fold([ev.StepStart(), failed]) == Response(parts=(), reason="error", usage=ev.Usage(output=3), error=failed)
    assert fold([ev.Finish("length"), failed]).reason == "length"


def test_a_hosted_call_and_its_result_keep_their_own_metadata() -> None:
    """LLM-144, LLM-146"""
    call = ev.ToolCall("h", "web_search", {}, provider_executed=True, metadata={"openai": {"itemId": "call"}})
    result = ToolResult(type="json", value=[])
    shown = ev.ToolResultEvent("h", "web_search", result, metadata={"anthropic": {"blockType": "b"}})
    assert [part.provider_metadata for part in fold([call, shown]).parts if not isinstance(part, MediaPart)] == [
        {"openai": {"itemId": "call"}},
        {"anthropic": {"blockType": "b"}},
    ]


def test_an_invalid_call_is_replayed_empty() -> None:
    """LLM-162"""
    assert fold([ev.ToolCall("c", "f", {}, invalid="why", raw="{")]).parts == (
        ToolCallPart(id="c", name="f", input={}),
    )


# -- generate --------------------------------------------------------------------------------------------------------


class Mute:
    """A decoder that is never finished and does not mind."""

    done = False

    def feed(self, frame: bytes) -> list[ev.Event]:
        return [ev.StepStart(), ev.TextStart("t"), ev.TextDelta("t", frame.decode())]

    def finish(self) -> list[ev.Event]:
        return []


@pytest.mark.anyio
async def test_an_answer_without_an_end_is_no_response() -> None:
    """LLM-004"""

    class Odd:
        id, name, namespace, framing = "odd", "Odd", "odd", "sse"

        def __getattr__(self, name: str) -> Any:
            return getattr(chat_model().route.protocol, name)

        def decoder(self, model: Any, request: Any, limits: Any) -> Mute:
            return Mute()

    model = chat_model()
    model = model.replace(route=model.route.replace(protocol=Odd()))
    with pytest.raises(LLMError, match="ended without a terminal finish event") as caught:
        await generate(Playback(play(b"data: x\n\n")), model, make_request(prompt="x"))
    assert caught.value.reason == "InvalidProviderOutput"


# -- usage -----------------------------------------------------------------------------------------------------------

COUNTS = st.none() | st.integers(0, 100)


@given(given_input=COUNTS, non_cached=COUNTS, read=COUNTS, write=COUNTS, output=COUNTS, reasoning=COUNTS, total=COUNTS)
def test_the_parts_of_usage_add_up(
    given_input: int | None,
    non_cached: int | None,
    read: int | None,
    write: int | None,
    output: int | None,
    reasoning: int | None,
    total: int | None,
) -> None:
    """LLM-080, LLM-081, LLM-082: computed where a side is missing, never below zero, never invented."""
    if given_input is not None and non_cached is not None:
        given_input = None  # no provider reports both
    usage = ev.usage(
        input=given_input,
        non_cached=non_cached,
        cache_read=read,
        cache_write=write,
        output=output,
        reasoning=reasoning,
        total=total,
        namespace="openai",
        raw={"raw": 1},
    )
    if given_input is None and non_cached is None:
        assert usage.input is None
        assert usage.non_cached is None
    else:
        assert usage.input is not None
        assert usage.non_cached is not None
        parts = usage.non_cached + (read or 0) + (write or 0)
        assert parts == usage.input or (usage.non_cached == 0 and parts > usage.input)
    assert (usage.cache_read, usage.cache_write, usage.output) == (read, write, output)
    if usage.reasoning is not None and usage.output is not None:
        assert usage.reasoning <= usage.output
    assert usage.visible_output == max(0, (output or 0) - (usage.reasoning or 0))
    if total is not None:
        assert usage.total == total
    elif usage.input is None and output is None:
        assert usage.total is None
    else:
        assert usage.total == (usage.input or 0) + (output or 0)
    assert usage.metadata == {"openai": {"raw": 1}}


@pytest.mark.anyio
async def test_generate_folds_what_stream_yields() -> None:
    """LLM-004"""
    for model, data in ((chat_model(), HELLO_CHAT), (claude(), HELLO_CLAUDE)):
        response = await generate(Playback(play(data, 7)), model, make_request(prompt="x"))
        assert (response.text, response.reason) == ("Héllo", "stop")
