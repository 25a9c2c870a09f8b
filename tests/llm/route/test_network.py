"""The real transport against real servers on the loopback: large bodies, limits by name, and letting go."""

from __future__ import annotations

import asyncio
import gzip
import socket
import zlib
from collections.abc import AsyncIterator, Callable

import pytest
from aiohttp import web
from tests.http.support import HEAD, direct, piece, raw_server, read_request, wait_for_close
from tests.llm.lifecycle_checker import check_lifecycle
from tests.llm.support import HELLO_CHAT, HELLO_CLAUDE, KEY, Naps, chat_model, claude, no_wait

from holdfast.http.request import BLOCK
from holdfast.llm import event as ev
from holdfast.llm.errors import LLMError
from holdfast.llm.limits import INFLATION_FLOOR
from holdfast.llm.model import Model
from holdfast.llm.request import Request, make_request
from holdfast.llm.route.auth import KeyAuth
from holdfast.llm.route.network import NetworkTransport
from holdfast.llm.route.retry import Retry, RetryLimits
from holdfast.llm.route.transport import Timeouts
from holdfast.llm.stream import prepare, stream

__all__ = ["direct"]

pytestmark = pytest.mark.anyio


@pytest.fixture
async def transport() -> AsyncIterator[NetworkTransport]:
    transport = NetworkTransport()
    yield transport
    await transport.close()
    await asyncio.sleep(0)
    left = [task for task in asyncio.all_tasks() if "TestRunner" not in repr(task.get_coro())]
    assert left == [], "LLM-010"


async def turn(
    transport: NetworkTransport, model: Model, request: Request | None = None, **retry: object
) -> list[ev.Event]:
    retries = no_wait(60, **retry)
    events = [
        event
        async for batch in stream(transport, model, request or make_request(prompt="x"), retry=retries)
        for event in batch
    ]
    check_lifecycle(events)
    return events


async def failed(transport: NetworkTransport, model: Model, request: Request | None = None) -> LLMError:
    with pytest.raises(LLMError) as caught:
        await turn(transport, model, request)
    assert KEY not in caught.value.message
    assert len(caught.value.message) < 700
    return caught.value


# -- requests --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "answer"), [(chat_model, HELLO_CHAT), (claude, HELLO_CLAUDE)])
async def test_a_turn_over_a_real_connection(
    transport: NetworkTransport, make: Callable[..., Model], answer: bytes
) -> None:
    """LLM-360: a POST with the JSON text as prepared, its length said, nothing added but what HTTP needs."""
    seen: list[tuple[dict[str, str], bytes]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await read_request(reader))
        writer.write(HEAD)
        for at in range(0, len(answer), 11):
            writer.write(piece(answer[at : at + 11]))
            await writer.drain()
        writer.write(piece(b""))
        await writer.drain()

    async with raw_server(serve) as base:
        model = make(base_url=base)
        events = await turn(transport, model)
    assert "".join(event.text for event in events if isinstance(event, ev.TextDelta)) == "Héllo"
    ((headers, body),) = seen
    assert headers[":request"] == f"POST /v1{model.route.protocol.path(model.id)} HTTP/1.1"
    assert body == prepare(model, make_request(prompt="x")).body
    assert headers["content-type"] == "application/json"
    assert headers["content-length"] == str(len(body))
    assert "transfer-encoding" not in headers
    assert "user-agent" not in headers
    assert KEY in str(headers)


@pytest.mark.parametrize("size", [BLOCK - 200, BLOCK + 1, 3_000_000])
async def test_a_large_body_goes_out_in_pieces_and_again_on_a_retry(transport: NetworkTransport, size: int) -> None:
    """LLM-350, LLM-360: warnings are errors here, and there is none."""
    bodies: list[bytes] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        bodies.append(await request.read())
        if len(bodies) == 1:
            return web.Response(status=503, text="not now")
        return web.Response(body=HELLO_CHAT, content_type="text/event-stream")

    app = web.Application(client_max_size=2**26)
    app.router.add_post("/v1/chat/completions", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        model = chat_model(base_url=f"http://127.0.0.1:{runner.addresses[0][1]}/v1")
        request = make_request(prompt="é" * (size // 2))
        events = await turn(transport, model, request)
    finally:
        await runner.cleanup()
    assert isinstance(events[-1], ev.Finish)
    assert bodies == [prepare(model, request).body] * 2


async def test_a_connection_is_used_again(transport: NetworkTransport) -> None:
    """A stream that was read to its end leaves its connection for the next turn."""
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        for _ in range(3):
            await read_request(reader)
            writer.write(HEAD + piece(HELLO_CHAT) + piece(b""))
            await writer.drain()

    async with raw_server(serve) as base:
        for _ in range(3):
            await turn(transport, chat_model(base_url=base))
    assert connections == 1


async def test_a_redirect_is_not_followed(transport: NetworkTransport) -> None:
    """A credential goes only where it was meant to."""
    requests = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal requests
        requests += 1
        await read_request(reader)
        writer.write(b"HTTP/1.1 307 Temporary Redirect\r\nlocation: /v1/elsewhere\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()

    async with raw_server(serve) as base:
        error = await failed(transport, chat_model(base_url=base))
    assert (error.reason, error.status, requests) == ("UnknownProvider", 307, 1)


# -- limits ----------------------------------------------------------------------------------------------------------


def is_timeout(error: LLMError, name: str) -> bool:
    return (error.reason, error.kind) == ("Transport", "timeout") and f"({name} limit)" in error.message


async def test_the_first_byte_limit_before_the_head(transport: NetworkTransport) -> None:
    """LLM-354"""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await wait_for_close(reader)

    async with raw_server(serve) as base:
        error = await failed(transport, chat_model(base_url=base, timeouts=Timeouts(first_byte=0.05)))
    assert is_timeout(error, "first-byte")
    assert not error.retryable


async def test_the_first_byte_limit_after_the_head(transport: NetworkTransport) -> None:
    """LLM-354"""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(HEAD)
        await wait_for_close(reader)

    async with raw_server(serve) as base:
        error = await failed(transport, chat_model(base_url=base, timeouts=Timeouts(first_byte=0.05)))
    assert is_timeout(error, "first-byte")


async def test_the_inactivity_limit_between_bytes(transport: NetworkTransport) -> None:
    """LLM-354, LLM-090: slow is fine as long as something comes."""
    text = b'data: {"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":3,"completion_tokens":1}}\n\n'

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(HEAD)
        for _ in range(4):
            writer.write(piece(text))
            await asyncio.sleep(0.1)
        await wait_for_close(reader)

    async with raw_server(serve) as base:
        model = chat_model(base_url=base, timeouts=Timeouts(first_byte=5, idle=0.25))
        error = await failed(transport, model)
    assert is_timeout(error, "inactivity")
    assert error.usage is not None
    assert error.usage.input == 3


async def test_the_total_time_limit_ends_a_request(transport: NetworkTransport) -> None:
    """LLM-354"""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(HEAD)
        while not reader.at_eof():
            writer.write(piece(b": still here\n\n"))
            await writer.drain()
            await asyncio.sleep(0.01)

    async with raw_server(serve) as base:
        error = await failed(transport, chat_model(base_url=base, timeouts=Timeouts(total=0.1, idle=5)))
    assert is_timeout(error, "total")


async def test_the_connect_time_limit_is_retryable(transport: NetworkTransport) -> None:
    """LLM-354, LLM-352: a server whose queue is full does not answer, and that may pass."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        fillers = [socket.socket() for _ in range(4)]
        try:
            for filler in fillers:
                filler.setblocking(False)
                filler.connect_ex(listener.getsockname())
            base = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
            error = await failed(transport, chat_model(base_url=base, timeouts=Timeouts(connect=0.05)))
        finally:
            for filler in fillers:
                filler.close()
    assert is_timeout(error, "connect")
    assert error.retryable


# -- failures --------------------------------------------------------------------------------------------------------


async def test_a_refused_connection_is_tried_again(transport: NetworkTransport) -> None:
    """LLM-352, LLM-410, LLM-418: until the time is up; the message names the host."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    naps = Naps()
    with pytest.raises(LLMError) as caught:
        async for _ in stream(
            transport,
            chat_model(base_url=f"http://127.0.0.1:{port}/v1"),
            make_request(prompt="x"),
            retry=Retry(RetryLimits(total_seconds=4), sleep=naps, now=naps.now, chance=lambda: 0.5),
        ):
            pass
    assert (caught.value.reason, caught.value.kind, caught.value.retryable) == ("Transport", "connect", True)
    assert naps.seconds == [0.5, 1.0, 2.0]
    assert caught.value.message.startswith(f"Cannot reach 127.0.0.1:{port}: the connection was refused.")


async def test_an_unknown_host_is_a_transport_error(transport: NetworkTransport) -> None:
    """LLM-352"""
    error = await failed(transport, chat_model(base_url="http://no-such-host.invalid/v1"))
    assert (error.reason, error.retryable) == ("Transport", True)


async def test_a_connection_closed_before_the_answer_is_tried_again(transport: NetworkTransport) -> None:
    """LLM-352"""
    seen = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal seen
        seen += 1
        await read_request(reader)
        if seen > 1:
            writer.write(HEAD + piece(HELLO_CHAT) + piece(b""))
            await writer.drain()

    async with raw_server(serve) as base:
        await turn(transport, chat_model(base_url=base))
    assert seen == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"this is not http at all\r\n\r\n",
        b"HTTP/1.1 two hundred\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 100_000 + b"\r\n\r\n",
        b"\x00\x01\x02\r\n\r\n",
        HEAD + b"nonsense\r\n",
        HEAD + piece(b'data: {"choices":[') + b"zz\r\n",
        HEAD + piece(b'data: {"choices":['),
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 1000\r\n\r\ndata: x",
        HEAD.replace(b"transfer-encoding: chunked", b"content-encoding: gzip\r\ncontent-length: 9") + b"not gzip!",
        b"HTTP/1.1 502 Bad Gateway\r\ncontent-type: text/html\r\ncontent-length: 1000\r\n\r\n<html>",
        b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\r\n<html>",
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 0\r\n\r\n",
    ],
    ids=range(13),
)
async def test_any_answer_gives_an_llm_error(transport: NetworkTransport, answer: bytes) -> None:
    """LLM-362, LLM-343"""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(answer)
        await writer.drain()

    async with raw_server(serve) as base:
        for make in (chat_model, claude):
            error = await failed(transport, make(base_url=base))
            assert error.reason in ("Transport", "InvalidProviderOutput", "ProviderInternal", "UnknownProvider")


async def test_a_connection_lost_after_the_calls_does_not_lose_them(transport: NetworkTransport) -> None:
    """LLM-068, LLM-362"""
    call = b'{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{}"}}]}'
    frames = b'data: {"choices":[{"delta":%s}]}\n\ndata: {"choices":[{"finish_reason":"tool_calls"}]}\n\n' % call

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(HEAD + piece(frames))
        await writer.drain()

    events: list[ev.Event] = []

    async def read() -> None:
        async for batch in stream(transport, chat_model(base_url=base), make_request(prompt="x")):
            events.extend(batch)

    async with raw_server(serve) as base:
        with pytest.raises(LLMError) as caught:
            await read()
    assert events[-1] == ev.ToolCall("c", "f", {})
    assert (caught.value.reason, caught.value.kind) == ("Transport", "read")
    assert caught.value.message.startswith("Failed to read openai/openai-chat stream")


async def test_a_compressed_stream_is_read(transport: NetworkTransport) -> None:
    packed = gzip.compress(HELLO_CHAT)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\n"
        writer.write(head + b"content-length: %d\r\n\r\n" % len(packed) + packed)
        await writer.drain()

    async with raw_server(serve) as base:
        events = await turn(transport, chat_model(base_url=base))
    assert isinstance(events[-1], ev.Finish)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
@pytest.mark.parametrize("status", [200, 500])
async def test_a_body_that_becomes_far_too_large_is_not_decompressed(
    transport: NetworkTransport, encoding: str, status: int
) -> None:
    """LLM-396: neither as an answer nor as an error, and the connection is closed."""
    filler = b": " + b"x" * (64 * 1024 * 1024) + b"\n\n"
    packed = gzip.compress(filler) if encoding == "gzip" else zlib.compress(filler)
    closed = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        head = b"HTTP/1.1 %d OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: %s\r\n\r\n"
        writer.write(head % (status, encoding.encode()) + packed[: len(packed) // 2])
        await writer.drain()
        await reader.read()
        closed.set()

    async with raw_server(serve) as base:
        error = await failed(transport, chat_model(base_url=base))
        async with asyncio.timeout(5):
            await closed.wait()
    if status == 200:
        assert error.kind == "limit"
        assert "200 times what was received (holdfast.answer.inflation)" in error.message
    else:
        assert error.status == 500


async def test_a_stream_that_compresses_well_is_read(transport: NetworkTransport) -> None:
    """LLM-396: deltas of one shape become about ten times smaller."""
    frame = b'data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"%d "}}]}\n\n'
    body = b"".join(frame % index for index in range(30_000)) + HELLO_CHAT
    packed = gzip.compress(body)
    assert len(body) > 2 * INFLATION_FLOOR

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\n"
        writer.write(head + b"content-length: %d\r\n\r\n" % len(packed) + packed)
        await writer.drain()

    async with raw_server(serve) as base:
        events = await turn(transport, chat_model(base_url=base))
    assert isinstance(events[-1], ev.Finish)


@pytest.mark.parametrize("key", ["sk\r\nx-evil: 1", "sk-\x00-1"])
async def test_a_key_that_no_header_can_hold_is_refused(transport: NetworkTransport, key: str) -> None:
    """LLM-006: nothing of it reaches the server, nor the message."""
    received: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.read(10))

    async with raw_server(serve) as base:
        error = await failed(transport, chat_model(base_url=base, auth=KeyAuth(key)))
    assert error.reason == "InvalidRequest"
    assert key.strip() not in error.message
    assert b"".join(received) == b""


@pytest.mark.parametrize("base", ["http://", "http://[::1", "nonsense", "http://h:99999/v1", "ftp://h/v1"])
async def test_an_address_that_is_none_is_refused(transport: NetworkTransport, base: str) -> None:
    """LLM-006"""
    error = await failed(transport, chat_model(base_url=base))
    assert error.reason in ("InvalidRequest", "Transport")


# -- letting go ------------------------------------------------------------------------------------------------------


class Watched:
    """A server that streams a little and then waits until the client is gone."""

    def __init__(self, *, head: bool = True) -> None:
        self._head = head
        self.asked = asyncio.Event()
        self.gone = asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        if self._head:
            writer.write(HEAD + piece(b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'))
            await writer.drain()
        self.asked.set()
        await wait_for_close(reader)
        self.gone.set()


@pytest.mark.parametrize("head", [True, False])
async def test_cancelling_closes_the_connection(transport: NetworkTransport, head: bool) -> None:
    """LLM-010: the server sees it, no task stays, and the caller sees cancellation."""
    server = Watched(head=head)
    async with raw_server(server) as base:
        task = asyncio.create_task(turn(transport, chat_model(base_url=base)))
        await server.asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(server.gone.wait(), 5)


async def test_cancelling_while_the_body_is_being_sent(transport: NetworkTransport) -> None:
    """LLM-010"""
    begun, gone = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        begun.set()
        await asyncio.sleep(0.05)  # reads nothing: the client waits in the middle of its body
        await wait_for_close(reader)
        gone.set()

    async with raw_server(serve) as base:
        request = make_request(prompt="x" * 30_000_000)
        task = asyncio.create_task(turn(transport, chat_model(base_url=base), request))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(gone.wait(), 5)


async def test_closing_the_iterator_closes_the_connection(transport: NetworkTransport) -> None:
    """LLM-009"""
    server = Watched()
    async with raw_server(server) as base:
        batches = stream(transport, chat_model(base_url=base), make_request(prompt="x"))
        assert ev.TextDelta("text-0", "a") in await anext(batches)
        await batches.aclose()
        await asyncio.wait_for(server.gone.wait(), 5)


@pytest.mark.parametrize("limit", [Timeouts(idle=0.05), Timeouts(total=0.05)])
async def test_a_limit_closes_the_connection(transport: NetworkTransport, limit: Timeouts) -> None:
    """LLM-354, LLM-009"""
    server = Watched()
    async with raw_server(server) as base:
        await failed(transport, chat_model(base_url=base, timeouts=limit))
        await asyncio.wait_for(server.gone.wait(), 5)


async def test_anthropic_does_not_wait_for_the_end_of_the_connection(transport: NetworkTransport) -> None:
    """LLM-227: what follows the last event may take its time."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(HEAD + piece(HELLO_CLAUDE))
        await wait_for_close(reader)

    async with raw_server(serve) as base:
        events = await asyncio.wait_for(turn(transport, claude(base_url=base)), 5)
    assert isinstance(events[-1], ev.Finish)


async def test_two_turns_at_once_do_not_disturb_each_other(transport: NetworkTransport) -> None:
    """LLM-010"""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(HEAD + piece(HELLO_CHAT) + piece(b""))
        await writer.drain()

    stuck = Watched()
    async with raw_server(serve) as quick, raw_server(stuck) as slow:
        task = asyncio.create_task(turn(transport, chat_model(base_url=slow)))
        await stuck.asked.wait()
        await turn(transport, chat_model(base_url=quick))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(stuck.gone.wait(), 5)
