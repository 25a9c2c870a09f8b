"""One turn from bytes to events: any chunking, any damage, and letting go early."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.llm.lifecycle_checker import LifecycleChecker
from tests.llm.support import (
    HELLO_CHAT,
    HELLO_CLAUDE,
    KEY,
    Playback,
    Played,
    chat_model,
    chunk,
    claude,
    collect,
    failure,
    play,
    sse,
)

from holdfast.llm import event as ev
from holdfast.llm.errors import LLMError
from holdfast.llm.limits import DEFAULT_LIMITS
from holdfast.llm.model import Model
from holdfast.llm.request import Generation, make_request, user
from holdfast.llm.route.auth import KeyAuth
from holdfast.llm.route.retry import NO_RETRY, Retry
from holdfast.llm.route.route import Route
from holdfast.llm.route.transport import HttpRequest, HttpResponse, SchemeTransport
from holdfast.llm.stream import prepare, stream, stream_prepared
from holdfast.schema.sse import FrameTooLarge, SSEFrames

pytestmark = pytest.mark.anyio

CHAT_CALL = (
    sse(
        chunk({"role": "assistant", "content": ""}),
        chunk({"reasoning_content": "hm ☃"}),
        chunk({"content": "Let me see. 🌤"}),
        chunk({"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "get_weather", "arguments": ""}}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"city":"Zü'}}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": 'rich"}'}}]}),
        chunk(finish="tool_calls"),
        {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}},
    )
    + b": keep-alive\n\ndata: [DONE]\n\n"
)
CLAUDE_CALL = b"".join(
    b"event: x\r\n" + frame + b"\r\n\r\n"
    for frame in sse(
        {"type": "message_start", "message": {"usage": {"input_tokens": 9}}},
        {"type": "ping"},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm ☃"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "sig"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "c1", "name": "f"}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"a":"🌤'}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '"}'}},
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ).split(b"\n\n")
    if frame
)
STREAMS = [
    pytest.param(chat_model(), HELLO_CHAT, id="chat text"),
    pytest.param(chat_model(), CHAT_CALL, id="chat call"),
    pytest.param(claude(), HELLO_CLAUDE, id="claude text"),
    pytest.param(claude(), CLAUDE_CALL, id="claude call"),
]
MODELS = [pytest.param(chat_model(), id="chat"), pytest.param(claude(), id="claude")]


async def drain(model: Model, response: HttpResponse) -> tuple[list[ev.Event], LLMError | None]:
    """Events in lifecycle order, and the error if it ended in one. Any other exception fails the test."""
    checker, events = LifecycleChecker(), []
    try:
        async for batch in stream(Playback(response), model, make_request(prompt="x"), retry=NO_RETRY):
            for event in batch:
                checker.see(event)
            events += batch
    except LLMError as error:
        assert not checker.ended
        return events, error
    assert checker.ended
    return events, None


def bounded(error: LLMError) -> None:
    assert len(error.message) < 700
    assert KEY not in error.message


# -- any chunking ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "data"), STREAMS)
async def test_one_byte_at_a_time_or_all_at_once(model: Model, data: bytes) -> None:
    """LLM-361, LLM-072: a proxy that buffers everything into one chunk gives the same events."""
    whole = await collect(model, play(data))
    for size in (1, 2, 3, 7, 64):
        assert await collect(model, play(data, size)) == whole


@pytest.mark.parametrize(("model", "data"), STREAMS)
async def test_a_border_at_every_byte(model: Model, data: bytes) -> None:
    """LLM-361: inside a character, inside a line end, inside a frame."""
    whole = await collect(model, play(data))
    for at in range(len(data)):
        assert await collect(model, Played([data[:at], b"", data[at:]])) == whole


@pytest.mark.parametrize(("model", "data"), STREAMS)
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
async def test_every_line_end_and_a_byte_order_mark(model: Model, data: bytes, end: bytes) -> None:
    """LLM-361"""
    whole = await collect(model, play(data))
    other = b"\xef\xbb\xbf" + data.replace(b"\r\n", b"\n").replace(b"\n", end)
    for size in (0, 1, 2, 5):
        assert await collect(model, play(other, size)) == whole


@pytest.mark.parametrize(("model", "data"), STREAMS)
async def test_a_last_event_without_its_blank_line_counts(model: Model, data: bytes) -> None:
    """LLM-361"""
    whole = await collect(model, play(data))
    assert await collect(model, play(data.replace(b"data: [DONE]\n\n", b"").rstrip())) == whole


async def test_frames_are_data_lines_joined() -> None:
    """LLM-361, LLM-248: many lines, no space after the colon, comments and other fields, empty data."""
    frames = SSEFrames(1000)
    text = b": hi\ndata:a\nid: 1\ndata:  b\nretry: 5\n\ndata\n\ndata:\n\nevent: x\n\ndata: c\n\n"
    assert frames.feed(text) == [b"a\n b", b"c"]
    assert frames.finish() == []


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=8))
@settings(deadline=None)
def test_framing_never_depends_on_chunks(data: bytes, cuts: list[int]) -> None:
    """LLM-361, LLM-072"""
    data = data.replace(b"\x00", b"data: ").replace(b"\x01", b"\n\n").replace(b"\x02", b"\r")
    whole = SSEFrames(10_000)
    expected = whole.feed(data) + whole.finish()
    borders = sorted({0, *(min(cut, len(data)) for cut in cuts), len(data)})
    pieces = SSEFrames(10_000)
    found = [frame for a, b in itertools.pairwise(borders) for frame in pieces.feed(data[a:b])]
    assert found + pieces.finish() == expected


# -- damage ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "data"), STREAMS)
async def test_a_stream_cut_anywhere_is_truncated(model: Model, data: bytes) -> None:
    """LLM-343, LLM-073: typed, bounded, and the events before it in order. Nothing is missing after the reason."""
    whole = await collect(model, play(data))
    for at in range(len(data)):
        events, error = await drain(model, play(data[:at]))
        if error is None:
            assert [event for event in events if not isinstance(event, ev.StepFinish | ev.Finish)] == whole[:-2]
            continue
        assert events == whole[: len(events)]
        assert error.reason in ("Transport", "InvalidProviderOutput")
        if error.reason == "Transport":
            assert error.kind == "truncated"
            assert "truncated" in error.message
        bounded(error)


@pytest.mark.parametrize(("model", "data"), STREAMS)
async def test_events_before_the_damage_are_the_same_however_it_arrives(model: Model, data: bytes) -> None:
    """LLM-068, LLM-361: what a proxy buffers together with the damage is not lost."""
    frames = data.replace(b"\r\n", b"\n").split(b"\n\n")[:-2]
    for at in range(1, len(frames)):
        broken = b"\n\n".join([*frames[:at], b"data: {broken", b""]) + b"\n"
        one = await drain(model, play(broken))
        many = await drain(model, play(broken, 1))
        assert one[0] == many[0]
        assert (one[1] is None) == (many[1] is None)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "frame",
    [
        b"{",
        b"nonsense",
        b"[]",
        b'"text"',
        b"5",
        b"null",
        b"{" * 1000,
        b'{"a":' + b"[" * 50_000,
        b'{"choices":{"a":1},"type":"content_block_start"}',
        b'{"choices":"x","type":"content_block_start","index":[]}',
        b'{"choices":[5],"type":"content_block_delta"}',
        b'{"choices":[{"delta":5}],"type":"content_block_start","index":0,"content_block":5}',
        b'{"choices":[{"delta":{"content":5}}],"type":"content_block_start","index":0,'
        b'"content_block":{"type":"text","text":5}}',
        b'{"choices":[{"delta":{"tool_calls":[{"function":{"name":5}}]}}],"type":"content_block_start","index":0,'
        b'"content_block":{"type":"tool_use","id":"c","name":5}}',
        b'{"choices":[{"finish_reason":{}}],"type":"message_delta","delta":{"stop_reason":{}}}',
        b'{"usage":{"prompt_tokens":"5"},"type":"message_start","message":{"usage":{"input_tokens":"5"}}}',
        b'{"usage":{"prompt_tokens_details":["x"]},"type":"message_start","message":{"usage":{"output_tokens":[]}}}',
    ],
)
async def test_a_frame_of_the_wrong_shape_is_unreadable_output(model: Model, frame: bytes) -> None:
    """LLM-073: with what was sent, bounded."""
    error = await failure(model, play(b"data: " + frame + b"\n\n"))
    assert error.reason == "InvalidProviderOutput"
    assert error.raw is not None
    assert error.raw[:10] == frame.decode()[:10]
    bounded(error)


HARMLESS: dict[str, list[dict[str, Any]]] = {
    "openai": [
        {},
        {"object": "some.new.chunk", "surprise": {"a": [1]}},
        {"choices": None, "usage": None, "error": None},
        {"choices": []},
        {"choices": [{}]},
        {"choices": [{"delta": None, "finish_reason": None, "logprobs": [1]}]},
        {"choices": [{"delta": {"tool_calls": None, "content": None, "refusal": None, "new_kind": {"a": 1}}}]},
        {"choices": [{"delta": {"tool_calls": []}}]},
        {"usage": "none", "x_groq": []},
    ],
    "anthropic": [
        {},
        {"type": "some_new_event", "surprise": {"a": [1]}},
        {"type": "ping"},
        {"type": "message_start"},
        {"type": "message_start", "message": None},
        {"type": "message_delta"},
        {"type": "message_delta", "delta": None, "usage": None},
        {"type": "content_block_start", "index": 9, "content_block": {"type": "some_new_block", "x": 1}},
        {"type": "content_block_delta", "index": 9, "delta": {"type": "some_new_delta", "x": 1}},
        {"type": "content_block_delta", "index": 9, "delta": {"type": "text_delta", "text": "of no block"}},
        {"type": "content_block_delta", "index": 9},
        {"type": "content_block_stop", "index": 9},
        {"type": "content_block_stop", "index": 99},
    ],
}


@pytest.mark.parametrize("model", MODELS)
async def test_unknown_events_and_missing_containers_do_no_harm(model: Model) -> None:
    """LLM-073: strict only on what is needed."""
    data = HELLO_CHAT if model.provider == "openai" else HELLO_CLAUDE
    plain = await collect(model, play(data))
    assert await collect(model, play(sse(*HARMLESS[model.provider]) + data)) == plain


async def test_half_a_character_is_replaced() -> None:
    """LLM-361: gateways that count in UTF-16 cut an escaped character in two, each half in its own event."""
    data = HELLO_CHAT.replace("Hé".encode(), b"a\\ud83d").replace(b"llo", b"\\ude00b \\\\ud83d \\ud83d\\ude00")
    events = await collect(chat_model(), play(data))
    assert [event.text for event in events if isinstance(event, ev.TextDelta)] == [
        "a\ufffd",
        "\ufffdb \\ud83d \U0001f600",
    ]


@pytest.mark.parametrize("model", MODELS)
async def test_invalid_utf8_is_replaced(model: Model) -> None:
    """LLM-361"""
    data = HELLO_CHAT if model.provider == "openai" else HELLO_CLAUDE
    events = await collect(model, play(data.replace("é".encode(), b"\xff"), 1))
    assert "".join(event.text for event in events if isinstance(event, ev.TextDelta)) == "H�llo"


@pytest.mark.parametrize("model", MODELS)
async def test_a_single_frame_of_many_megabytes(model: Model) -> None:
    """LLM-363, LLM-364: read when it makes sense, and refused quickly when it does not."""
    long = "ab " * 2_500_000
    frames = (
        sse(chunk({"content": long}), chunk(finish="stop"))
        if model.provider == "openai"
        else sse(
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": long}},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        )
    )
    started = time.process_time()
    events = await collect(model, play(frames, 65_536))
    assert ev.TextDelta("text-0", long) in events
    for junk in (b"A" * 10_000_000, b'{"a":"' + b"token " * 1_600_000, b"[" * 10_000_000, b"api_key=" * 1_250_000):
        error = await failure(model, play(b"data: " + junk + b"\n\n", 65_536))
        assert error.reason == "InvalidProviderOutput"
        bounded(error)
    assert time.process_time() - started < 60


@pytest.mark.parametrize("model", MODELS)
async def test_a_frame_beyond_the_limit_is_refused(model: Model) -> None:
    """LLM-363: without holding more of it than the limit."""
    piece = b"x" * 1_048_576
    response = Played([b"data: ", *[piece] * 40])
    error = await failure(model, response)
    assert error.reason == "InvalidProviderOutput"
    assert str(DEFAULT_LIMITS.frame_bytes) in error.message
    assert response.read <= DEFAULT_LIMITS.frame_bytes // len(piece) + 2
    assert response.closed == 1


def test_the_limit_counts_lines_of_one_frame_together() -> None:
    """LLM-363"""
    frames = SSEFrames(100)
    for _ in range(12):
        frames.feed(b"data: x\n")
    with pytest.raises(FrameTooLarge):
        frames.feed(b"data: x\n")


def test_framing_costs_in_proportion_to_bytes() -> None:
    """LLM-364: also for a frame of many lines in many chunks."""

    def cost(lines: int) -> float:
        frames = SSEFrames(DEFAULT_LIMITS.frame_bytes)
        started = time.process_time()
        for _ in range(lines):
            frames.feed(b"data: " + b"x" * 90 + b"\n")
        assert len(frames.feed(b"\n")) == 1
        return time.process_time() - started

    cost(1000)
    assert cost(80_000) < 2


async def test_arguments_in_many_deltas_cost_in_proportion() -> None:
    """LLM-364: sixteen times as many may not cost two hundred times as much."""
    piece = {"tool_calls": [{"index": 0, "function": {"arguments": "1234567890" * 5}}]}
    start = {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": '{"a":"'}}]}
    end = {"tool_calls": [{"index": 0, "function": {"arguments": '"}'}}]}

    async def cost(deltas: int) -> float:
        data = sse(chunk(start)) + sse(chunk(piece)) * deltas + sse(chunk(end), chunk(finish="tool_calls"))
        started = time.process_time()
        events = await collect(chat_model(), play(data, 65_536))
        spent = time.process_time() - started
        (call,) = (event for event in events if isinstance(event, ev.ToolCall))
        assert len(call.input["a"]) == deltas * 50
        return spent

    few = min([await cost(2_500) for _ in range(3)])
    assert await cost(40_000) < 80 * few


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("text/html", "<html><body><h1>502 Bad Gateway</h1>" + "<p>" * 10_000),
        ("application/json", '{"ok": true}'),
        ("application/json", "{"),
        ("application/json", "[" * 16_000),
        ("text/plain; charset=utf-8", "hello"),
        ("image/png", "\x89PNG"),
        ("x" * 5_000, "?"),
    ],
)
async def test_a_success_of_another_type_is_unreadable_output(model: Model, kind: str, text: str) -> None:
    """LLM-361: an HTML page is not an empty stream."""
    response = Played([text.encode()], 200, {"content-type": kind})
    error = await failure(model, response)
    assert error.reason == "InvalidProviderOutput"
    assert text[:10].strip() in error.message
    assert response.closed == 1
    bounded(error)


@pytest.mark.parametrize("model", MODELS)
async def test_an_error_object_in_a_success_is_an_error(model: Model) -> None:
    """LLM-361, LLM-332: and it is not tried again."""
    body = b'{"error": {"type": "rate_limit_error", "message": "slow down"}}'
    transport = Playback(Played([body], 200, {"content-type": "application/json; charset=utf-8"}))
    error = await failure(model, transport)
    assert (error.reason, error.retryable, error.status) == ("RateLimit", True, 200)
    assert "slow down" in error.message
    assert len(transport.requests) == 1


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("kind", ["text/event-stream", "TEXT/EVENT-STREAM; charset=utf-8", "", None])
async def test_a_stream_may_say_so_or_say_nothing(model: Model, kind: str | None) -> None:
    """LLM-361"""
    data = HELLO_CHAT if model.provider == "openai" else HELLO_CLAUDE
    assert await collect(model, Played([data], 200, {} if kind is None else {"content-type": kind}))


@pytest.mark.parametrize("model", MODELS)
async def test_a_read_failure_is_a_transport_failure_with_the_usage_so_far(model: Model) -> None:
    """LLM-362, LLM-090, LLM-350: nothing is tried again after a success."""
    head = (
        sse(chunk({"content": "a"}, usage={"prompt_tokens": 7, "completion_tokens": 1}))
        if model.provider == "openai"
        else sse({"type": "message_start", "message": {"usage": {"input_tokens": 7, "output_tokens": 1}}})
    )
    broken = LLMError("Transport", "connection reset", kind="read", retryable=True)
    transport = Playback(Played([head, broken]))
    error = await failure(model, transport)
    assert (error.reason, error.kind) == ("Transport", "read")
    assert error.message.startswith(f"Failed to read {model.provider}/{model.route.id} stream")
    assert error.usage is not None
    assert (error.usage.input, error.usage.output) == (7, 1)
    assert len(transport.requests) == 1


@pytest.mark.parametrize("model", MODELS)
async def test_a_cut_stream_reports_its_usage(model: Model) -> None:
    """LLM-090, LLM-233, LLM-343"""
    head = (
        sse(chunk({"content": "a"}, usage={"prompt_tokens": 7, "completion_tokens": 1}))
        if model.provider == "openai"
        else sse({"type": "message_start", "message": {"usage": {"input_tokens": 7, "output_tokens": 1}}})
    )
    error = await failure(model, play(head))
    assert (error.reason, error.kind) == ("Transport", "truncated")
    assert error.usage is not None
    assert error.usage.input == 7


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from([0, 1, 2, 3]),
    st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 3), st.binary(max_size=3)), min_size=1, max_size=4),
    st.sampled_from([0, 1, 50]),
)
def test_damaged_bytes_give_an_error_or_events_in_order(
    which: int, edits: list[tuple[int, int, bytes]], size: int
) -> None:
    """LLM-072, LLM-073"""
    models = [chat_model(), chat_model(), claude(), claude()]
    data = bytearray([HELLO_CHAT, CHAT_CALL, HELLO_CLAUDE, CLAUDE_CALL][which])
    for at, length, new in edits:
        at %= len(data)
        data[at : at + length] = new
    events, error = asyncio.run(drain(models[which], play(bytes(data), size)))
    assert events or error
    if error is not None:
        bounded(error)


# -- letting go ------------------------------------------------------------------------------------------------------


async def test_a_finished_answer_leaves_its_connection_for_the_next() -> None:
    """LLM-270, LLM-227, LLM-009: the last event is not the last byte, and what goes wrong after it is nobody's."""
    for response in (Played([HELLO_CLAUDE]), Played([HELLO_CLAUDE, LLMError("Transport", "reset", kind="read")])):
        assert isinstance((await collect(claude(), response))[-1], ev.Finish)
        assert (response.kept, response.closed) == (1, 1)
    cut = Played([HELLO_CLAUDE[:400], LLMError("Transport", "reset", kind="read")])
    with pytest.raises(LLMError):
        await collect(claude(), cut)
    assert (cut.kept, cut.closed) == (0, 1)


@pytest.mark.parametrize("model", MODELS)
async def test_closing_early_stops_reading_and_releases(model: Model) -> None:
    """LLM-009"""
    data = HELLO_CHAT if model.provider == "openai" else HELLO_CLAUDE
    response = play(data, 40)
    batches = stream(Playback(response), model, make_request(prompt="x"))
    await anext(batches)
    read = response.read
    await batches.aclose()
    assert (response.read, response.closed, response.released) == (read, 1, True)
    assert read < len(data) // 40


@pytest.mark.parametrize("model", MODELS)
async def test_a_finished_turn_releases_too(model: Model) -> None:
    """LLM-009"""
    data = HELLO_CHAT if model.provider == "openai" else HELLO_CLAUDE
    response = play(data, 40)
    await collect(model, response)
    assert (response.closed, response.released) == (1, True)


class Stuck(Played):
    """Sends a first piece and then nothing more."""

    def __init__(self, first: bytes, status: int = 200) -> None:
        super().__init__([first], status)
        self.waiting = asyncio.Event()

    def release(self) -> None:
        pass

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            yield self._pieces[0]  # type: ignore[misc]
            self.waiting.set()
            await asyncio.Event().wait()
        finally:
            self.released = True


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("status", [200, 500])
async def test_cancelling_closes_the_response_and_is_not_an_error(model: Model, status: int) -> None:
    """LLM-010: while the stream is read and while an error's body is."""
    response = Stuck(b": hello\n\n", status)
    before = asyncio.all_tasks()
    task = asyncio.create_task(collect(model, response))
    await response.waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (response.closed, response.released) == (1, True)
    assert asyncio.all_tasks() == before


async def test_cancelling_while_waiting_to_try_again() -> None:
    """LLM-010"""
    waiting = asyncio.Event()

    async def sleep(seconds: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    async def turn() -> None:
        transport = Playback(Played([b"no"], 503))
        async for _ in stream(transport, chat_model(), make_request(prompt="x"), retry=Retry(sleep=sleep)):
            pass

    task = asyncio.create_task(turn())
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


# -- before anything is sent -----------------------------------------------------------------------------------------


class Forbidden:
    async def send(self, request: HttpRequest) -> HttpResponse:
        raise AssertionError("something was sent")

    async def close(self) -> None:
        pass


@pytest.mark.parametrize("model", MODELS)
async def test_what_cannot_be_sent_is_refused_before_the_network(model: Model) -> None:
    """LLM-006, LLM-341"""
    bad = make_request(messages=[user("a")], tool_choice="f", tools=(), provider_options={}, generation=Generation())
    keyless = model.replace(route=model.route.replace(auth=KeyAuth(None, source="SOME_API_KEY")))
    for using, request, reason in (
        (model, make_request(messages=[]), "InvalidRequest"),
        (keyless, bad, "Authentication"),
    ):
        with pytest.raises(LLMError) as caught:
            async for _ in stream(Forbidden(), using, request):
                pass
        assert caught.value.reason == reason


async def test_an_unknown_scheme_has_no_route() -> None:
    """LLM-330"""
    transport = SchemeTransport({"offline": Forbidden()})
    with pytest.raises(LLMError) as caught:
        async for _ in stream(transport, chat_model(), make_request(prompt="x")):
            pass
    assert caught.value.reason == "NoRoute"


async def test_a_prepared_request_can_be_extended_and_sent() -> None:
    """LLM-004"""
    model = chat_model()
    prepared = prepare(model, make_request(prompt="one"))
    prepared.extend([user("two")])
    transport = Playback(play(HELLO_CHAT))
    async for _ in stream_prepared(transport, prepared):
        pass
    whole = prepare(model, make_request(messages=[user("one"), user("two")])).body
    assert b"".join(transport.requests[0].body) == whole


async def test_routes_are_values_that_nothing_registers() -> None:
    """LLM-001, LLM-002: two may share an id, and each turn uses the one of its model."""
    one, two = chat_model(base_url="https://one/v1"), chat_model(base_url="https://two/v1")
    assert one.route.id == two.route.id
    for model, host in ((one, "one"), (two, "two")):
        transport = Playback(play(HELLO_CHAT))
        async for _ in stream(transport, model, make_request(prompt="x")):
            pass
        assert transport.requests[0].url == f"https://{host}/v1/chat/completions"
    with pytest.raises(AttributeError):
        one.route.base_url = "x"  # type: ignore[misc]
    assert isinstance(one.route, Route)


@pytest.mark.parametrize("model", MODELS)
async def test_decoders_share_no_state_and_need_no_loop(model: Model) -> None:
    """LLM-003: two of them do not know each other, and no loop is needed."""
    data = HELLO_CHAT if model.provider == "openai" else HELLO_CLAUDE
    frames = SSEFrames(DEFAULT_LIMITS.frame_bytes).feed(data)
    request = make_request(prompt="x")
    one, two = model.route.protocol.decoder(model, request), model.route.protocol.decoder(model, request)
    first = [one.feed(frame) for frame in frames]
    assert [two.feed(frame) for frame in frames] == first
    assert one.finish() == two.finish()
    assert one.done
    assert two.done


async def test_a_turn_that_fails_before_its_first_event_can_be_sent_again() -> None:
    """LLM-353: by the caller, with the same prepared request."""
    model = chat_model()
    prepared = prepare(model, make_request(prompt="x"))
    transport = Playback(play(b""), play(HELLO_CHAT))
    batches = stream_prepared(transport, prepared, retry=NO_RETRY)
    async with aclosing(batches):
        with pytest.raises(LLMError, match="truncated"):
            await anext(batches)
    events = [event async for batch in stream_prepared(transport, prepared) for event in batch]
    assert events[-1].__class__ is ev.Finish
    assert transport.requests[0].body == transport.requests[1].body
