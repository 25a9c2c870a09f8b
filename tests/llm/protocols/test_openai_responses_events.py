"""OpenAI Responses: what its events become."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.llm.lifecycle_checker import check_lifecycle

from holdfast.llm import event as ev
from holdfast.llm.errors import LLMError
from holdfast.llm.model import Model
from holdfast.llm.protocols.openai_responses import OpenAIResponses
from holdfast.llm.protocols.responses_stream import ResponsesDecoder
from holdfast.llm.request import Message, ReasoningPart, ToolResult, make_request, user
from holdfast.llm.response import fold
from holdfast.llm.route.route import Route
from holdfast.llm.route.transport import HttpRequest
from holdfast.llm.stream import prepare, stream

MODEL = Model("gpt-4.1-mini", "openai", Route("openai-responses", OpenAIResponses(), "https://api.openai.com/v1"))


def replayed(events: list[ev.Event]) -> list[Any]:
    """What an unstored history that ends with these events sends after its first message."""
    history = [user("hi"), Message(role="assistant", content=fold(events).parts), user("go on")]
    request = make_request(messages=history, provider_options={"openai": {"store": False}})
    return json.loads(prepare(MODEL, request).body)["input"][1:-1]  # type: ignore[no-any-return]


# -- frames --------------------------------------------------------------------------------------------------------


def frame(type: str, **fields: Any) -> bytes:
    return json.dumps({"type": type, **fields}).encode()


def text_delta(text: str, item: str = "msg_1") -> bytes:
    return frame("response.output_text.delta", item_id=item, delta=text)


def added(**item: Any) -> bytes:
    return frame("response.output_item.added", item=item)


def item_done(**item: Any) -> bytes:
    return frame("response.output_item.done", item=item)


def completed(**response: Any) -> bytes:
    return frame("response.completed", response={"id": "resp_1", "status": "completed", **response})


def incomplete(reason: str | None) -> bytes:
    return frame("response.incomplete", response={"id": "resp_1", "incomplete_details": {"reason": reason}})


def decoded(*frames: bytes, stored: bool = False, complete: bool = True) -> list[ev.Event]:
    decoder = ResponsesDecoder(stored=stored)
    events = [event for each in frames for event in decoder.feed(each)]
    if complete:
        events += decoder.finish()
    check_lifecycle(events, complete=complete)
    return events


def ending(reason: str, native: str = "completed", **more: Any) -> list[ev.Event]:
    metadata = {"openai": {"finishReason": native, "responseId": "resp_1", **more}}
    return [ev.StepFinish(reason, metadata=metadata), ev.Finish(reason, metadata=metadata)]


def encrypted(id: str, content: str | None) -> dict[str, dict[str, Any]]:
    return {"openai": {"itemId": id, "reasoningEncryptedContent": content}}


def test_a_text_block_is_named_and_closed_by_its_item() -> None:
    """LLM-266, LLM-063, LLM-061, LLM-272: a block named by its item, closed with it; phase and annotations are
    kept; an empty delta is nothing."""
    note = {"type": "url_citation", "url": "https://example.org"}
    events = decoded(
        frame("response.created", response={"id": "resp_1"}),
        added(type="message", id="msg_1", phase="final_answer", content=[]),
        frame("response.content_part.added", item_id="msg_1", part={"type": "output_text"}),
        text_delta(""),
        text_delta("Hel"),
        text_delta("lo"),
        frame("response.output_text.annotation.added", item_id="msg_1", annotation=note),
        frame("response.output_text.done", item_id="msg_1", text="Hello"),
        item_done(type="message", id="msg_1", content=[{"type": "output_text", "text": "Hello"}]),
        completed(service_tier="default"),
    )
    assert events == [
        ev.StepStart(),
        ev.TextStart("msg_1"),
        ev.TextDelta("msg_1", "Hel"),
        ev.TextDelta("msg_1", "lo"),
        ev.TextEnd("msg_1", {"openai": {"phase": "final_answer", "annotations": [note]}}),
        *ending("stop", serviceTier="default"),
    ]


def test_the_finished_message_has_the_last_word_and_closes_its_text() -> None:
    """LLM-272, LLM-069: its annotations and its phase count; the text ends there, not with the turn."""
    content = [{"type": "output_text", "text": "Hello", "annotations": [{"a": 1}, {"b": 2}]}]
    events = decoded(
        text_delta("Hello"),
        frame("response.output_text.annotation.added", item_id="msg_1", annotation={"a": 1}),
        item_done(type="message", id="msg_1", content=content, phase="commentary"),
        complete=False,
    )
    native = {"openai": {"phase": "commentary", "annotations": [{"a": 1}, {"b": 2}]}}
    assert events[-1] == ev.TextEnd("msg_1", native)


def test_text_that_never_streamed_is_taken_from_its_item() -> None:
    content = [{"type": "output_text", "text": "Hel"}, {"type": "output_text", "text": "lo"}]
    events = decoded(item_done(type="message", id="msg_1", content=content), completed())
    assert fold(events).text == "Hello"


def test_a_text_ends_where_another_or_a_call_begins() -> None:
    """LLM-069, LLM-062: what comes for it afterwards is another block."""
    events = decoded(
        text_delta("a", "msg_1"),
        text_delta("b", "msg_2"),
        text_delta("c", "msg_1"),
        added(type="function_call", id="fc_1", call_id="call_1", name="f"),
        text_delta("d", "msg_1"),
        item_done(type="function_call", id="fc_1", call_id="call_1", name="f", arguments="{}"),
        completed(),
    )
    assert events == [
        ev.StepStart(),
        ev.TextStart("msg_1"),
        ev.TextDelta("msg_1", "a"),
        ev.TextEnd("msg_1"),
        ev.TextStart("msg_2"),
        ev.TextDelta("msg_2", "b"),
        ev.TextEnd("msg_2"),
        ev.TextStart("msg_1~1"),
        ev.TextDelta("msg_1~1", "c"),
        ev.TextEnd("msg_1~1"),
        ev.ToolInputStart("call_1", "f"),
        ev.TextStart("msg_1~2"),
        ev.TextDelta("msg_1~2", "d"),
        ev.ToolInputDelta("call_1", "f", "{}"),
        ev.ToolInputEnd("call_1", "f"),
        ev.ToolCall("call_1", "f", {}, metadata={"openai": {"itemId": "fc_1"}}),
        ev.TextEnd("msg_1~2"),
        *ending("tool-calls"),
    ]


def test_a_call_is_named_by_its_call_id_and_complete_with_its_item() -> None:
    """LLM-266, LLM-066, LLM-068, LLM-101, LLM-272: started by its item, complete with it, named by `call_id`; its
    own id is metadata; a turn that ends with a local call ends for it."""
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "get_weather"}
    before = decoded(
        added(**call, arguments=""),
        frame("response.function_call_arguments.delta", item_id="fc_1", delta='{"city":'),
        frame("response.function_call_arguments.delta", item_id="fc_1", delta=""),
        frame("response.function_call_arguments.delta", item_id="fc_1", delta='"Paris"}'),
        frame("response.function_call_arguments.done", item_id="fc_1", arguments='{"city":"Paris"}'),
        item_done(**call, status="completed", arguments='{"city":"Paris"}'),
        complete=False,
    )
    assert before == [
        ev.StepStart(),
        ev.ToolInputStart("call_1", "get_weather"),
        ev.ToolInputDelta("call_1", "get_weather", '{"city":'),
        ev.ToolInputDelta("call_1", "get_weather", '"Paris"}'),
        ev.ToolInputEnd("call_1", "get_weather"),
        ev.ToolCall("call_1", "get_weather", {"city": "Paris"}, metadata={"openai": {"itemId": "fc_1"}}),
    ]
    events = decoded(item_done(**call, arguments='{"city":"Paris"}'), completed())
    assert events[-2:] == ending("tool-calls")


def test_the_finished_item_has_the_last_word_on_arguments() -> None:
    """LLM-266."""
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f"}
    delta = frame("response.function_call_arguments.delta", item_id="fc_1", delta='{"a":1')
    events = decoded(added(**call), delta, item_done(**call, arguments='{"b":2}'), completed())
    assert next(event for event in events if isinstance(event, ev.ToolCall)).input == {"b": 2}


def test_a_call_without_a_beginning() -> None:
    """LLM-267: the shape is the same as that of one which was announced."""
    events = decoded(
        item_done(type="function_call", id="fc_1", call_id="call_1", name="f", arguments='{"a":1}'), completed()
    )
    assert events[1:-2] == [
        ev.ToolInputStart("call_1", "f"),
        ev.ToolInputDelta("call_1", "f", '{"a":1}'),
        ev.ToolInputEnd("call_1", "f"),
        ev.ToolCall("call_1", "f", {"a": 1}, metadata={"openai": {"itemId": "fc_1"}}),
    ]


def test_a_repeated_item_adds_no_event() -> None:
    """LLM-062."""
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": "{}"}
    think = {"type": "reasoning", "id": "rs_1", "encrypted_content": "x"}
    search = {"type": "web_search_call", "id": "ws_1", "action": {"query": "x"}}
    once = [added(**think), item_done(**think), added(**call), item_done(**call), item_done(**search)]
    late = frame("response.function_call_arguments.delta", item_id="fc_1", delta="late")
    late_thought = frame("response.reasoning_summary_text.delta", item_id="rs_1", delta="late")
    assert decoded(*once, *once, late, late_thought, completed()) == decoded(*once, completed())


@pytest.mark.parametrize(
    "broken",
    [
        frame("response.function_call_arguments.delta", item_id="fc_9", delta="{"),
        added(type="function_call", id="fc_1", call_id="call_1"),
        item_done(type="function_call", name="f"),
        item_done(type="web_search_call"),
    ],
)
def test_calls_that_make_no_sense(broken: bytes) -> None:
    """LLM-266: arguments for a call that was not started, or a call without id or name; the frame is in the error."""
    with pytest.raises(LLMError) as caught:
        decoded(broken)
    assert (caught.value.reason, caught.value.raw) == ("InvalidProviderOutput", broken.decode())


def test_two_items_with_one_call_id() -> None:
    """LLM-062: never two calls of one id; a hosted result goes with its call."""
    call = {"type": "function_call", "call_id": "ws_1", "name": "f", "arguments": "{}"}
    search = item_done(type="web_search_call", id="ws_1")
    events = decoded(item_done(id="fc_1", **call), item_done(id="fc_2", **call), search, completed())
    assert [event.id for event in events if isinstance(event, ev.ToolCall | ev.ToolResultEvent)] == [
        "ws_1",
        "ws_1~1",
        "ws_1~2",
        "ws_1~2",
    ]


@pytest.mark.parametrize("arguments", ['{"a":', "[1]", '"x"'])
def test_arguments_that_are_no_object(arguments: str) -> None:
    """LLM-162, LLM-163: the turn goes on; the call says what was wrong with it."""
    events = decoded(
        item_done(type="function_call", id="fc_1", call_id="call_1", name="f", arguments=arguments), completed()
    )
    (call,) = [event for event in events if isinstance(event, ev.ToolCall)]
    assert (call.input, call.raw, bool(call.invalid)) == ({}, arguments, True)


@pytest.mark.parametrize("arguments", ['{"city":"Par', "", " "])
@pytest.mark.parametrize("ended", [True, False])
def test_a_call_cut_by_the_output_limit_is_dropped(arguments: str, ended: bool) -> None:
    """LLM-162: the turn ends with `length`, whether the item was ended or not."""
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f"}
    events = decoded(
        text_delta("Let me see."),
        added(**call),
        frame("response.function_call_arguments.delta", item_id="fc_1", delta=arguments),
        *([item_done(**call, arguments=arguments, status="incomplete")] if ended else []),
        incomplete("max_output_tokens"),
    )
    assert not [event for event in events if isinstance(event, ev.ToolCall)]
    assert fold(events).text == "Let me see."
    assert events[-2:] == ending("length", "max_output_tokens")


def test_a_call_whose_item_never_ended() -> None:
    """LLM-068: at the latest the end of the response completes it."""
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f"}
    final = frame("response.function_call_arguments.done", item_id="fc_1", arguments='{"a":1}')
    events = decoded(added(**call), final, completed())
    assert [event.input for event in events if isinstance(event, ev.ToolCall)] == [{"a": 1}]
    assert events[-2:] == ending("tool-calls")


def test_unstored_reasoning_carries_what_the_end_of_the_item_says() -> None:
    """LLM-267: each summary part is a block; the last stays open until the item ends, and has the encrypted content
    of that end, not the one from its beginning."""
    part = "response.reasoning_summary_part"
    text = "response.reasoning_summary_text.delta"
    events = decoded(
        added(type="reasoning", id="rs_1", encrypted_content="early", summary=[]),
        frame(f"{part}.added", item_id="rs_1", summary_index=0),
        frame(text, item_id="rs_1", summary_index=0, delta="one"),
        frame(f"{part}.done", item_id="rs_1", summary_index=0),
        frame(f"{part}.added", item_id="rs_1", summary_index=1),
        frame(text, item_id="rs_1", summary_index=1, delta="two"),
        frame(f"{part}.done", item_id="rs_1", summary_index=1),
        item_done(type="reasoning", id="rs_1", encrypted_content="final", summary=[{"text": "one"}, {"text": "two"}]),
        completed(output=[{"type": "reasoning", "id": "rs_1", "encrypted_content": "yet another"}]),
    )
    assert events[1:-2] == [
        ev.ReasoningStart("rs_1:0", encrypted("rs_1", "early")),
        ev.ReasoningDelta("rs_1:0", "one"),
        ev.ReasoningEnd("rs_1:0", encrypted("rs_1", None)),
        ev.ReasoningStart("rs_1:1", encrypted("rs_1", None)),
        ev.ReasoningDelta("rs_1:1", "two"),
        ev.ReasoningEnd("rs_1:1", encrypted("rs_1", "final")),
    ]
    assert replayed(events) == [
        {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "one"}, {"type": "summary_text", "text": "two"}],
            "encrypted_content": "final",
        }
    ]


def test_a_summary_part_is_a_block_even_without_text() -> None:
    """LLM-267: announced, it takes over from the one before."""
    events = decoded(
        added(type="reasoning", id="rs_1"),
        frame("response.reasoning_summary_part.added", item_id="rs_1", summary_index=1),
        item_done(type="reasoning", id="rs_1", encrypted_content="final"),
        completed(),
    )
    assert events[2:-2] == [
        ev.ReasoningEnd("rs_1:0", encrypted("rs_1", None)),
        ev.ReasoningStart("rs_1:1", encrypted("rs_1", None)),
        ev.ReasoningEnd("rs_1:1", encrypted("rs_1", "final")),
    ]


def test_stored_reasoning_ends_with_its_part() -> None:
    """LLM-267."""
    events = decoded(
        added(type="reasoning", id="rs_1"),
        frame("response.reasoning_summary_text.delta", item_id="rs_1", summary_index=0, delta="one"),
        frame("response.reasoning_summary_part.done", item_id="rs_1", summary_index=0),
        text_delta("hi"),
        item_done(type="reasoning", id="rs_1"),
        completed(),
        stored=True,
    )
    assert events[1:5] == [
        ev.ReasoningStart("rs_1:0", encrypted("rs_1", None)),
        ev.ReasoningDelta("rs_1:0", "one"),
        ev.ReasoningEnd("rs_1:0", encrypted("rs_1", None)),
        ev.TextStart("msg_1"),
    ]


@pytest.mark.parametrize(
    "kind",
    ["response.reasoning_summary_text.delta", "response.reasoning_summary.delta", "response.reasoning_text.delta"],
)
@pytest.mark.parametrize("delta", ["hm", {"text": "hm"}])
def test_every_spelling_of_reasoning_text(kind: str, delta: Any) -> None:
    """LLM-267."""
    events = decoded(added(type="reasoning", id="rs_1"), frame(kind, item_id="rs_1", delta=delta), completed())
    assert ev.ReasoningDelta("rs_1:0", "hm") in events


def test_reasoning_that_is_only_announced_at_its_end() -> None:
    """LLM-267: an empty pair that carries the metadata, or the summaries that never streamed."""
    silent = item_done(type="reasoning", id="rs_1", encrypted_content="x", summary=[])
    assert decoded(silent, completed())[1:-2] == [
        ev.ReasoningStart("rs_1:0", encrypted("rs_1", "x")),
        ev.ReasoningEnd("rs_1:0", encrypted("rs_1", "x")),
    ]
    told = item_done(type="reasoning", id="rs_1", encrypted_content="x", summary=[{"text": "a"}, {"text": "b"}])
    parts = fold(decoded(told, completed())).parts
    assert [part.text for part in parts if isinstance(part, ReasoningPart)] == ["a", "b"]


def test_reasoning_without_an_item() -> None:
    """LLM-268, LLM-064: named by the bare id, closed at the finish, before the text; or by its item, if it comes."""
    delta = frame("response.reasoning_summary_text.delta", item_id="rs_1", summary_index=0, delta="hm")
    assert decoded(delta, text_delta("hi"), completed())[1:-2] == [
        ev.ReasoningStart("rs_1"),
        ev.ReasoningDelta("rs_1", "hm"),
        ev.TextStart("msg_1"),
        ev.TextDelta("msg_1", "hi"),
        ev.ReasoningEnd("rs_1"),
        ev.TextEnd("msg_1"),
    ]
    late = decoded(delta, item_done(type="reasoning", id="rs_1", encrypted_content="x"), completed())
    assert late[3] == ev.ReasoningEnd("rs_1", encrypted("rs_1", "x"))


def test_reasoning_cut_short_has_no_encrypted_content() -> None:
    """LLM-267: what came with the beginning of an item is not what it ended with."""
    events = decoded(added(type="reasoning", id="rs_1", encrypted_content="early"), incomplete("max_output_tokens"))
    assert events[2] == ev.ReasoningEnd("rs_1:0", encrypted("rs_1", None))
    assert replayed(events) == []


HOSTED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"type": "web_search_call", "action": {"type": "search", "query": "x"}}, {"type": "search", "query": "x"}),
    ({"type": "web_search_preview_call", "action": None}, {}),
    ({"type": "file_search_call", "queries": ["x"], "results": []}, {"queries": ["x"]}),
    ({"type": "code_interpreter_call", "code": "1", "container_id": "c"}, {"code": "1", "container_id": "c"}),
    ({"type": "computer_use_call", "action": {"type": "click"}}, {"type": "click"}),
    ({"type": "image_generation_call", "result": "base64"}, {}),
    (
        {"type": "mcp_call", "server_label": "s", "name": "n", "arguments": "{}", "output": "o"},
        {"server_label": "s", "name": "n", "arguments": "{}"},
    ),
    ({"type": "local_shell_call", "action": {"command": ["ls"]}}, {"command": ["ls"]}),
]


@pytest.mark.parametrize(("item", "given"), HOSTED, ids=[str(item["type"]) for item, _ in HOSTED])
def test_a_hosted_call_and_its_result_have_the_same_id(item: dict[str, Any], given: dict[str, Any]) -> None:
    """LLM-269, LLM-067, LLM-101: call and result of the same id and name, the whole item as the result; they do not
    make the turn end for a call."""
    name, native = item["type"].removesuffix("_call"), {"openai": {"itemId": "h_1"}}
    whole = {"id": "h_1", **item}
    assert decoded(added(**whole), item_done(**whole), completed())[3:] == [
        ev.ToolInputEnd("h_1", name),
        ev.ToolCall("h_1", name, given, provider_executed=True, metadata=native),
        ev.ToolResultEvent("h_1", name, ToolResult(type="json", value=whole), metadata=native),
        *ending("stop"),
    ]


def test_a_hosted_tool_that_failed() -> None:
    """LLM-269."""
    events = decoded(item_done(type="mcp_call", id="mcp_1", name="n", error={"code": 500}), completed())
    (result,) = [event for event in events if isinstance(event, ev.ToolResultEvent)]
    assert result.result == ToolResult(type="error", value={"code": 500})


CALL = item_done(type="function_call", id="fc_1", call_id="call_1", name="f", arguments="{}")


@pytest.mark.parametrize(
    ("frames", "reason", "native"),
    [
        ([completed()], "stop", "completed"),
        ([CALL, completed()], "tool-calls", "completed"),
        ([incomplete("max_output_tokens")], "length", "max_output_tokens"),
        ([CALL, incomplete("max_output_tokens")], "length", "max_output_tokens"),
        ([incomplete("content_filter")], "content-filter", "content_filter"),
        ([incomplete("weather")], "unknown", "weather"),
        ([CALL, incomplete("weather")], "tool-calls", "weather"),
        ([incomplete(None)], "unknown", "incomplete"),
    ],
)
def test_a_turn_ends_with_its_native_reason_id_and_tier(frames: list[bytes], reason: str, native: str) -> None:
    """LLM-100, LLM-101, LLM-102, LLM-105, LLM-146: with the native word, the response's id and its tier."""
    assert decoded(*frames)[-2:] == ending(reason, native)


def test_a_terminal_event_without_its_response() -> None:
    """LLM-073: a missing container is not an error."""
    for kind, reason in (("completed", "stop"), ("incomplete", "unknown")):
        events = decoded(frame(f"response.{kind}"))
        assert events[0] == ev.StepStart()
        assert isinstance(events[-1], ev.Finish)
        assert events[-1].reason == reason


@pytest.mark.parametrize("whole", [True, False])
def test_a_refusal_is_text_and_ends_the_turn(whole: bool) -> None:
    """LLM-272: is text, and the turn ends for it."""
    streamed = [frame("response.refusal.delta", item_id="msg_1", delta=text) for text in ("No, ", "sorry.")]
    done = frame("response.refusal.done", item_id="msg_1", refusal="No, sorry.")
    item = item_done(type="message", id="msg_1", content=[{"type": "refusal", "refusal": "No, sorry."}])
    for frames in ([*streamed, done, item], [done, item], [item]) if whole else (streamed,):
        events = decoded(*frames, completed())
        assert fold(events).text == "No, sorry."
        assert events[-2:] == ending("content-filter")


def test_usage_totals_are_inclusive_and_the_raw_object_is_kept() -> None:
    """LLM-083, LLM-080, LLM-089: totals are inclusive, parts are computed, the raw object is kept."""
    raw = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
        "output_tokens": 21,
        "output_tokens_details": {"reasoning_tokens": 13},
        "total_tokens": 121,
    }
    finish = decoded(completed(usage=raw))[-1]
    assert isinstance(finish, ev.Finish)
    assert finish.usage == ev.Usage(
        input=100,
        output=21,
        total=121,
        non_cached=30,
        cache_read=60,
        cache_write=10,
        reasoning=13,
        metadata={"openai": raw},
    )


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (None, None),
        ({}, ev.Usage(metadata={"openai": {}})),
        (
            {"input_tokens": 0, "output_tokens": 0, "input_tokens_details": None},
            ev.Usage(
                input=0,
                output=0,
                total=0,
                non_cached=0,
                metadata={"openai": {"input_tokens": 0, "output_tokens": 0, "input_tokens_details": None}},
            ),
        ),
    ],
)
def test_usage_that_is_missing_stays_missing(raw: Any, expected: ev.Usage | None) -> None:
    """LLM-081."""
    finish = decoded(completed(usage=raw))[-1]
    assert isinstance(finish, ev.Finish)
    assert finish.usage == expected


@pytest.mark.parametrize(
    ("broken", "expected"),
    [
        (
            frame("error", code="rate_limit_exceeded", message="Slow down", param=None),
            ev.ProviderError(
                "rate_limit_exceeded: Slow down", reason="RateLimit", retryable=True, code="rate_limit_exceeded"
            ),
        ),
        (
            frame("error", response={"error": {"code": "server_error", "message": "Oops"}}),
            ev.ProviderError("server_error: Oops", reason="ProviderInternal", retryable=True, code="server_error"),
        ),
        (
            frame("error", status=401, error={"type": "invalid_request_error", "code": "invalid_api_key"}),
            ev.ProviderError("invalid_api_key", reason="Authentication", code="invalid_api_key"),
        ),
        (
            frame("error", status=503, error={"message": "Busy"}),
            ev.ProviderError("Busy", reason="ProviderInternal", retryable=True),
        ),
        (frame("error", message="Just words"), ev.ProviderError("Just words")),
        (frame("error", error="Only this"), ev.ProviderError("Only this")),
        (frame("error", code="", message=""), ev.ProviderError("OpenAI Responses stream error")),
        (frame("response.failed"), ev.ProviderError("OpenAI Responses response failed")),
        (
            frame("response.failed", response={"error": {"code": "context_length_exceeded", "message": "Too much"}}),
            ev.ProviderError(
                "context_length_exceeded: Too much",
                reason="InvalidRequest",
                classification="context-overflow",
                code="context_length_exceeded",
            ),
        ),
        (
            frame("response.failed", response={"error": {"message": "Your input exceeds the context window"}}),
            ev.ProviderError(
                "Your input exceeds the context window", reason="InvalidRequest", classification="context-overflow"
            ),
        ),
    ],
)
def test_an_error_inside_the_stream_ends_it(broken: bytes, expected: ev.ProviderError) -> None:
    """LLM-271, LLM-342: whichever of code and message there is; the stream ends there."""
    decoder = ResponsesDecoder()
    assert decoder.feed(broken) == [expected]
    assert decoder.done
    assert decoder.feed(completed()) == decoder.finish() == []


def test_a_failure_in_the_middle_closes_what_is_open_and_knows_what_it_cost() -> None:
    """LLM-090, LLM-065: blocks and inputs end, there is no call and no finish."""
    events = decoded(
        added(type="reasoning", id="rs_1", encrypted_content="early"),
        text_delta("par"),
        added(type="function_call", id="fc_1", call_id="call_1", name="f"),
        frame("response.failed", response={"error": {"code": "server_error"}, "usage": {"input_tokens": 5}}),
    )
    assert events[4:] == [
        ev.TextEnd("msg_1"),
        ev.ToolInputStart("call_1", "f"),
        ev.ReasoningEnd("rs_1:0", encrypted("rs_1", None)),
        ev.ToolInputEnd("call_1", "f"),
        ev.ProviderError(
            "server_error",
            reason="ProviderInternal",
            retryable=True,
            code="server_error",
            usage=ev.Usage(input=5, total=5, non_cached=5, metadata={"openai": {"input_tokens": 5}}),
        ),
    ]


def test_nothing_counts_after_the_end() -> None:
    """LLM-270, LLM-065: a second terminal event, late text and `[DONE]` change nothing."""
    frames = [text_delta("hi"), completed()]
    late = [completed(), text_delta("more"), incomplete("x"), frame("error"), b"[DONE]", b"garbage"]
    assert decoded(*frames, *late) == decoded(*frames)


def test_a_stream_without_an_end() -> None:
    """LLM-343."""
    decoder = ResponsesDecoder()
    decoder.feed(text_delta("par"))
    with pytest.raises(LLMError, match="truncated") as caught:
        decoder.finish()
    assert (caught.value.reason, caught.value.kind) == ("Transport", "truncated")


@pytest.mark.parametrize(
    "broken",
    [
        b"not json",
        b'{"type":"response.output_text.delta","item_id":"a"',
        b"[]",
        b"7",
        frame("response.output_text.delta", item_id="a"),
        frame("response.output_text.delta", item_id="a", delta=7),
        frame("response.output_text.delta", item_id=7, delta="a"),
        frame("response.output_item.added", item="message"),
        added(type="reasoning"),
        added(type="reasoning", id="rs_1", encrypted_content=7),
        item_done(type="function_call", id="fc_1", call_id="call_1", name="f", arguments=7),
        completed(usage={"input_tokens": "many"}),
        completed(usage=[]),
        b'{"type":7}',
        b'{"type":"error","x":' + b"[" * 100_000,
    ],
)
def test_frames_that_cannot_be_read(broken: bytes) -> None:
    """LLM-073: not JSON, or not of the type that is needed: the error carries the frame."""
    with pytest.raises(LLMError) as caught:
        decoded(text_delta("hi"), broken)
    assert caught.value.reason == "InvalidProviderOutput"
    assert caught.value.raw == broken.decode()[:16_384]


def test_unknown_events_and_fields_of_any_shape_are_ignored() -> None:
    """LLM-073: strict only about what is needed."""
    strange = [
        frame("response.audio.delta", item_id=7, delta={"x": 1}, response=3),
        frame("keepalive", sequence_number="x"),
        frame("response.output_text.delta", item_id="msg_1", delta="!", logprobs=7, content_index={}),
        frame("response.output_item.added"),
        frame("response.output_item.done"),
        added(type="custom_tool_call", id=3),
        item_done(type="compaction", summary=7),
        item_done(type="message", id="msg_9", content=None),
        b"{}",
    ]
    assert fold(decoded(*strange, completed(output=7, tools="x"))).text == "!"


def test_bytes_that_are_not_utf8_are_replaced() -> None:
    """LLM-361: not fatal, in a delta or deep in an item."""
    whole = json.dumps({"type": "message", "id": "msg_2", "content": [{"text": "a?"}]}).encode()
    item = b'{"type":"response.output_item.done","item":' + whole.replace(b"?", b"\xff") + b"}"
    delta = text_delta("b?").replace(b"?", b"\xff")
    assert fold(decoded(delta, item, completed())).text == "b\ufffda\ufffd"


class _Hanging:
    """Answers, then keeps the connection open for ever."""

    def __init__(self) -> None:
        self.status = 200
        self.headers = {"content-type": "text/event-stream"}
        self.closed = False

    async def send(self, request: HttpRequest) -> _Hanging:
        return self

    def release(self) -> None:
        pass

    async def chunks(self) -> AsyncIterator[bytes]:
        yield b"data: " + completed() + b"\n\n"
        await asyncio.Event().wait()

    async def close(self) -> None:
        self.closed = True


@pytest.mark.anyio
async def test_reading_stops_at_the_end_of_the_response() -> None:
    """LLM-270: even if the connection stays open."""
    transport = _Hanging()
    async with asyncio.timeout(5), aclosing(stream(transport, MODEL, make_request(prompt="hi"))) as batches:
        events = [event for batch in [batch async for batch in batches] for event in batch]
    assert isinstance(events[-1], ev.Finish)
    assert transport.closed


# -- noise ---------------------------------------------------------------------------------------------------------

VALID: Sequence[dict[str, Any]] = [
    json.loads(each)
    for each in (
        added(type="reasoning", id="rs_1", encrypted_content="early", summary=[]),
        frame("response.reasoning_summary_part.added", item_id="rs_1", summary_index=0),
        frame("response.reasoning_summary_text.delta", item_id="rs_1", summary_index=0, delta="hm"),
        frame("response.reasoning_summary_part.done", item_id="rs_1", summary_index=0),
        frame("response.reasoning_summary_part.added", item_id="rs_1", summary_index=1),
        frame("response.reasoning_summary_text.delta", item_id="rs_1", summary_index=1, delta="hm"),
        item_done(type="reasoning", id="rs_1", encrypted_content="final", summary=[{"text": "hm"}]),
        added(type="message", id="msg_1", phase="commentary"),
        text_delta("hi"),
        frame("response.refusal.done", item_id="msg_2", refusal="no"),
        item_done(type="message", id="msg_1", content=[{"text": "hi", "annotations": [1]}]),
        added(type="function_call", id="fc_1", call_id="call_1", name="f"),
        frame("response.function_call_arguments.delta", item_id="fc_1", delta='{"a":1}'),
        frame("response.function_call_arguments.done", item_id="fc_1", arguments='{"a":1}'),
        item_done(type="function_call", id="fc_1", call_id="call_1", name="f", arguments='{"a":1}'),
        item_done(type="web_search_call", id="ws_1", action={"query": "x"}),
        frame("error", code="server_error", message="x"),
        incomplete("max_output_tokens"),
        completed(usage={"input_tokens": 1, "output_tokens_details": {"reasoning_tokens": 1}}),
    )
]
NOISE = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "rs_1", "msg_1", "fc_1", "call_1", "x", "{"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["type", "id", "text"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def _paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [path for key in keys for path in ((*at, key), *_paths(value[key], (*at, key)))]


@st.composite
def noisy_streams(draw: st.DrawFn) -> list[bytes]:
    """Valid frames, out of order and more than once, some with a field replaced or removed, some cut."""
    frames: list[bytes] = []
    for original in draw(st.lists(st.sampled_from(VALID), min_size=1, max_size=14)):
        event = copy.deepcopy(original)
        change = draw(st.sampled_from(["none", "none", "none", "replace", "remove", "cut"]))
        if change in ("replace", "remove"):
            *way, last = draw(st.sampled_from(_paths(event)))
            holder = event
            for key in way:
                holder = holder[key]
            if change == "remove":
                del holder[last]
            else:
                holder[last] = draw(NOISE)
        data = json.dumps(event).encode()
        frames.append(data[: draw(st.integers(0, len(data)))] if change == "cut" else data)
    return frames


def test_half_a_character_is_replaced() -> None:
    """LLM-361"""
    events = decoded(text_delta("a\ud83d"), text_delta("\ude00"), completed())
    assert [event.text for event in events if isinstance(event, ev.TextDelta)] == ["a\ufffd", "\ufffd"]


@settings(max_examples=400, deadline=None)
@given(noisy_streams(), st.booleans())
def test_noise_never_breaks_the_order_of_events(frames: list[bytes], stored: bool) -> None:
    """LLM-072: whatever comes, it is an LLMError or events in order."""
    decoder = ResponsesDecoder(stored=stored)
    events: list[ev.Event] = []
    try:
        for each in frames:
            events += decoder.feed(each)
        events += decoder.finish()
    except LLMError:
        check_lifecycle(events, complete=False)
    else:
        check_lifecycle(events)
        replayed(events)
