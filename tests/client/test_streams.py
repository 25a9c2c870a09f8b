"""Streams: lazy, one request each, closed by whatever ends them."""

from __future__ import annotations

import asyncio
import gc
from contextlib import aclosing
from typing import Any

import msgspec
import pytest
from tests.client.conftest import SSE, FakeResponse, FakeTransport, failure, frame

from holdfast.client.errors import ApiError, ClientError
from holdfast.client.generated.async_client import AsyncClient

pytestmark = pytest.mark.anyio


def streaming(*pieces: bytes, **more: Any) -> FakeResponse:
    return FakeResponse(200, pieces, content_type=SSE, **more)


async def numbers(client: AsyncClient) -> list[int]:
    return [event.durable.seq async for event in client.sessions.events("ses_1") if event.durable]


async def collected() -> None:
    """Time for the collector, and for the loop to close what it found."""
    gc.collect()
    for _ in range(20):
        await asyncio.sleep(0)


async def test_nothing_is_sent_before_the_first_element() -> None:
    """API-312: connecting happens at the first `next`."""
    transport = FakeTransport(streaming(frame(1), hang=True))
    stream = AsyncClient(transport).sessions.events("ses_1", after=3)
    assert transport.requests == []
    async with aclosing(aiter(stream)) as events:
        first = await anext(events)

    assert first.durable is not None
    assert first.durable.seq == 1
    (request,) = transport.requests
    assert (request.method, request.target) == ("GET", "/api/session/ses_1/event?after=3")
    assert request.headers["accept"] == "text/event-stream"


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (failure(404, "SessionNotFoundError"), ApiError),
        (failure(401, "UnauthorizedError"), ApiError),
        (FakeResponse(500, b""), ClientError),
        (ClientError("Transport", "gone"), ClientError),
    ],
)
async def test_failures_show_at_the_first_element(
    answer: FakeResponse | ClientError, expected: type[Exception]
) -> None:
    """API-312: declared, unexpected and transport errors alike; the call itself cannot fail."""
    transport = FakeTransport(answer)
    stream = AsyncClient(transport).events.subscribe() if expected is ClientError else None
    stream = stream or AsyncClient(transport).sessions.events("ses_1")
    with pytest.raises(expected):
        await anext(aiter(stream))

    assert all(response.closed for response in transport.responses)


async def test_each_iteration_opens_its_own_request() -> None:
    """API-312: iterating again asks again, instead of silently giving nothing."""
    transport = FakeTransport(streaming(frame(1)), streaming(frame(1), frame(2)))
    stream = AsyncClient(transport).sessions.events("ses_1")
    first = [event.id async for event in stream]
    second = [event.id async for event in stream]

    assert (first, second) == (["evt_1"], ["evt_1", "evt_2"])
    assert len(transport.requests) == 2


async def test_the_end_closes_the_request() -> None:
    """API-312: when the server is done."""
    transport = FakeTransport(streaming(frame(1), frame(2)))
    assert await numbers(AsyncClient(transport)) == [1, 2]

    assert transport.responses[0].closed


async def test_breaking_out_closes_the_request() -> None:
    """API-312: also without `aclosing`, once nobody holds the iteration."""
    transport = FakeTransport(streaming(frame(1), hang=True))
    async for _ in AsyncClient(transport).sessions.events("ses_1"):
        break
    await collected()

    assert transport.responses[0].closed


async def test_breaking_out_of_a_kept_stream_closes_the_request() -> None:
    """API-312: breaking ends the iteration, whether or not the stream is still in a variable."""
    transport = FakeTransport(streaming(frame(1), hang=True))
    stream = AsyncClient(transport).sessions.events("ses_1")
    async for _ in stream:
        break
    await collected()

    assert transport.responses[0].closed
    assert stream is not None


async def test_cancelling_a_stream_closes_its_request() -> None:
    """API-312: while waiting for the next element."""
    transport = FakeTransport(streaming(frame(1), hang=True))
    waiting = asyncio.create_task(numbers(AsyncClient(transport)))
    await collected()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    assert transport.responses[0].closed


@pytest.mark.parametrize("closing", ["stream", "iteration"])
async def test_an_error_of_the_reader_closes_the_request(closing: str) -> None:
    """API-312: `aclosing` is enough, around the stream or around one iteration of it."""
    transport = FakeTransport(streaming(frame(1), hang=True))

    async def read() -> None:
        stream = AsyncClient(transport).sessions.events("ses_1")
        async with aclosing(aiter(stream) if closing == "iteration" else stream) as events:
            async for _ in events:
                raise KeyError("mine")

    with pytest.raises(KeyError):
        await read()

    assert transport.responses[0].closed


async def test_a_broken_stream_fails_and_is_not_reopened() -> None:
    """API-314: what came is delivered, then the failure; no retry."""
    broken = ClientError("Transport", "reset")
    transport = FakeTransport(streaming(frame(1), frame(2), failure=broken))
    seen: list[int] = []

    async def read() -> None:
        async for event in AsyncClient(transport).sessions.events("ses_1"):
            seen.append(event.durable.seq if event.durable else 0)

    with pytest.raises(ClientError) as caught:
        await read()

    assert (seen, caught.value.reason, len(transport.requests)) == ([1, 2], "Transport", 1)
    assert transport.responses[0].closed


def lines(number: int, end: bytes) -> bytes:
    """One event over three data lines, with everything a reader has to pass over."""
    a, b, c = frame(number)[6:-2].partition(b",")
    rest = (b": comment", b"event: message", b"id: 7", b"retry: 1", b"data", b"data:")
    return end.join([*rest, b"", b"data:" + a, b"data: " + b, b"data: " + c, b"", b""])


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("size", [1, 2, 7, 10_000])
async def test_any_line_end_and_any_chunking_gives_the_same_events(end: bytes, size: int) -> None:
    """API-200, API-313: comments, other fields and empty data are passed over; data lines are joined."""
    body = b"\xef\xbb\xbf" + b"".join(lines(number, end) for number in (1, 2, 3)) + b": heartbeat" + end + end
    pieces = [body[start : start + size] for start in range(0, len(body), size)]

    assert await numbers(AsyncClient(FakeTransport(streaming(*pieces)))) == [1, 2, 3]


@pytest.mark.parametrize("tail", [b"", b"\n", b"\r", b"\r\n"])
async def test_a_last_frame_without_its_blank_line_counts(tail: bytes) -> None:
    """API-313: flushed at the end of the stream."""
    assert await numbers(AsyncClient(FakeTransport(streaming(frame(1), frame(2)[:-2] + tail)))) == [1, 2]


MEBIBYTE = 1024 * 1024


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (streaming(b"data: {broken\n\n"), "MalformedResponse"),
        (streaming(b"data: 5\n\n"), "MalformedResponse"),
        (streaming(b'data: {"id":"\xff"}\n\n'), "MalformedResponse"),
        (streaming(b"data: " + b"[" * 5000 + b"\n\n"), "MalformedResponse"),
        (streaming(*[b"x" * MEBIBYTE] * 65), "MalformedResponse"),
        (streaming(*[b"data: x\n" * (MEBIBYTE // 8)] * 65, hang=True), "MalformedResponse"),
        (FakeResponse(200, b"{}"), "UnsupportedContentType"),
        (FakeResponse(200, b"<html>", content_type="text/html"), "UnsupportedContentType"),
    ],
    ids=["json", "shape", "utf-8", "depth", "endless line", "endless frame", "plain JSON", "html"],
)
async def test_a_stream_that_makes_no_sense_fails(response: FakeResponse, reason: str) -> None:
    """API-313: bad JSON, another content type, or more than the limit without the end of a frame."""
    transport = FakeTransport(response)
    with pytest.raises(ClientError) as caught:
        await numbers(AsyncClient(transport))

    assert caught.value.reason == reason
    assert transport.responses[0].closed


async def test_a_large_event_within_the_bound_is_read() -> None:
    """API-313: an event that carries the largest body a server takes."""
    size = 33 * MEBIBYTE
    text = b'data: {"id":"evt_1","type":"x","data":"' + b"x" * size + b'"}\n\n'
    pieces = [text[start : start + MEBIBYTE] for start in range(0, len(text), MEBIBYTE)]
    client = AsyncClient(FakeTransport(streaming(*pieces)))

    (event,) = [event async for event in client.events.subscribe()]
    assert isinstance(event.data, msgspec.Raw), "of a type that is not known"
    assert len(bytes(event.data)) == size + 2
