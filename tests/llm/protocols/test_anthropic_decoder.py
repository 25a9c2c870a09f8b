"""Anthropic Messages: what comes back."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.llm.protocols.test_openai_chat_decoder import mutated
from tests.llm.support import decode, refused, survive

from holdfast.llm import event as ev
from holdfast.llm.protocols.anthropic_stream import MessagesDecoder
from holdfast.llm.request import ToolResult
from holdfast.schema.codec import encode

START = {"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 9, "output_tokens": 1}}}


def begin(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, type: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": type, **fields}}


def stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def ended(reason: str = "end_turn", usage: Any = None, **fields: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason, **fields}, "usage": usage}


def said(*frames: object) -> list[ev.Event]:
    return decode(MessagesDecoder(), *frames)


def finished(reason: str = "stop", usage: ev.Usage | None = None, **native: Any) -> list[ev.Event]:
    metadata = {"anthropic": {"stopReason": "end_turn", **native}}
    return [ev.StepFinish(reason, usage, metadata=metadata), ev.Finish(reason, usage, metadata)]


# -- blocks ----------------------------------------------------------------------------------------------------------


def test_a_text_block_streams_and_the_finish_comes_with_message_delta() -> None:
    """LLM-227, LLM-070, LLM-069: a block ends where the provider says so, and the finish comes with message_delta."""
    machine = MessagesDecoder()
    frames: list[Any] = [
        {"type": "message_start", "message": {}},
        begin(0, type="text", text=""),
        {"type": "ping"},
        delta(0, "text_delta", text="Hel"),
        delta(0, "text_delta", text=""),
        delta(0, "text_delta", text="lo"),
        stop(0),
    ]
    events = [event for frame in frames for event in machine.feed(encode(frame) + b"     ")]
    assert events == [
        ev.StepStart(),
        ev.TextStart("text-0"),
        ev.TextDelta("text-0", "Hel"),
        ev.TextDelta("text-0", "lo"),
        ev.TextEnd("text-0"),
    ]
    assert machine.feed(encode(ended())) == finished()
    assert machine.done
    assert machine.feed(encode({"type": "message_stop"})) == []
    assert machine.finish() == []


def test_content_in_the_start_of_a_block_is_its_first_delta() -> None:
    """LLM-228"""
    assert said(
        begin(0, type="thinking", thinking="h"), stop(0), begin(1, type="text", text="t"), stop(1), ended()
    ) == [
        ev.StepStart(),
        ev.ReasoningStart("reasoning-0"),
        ev.ReasoningDelta("reasoning-0", "h"),
        ev.ReasoningEnd("reasoning-0"),
        ev.TextStart("text-1"),
        ev.TextDelta("text-1", "t"),
        ev.TextEnd("text-1"),
        *finished(),
    ]


def test_thinking_ends_once_with_its_signature() -> None:
    """LLM-229, LLM-230, LLM-146: which may come in pieces."""
    events = said(
        begin(0, type="thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="hm"),
        delta(0, "signature_delta", signature="si"),
        delta(0, "signature_delta", signature="g"),
        stop(0),
        ended(),
    )
    assert [event for event in events if isinstance(event, ev.ReasoningEnd)] == [
        ev.ReasoningEnd("reasoning-0", {"anthropic": {"signature": "sig"}})
    ]


@pytest.mark.parametrize(
    ("block", "deltas", "metadata"),
    [
        ({"type": "thinking", "thinking": ""}, [delta(0, "signature_delta", signature="sig")], {"signature": "sig"}),
        ({"type": "thinking", "thinking": "", "signature": "sig"}, [], {"signature": "sig"}),
        ({"type": "redacted_thinking", "data": "xyz"}, [], {"redactedData": "xyz"}),
    ],
)
def test_thinking_without_text_is_kept(block: Any, deltas: list[Any], metadata: Any) -> None:
    """LLM-230, LLM-147"""
    assert said(begin(0, **block), *deltas, stop(0), ended())[:3] == [
        ev.StepStart(),
        ev.ReasoningStart("reasoning-0"),
        ev.ReasoningEnd("reasoning-0", {"anthropic": metadata}),
    ]


def test_citations_are_kept() -> None:
    """LLM-233"""
    events = said(
        begin(0, type="text", text="t"),
        delta(0, "citations_delta", citation={"url": "a"}),
        delta(0, "citations_delta", citation={"url": "b"}),
        stop(0),
        ended(),
    )
    assert ev.TextEnd("text-0", {"anthropic": {"citations": [{"url": "a"}, {"url": "b"}]}}) in events


def test_interleaved_blocks_are_kept_apart_by_index() -> None:
    """LLM-062"""
    events = said(
        begin(0, type="text", text="a"), begin(1, type="text", text="b"), delta(0, "text_delta", text="c"), ended()
    )
    assert [event.text for event in events if isinstance(event, ev.TextDelta) and event.id == "text-0"] == ["a", "c"]
    assert sum(isinstance(event, ev.TextEnd) for event in events) == 2


def test_a_block_that_is_opened_again_is_unreadable() -> None:
    """LLM-062"""
    _, error = refused(MessagesDecoder(), begin(0, type="text", text="a"), stop(0), begin(0, type="text", text="b"))
    assert error.reason == "InvalidProviderOutput"


def test_a_block_that_begins_inside_a_call_is_unreadable() -> None:
    """LLM-062: the call would never end, or be made twice."""
    call = begin(0, type="tool_use", id="c", name="f", input={})
    for block in (call, begin(0, type="text", text="b")):
        _, error = refused(MessagesDecoder(), call, block)
        assert error.reason == "InvalidProviderOutput"


# -- calls -----------------------------------------------------------------------------------------------------------


def test_a_call_is_complete_when_its_block_stops() -> None:
    """LLM-066, LLM-068, LLM-228: an empty piece is skipped."""
    machine = MessagesDecoder()
    frames = [
        begin(0, type="tool_use", id="toolu_1", name="get_weather", input={}),
        delta(0, "input_json_delta", partial_json=""),
        delta(0, "input_json_delta", partial_json='{"city"'),
        delta(0, "input_json_delta", partial_json=': "Paris"}'),
        stop(0),
    ]
    assert [event for frame in frames for event in machine.feed(encode(frame))] == [
        ev.StepStart(),
        ev.ToolInputStart("toolu_1", "get_weather"),
        ev.ToolInputDelta("toolu_1", "get_weather", '{"city"'),
        ev.ToolInputDelta("toolu_1", "get_weather", ': "Paris"}'),
        ev.ToolInputEnd("toolu_1", "get_weather"),
        ev.ToolCall("toolu_1", "get_weather", {"city": "Paris"}),
    ]
    assert machine.feed(encode(ended("tool_use")))[-1].reason == "tool-calls"  # type: ignore[union-attr]


def test_a_call_without_arguments_has_an_empty_object() -> None:
    """LLM-160"""
    events = said(begin(0, type="tool_use", id="c", name="f", input={}), stop(0), ended("tool_use"))
    assert ev.ToolCall("c", "f", {}) in events


def test_a_call_that_arrives_whole() -> None:
    """LLM-066"""
    events = said(begin(0, type="tool_use", id="c", name="f", input={"a": "é"}), stop(0), ended("tool_use"))
    assert ev.ToolInputDelta("c", "f", '{"a":"é"}') in events
    assert ev.ToolCall("c", "f", {"a": "é"}) in events


def test_arguments_for_no_call_are_unreadable() -> None:
    """LLM-228"""
    for frames in ([], [begin(0, type="text", text="")]):
        _, error = refused(MessagesDecoder(), *frames, delta(0, "input_json_delta", partial_json="{}"))
        assert error.reason == "InvalidProviderOutput"


def test_malformed_arguments_do_not_fail_the_turn() -> None:
    """LLM-161, LLM-162, LLM-163"""
    for arguments in ('{"x', "[1]", "text"):
        events = said(
            START,
            begin(0, type="text", text="before"),
            stop(0),
            begin(1, type="tool_use", id="c", name="f"),
            delta(1, "input_json_delta", partial_json=arguments),
            stop(1),
            ended("tool_use", {"output_tokens": 5}),
        )
        (call,) = (event for event in events if isinstance(event, ev.ToolCall))
        assert (call.input, call.raw) == ({}, arguments)
        assert call.invalid
        assert isinstance(events[-1], ev.Finish)
        assert events[-1].usage is not None


@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded"])
@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("arguments", ["", '{"x'])
def test_a_call_cut_by_the_limit_is_dropped(reason: str, stopped: bool, arguments: str) -> None:
    """LLM-162, LLM-103: the provider ends the block of a call that it cut like any other."""
    events = said(
        begin(0, type="tool_use", id="c", name="f"),
        delta(0, "input_json_delta", partial_json=arguments),
        *([stop(0)] if stopped else []),
        ended(reason),
    )
    assert not any(isinstance(event, ev.ToolCall) for event in events)
    assert ev.ToolInputEnd("c", "f") in events
    assert isinstance(events[-1], ev.Finish)
    assert events[-1].reason == "length"


def test_a_broken_call_before_another_block_was_not_cut() -> None:
    """LLM-162"""
    events = said(
        begin(0, type="tool_use", id="c", name="f"),
        delta(0, "input_json_delta", partial_json='{"x'),
        stop(0),
        begin(1, type="text", text="and"),
        ended("max_tokens"),
    )
    (call,) = (event for event in events if isinstance(event, ev.ToolCall))
    assert call.invalid


def test_arguments_of_a_block_of_another_kind_are_ignored() -> None:
    """LLM-073: a kind that is not known is not an error, and neither is what it holds."""
    events = said(
        begin(0, type="something_new", id="x"),
        delta(0, "input_json_delta", partial_json="{}"),
        stop(0),
        begin(1, type="text", text="a"),
        stop(1),
        ended(),
    )
    assert ev.TextDelta("text-1", "a") in events


def test_a_block_that_replaces_an_open_one_ends_it_first() -> None:
    """LLM-062, LLM-230: with what is known of it."""
    events = said(begin(0, type="thinking", thinking="h", signature="s"), begin(0, type="text", text="t"), ended())
    assert events[3:5] == [ev.ReasoningEnd("reasoning-0", {"anthropic": {"signature": "s"}}), ev.TextStart("text-0")]


# -- hosted tools ----------------------------------------------------------------------------------------------------


def test_a_hosted_call_and_its_result() -> None:
    """LLM-067, LLM-231, LLM-101: they do not make the turn one for tools."""
    events = said(
        begin(0, type="server_tool_use", id="srv_1", name="web_search", input={}),
        delta(0, "input_json_delta", partial_json='{"query":"x"}'),
        stop(0),
        begin(1, type="web_search_tool_result", tool_use_id="srv_1", content=[{"url": "u"}]),
        stop(1),
        ended(),
    )
    assert ev.ToolCall("srv_1", "web_search", {"query": "x"}, provider_executed=True) in events
    assert (
        ev.ToolResultEvent(
            "srv_1",
            "web_search",
            ToolResult(type="json", value=[{"url": "u"}]),
            metadata={"anthropic": {"blockType": "web_search_tool_result"}},
        )
        in events
    )
    assert events[-2:] == finished("stop")


@pytest.mark.parametrize(
    ("name", "block"),
    [
        ("bash_code_execution", "bash_code_execution_tool_result"),
        ("tool_search_tool_regex", "tool_search_tool_result"),
        ("web_fetch", "web_fetch_tool_result"),
    ],
)
def test_a_result_has_the_name_of_its_call(name: str, block: str) -> None:
    """LLM-067, LLM-231"""
    events = said(
        begin(0, type="server_tool_use", id="s", name=name, input={}),
        stop(0),
        begin(1, type=block, tool_use_id="s", content={}),
        ended(),
    )
    (result,) = (event for event in events if isinstance(event, ev.ToolResultEvent))
    assert (result.name, result.metadata) == (name, {"anthropic": {"blockType": block}})


def test_a_failed_hosted_call_is_an_error_result() -> None:
    """LLM-231"""
    content = {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"}
    events = said(
        begin(0, type="server_tool_use", id="s", name="web_search"),
        stop(0),
        begin(1, type="web_search_tool_result", tool_use_id="s", content=content),
        stop(1),
        ended(),
    )
    (result,) = (event for event in events if isinstance(event, ev.ToolResultEvent))
    assert result.result == ToolResult(type="error", value=content)


@pytest.mark.parametrize("id", ["other", "c"])
def test_a_result_for_no_hosted_call_is_left_out(id: str) -> None:
    """LLM-067, LLM-382: it would have no call to settle."""
    events = said(
        begin(0, type="tool_use", id="c", name="f", input={}),
        stop(0),
        begin(1, type="web_search_tool_result", tool_use_id=id, content=[]),
        stop(1),
        ended(),
    )
    assert not any(isinstance(event, ev.ToolResultEvent) for event in events)


def test_a_hosted_result_that_is_repeated_counts_once() -> None:
    """LLM-067, LLM-382"""
    result = begin(1, type="web_search_tool_result", tool_use_id="s", content=[])
    events = said(begin(0, type="server_tool_use", id="s", name="web_search"), stop(0), result, result, ended())
    assert sum(isinstance(event, ev.ToolResultEvent) for event in events) == 1


def test_a_call_of_a_remote_server_is_hosted_too() -> None:
    """LLM-067, LLM-231: and keeps what its replay needs."""
    events = said(
        begin(0, type="mcp_tool_use", id="m", name="echo", server_name="tools", input={}),
        delta(0, "input_json_delta", partial_json='{"a":1}'),
        stop(0),
        begin(1, type="mcp_tool_result", tool_use_id="m", is_error=False, content=[]),
        stop(1),
        ended(),
    )
    native = {"anthropic": {"blockType": "mcp_tool_use", "serverName": "tools"}}
    assert ev.ToolCall("m", "echo", {"a": 1}, provider_executed=True, metadata=native) in events
    (result,) = (event for event in events if isinstance(event, ev.ToolResultEvent))
    assert (result.name, result.metadata) == ("echo", {"anthropic": {"blockType": "mcp_tool_result"}})
    assert events[-1].reason == "stop"  # type: ignore[union-attr]


# -- the end ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("native", "reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("pause_turn", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("tool_use", "tool-calls"),
        ("refusal", "content-filter"),
        ("something_new", "unknown"),
    ],
)
def test_stop_reasons_are_mapped_and_the_native_word_kept(native: str, reason: str) -> None:
    """LLM-100, LLM-103, LLM-105: the native word says which limit it was, or that a hosted loop goes on."""
    assert said(ended(native))[-1] == ev.Finish(reason, None, {"anthropic": {"stopReason": native}})


def test_the_stop_sequence_is_kept() -> None:
    """LLM-105, LLM-146"""
    assert said(ended("stop_sequence", stop_sequence="END"))[-1] == ev.Finish(
        "stop", None, {"anthropic": {"stopReason": "stop_sequence", "stopSequence": "END"}}
    )


def test_a_repeated_end_is_one_finish() -> None:
    """LLM-065"""
    events = said(START, ended(), ended("max_tokens"), {"type": "message_stop"}, {"type": "error", "error": {}})
    assert [type(event) for event in events] == [ev.StepStart, ev.StepFinish, ev.Finish]


def test_a_delta_without_a_reason_is_not_the_end() -> None:
    """LLM-227, LLM-086"""
    machine = MessagesDecoder()
    assert machine.feed(encode({"type": "message_delta", "delta": {}, "usage": {"output_tokens": 3}})) == []
    assert not machine.done


@pytest.mark.parametrize("frames", [[], [START], [START, begin(0, type="text", text="a")], [b"[DONE]"]])
def test_a_stream_without_message_delta_is_a_transport_failure(frames: list[Any]) -> None:
    """LLM-233, LLM-343, LLM-090"""
    _, error = refused(MessagesDecoder(), *frames)
    assert (error.reason, error.kind) == ("Transport", "truncated")
    if START in frames:
        assert error.usage is not None
        assert error.usage.input == 9


@pytest.mark.parametrize(
    ("error", "message", "reason", "retryable"),
    [
        (
            {"type": "overloaded_error", "message": "Overloaded"},
            "overloaded_error: Overloaded",
            "ProviderInternal",
            True,
        ),
        ({"type": "api_error", "message": "Oops"}, "api_error: Oops", "ProviderInternal", True),
        ({"type": "rate_limit_error", "message": "Slow"}, "rate_limit_error: Slow", "RateLimit", True),
        ({"type": "timeout_error"}, "timeout_error", "ProviderInternal", True),
        ({"message": "only text"}, "only text", "UnknownProvider", False),
        ({"type": "invalid_request_error", "message": "x"}, "invalid_request_error: x", "InvalidRequest", False),
        ({"type": "authentication_error", "message": "x"}, "authentication_error: x", "Authentication", False),
        ({}, "Anthropic Messages stream error", "UnknownProvider", False),
        (None, "Anthropic Messages stream error", "UnknownProvider", False),
    ],
)
def test_an_error_in_the_stream(error: Any, message: str, reason: str, retryable: bool) -> None:
    """LLM-232, LLM-342, LLM-090"""
    events = said(START, begin(0, type="text", text="a"), {"type": "error", "error": error})
    assert events[-2] == ev.TextEnd("text-0")
    last = events[-1]
    assert isinstance(last, ev.ProviderError)
    assert (last.message, last.reason, last.retryable) == (message, reason, retryable)
    assert last.code == (error or {}).get("type")
    assert last.usage is not None
    assert last.usage.input == 9


def test_an_error_ends_the_input_of_an_open_call() -> None:
    """LLM-062, LLM-232"""
    events = said(
        begin(0, type="tool_use", id="c", name="f"),
        delta(0, "input_json_delta", partial_json='{"x'),
        {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}},
    )
    assert events[-2] == ev.ToolInputEnd("c", "f")
    assert not any(isinstance(event, ev.ToolCall) for event in events)


@pytest.mark.parametrize("error", ["down", {"type": 5, "message": "down"}, None, []])
def test_an_error_of_another_shape_is_still_the_providers(error: Any) -> None:
    """LLM-232, LLM-073"""
    (event,) = said({"type": "error", "error": error})
    assert isinstance(event, ev.ProviderError)
    assert event.message.endswith("down") or not error


def test_an_overflow_error_inside_a_stream_is_classified() -> None:
    """LLM-232, LLM-336"""
    error = {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"}
    (last,) = said({"type": "error", "error": error})
    assert isinstance(last, ev.ProviderError)
    assert (last.reason, last.classification) == ("InvalidRequest", "context-overflow")


# -- usage -----------------------------------------------------------------------------------------------------------


def used(*frames: object) -> ev.Usage | None:
    last = said(*frames)[-1]
    assert isinstance(last, ev.Finish)
    return last.usage


def message_start(**usage: Any) -> dict[str, Any]:
    return {"type": "message_start", "message": {"usage": usage}}


def test_the_input_is_the_sum_of_its_three_parts() -> None:
    """LLM-083, LLM-080, LLM-089"""
    raw = {"input_tokens": 9, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20, "output_tokens": 5}
    assert used(message_start(**raw), ended()) == ev.Usage(
        input=129,
        output=5,
        total=134,
        non_cached=9,
        cache_read=100,
        cache_write=20,
        metadata={"anthropic": raw},
    )


def test_later_fields_win_and_null_does_not() -> None:
    """LLM-086"""
    usage = used(
        message_start(input_tokens=9, cache_read_input_tokens=1, output_tokens=1, service_tier="standard"),
        ended(usage={"input_tokens": None, "cache_read_input_tokens": 3, "output_tokens": 7}),
    )
    assert usage == ev.Usage(
        input=12,
        output=7,
        total=19,
        non_cached=9,
        cache_read=3,
        metadata={
            "anthropic": {
                "input_tokens": 9,
                "cache_read_input_tokens": 3,
                "output_tokens": 7,
                "service_tier": "standard",
            }
        },
    )


def test_usage_that_anthropic_does_not_report_stays_absent() -> None:
    """LLM-081, LLM-082"""
    assert used(ended()) is None
    usage = used(ended(usage={"output_tokens": 7}))
    assert usage is not None
    assert (usage.input, usage.non_cached, usage.cache_read, usage.total, usage.reasoning) == (
        None,
        None,
        None,
        7,
        None,
    )


# -- anything --------------------------------------------------------------------------------------------------------

VALID: list[Any] = [
    START,
    {"type": "ping"},
    begin(0, type="thinking", thinking="h", signature="s"),
    delta(0, "thinking_delta", thinking="m"),
    delta(0, "signature_delta", signature="s"),
    stop(0),
    begin(1, type="text", text="t"),
    delta(1, "text_delta", text="u"),
    delta(1, "citations_delta", citation={"a": 1}),
    stop(1),
    begin(2, type="tool_use", id="c", name="f", input={}),
    delta(2, "input_json_delta", partial_json="{}"),
    stop(2),
    begin(3, type="server_tool_use", id="s", name="web_search", input={"q": 1}),
    stop(3),
    begin(4, type="web_search_tool_result", tool_use_id="s", content=[]),
    stop(4),
    begin(5, type="redacted_thinking", data="d"),
    ended("tool_use", {"output_tokens": 3}),
    {"type": "error", "error": {"type": "api_error", "message": "m"}},
]


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 2**32))
def test_damaged_frames_give_an_llm_error_or_events_in_order(seed: int) -> None:
    """LLM-072, LLM-073"""
    chance = random.Random(seed)
    frames = [frame for frame in VALID * 2 if chance.random() < 0.85]
    if chance.random() < 0.5:
        chance.shuffle(frames)
    data: list[bytes] = []
    for frame in frames:
        encoded = encode(mutated(frame, chance) if chance.random() < 0.4 else frame)
        cut = chance.random() < 0.05
        data.append(encoded[: chance.randrange(1, len(encoded) + 1)] if cut else encoded)
    survive(MessagesDecoder(), data)
