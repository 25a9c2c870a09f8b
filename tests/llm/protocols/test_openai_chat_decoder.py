"""OpenAI Chat: what comes back, from OpenAI and from everyone who says they speak it."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.llm.support import chunk, decode, refused, survive

from holdfast.llm import event as ev
from holdfast.llm.protocols.chat_stream import ChatDecoder
from holdfast.schema.codec import encode


def decoder(namespace: str = "openai") -> ChatDecoder:
    return ChatDecoder(namespace)


def said(*frames: object) -> list[ev.Event]:
    return decode(decoder(), *frames)


def finished(reason: str, native: str, usage: ev.Usage | None = None) -> list[ev.Event]:
    metadata = {"openai": {"finishReason": native}}
    return [ev.StepFinish(reason, usage, metadata=metadata), ev.Finish(reason, usage, metadata)]


def call_delta(index: int | None = 0, id: str | None = None, name: str | None = None, arguments: Any = None) -> Any:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    fields = {"index": index, "id": id, "function": function}
    return {"tool_calls": [{key: value for key, value in fields.items() if value is not None}]}


STOP = chunk(finish="stop")


# -- text and reasoning ----------------------------------------------------------------------------------------------


def test_a_text_streams_and_the_native_finish_reason_is_kept() -> None:
    """LLM-246, LLM-061, LLM-070, LLM-105: the native reason stays visible."""
    assert said(
        chunk({"role": "assistant", "content": ""}), chunk({"content": "Hel"}), chunk({"content": "lo"}), STOP
    ) == [
        ev.StepStart(),
        ev.TextStart("text-0"),
        ev.TextDelta("text-0", "Hel"),
        ev.TextDelta("text-0", "lo"),
        ev.TextEnd("text-0"),
        *finished("stop", "stop"),
    ]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_closes_at_the_first_text(field: str) -> None:
    """LLM-246, LLM-249, LLM-063, LLM-070"""
    assert said(chunk({field: "", "content": None}), chunk({field: "hm"}), chunk({"content": "a"}), STOP) == [
        ev.StepStart(),
        ev.ReasoningStart("reasoning-0"),
        ev.ReasoningDelta("reasoning-0", "hm"),
        ev.ReasoningEnd("reasoning-0"),
        ev.TextStart("text-0"),
        ev.TextDelta("text-0", "a"),
        ev.TextEnd("text-0"),
        *finished("stop", "stop"),
    ]


def test_reasoning_and_text_close_when_a_call_starts() -> None:
    """LLM-246, LLM-069"""
    events = said(
        chunk({"reasoning_content": "hm"}),
        chunk({"content": "a"}),
        chunk({"reasoning_content": "hm again"}),
        chunk(call_delta(0, "c", "f", "{}")),
        chunk({"content": "afterwards"}),
        STOP,
    )
    kinds = [type(event).__name__ for event in events]
    start = kinds.index("ToolInputStart")
    assert sorted(kinds[:start]).count("TextEnd") == 1
    assert sorted(kinds[:start]).count("ReasoningEnd") == 2
    assert [event.text for event in events if isinstance(event, ev.TextDelta)] == ["a", "afterwards"]
    assert len({event.id for event in events if isinstance(event, ev.TextStart)}) == 2


def test_details_of_reasoning_are_kept() -> None:
    """LLM-249, LLM-147: at the end of the block that they belong to."""
    one, two = {"type": "reasoning.text", "text": "hm"}, {"type": "reasoning.encrypted", "data": "d"}
    events = decode(
        decoder("openrouter"),
        chunk({"reasoning": "hm", "reasoning_details": [one]}),
        chunk({"reasoning_details": [two]}),
        chunk({"content": "a"}),
        STOP,
    )
    assert ev.ReasoningEnd("reasoning-0", {"openrouter": {"reasoningDetails": [one, two]}}) in events


def test_details_in_pieces_are_one_again() -> None:
    """LLM-147, LLM-249: a signature is for the whole thought, which comes word by word under one index."""
    more = {"format": "anthropic-claude-v1", "index": 0}
    pieces = [
        {"type": "reasoning.text", "text": "Let", "signature": None, **more},
        {"type": "reasoning.text", "text": " me think", **more},
        {"type": "reasoning.text", "signature": "sig", **more},
        {"type": "reasoning.text", "text": "Again", "index": 1},
        {"type": "reasoning.encrypted", "data": "d", "index": 2},
        {"type": "reasoning.encrypted", "data": "e", "index": 2},
    ]
    events = decode(decoder("openrouter"), *(chunk({"reasoning_details": [piece]}) for piece in pieces), STOP)
    (end,) = (event for event in events if isinstance(event, ev.ReasoningEnd))
    assert end.metadata == {
        "openrouter": {
            "reasoningDetails": [
                {"type": "reasoning.text", "text": "Let me think", "signature": "sig", **more},
                *pieces[3:],
            ]
        }
    }


@pytest.mark.parametrize("late", [False, True])
def test_details_without_text_are_kept_too(late: bool) -> None:
    """LLM-147, LLM-143: an encrypted thought has no text, and may come last."""
    detail = {"type": "reasoning.encrypted", "data": "d"}
    frames = [chunk({"reasoning_details": [detail]}), chunk({"content": "a"})]
    events = decode(decoder("openrouter"), *(reversed(frames) if late else frames), STOP)
    (end,) = (event for event in events if isinstance(event, ev.ReasoningEnd))
    assert end.metadata == {"openrouter": {"reasoningDetails": [detail]}}


def test_a_refusal_is_text_and_a_filter() -> None:
    """LLM-249"""
    assert said(chunk({"refusal": "I can"}), chunk({"refusal": "not", "content": None}), STOP) == [
        ev.StepStart(),
        ev.TextStart("text-0"),
        ev.TextDelta("text-0", "I can"),
        ev.TextDelta("text-0", "not"),
        ev.TextEnd("text-0"),
        *finished("content-filter", "stop"),
    ]


def test_only_the_first_choice_counts() -> None:
    """LLM-246"""
    two = {"choices": [{"index": 0, "delta": {"content": "a"}}, {"index": 1, "delta": {"content": "b"}}]}
    assert [event.text for event in said(two, STOP) if isinstance(event, ev.TextDelta)] == ["a"]


def test_done_and_nothing_at_all() -> None:
    """LLM-248, LLM-061"""
    assert said(STOP, b"[DONE]") == [ev.StepStart(), *finished("stop", "stop")]


# -- calls -----------------------------------------------------------------------------------------------------------


def test_a_call_in_pieces_is_joined() -> None:
    """LLM-246, LLM-066, LLM-247: id and name once; an empty delta is no event."""
    events = said(
        chunk(call_delta(0, "call_1", "get_weather", "")),
        chunk(call_delta(0, arguments='{"city"')),
        chunk(call_delta(0, arguments="")),
        chunk({"tool_calls": [{"index": 0, "id": None, "function": {"name": None, "arguments": ':"Paris"}'}}]}),
        chunk(finish="tool_calls"),
    )
    assert events == [
        ev.StepStart(),
        ev.ToolInputStart("call_1", "get_weather"),
        ev.ToolInputDelta("call_1", "get_weather", '{"city"'),
        ev.ToolInputDelta("call_1", "get_weather", ':"Paris"}'),
        ev.ToolInputEnd("call_1", "get_weather"),
        ev.ToolCall("call_1", "get_weather", {"city": "Paris"}),
        *finished("tool-calls", "tool_calls"),
    ]


def test_parallel_calls_are_finalised_in_the_order_of_their_index() -> None:
    """LLM-246, LLM-247"""
    events = said(
        chunk(call_delta(1, "b", "g", "{")),
        chunk(call_delta(0, "a", "f", "{")),
        chunk(call_delta(1, arguments="}")),
        chunk(call_delta(0, arguments="}")),
        chunk(finish="tool_calls"),
    )
    assert [event.id for event in events if isinstance(event, ev.ToolCall)] == ["a", "b"]


def test_calls_are_emitted_with_the_finish_reason_and_not_later() -> None:
    """LLM-068, LLM-250: while the finish itself waits for usage."""
    machine = decoder()
    machine.feed(encode(chunk(call_delta(0, "c", "f", "{}"))))
    assert machine.feed(encode(chunk(finish="tool_calls"))) == [ev.ToolInputEnd("c", "f"), ev.ToolCall("c", "f", {})]
    states = [machine.done]
    assert machine.feed(encode({"choices": [], "usage": {"prompt_tokens": 1}})) == []
    assert [type(event) for event in machine.finish()] == [ev.StepFinish, ev.Finish]
    assert [*states, machine.done] == [False, True]
    assert machine.finish() == []


def test_a_call_is_made_when_the_next_one_begins() -> None:
    """LLM-068, LLM-425: its tool need not wait for the end of the stream."""
    reading = decoder()
    assert reading.feed(encode(chunk(call_delta(0, "a", "f", '{"x":')))) != []
    assert not _calls(reading.feed(encode(chunk(call_delta(0, arguments="1}")))))
    assert _calls(reading.feed(encode(chunk(call_delta(1, "b", "g", ""))))) == [ev.ToolCall("a", "f", {"x": 1})]
    assert not _calls(reading.feed(encode(chunk(call_delta(1, arguments="{}")))))
    assert _calls(reading.feed(encode(chunk(call_delta(2, "c", "h", "{}"))))) == [ev.ToolCall("b", "g", {})]
    assert _calls(reading.feed(encode(chunk(finish="tool_calls")))) == [ev.ToolCall("c", "h", {})]


def test_a_call_whose_arguments_are_not_whole_waits_for_the_rest() -> None:
    """LLM-425: some vendors send the arguments of several calls in turn."""
    events = said(
        chunk(call_delta(0, "a", "f", "{")),
        chunk(call_delta(1, "b", "g", "{}")),
        chunk(call_delta(0, arguments='"x":1}')),
        chunk(call_delta(1, arguments=" ")),
        chunk(finish="tool_calls"),
    )
    assert _calls(events) == [ev.ToolCall("a", "f", {"x": 1}), ev.ToolCall("b", "g", {})]


def test_arguments_that_go_on_after_their_call_was_made_are_unreadable() -> None:
    """LLM-425: the tool runs already; white space is nothing."""
    begun = (
        chunk(call_delta(0, "a", "f", "{}")),
        chunk(call_delta(1, "b", "g", "{")),
        chunk(call_delta(0, arguments="\n")),
    )
    events, error = refused(decoder(), *begun, chunk(call_delta(0, arguments='{"x":1}')))
    assert _calls(events) == [ev.ToolCall("a", "f", {})]
    assert (error.reason, "arguments of f" in error.message) == ("InvalidProviderOutput", True)


def test_the_mark_at_the_end_ends_the_turn() -> None:
    """LLM-426: with the usage before it, whenever the connection closes."""
    reading = decoder()
    reading.feed(encode(STOP))
    reading.feed(encode({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1}}))
    last = reading.feed(b"[DONE]")[-1]
    assert isinstance(last, ev.Finish)
    assert last.usage is not None
    assert (last.usage.input, reading.done, reading.finish()) == (3, True, [])


def _calls(events: list[ev.Event]) -> list[ev.Event]:
    return [event for event in events if isinstance(event, ev.ToolCall)]


def test_a_forced_call_ends_with_stop() -> None:
    """LLM-101"""
    assert said(chunk(call_delta(0, "c", "f", "{}")), STOP)[-1] == ev.Finish(
        "tool-calls", None, {"openai": {"finishReason": "stop"}}
    )


def test_the_last_arguments_may_come_with_the_finish_reason() -> None:
    """LLM-249, LLM-317"""
    events = said(chunk(call_delta(0, "c", "f", "{")), chunk(call_delta(0, arguments="}"), finish="tool_calls"))
    assert ev.ToolCall("c", "f", {}) in events


def test_a_call_without_an_index_takes_its_position() -> None:
    """LLM-249"""
    both = {
        "tool_calls": [*call_delta(None, "a", "f", "{}")["tool_calls"], *call_delta(None, "b", "g", "{}")["tool_calls"]]
    }
    events = said(chunk(both), chunk(finish="tool_calls"))
    assert [event.id for event in events if isinstance(event, ev.ToolCall)] == ["a", "b"]


def test_an_id_may_be_repeated_missing_or_shared() -> None:
    """LLM-249, LLM-062"""
    repeated = said(
        chunk(call_delta(0, "c", "f", "{")), chunk(call_delta(0, "c", "f", "}")), chunk(finish="tool_calls")
    )
    assert [event for event in repeated if isinstance(event, ev.ToolCall)] == [ev.ToolCall("c", "f", {})]
    missing = said(
        chunk(call_delta(0, None, "f", "{}")), chunk(call_delta(1, "", "g", "{}")), chunk(finish="tool_calls")
    )
    made = [event.id for event in missing if isinstance(event, ev.ToolCall)]
    assert all(made)
    assert len(set(made)) == 2
    shared = said(
        chunk(call_delta(0, "call_2", "f", "{}")), chunk(call_delta(1, None, "g", "{}")), chunk(finish="tool_calls")
    )
    assert len({event.id for event in shared if isinstance(event, ev.ToolCall)}) == 2


@pytest.mark.parametrize("index", [0, None])
def test_calls_that_all_count_as_the_first_are_told_apart_by_their_ids(index: int | None) -> None:
    """LLM-249, LLM-066: each whole, or in pieces that repeat its id or leave it out."""
    events = said(
        chunk(call_delta(index, "a", "f", '{"n":1}')),
        chunk(call_delta(index, "b", "f", '{"n"')),
        chunk(call_delta(index, None, None, ":")),
        chunk(call_delta(index, "b", "f", "2}")),
        chunk(finish="tool_calls"),
    )
    assert [(event.id, event.input) for event in events if isinstance(event, ev.ToolCall)] == [
        ("a", {"n": 1}),
        ("b", {"n": 2}),
    ]


def test_an_id_that_changes_without_a_name_is_no_other_call() -> None:
    """LLM-249"""
    events = said(chunk(call_delta(0, "a", "f", "{")), chunk(call_delta(0, "b", None, "}")), chunk(finish="tool_calls"))
    assert [event.id for event in events if isinstance(event, ev.ToolCall)] == ["a"]


def test_arguments_may_be_an_object() -> None:
    """LLM-249, LLM-164"""
    events = said(chunk(call_delta(0, "c", "f", {"city": "Zürich", "n": 1})), chunk(finish="tool_calls"))
    assert ev.ToolInputDelta("c", "f", '{"city":"Zürich","n":1}') in events
    assert ev.ToolCall("c", "f", {"city": "Zürich", "n": 1}) in events


def test_a_call_without_a_name_is_unreadable() -> None:
    """LLM-246"""
    _, error = refused(decoder(), chunk({"content": "a"}), chunk(call_delta(0, "c", None, "{}")))
    assert error.reason == "InvalidProviderOutput"
    assert "missing id or name" in error.message


def test_malformed_arguments_do_not_fail_the_turn() -> None:
    """LLM-161, LLM-162, LLM-163: usage and text survive."""
    usage = {"prompt_tokens": 5, "completion_tokens": 2}
    events = said(
        chunk({"content": "a"}), chunk(call_delta(0, "c", "f", '{"x')), chunk(finish="tool_calls", usage=usage)
    )
    (call,) = (event for event in events if isinstance(event, ev.ToolCall))
    assert (call.input, call.raw) == ({}, '{"x')
    assert call.invalid
    assert isinstance(events[-1], ev.Finish)
    assert events[-1].reason == "tool-calls"
    assert events[-1].usage is not None


def test_a_call_cut_by_the_limit_is_dropped() -> None:
    """LLM-162"""
    events = said(chunk(call_delta(0, "a", "f", "{}")), chunk(call_delta(1, "b", "f", '{"x')), chunk(finish="length"))
    assert [event.id for event in events if isinstance(event, ev.ToolCall)] == ["a"]
    assert [event.id for event in events if isinstance(event, ev.ToolInputEnd)] == ["a", "b"]
    assert events[-2:] == finished("length", "length")


def test_without_a_finish_reason_there_is_no_call_and_no_finish() -> None:
    """LLM-247, LLM-343"""
    events, error = refused(decoder(), chunk(call_delta(0, "c", "f", "{}")), b"[DONE]")
    assert [type(event) for event in events] == [ev.StepStart, ev.ToolInputStart, ev.ToolInputDelta]
    assert (error.reason, error.kind) == ("Transport", "truncated")


# -- the end ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("native", "reason"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("tool_calls", "tool-calls"),
        ("function_call", "tool-calls"),
        ("content_filter", "content-filter"),
        ("eos", "unknown"),
    ],
)
def test_finish_reasons_are_mapped_and_the_native_word_kept(native: str, reason: str) -> None:
    """LLM-100, LLM-105"""
    assert said(chunk(finish=native))[-2:] == finished(reason, native)


def test_the_reason_of_what_is_behind_a_router_is_kept() -> None:
    """LLM-105, LLM-312"""
    frame = {"choices": [{"delta": {}, "finish_reason": "stop", "native_finish_reason": "end_turn"}]}
    assert said(frame)[-1] == ev.Finish("stop", None, {"openai": {"finishReason": "stop", "native": "end_turn"}})


def test_a_repeated_finish_is_one_finish() -> None:
    """LLM-065, LLM-087: and usage of the repetition counts."""
    usage = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
    events = said(chunk({"content": "a"}), STOP, chunk({"content": ""}, finish="stop", usage=usage), b"[DONE]")
    assert sum(isinstance(event, ev.Finish) for event in events) == 1
    assert isinstance(events[-1], ev.Finish)
    assert events[-1].usage is not None
    assert events[-1].usage.total == 4


def test_the_first_finish_reason_counts() -> None:
    """LLM-065, LLM-247: what another one brings along is too late."""
    events = said(chunk({"content": "a"}), STOP, chunk({"content": "late"}, finish="length"))
    assert [event.text for event in events if isinstance(event, ev.TextDelta)] == ["a"]
    assert events[-2:] == finished("stop", "stop")


def test_an_error_as_the_reason_is_an_error() -> None:
    """LLM-104, LLM-090"""
    events = said(chunk({"content": "a"}, usage={"prompt_tokens": 3}), chunk(finish="error"))
    assert isinstance(events[-1], ev.ProviderError)
    assert events[-1].usage is not None
    assert events[-1].usage.input == 3


@pytest.mark.parametrize(
    ("error", "message", "reason", "code", "retryable"),
    [
        (
            {"message": "slow down", "code": "rate_limit_exceeded"},
            "slow down",
            "RateLimit",
            "rate_limit_exceeded",
            True,
        ),
        ({"message": "busy", "code": 429}, "busy", "RateLimit", "429", True),
        ({"message": "busy", "code": 502}, "busy", "ProviderInternal", "502", True),
        ({"message": "no", "type": "invalid_request_error"}, "no", "InvalidRequest", None, False),
        ({"message": "what"}, "what", "UnknownProvider", None, False),
        ("plain", "plain", "UnknownProvider", None, False),
        ({}, "{}", "UnknownProvider", None, False),
        ([1], "[1]", "UnknownProvider", None, False),
        ({"message": 5, "details": 5, "code": [1]}, "5", "UnknownProvider", "[1]", False),
    ],
)
def test_an_error_object_in_the_stream_fails_it(
    error: Any, message: str, reason: str, code: str | None, retryable: bool
) -> None:
    """LLM-249, LLM-342"""
    events = said(chunk({"content": "a"}), {"error": error})
    assert events[-2:] == [
        ev.TextEnd("text-0"),
        ev.ProviderError(message, reason=reason, code=code, retryable=retryable),
    ]


def test_an_overflow_error_inside_a_stream_is_classified() -> None:
    """LLM-336"""
    events = said({"error": {"message": "This model's maximum context length is 8192 tokens", "code": 400}})
    assert isinstance(events[-1], ev.ProviderError)
    assert events[-1].classification == "context-overflow"


def test_no_event_follows_an_error() -> None:
    """LLM-065"""
    machine = decoder()
    machine.feed(encode({"error": {"message": "x"}}))
    assert machine.done
    assert machine.feed(encode(chunk({"content": "late"}))) == []
    assert machine.feed(b"garbage") == []
    assert machine.finish() == []


# -- usage -----------------------------------------------------------------------------------------------------------


def used(*frames: object) -> ev.Usage | None:
    last = said(*frames)[-1]
    assert isinstance(last, ev.Finish)
    return last.usage


FULL = {
    "prompt_tokens": 100,
    "completion_tokens": 50,
    "total_tokens": 150,
    "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
    "completion_tokens_details": {"reasoning_tokens": 20},
    "cost": 0.5,
}


def test_usage_with_all_its_details() -> None:
    """LLM-083, LLM-080, LLM-089, LLM-088: the raw object keeps the cost."""
    assert used(STOP, {"choices": [], "usage": FULL}) == ev.Usage(
        input=100,
        output=50,
        total=150,
        non_cached=30,
        cache_read=60,
        cache_write=10,
        reasoning=20,
        metadata={"openai": FULL},
    )


def test_usage_stays_absent_where_nothing_is_said() -> None:
    """LLM-081, LLM-082"""
    assert used(STOP) is None
    usage = used(STOP, {"usage": {"prompt_tokens": 5}})
    assert usage is not None
    assert (usage.input, usage.output, usage.total, usage.cache_read, usage.reasoning) == (5, None, 5, None, None)
    assert usage.non_cached == 5


@pytest.mark.parametrize(
    "frames",
    [
        [chunk(finish="stop", usage=FULL)],
        [STOP, {"choices": [], "usage": FULL}],
        [chunk({"content": "a"}, usage={"prompt_tokens": 1, "completion_tokens": 1}), STOP, {"usage": FULL}],
        [chunk(finish="stop", usage=FULL), {"choices": [], "usage": FULL}],
        [chunk(finish="stop", usage=FULL), {"usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}}],
        [chunk(finish="stop", usage={"prompt_tokens": 0, "completion_tokens": 0}), {"usage": FULL}],
        [chunk(finish="stop", usage=FULL), {"usage": None}, {"choices": [], "usage": {}}],
    ],
)
def test_the_last_usage_that_is_not_zero_counts(frames: list[object]) -> None:
    """LLM-087: the last report counts, unless it is all zero."""
    usage = used(*frames)
    assert usage is not None
    assert (usage.input, usage.output) == (100, 50)


@pytest.mark.parametrize(
    ("raw", "read"),
    [
        ({"prompt_tokens": 10, "prompt_cache_hit_tokens": 4, "prompt_cache_miss_tokens": 6}, 4),
        ({"prompt_tokens": 10, "cached_tokens": 3}, 3),
        ({"prompt_tokens": 10, "cached_tokens": 3, "prompt_tokens_details": {"cached_tokens": 5}}, 5),
        ({"prompt_tokens": 10, "prompt_tokens_details": None}, None),
        ({"prompt_tokens": 10, "prompt_tokens_details": []}, None),
    ],
)
def test_cached_tokens_are_found_where_each_vendor_reports_them(raw: dict[str, Any], read: int | None) -> None:
    """LLM-088"""
    usage = used(STOP, {"usage": raw})
    assert usage is not None
    assert (usage.cache_read, usage.non_cached) == (read, 10 - (read or 0))


def test_groq_only_when_there_is_nothing_else() -> None:
    """LLM-088"""
    groq = {"x_groq": {"usage": {"prompt_tokens": 1, "completion_tokens": 1}}}
    usage = used({**STOP, **groq})
    assert usage is not None
    assert usage.input == 1
    for frames in (
        [{**STOP, **groq, "usage": FULL}],
        [{**STOP, **groq}, {"usage": FULL}],
        [{"usage": FULL}, {**STOP, **groq}],
    ):
        usage = used(*frames)
        assert usage is not None
        assert usage.input == 100


def test_counts_below_zero_say_nothing_and_whole_ones_may_have_a_point() -> None:
    """LLM-081, LLM-082"""
    raw = {"prompt_tokens": -5, "completion_tokens": 3.0, "total_tokens": -1}
    events = said(STOP, chunk(usage=raw))
    usage = events[-1].usage  # type: ignore[union-attr]
    assert usage == ev.Usage(output=3, total=3, metadata={"openai": raw})
    assert isinstance(usage.output, int)


@pytest.mark.parametrize("count", ["12", 1.5, True, []])
def test_usage_that_is_no_count_fails_the_turn(count: Any) -> None:
    """LLM-073: nor does it become durable."""
    for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
        given = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2, name: count}
        _, error = refused(decoder(), chunk({"content": "a"}), chunk(usage=given))
        assert error.reason == "InvalidProviderOutput"


def test_more_reasoning_than_output_is_clamped() -> None:
    """LLM-081"""
    raw = {"prompt_tokens": 5, "completion_tokens": 3, "completion_tokens_details": {"reasoning_tokens": 9}}
    usage = used(STOP, {"usage": raw})
    assert usage is not None
    assert (usage.reasoning, usage.visible_output) == (3, 0)


# -- quirks ----------------------------------------------------------------------------------------------------------


def test_extra_fields_of_vendors_do_no_harm() -> None:
    """LLM-317: Together, Workers AI, OpenAI."""
    frame = {
        "id": "x",
        "object": "chat.completion.chunk",
        "obfuscation": "zzz",
        "choices": [
            {
                "index": 0,
                "text": "a",
                "token_id": 5,
                "seed": 15924764223251450000,
                "logprobs": None,
                "stop_reason": 200012,
                "delta": {"role": "assistant", "content": "a", "token_id": 5, "reasoning_content": ""},
                "finish_reason": None,
            }
        ],
    }
    assert [event.text for event in said(frame, STOP) if isinstance(event, ev.TextDelta)] == ["a"]


# -- anything --------------------------------------------------------------------------------------------------------

VALID: list[Any] = [
    chunk({"role": "assistant", "content": ""}),
    chunk({"reasoning": "hm", "reasoning_details": [{"a": 1}]}),
    chunk({"content": "text"}),
    chunk(call_delta(0, "a", "f", '{"x":1}')),
    chunk(call_delta(1, "b", "g", "{")),
    chunk(call_delta(1, arguments="}")),
    chunk({"refusal": "no"}),
    chunk(finish="tool_calls"),
    {"choices": [], "usage": FULL},
    {"error": {"message": "m", "code": "c", "details": [{"reason": "r"}]}},
]
ODD: list[Any] = [None, 0, -1, 2**70, 1.5, "", "x", [], {}, [None], {"a": None}, True, [[]], "stop", "error"]


def mutated(value: Any, chance: random.Random) -> Any:
    """A copy with one place changed, dropped or doubled."""
    value = copy.deepcopy(value)
    node = {"root": value}
    holder: Any = node
    key: Any = "root"
    while chance.random() < 0.8 and isinstance(holder[key], dict | list) and holder[key]:
        holder = holder[key]
        key = chance.choice(list(holder)) if isinstance(holder, dict) else chance.randrange(len(holder))
    action = chance.randrange(3)
    if action == 0 or holder is node:
        holder[key] = chance.choice(ODD)
    elif action == 1:
        del holder[key]
    elif isinstance(holder, list):
        holder.append(chance.choice([holder[key], chance.choice(ODD)]))
    return node.get("root")


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 2**32))
def test_damaged_frames_give_an_llm_error_or_events_in_order(seed: int) -> None:
    """LLM-072, LLM-073"""
    chance = random.Random(seed)
    frames = [frame for frame in VALID * 2 if chance.random() < 0.8]
    chance.shuffle(frames)
    data: list[bytes] = []
    for frame in frames:
        encoded = encode(mutated(frame, chance) if chance.random() < 0.4 else frame)
        cut = chance.random() < 0.05
        data.append(encoded[: chance.randrange(1, len(encoded) + 1)] if cut else encoded)
    survive(decoder(), data)
