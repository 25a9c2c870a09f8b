"""Gemini: what its chunks mean, how it fails, and recorded turns."""

from __future__ import annotations

import copy
import random
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.llm.cassettes import either_cassettes
from tests.llm.lifecycle_checker import LifecycleChecker, check_lifecycle
from tests.llm.protocols.test_gemini import WEATHER, contents, model

from holdfast.llm import event as ev
from holdfast.llm.errors import LLMError
from holdfast.llm.protocols.gemini import Gemini
from holdfast.llm.protocols.gemini_stream import GeminiDecoder
from holdfast.llm.request import (
    Generation,
    Message,
    ReasoningPart,
    Request,
    make_request,
    user,
)
from holdfast.llm.response import fold
from holdfast.llm.route.retry import NO_RETRY
from holdfast.llm.route.transport import HttpRequest
from holdfast.llm.stream import stream
from holdfast.schema.codec import decode_any

pytestmark = pytest.mark.anyio


def chunk(*parts: Any, **more: Any) -> dict[str, Any]:
    """A chunk with these parts in its first candidate; `reason` and the rest go where they belong."""
    candidate: dict[str, Any] = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    if "reason" in more:
        candidate["finishReason"] = more.pop("reason")
    return {"candidates": [candidate], **more}


def decode(*chunks: Any, end: bool = True) -> list[ev.Event]:
    """Events of hand-written chunks, after the lifecycle check."""
    decoder = GeminiDecoder(lambda: "turn")
    events = [event for item in chunks for event in decoder.feed(msgspec.json.encode(item))]
    events += decoder.finish() if end else []
    check_lifecycle(events, complete=end)
    return events


STOP = chunk(reason="STOP")


def test_the_mark_at_the_end_of_other_streams_ends_the_turn() -> None:
    """LLM-426: gateways send it here too."""
    decoder = GeminiDecoder(lambda: "turn")
    decoder.feed(msgspec.json.encode(STOP))
    assert isinstance(decoder.feed(b"[DONE]")[-1], ev.Finish)
    assert (decoder.done, decoder.finish()) == (True, [])


def finishes(reason: str, usage: ev.Usage | None = None, **native: Any) -> list[ev.Event]:
    metadata = {"google": native}
    return [ev.StepFinish(reason, usage, metadata=metadata), ev.Finish(reason, usage, metadata)]


def call_events(id: str, name: str, arguments: str, call: ev.ToolCall) -> list[ev.Event]:
    return [ev.ToolInputStart(id, name), ev.ToolInputDelta(id, name, arguments), ev.ToolInputEnd(id, name), call]


# -- decoding ------------------------------------------------------------------------------------------------------


def test_visible_text_closes_the_thoughts_before_it() -> None:
    """LLM-284: visible text closes the thoughts with their last signature."""
    events = decode(
        chunk({"text": "hm", "thought": True, "thoughtSignature": "s1"}),
        chunk({"text": " yes", "thought": True, "thoughtSignature": "s2"}),
        chunk({"text": "Hel"}),
        chunk({"text": "lo"}, reason="STOP"),
    )
    assert events == [
        ev.StepStart(),
        ev.ReasoningStart("reasoning-0"),
        ev.ReasoningDelta("reasoning-0", "hm"),
        ev.ReasoningDelta("reasoning-0", " yes"),
        ev.ReasoningEnd("reasoning-0", {"google": {"thoughtSignature": "s2"}}),
        ev.TextStart("text-0"),
        ev.TextDelta("text-0", "Hel"),
        ev.TextDelta("text-0", "lo"),
        ev.TextEnd("text-0"),
        *finishes("stop", finishReason="STOP"),
    ]


def test_a_call_comes_at_once_and_whole() -> None:
    """LLM-284, LLM-066, LLM-068: it closes the thoughts and is there before the stream ends."""
    events = decode(
        chunk({"text": "hm", "thought": True}),
        chunk({"functionCall": {"name": "f", "args": {"a": "é"}}, "thoughtSignature": "s"}),
        end=False,
    )
    call = ev.ToolCall("call_turn_0", "f", {"a": "é"}, metadata={"google": {"thoughtSignature": "s"}})
    assert events == [
        ev.StepStart(),
        ev.ReasoningStart("reasoning-0"),
        ev.ReasoningDelta("reasoning-0", "hm"),
        ev.ReasoningEnd("reasoning-0"),
        *call_events("call_turn_0", "f", '{"a":"é"}', call),
    ]


def test_ids_are_the_providers_or_unlike_those_of_any_other_turn() -> None:
    """LLM-285"""
    part = {"functionCall": {"name": "f"}}
    first = decode(chunk(part, part, responseId="resp/1"), STOP)
    second = decode(chunk(part, responseId="resp/2"), STOP)
    named = {"functionCall": {"name": "f", "id": "given"}}
    third = decode(chunk(named, named), STOP)

    def ids(events: Iterable[ev.Event]) -> list[str]:
        return [event.id for event in events if isinstance(event, ev.ToolCall)]

    assert ids(first) == ["call_resp_1_0", "call_resp_1_1"]
    assert ids(second) == ["call_resp_2_0"]
    assert ids(third) == ["given", "call_turn_1"]
    call = next(event for event in third if isinstance(event, ev.ToolCall))
    assert call.metadata == {"google": {"functionCallId": "given"}}
    anonymous = [Gemini().decoder(model(), make_request(prompt="hi")) for _ in range(2)]
    made = [ids(decoder.feed(msgspec.json.encode(chunk(part))))[0] for decoder in anonymous]
    assert made[0] != made[1]


def test_text_after_a_call_is_a_new_block() -> None:
    """LLM-287, LLM-069"""
    events = decode(chunk({"text": "a"}, {"functionCall": {"name": "f"}}, {"text": "b"}), STOP)
    assert [type(event).__name__ for event in events] == [
        "StepStart",
        *("TextStart", "TextDelta", "TextEnd"),
        *("ToolInputStart", "ToolInputDelta", "ToolInputEnd", "ToolCall"),
        *("TextStart", "TextDelta", "TextEnd"),
        *("StepFinish", "Finish"),
    ]
    assert [event.id for event in events if isinstance(event, ev.TextStart)] == ["text-0", "text-0~1"]


def test_a_signature_belongs_to_its_text() -> None:
    """LLM-287: also when it comes behind it in an empty part; what follows is another block."""
    events = decode(
        chunk({"text": "a", "thoughtSignature": "s1"}),
        chunk({"text": "b"}),
        chunk({"text": "", "thoughtSignature": "s2"}, reason="STOP"),
    )
    assert events == [
        ev.StepStart(),
        ev.TextStart("text-0"),
        ev.TextDelta("text-0", "a"),
        ev.TextEnd("text-0", {"google": {"thoughtSignature": "s1"}}),
        ev.TextStart("text-0~1"),
        ev.TextDelta("text-0~1", "b"),
        ev.TextEnd("text-0~1", {"google": {"thoughtSignature": "s2"}}),
        *finishes("stop", finishReason="STOP"),
    ]


def test_a_signature_with_nothing_before_it_is_kept() -> None:
    """LLM-287"""
    events = decode(chunk({"functionCall": {"name": "f"}}, {"text": "", "thoughtSignature": "s"}), STOP)
    assert events[-4:-2] == [
        ev.ReasoningStart("reasoning-0"),
        ev.ReasoningEnd("reasoning-0", {"google": {"thoughtSignature": "s"}}),
    ]


def test_a_decoded_turn_is_replayed_as_it_came() -> None:
    """LLM-283, LLM-284, LLM-285, LLM-287"""
    parts = [
        {"text": "hm", "thought": True, "thoughtSignature": "s1"},
        {"text": "I will look.", "thoughtSignature": "s2"},
        {"functionCall": {"id": "g1", "name": "f", "args": {"a": 1}}, "thoughtSignature": "s3"},
        {"functionCall": {"id": "g2", "name": "f", "args": {}}},
        {"text": "", "thoughtSignature": "s4"},
    ]
    response = fold(decode(chunk(*parts, reason="STOP")))
    assert contents(user("hi"), Message(role="assistant", content=response.parts))[1]["parts"] == parts


def test_empty_parts_open_nothing() -> None:
    """LLM-063"""
    assert decode(chunk({"text": ""}, {"text": "", "thought": True}, reason="STOP")) == [
        ev.StepStart(),
        *finishes("stop", finishReason="STOP"),
    ]


@pytest.mark.parametrize(
    "odd",
    [
        {"candidates": [{"finishReason": "MAX_TOKENS"}]},
        {"candidates": [{"content": {}, "finishReason": "MAX_TOKENS"}]},
        {"candidates": [{"content": {"parts": None, "role": "model"}, "finishReason": "MAX_TOKENS"}]},
        {"candidates": [{"content": None, "finishReason": "MAX_TOKENS"}]},
        chunk(
            {"executableCode": {"language": "PYTHON", "code": "1"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK"}},
            {"inlineData": {"mimeType": "image/png", "data": "AA=="}, "thoughtSignature": "s"},
            {"somethingNew": True},
            {},
            reason="MAX_TOKENS",
            somethingElse=[1],
        ),
    ],
)
def test_missing_containers_and_unknown_kinds_are_no_error(odd: dict[str, Any]) -> None:
    """LLM-287, LLM-073"""
    assert decode({}, {"candidates": None}, {"candidates": []}, odd) == [
        ev.StepStart(),
        *finishes("length", finishReason="MAX_TOKENS"),
    ]


@pytest.mark.parametrize(
    ("native", "canonical"),
    [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        *(
            (word, "content-filter")
            for word in ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY")
        ),
        ("MALFORMED_FUNCTION_CALL", "error"),
        ("LANGUAGE", "unknown"),
        ("OTHER", "unknown"),
    ],
)
def test_finish_reasons_are_mapped_and_the_native_word_kept(native: str, canonical: str) -> None:
    """LLM-100, LLM-105"""
    assert decode(chunk({"text": "a"}, reason=native))[-2:] == finishes(canonical, finishReason=native)


def test_only_a_plain_stop_becomes_tool_calls() -> None:
    """LLM-101"""
    call = {"functionCall": {"name": "f"}}
    assert decode(chunk(call, reason="STOP"))[-2:] == finishes("tool-calls", finishReason="STOP")
    assert decode(chunk(call, reason="MAX_TOKENS"))[-2:] == finishes("length", finishReason="MAX_TOKENS")


def test_a_repeated_finish_is_one_and_loses_nothing() -> None:
    """LLM-065: a reason on every chunk, as earlier models send it."""
    events = decode(
        chunk({"text": "a"}, reason="STOP"), chunk({"text": "b"}, reason="STOP"), STOP, {"usageMetadata": {}}
    )
    assert fold(events).text == "ab"
    assert sum(isinstance(event, ev.Finish) for event in events) == 1


def test_a_message_with_the_reason_is_kept() -> None:
    """LLM-105"""
    candidate = {"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": "Malformed function call: f("}
    assert decode({"candidates": [candidate]})[-2:] == finishes(
        "error", finishReason="MALFORMED_FUNCTION_CALL", finishMessage="Malformed function call: f("
    )


def test_a_blocked_prompt_is_a_content_filter() -> None:
    """LLM-104, LLM-287"""
    blocked: dict[str, Any] = {
        "promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
        "usageMetadata": {"promptTokenCount": 9, "totalTokenCount": 9},
    }
    usage = ev.Usage(input=9, non_cached=9, total=9, metadata={"google": blocked["usageMetadata"]})
    assert decode(blocked) == [ev.StepStart(), *finishes("content-filter", usage, blockReason="PROHIBITED_CONTENT")]


def test_feedback_beside_an_answer_changes_nothing() -> None:
    """LLM-104: only without candidates."""
    rated = chunk({"text": "a"}, reason="STOP", promptFeedback={"safetyRatings": [], "blockReason": "OTHER"})
    assert decode(rated)[-2:] == finishes("stop", finishReason="STOP")


@pytest.mark.parametrize("args", ["not json", [1], 7, True])
def test_arguments_that_are_no_object_are_flagged(args: Any) -> None:
    """LLM-162, LLM-163"""
    call = next(
        event
        for event in decode(chunk({"functionCall": {"name": "f", "args": args}}), STOP)
        if isinstance(event, ev.ToolCall)
    )
    assert (call.input, call.invalid is None) == ({}, False)


def test_a_call_without_arguments_has_none() -> None:
    """LLM-160"""
    for call in ({"name": "f"}, {"name": "f", "args": None}, {"name": "f", "args": {}}):
        (made,) = (event for event in decode(chunk({"functionCall": call}), STOP) if isinstance(event, ev.ToolCall))
        assert (made.input, made.invalid) == ({}, None)


# -- usage ---------------------------------------------------------------------------------------------------------


def test_output_includes_thoughts_and_input_includes_the_cache() -> None:
    """LLM-083, LLM-089"""
    raw = {
        "promptTokenCount": 100,
        "cachedContentTokenCount": 60,
        "candidatesTokenCount": 5,
        "thoughtsTokenCount": 20,
        "totalTokenCount": 125,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 100}],
    }
    usage = ev.Usage(
        input=100, output=25, total=125, non_cached=40, cache_read=60, reasoning=20, metadata={"google": raw}
    )
    assert decode(chunk({"text": "a"}, reason="STOP", usageMetadata=raw))[-2:] == finishes(
        "stop", usage, finishReason="STOP"
    )
    assert usage.visible_output == 5


def test_thoughts_alone_are_the_output_of_a_turn_that_ended_in_them() -> None:
    """LLM-084: of a turn that was cut they are not."""
    raw = {"promptTokenCount": 10, "thoughtsTokenCount": 7, "totalTokenCount": 17}
    ended = ev.Usage(input=10, non_cached=10, output=7, reasoning=7, total=17, metadata={"google": raw})
    assert decode(chunk(reason="MAX_TOKENS", usageMetadata=raw))[-2:] == finishes(
        "length", ended, finishReason="MAX_TOKENS"
    )
    with pytest.raises(LLMError) as cut:
        decode(chunk({"text": "hm", "thought": True}, usageMetadata=raw))
    assert cut.value.usage == ev.Usage(input=10, non_cached=10, reasoning=7, total=17, metadata={"google": raw})


def test_usage_that_gemini_does_not_report_stays_unknown() -> None:
    """LLM-081, LLM-082"""
    finish = decode(chunk({"text": "a"}, reason="STOP", usageMetadata={"candidatesTokenCount": 3}))[-1]
    assert isinstance(finish, ev.Finish)
    assert finish.usage == ev.Usage(output=3, total=3, metadata={"google": {"candidatesTokenCount": 3}})
    assert decode(STOP)[-2:] == finishes("stop", finishReason="STOP")


def test_usage_grows_and_a_late_zero_does_not_undo_it() -> None:
    """LLM-082: the last number of each field counts, whichever chunk brought it."""
    events = decode(
        chunk({"text": "a"}, usageMetadata={"promptTokenCount": 10, "thoughtsTokenCount": 4, "totalTokenCount": 14}),
        chunk({"text": "b"}, reason="STOP", usageMetadata={"promptTokenCount": 10, "candidatesTokenCount": 1}),
        {"usageMetadata": {"candidatesTokenCount": 2, "totalTokenCount": 16}},
        {"usageMetadata": {"promptTokenCount": 0, "candidatesTokenCount": 0, "totalTokenCount": 0}},
    )
    finish = events[-1]
    assert isinstance(finish, ev.Finish)
    assert finish.usage is not None
    assert (finish.usage.input, finish.usage.output, finish.usage.reasoning, finish.usage.total) == (10, 6, 4, 16)


@pytest.mark.parametrize("odd", ["many", 3, [1], {"promptTokenCount": "ten", "candidatesTokenCount": -1}])
def test_odd_usage_does_not_cost_the_turn(odd: Any) -> None:
    """LLM-073"""
    finish = decode(chunk({"text": "a"}, reason="STOP", usageMetadata=odd))[-1]
    assert isinstance(finish, ev.Finish)
    assert finish.usage is None or (finish.usage.input, finish.usage.output) == (None, None)


# -- failures ------------------------------------------------------------------------------------------------------


def test_a_stream_without_a_reason_was_cut() -> None:
    """LLM-343, LLM-090: usage comes with every chunk here and is no sign of an end; it is kept for the bill."""
    with pytest.raises(LLMError) as cut:
        decode(chunk({"text": "a"}, usageMetadata={"promptTokenCount": 3}))
    assert (cut.value.reason, cut.value.kind) == ("Transport", "truncated")
    assert cut.value.usage == ev.Usage(input=3, non_cached=3, total=3, metadata={"google": {"promptTokenCount": 3}})


@pytest.mark.parametrize(
    "frame",
    [
        b"{",
        b"garbage",
        b"[]",
        b'{"candidates": {}}',
        b'{"candidates": [{"content": {"parts": [{"text": 1}]}}]}',
        b'{"candidates": [{"content": {"parts": [{"functionCall": {"args": {}}}]}}]}',
        b'{"candidates": [{"content": {"parts": [{"functionCall": {"name": 1}}]}}]}',
        b'{"candidates": [{"finishReason": 1}]}',
        b'{"error": ' + b"[" * 20_000,
    ],
)
def test_a_frame_that_cannot_be_read_fails_with_its_text(frame: bytes) -> None:
    """LLM-073"""
    with pytest.raises(LLMError) as failed:
        GeminiDecoder(lambda: "turn").feed(frame)
    assert failed.value.reason == "InvalidProviderOutput"
    assert failed.value.raw is not None
    assert failed.value.raw.startswith(frame.decode()[:100])


def test_bytes_that_are_no_text_are_replaced() -> None:
    """LLM-361"""
    decoder = GeminiDecoder(lambda: "turn")
    events = decoder.feed(b'{"candidates":[{"content":{"parts":[{"text":"a\xffb"}]},"finishReason":"STOP"}]}')
    assert fold(events + decoder.finish()).text == "a�b"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            {"code": 503, "status": "UNAVAILABLE", "message": "overloaded"},
            {"message": "UNAVAILABLE: overloaded", "reason": "ProviderInternal", "retryable": True},
        ),
        (
            {"status": "DEADLINE_EXCEEDED", "message": "slow"},
            {"message": "DEADLINE_EXCEEDED: slow", "reason": "ProviderInternal", "retryable": True},
        ),
        (
            {"code": 500, "message": "odd"},
            {"message": "odd", "reason": "ProviderInternal", "retryable": True},
        ),
        (
            {
                "code": 429,
                "status": "RESOURCE_EXHAUSTED",
                "message": "You exceeded your current quota",
                "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1.5s"}],
            },
            {
                "message": "RESOURCE_EXHAUSTED: You exceeded your current quota",
                "reason": "RateLimit",
                "retryable": True,
                "retry_after_ms": 1500,
            },
        ),
        (
            {"status": "INVALID_ARGUMENT", "message": "The input token count (9) exceeds the maximum number (8)."},
            {
                "message": "INVALID_ARGUMENT: The input token count (9) exceeds the maximum number (8).",
                "reason": "InvalidRequest",
                "classification": "context-overflow",
            },
        ),
        ("broken", {"message": "broken"}),
        ({}, {"message": "Gemini stream error"}),
    ],
)
def test_an_error_inside_the_stream(error: Any, expected: dict[str, Any]) -> None:
    """LLM-287, LLM-332, LLM-342: what was open closes, one provider-error, nothing after it."""
    events = decode(
        chunk({"text": "a"}, usageMetadata={"promptTokenCount": 3}),
        {"error": error},
        chunk({"text": "b"}, reason="STOP"),
    )
    code = error.get("status") if isinstance(error, dict) else None
    usage = ev.Usage(input=3, non_cached=3, total=3, metadata={"google": {"promptTokenCount": 3}})
    assert events == [
        ev.StepStart(),
        ev.TextStart("text-0"),
        ev.TextDelta("text-0", "a"),
        ev.TextEnd("text-0"),
        ev.ProviderError(**expected, code=code, usage=usage),
    ]


class Canned:
    """One answer to every request."""

    def __init__(self, status: int, chunks: Iterable[bytes], kind: str = "text/event-stream") -> None:
        self.status = status
        self.headers = {"content-type": kind}
        self._chunks = list(chunks)
        self.sent: list[HttpRequest] = []

    async def send(self, request: HttpRequest) -> Canned:
        self.sent.append(request)
        return self

    def release(self) -> None:
        pass

    async def chunks(self) -> AsyncIterator[bytes]:
        for item in self._chunks:
            yield item

    async def close(self) -> None:
        pass


async def events_of(transport: Canned, request: Request) -> list[ev.Event]:
    batches = stream(transport, model(), request, retry=NO_RETRY)
    return [event async for batch in batches for event in batch]


def google_error(code: int, status: str, message: str, *details: dict[str, Any]) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "status": status, "details": list(details)}}


KEY_ERROR = google_error(
    400,
    "INVALID_ARGUMENT",
    "API key not valid. Please pass a valid API key.",
    {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"},
)
SPENT = "You exceeded your current quota, please check your plan and billing details."
RETRY_INFO = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "12s"}


def violation(quota: str) -> dict[str, Any]:
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": quota}]}


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (KEY_ERROR, ("Authentication", "invalid", False, None)),
        (
            google_error(
                429, "RESOURCE_EXHAUSTED", SPENT, violation("RequestsPerMinutePerProjectPerModel"), RETRY_INFO
            ),
            ("RateLimit", None, True, 12_000),
        ),
        (
            google_error(429, "RESOURCE_EXHAUSTED", SPENT, violation("RequestsPerDayPerProject-FreeTier"), RETRY_INFO),
            ("QuotaExceeded", None, False, 12_000),
        ),
        (google_error(429, "RESOURCE_EXHAUSTED", SPENT), ("QuotaExceeded", None, False, None)),
        (
            google_error(429, "RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota)."),
            ("RateLimit", None, True, None),
        ),
        (google_error(403, "PERMISSION_DENIED", "no"), ("Authentication", "insufficient-permissions", False, None)),
        (google_error(504, "DEADLINE_EXCEEDED", "slow"), ("ProviderInternal", None, True, None)),
        (google_error(404, "NOT_FOUND", "no such model"), ("InvalidRequest", "model-not-found", False, None)),
    ],
)
async def test_an_error_before_the_stream_is_parsed_from_object_or_list(
    answer: dict[str, Any], expected: tuple[Any, ...], *, wrapped: bool
) -> None:
    """LLM-332: from the parsed error, which Google sometimes puts into a list."""
    transport = Canned(
        answer["error"]["code"], [msgspec.json.encode([answer] if wrapped else answer)], "application/json"
    )
    with pytest.raises(LLMError) as failed:
        await events_of(transport, make_request(prompt="hi"))
    error = failed.value
    assert (error.reason, error.kind, error.retryable, error.retry_after_ms) == expected


# -- recorded traffic ----------------------------------------------------------------------------------------------

HELLO = make_request(
    system="You are concise.",
    prompt="Reply with exactly: Hello!",
    generation=Generation(max_tokens=80, temperature=0),
)
PARIS = make_request(
    system="Call tools exactly as requested.",
    prompt="Call get_weather with city exactly Paris.",
    tools=[WEATHER],
    tool_choice="get_weather",
    generation=Generation(max_tokens=80, temperature=0),
)


@either_cassettes
@pytest.mark.parametrize(("name", "request_"), [("streams-text", HELLO), ("streams-tool-call", PARIS)])
async def test_a_turn_of_a_cassette_is_encoded_and_decoded_alike(cassettes: Path, name: str, request_: Request) -> None:
    """LLM-280..284, LLM-072: the request that was accepted, and its answer at any chunking."""
    recording = decode_any((cassettes / "gemini" / f"{name}.json").read_bytes())
    (exchange,) = recording["interactions"]
    answer = exchange["response"]["body"].encode()
    seen = []
    for size in (1, 7, len(answer)):
        transport = Canned(200, [answer[start : start + size] for start in range(0, len(answer), size)])
        seen.append(await events_of(transport, request_))
        check_lifecycle(seen[-1])
        (sent,) = transport.sent
        assert sent.url == exchange["request"]["url"]
        assert decode_any(b"".join(sent.body)) == decode_any(exchange["request"]["body"])
    assert seen[0] == seen[1] == seen[2]
    response = fold(seen[0])
    assert response.usage is not None
    if name == "streams-text":
        assert (response.text, response.reason) == ("Hello!", "stop")
        assert (response.usage.input, response.usage.output, response.usage.reasoning) == (11, 18, 16)
    else:
        (call,) = response.calls
        assert (call.name, call.input, response.reason) == ("get_weather", {"city": "Paris"}, "tool-calls")
        assert call.provider_metadata is not None
        assert f'"{call.provider_metadata["google"]["thoughtSignature"]}"'.encode() in answer


async def test_a_stream_at_any_chunking() -> None:
    """LLM-361, LLM-072: a written fixture in the form of a recording, with a character on every chunk border."""
    frames = [
        chunk({"text": "Ünïcödé 😀", "thought": True, "thoughtSignature": "s"}, responseId="r"),
        chunk({"text": "ok"}, {"functionCall": {"name": "f", "args": {"a": "é"}}}),
        chunk(reason="STOP", usageMetadata={"promptTokenCount": 1}),
    ]
    answer = b"".join(b"data: " + msgspec.json.encode(item) + b"\r\n\r\n" for item in frames)
    seen = []
    for size in (1, 7, len(answer)):
        seen.append(
            await events_of(Canned(200, [answer[start : start + size] for start in range(0, len(answer), size)]), HELLO)
        )
    check_lifecycle(seen[0])
    assert seen[0] == seen[1] == seen[2]
    assert [part.text for part in fold(seen[0]).parts if isinstance(part, ReasoningPart)] == ["Ünïcödé 😀"]


# -- fuzz ---------------------------------------------------------------------------------------------------------

VALID: list[Any] = [
    chunk({"text": "hm", "thought": True, "thoughtSignature": "s"}, responseId="r1"),
    chunk({"text": "Hel"}, usageMetadata={"promptTokenCount": 3, "thoughtsTokenCount": 1}),
    chunk({"text": "lo", "thoughtSignature": "t"}),
    chunk({"functionCall": {"name": "f", "args": {"a": [1]}, "id": "g"}, "thoughtSignature": "u"}),
    chunk({"functionCall": {"name": "f"}}, {"text": "", "thoughtSignature": "v"}),
    chunk({"executableCode": {"code": "1"}}),
    {"promptFeedback": {"blockReason": "SAFETY"}},
    chunk({"text": "!"}, reason="STOP", usageMetadata={"candidatesTokenCount": 3, "totalTokenCount": 7}),
    {"error": {"code": 503, "status": "UNAVAILABLE", "message": "x", "details": [{"retryDelay": "1s"}]}},
]
JUNK: list[Any] = [None, True, 0, -1, 1.5, "", "x", "STOP", [], {}, [None], {"a": 1}, [[]]]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container with a key in it."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
    for key in keys:
        yield value, key
        yield from places(value[key])


def spoiled(frame: Any, rng: random.Random) -> bytes:
    value = decode_any(msgspec.json.encode(frame))
    for _ in range(rng.randint(0, 2)):
        container, key = rng.choice(list(places(value)))
        if rng.random() < 0.3 and isinstance(container, dict):
            container[rng.choice(["text", "parts", "thought", "functionCall", "candidates"])] = copy.deepcopy(
                rng.choice(JUNK)
            )
        container[key] = copy.deepcopy(rng.choice(JUNK))
        if not isinstance(value, dict):
            break
    data = bytearray(msgspec.json.encode(value))
    if rng.random() < 0.2 and data:
        data[rng.randrange(len(data))] = rng.randrange(256)
    if rng.random() < 0.1:
        del data[rng.randrange(len(data) + 1) :]
    return bytes(data)


@settings(deadline=None, max_examples=400)
@given(st.integers(0, 2**32))
def test_a_damaged_stream_raises_only_llm_errors(seed: int) -> None:
    """LLM-072, LLM-062: only LLMError, and whatever came out before it is in order."""
    rng = random.Random(seed)
    decoder = GeminiDecoder(lambda: "turn")
    checker = LifecycleChecker()
    frames = [rng.choice(VALID) for _ in range(rng.randint(1, 8))] if rng.random() < 0.5 else VALID
    try:
        for frame in frames:
            data = spoiled(frame, rng) if rng.random() < 0.5 else msgspec.json.encode(frame)
            for event in decoder.feed(data):
                checker.see(event)
        for event in decoder.finish():
            checker.see(event)
    except LLMError:
        return
    assert checker.ended
    assert decoder.finish() == []
    assert decoder.feed(b"anything") == []
