"""The emitter keeps the order of events, whatever a decoder asks of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.llm.lifecycle_checker import LifecycleChecker, check_lifecycle

from holdfast.llm import event as ev
from holdfast.llm.errors import LLMError
from holdfast.llm.lifecycle import Emitter, OpenCall, truncated
from holdfast.llm.limits import AnswerLimits
from holdfast.llm.request import ToolResult


def test_the_step_starts_once_and_before_the_first_content() -> None:
    """LLM-061"""
    emit = Emitter()
    emit.text("t", "")
    assert emit.take() == []
    emit.text("t", "a")
    emit.reasoning("r", "b")
    assert emit.take() == [
        ev.StepStart(0),
        ev.TextStart("t"),
        ev.TextDelta("t", "a"),
        ev.ReasoningStart("r"),
        ev.ReasoningDelta("r", "b"),
    ]


def test_without_content_the_step_starts_just_before_it_finishes() -> None:
    """LLM-061, LLM-065"""
    emit = Emitter()
    emit.finish("stop", None)
    assert emit.take() == [ev.StepStart(0), ev.StepFinish("stop"), ev.Finish("stop")]


def test_empty_deltas_open_nothing() -> None:
    """LLM-063"""
    emit = Emitter()
    emit.text("t", "")
    emit.reasoning("r", "")
    call = emit.open_call("c", "f")
    emit.call_delta(call, "")
    assert emit.take() == [ev.StepStart(), ev.ToolInputStart("c", "f")]


def test_ends_without_a_start_and_second_starts_are_not_emitted() -> None:
    """LLM-062"""
    emit = Emitter()
    emit.close_text("t")
    emit.close_reasoning("r")
    emit.open_text("t")
    emit.open_text("t")
    emit.open_reasoning("r")
    emit.open_reasoning("r")
    emit.close_text("t")
    emit.close_text("t")
    assert emit.take() == [ev.StepStart(), ev.TextStart("t"), ev.ReasoningStart("r"), ev.TextEnd("t")]


def test_a_block_that_was_closed_is_not_opened_again() -> None:
    """LLM-062"""
    emit = Emitter()
    emit.text("t", "a")
    emit.close_text("t")
    with pytest.raises(LLMError) as caught:
        emit.open_text("t")
    assert caught.value.reason == "InvalidProviderOutput"
    assert emit.unused_id("t") != "t"
    emit.text(emit.unused_id("t"), "b")


def test_two_calls_with_one_id_are_two_calls() -> None:
    """LLM-062: also when the first is still open."""
    emit = Emitter()
    one, two = emit.open_call("c", "f"), emit.open_call("c", "g")
    emit.close_call(one)
    emit.close_call(two)
    three = emit.open_call("c", "f")
    emit.close_call(three)
    emit.finish("stop", None)
    events = emit.take()
    check_lifecycle(events)
    calls = [event for event in events if isinstance(event, ev.ToolCall)]
    assert [call.name for call in calls] == ["f", "g", "f"]
    assert len({call.id for call in calls}) == 3
    assert calls[0].id == "c"


def test_at_the_finish_reasoning_closes_before_text() -> None:
    """LLM-064"""
    emit = Emitter()
    emit.text("t", "a")
    emit.reasoning("r", "b")
    emit.take()
    emit.finish("stop", ev.Usage(input=1), {"openai": {}})
    assert emit.take() == [
        ev.ReasoningEnd("r"),
        ev.TextEnd("t"),
        ev.StepFinish("stop", ev.Usage(input=1), metadata={"openai": {}}),
        ev.Finish("stop", ev.Usage(input=1), {"openai": {}}),
    ]


def test_a_stream_has_exactly_one_finish() -> None:
    """LLM-065: whatever is repeated or comes late."""
    emit = Emitter()
    emit.finish("length", None)
    emit.finish("stop", None)
    emit.fail("late")
    assert [type(event) for event in emit.take()] == [ev.StepStart, ev.StepFinish, ev.Finish]
    emit = Emitter()
    emit.text("t", "a")
    emit.fail("broken", usage=ev.Usage(output=1))
    emit.fail("again")
    emit.finish("stop", None)
    events = emit.take()
    check_lifecycle(events)
    assert events[-1] == ev.ProviderError("broken", usage=ev.Usage(output=1))
    assert sum(isinstance(event, ev.ProviderError | ev.Finish) for event in events) == 1


def test_the_deltas_of_a_call_are_the_raw_text_of_its_arguments() -> None:
    """LLM-066: the deltas are the raw text of the arguments, and the name is the same on all."""
    emit = Emitter()
    call = emit.open_call("c", "f")
    for piece in ('{"a', '":', " 1}"):
        emit.call_delta(call, piece)
    emit.close_call(call)
    assert emit.take() == [
        ev.StepStart(),
        ev.ToolInputStart("c", "f"),
        ev.ToolInputDelta("c", "f", '{"a'),
        ev.ToolInputDelta("c", "f", '":'),
        ev.ToolInputDelta("c", "f", " 1}"),
        ev.ToolInputEnd("c", "f"),
        ev.ToolCall("c", "f", {"a": 1}),
    ]


def test_a_whole_call_has_the_same_shape() -> None:
    """LLM-066, LLM-164"""
    emit = Emitter()
    emit.add_call("c", "f", {"city": "Zürich", "n": [1, 2]}, metadata={"google": {"x": 1}})
    assert emit.take() == [
        ev.StepStart(),
        ev.ToolInputStart("c", "f"),
        ev.ToolInputDelta("c", "f", '{"city":"Zürich","n":[1,2]}'),
        ev.ToolInputEnd("c", "f"),
        ev.ToolCall("c", "f", {"city": "Zürich", "n": [1, 2]}, metadata={"google": {"x": 1}}),
    ]


def closed(written: str, **how: Any) -> list[ev.Event]:
    emit = Emitter()
    call = emit.open_call("c", "f")
    emit.call_delta(call, written)
    emit.close_call(call, **how)
    return [event for event in emit.take() if isinstance(event, ev.ToolCall | ev.ToolInputEnd)]


NESTED = '{"a": ' + "[" * 128 + "]" * 128 + "}"


@pytest.mark.parametrize("arguments", ["", " ", "\n\t "])
def test_no_arguments_are_an_empty_object(arguments: str) -> None:
    """LLM-160"""
    assert closed(arguments) == [ev.ToolInputEnd("c", "f"), ev.ToolCall("c", "f", {})]


@pytest.mark.parametrize(
    "arguments",
    [
        '{"a": 1',
        "{'a': 1}",
        "{a: 1}",
        "nonsense",
        '{"a": 1} and',
        '"text"',
        "[1]",
        "5",
        "null",
        "true",
        "[" * 100_000,
        NESTED,
    ],
)
def test_arguments_that_are_no_object_are_flagged_with_what_was_written(arguments: str) -> None:
    """LLM-160, LLM-161, LLM-162, LLM-163: the turn goes on, and a replay has an empty input."""
    end, call = closed(arguments)
    assert end == ev.ToolInputEnd("c", "f")
    assert isinstance(call, ev.ToolCall)
    assert (call.input, call.raw) == ({}, arguments)
    assert call.invalid
    assert len(call.invalid) < 300


def test_a_call_cut_by_the_limit_is_dropped_and_a_complete_one_kept() -> None:
    """LLM-162"""
    assert closed('{"a": 1', cut=True) == [ev.ToolInputEnd("c", "f")]
    assert closed('{"a": 1}', cut=True) == [ev.ToolInputEnd("c", "f"), ev.ToolCall("c", "f", {"a": 1})]


def test_a_call_cut_before_its_arguments_is_not_a_call_without_any() -> None:
    """LLM-162: a tool that takes no arguments would be executed."""
    assert closed("", cut=True) == closed(" ", cut=True) == [ev.ToolInputEnd("c", "f")]


@pytest.mark.parametrize("arguments", ["", '{"a": 1'])
def test_a_stopped_call_without_an_object_waits_for_what_comes_next(arguments: str) -> None:
    """LLM-162, LLM-068: the end of a block does not tell whether the output limit cut it; what follows does."""

    def stopped() -> Emitter:
        emit = Emitter()
        call = emit.open_call("c", "f")
        emit.call_delta(call, arguments)
        emit.end_arguments(call)
        assert not any(isinstance(event, ev.ToolInputEnd) for event in emit.take())
        return emit

    emit = stopped()
    emit.text("t", "another block")
    assert [type(event) for event in emit.take()][:2] == [ev.ToolInputEnd, ev.ToolCall]
    emit = stopped()
    emit.close_calls(cut=True)
    assert emit.take() == [ev.ToolInputEnd("c", "f")]
    emit = stopped()
    emit.close_calls(cut=False)
    assert [type(event) for event in emit.take()] == [ev.ToolInputEnd, ev.ToolCall]
    emit = stopped()
    emit.fail("broken")
    assert [type(event) for event in emit.take()] == [ev.ToolInputEnd, ev.ProviderError]


def test_a_stopped_call_with_an_object_is_made_at_once() -> None:
    """LLM-068"""
    emit = Emitter()
    call = emit.open_call("c", "f")
    emit.call_delta(call, '{"a": 1}')
    emit.take()
    emit.end_arguments(call)
    assert emit.take() == [ev.ToolInputEnd("c", "f"), ev.ToolCall("c", "f", {"a": 1})]
    emit.close_calls(cut=False)
    emit.close_call(call)
    assert emit.take() == []


def test_given_arguments_count_instead_of_the_deltas() -> None:
    assert closed('{"a": 1}', arguments='{"a": 2}')[1] == ev.ToolCall("c", "f", {"a": 2})


@pytest.mark.parametrize(
    ("reason", "hosted", "expected"),
    [
        ("stop", False, "tool-calls"),
        ("stop", True, "stop"),
        ("length", False, "length"),
        ("content-filter", False, "content-filter"),
        ("unknown", False, "unknown"),
        ("tool-calls", True, "tool-calls"),
    ],
)
def test_a_stop_with_a_local_call_is_a_stop_for_tools(reason: str, hosted: bool, expected: str) -> None:
    """LLM-101"""
    emit = Emitter()
    emit.add_call("c", "f", {}, hosted=hosted)
    emit.finish(reason, None)
    assert emit.take()[-1] == ev.Finish(expected)


def test_a_stop_without_a_call_stays_one() -> None:
    """LLM-101: a call that was dropped does not count."""
    emit = Emitter()
    call = emit.open_call("c", "f")
    emit.call_delta(call, "{")
    emit.close_call(call, cut=True)
    emit.finish("stop", None)
    assert emit.take()[-1] == ev.Finish("stop")


def test_hosted_calls_and_results_say_so() -> None:
    """LLM-067"""
    emit = Emitter()
    emit.add_call("h", "web_search", {"q": 1}, hosted=True)
    emit.hosted_result("h", "web_search", ToolResult(type="json", value=[]))
    call, result = emit.take()[-2:]
    assert call == ev.ToolCall("h", "web_search", {"q": 1}, provider_executed=True)
    assert result == ev.ToolResultEvent("h", "web_search", ToolResult(type="json", value=[]), provider_executed=True)


def test_a_result_that_no_hosted_call_waits_for_is_left_out() -> None:
    """LLM-067, LLM-382: one without its call, a second one, and one for a call that is ours."""
    emit = Emitter()
    nothing = ToolResult(type="json", value=[])
    emit.hosted_result("h", "web_search", nothing)
    emit.add_call("h", "web_search", {}, hosted=True)
    emit.add_call("l", "read", {})
    for id in ("h", "h", "l"):
        emit.hosted_result(id, "web_search", nothing)
    emit.finish("stop", None)
    events = emit.take()
    check_lifecycle(events)
    assert [event.id for event in events if isinstance(event, ev.ToolResultEvent)] == ["h"]


def test_a_failure_ends_what_is_open() -> None:
    """LLM-062: inputs too, without making calls of them."""
    emit = Emitter()
    emit.text("t", "a")
    emit.open_call("c", "f")
    emit.open_call("d", "f")
    emit.take()
    emit.fail("broken")
    assert emit.take()[:3] == [ev.TextEnd("t"), ev.ToolInputEnd("c", "f"), ev.ToolInputEnd("d", "f")]


def test_many_blocks_and_calls_of_one_name_cost_no_more_than_others() -> None:
    """LLM-364: what a provider repeats may not make decoding quadratic."""
    emit = Emitter(AnswerLimits(blocks=50_000))
    ids = [emit.open_call("c", "f").id for _ in range(20_000)]
    assert len(set(ids)) == 20_000
    assert ids[:3] == ["c", "c~1", "c~2"]
    for _ in range(20_000):
        block = emit.unused_id("text-0")
        emit.text(block, "x")
        emit.close_text(block)
    assert block == "text-0~19999"


def test_a_failure_is_classified_bounded_and_redacted() -> None:
    """LLM-342, LLM-336, LLM-339"""
    emit = Emitter()
    emit.fail("prompt is too long: 210000 tokens > 200000 maximum", code="invalid_request_error")
    assert emit.take() == [
        ev.ProviderError(
            "prompt is too long: 210000 tokens > 200000 maximum",
            reason="InvalidRequest",
            classification="context-overflow",
            code="invalid_request_error",
        )
    ]
    emit, started = Emitter(), time.process_time()
    emit.fail("api_key=sk-aaaaaaaa " + "x y " * 10_000_000, code="c" * 1_000_000)
    (failed,) = emit.take()
    assert time.process_time() - started < 1
    assert isinstance(failed, ev.ProviderError)
    assert "sk-aaaaaaaa" not in failed.message
    assert len(failed.message) < 600
    assert len(failed.code or "") < 200


def test_a_truncated_stream_is_a_transport_failure_that_knows_its_usage() -> None:
    """LLM-343, LLM-090"""
    error = truncated("Chat", ev.Usage(input=5))
    assert (error.reason, error.kind, error.usage) == ("Transport", "truncated", ev.Usage(input=5))
    assert "truncated" in error.message


# -- anything in any order -------------------------------------------------------------------------------------------

IDS = st.sampled_from(["a", "b"])
WORDS = st.sampled_from(["", "x", "{}", "{"])


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_order_of_requests_gives_events_out_of_order(data: st.DataObject) -> None:
    """LLM-062, LLM-072"""
    emit, checker = Emitter(), LifecycleChecker()
    calls: list[OpenCall] = []

    def close_calls() -> None:
        calls.clear()
        emit.close_calls(cut=data.draw(st.booleans()))

    actions: dict[str, Callable[[], object]] = {
        "text": lambda: emit.text(data.draw(IDS), data.draw(WORDS)),
        "close text": lambda: emit.close_text(data.draw(IDS)),
        "reasoning": lambda: emit.reasoning(data.draw(IDS).upper(), data.draw(WORDS)),
        "close reasoning": lambda: emit.close_reasoning(data.draw(IDS).upper()),
        "call": lambda: calls.append(emit.open_call(data.draw(IDS) + "-call", "f")),
        "delta": lambda: emit.call_delta(calls[-1], data.draw(WORDS)) if calls else None,
        "stop call": lambda: emit.end_arguments(calls.pop()) if calls else None,
        "close calls": close_calls,
        "hosted": lambda: emit.add_call(data.draw(IDS) + "-hosted", "h", {}, hosted=True),
        "result": lambda: emit.hosted_result(data.draw(IDS) + "-hosted", "h", ToolResult(type="json", value=1)),
        "close call": lambda: emit.close_call(calls.pop(), cut=data.draw(st.booleans())) if calls else None,
        "whole": lambda: emit.add_call("a-call", "f", {}),
        "close all": emit.close_all,
    }
    for name in data.draw(st.lists(st.sampled_from(sorted(actions)), max_size=20)):
        try:
            actions[name]()
        except LLMError:
            break
        for event in emit.take():
            checker.see(event)
    for call in calls:
        emit.close_call(call)
    emit.finish("stop", None)
    for event in emit.take():
        checker.see(event)
    assert checker.ended
