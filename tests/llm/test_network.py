"""The real transport against a small server on the loopback: what arrives, what is late, what breaks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from tests.llm.conftest import chunk, sse

from holdfast.llm import event as ev
from holdfast.llm.errors import LLMError
from holdfast.llm.protocols.openai_chat import OpenAIChat
from holdfast.llm.request import Message, Request, TextPart
from holdfast.llm.route.network import NetworkTransport
from holdfast.llm.route.route import Route
from holdfast.llm.route.transport import HttpRequest, Timeouts
from holdfast.llm.stream import stream

pytestmark = pytest.mark.anyio

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\nconnection: close\r\n\r\n"
CHUNKED = HEAD.replace(b"connection: close", b"transfer-encoding: chunked")
FRAMES = b"".join(sse(chunk({"content": "hi"}), chunk({}, "stop"), b"[DONE]"))
Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


class Server:
    """Reads one request per connection, then does what the test says."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.received: list[bytes] = []
        self.gone = asyncio.Event()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
            self.received.append(head + await reader.readexactly(length))
            await self._answer(writer)
            await writer.drain()
            if not writer.is_closing():
                await reader.read()  # until the other side has gone
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.gone.set()
            writer.close()


@asynccontextmanager
async def serving(answer: Answer) -> AsyncIterator[Server]:
    server = Server(answer)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = listening.sockets[0].getsockname()[1]
    async with listening:
        yield server


@pytest.fixture
async def transport(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[NetworkTransport]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    transport = NetworkTransport()
    yield transport
    await transport.close()


def request(url: str, body: bytes = b"{}", **limits: float) -> HttpRequest:
    return HttpRequest(url, {"x-own": "1"}, body, Timeouts(**limits))


async def read(transport: NetworkTransport, given: HttpRequest) -> bytes:
    response = await transport.send(given)
    try:
        return b"".join([piece async for piece in response.chunks()])
    finally:
        await response.close()


async def say(writer: asyncio.StreamWriter, *pieces: bytes) -> None:
    for piece in pieces:
        writer.write(piece)
        await writer.drain()


async def test_a_whole_turn_over_a_socket(transport: NetworkTransport) -> None:
    """LLM-360: the request is one POST with our headers and bytes; the stream comes back as events."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        await say(writer, HEAD, *(FRAMES[index : index + 7] for index in range(0, len(FRAMES), 7)))
        writer.close()

    async with serving(answer) as server:
        route = Route(OpenAIChat(), server.url, secret="sk-secret")
        asked = Request(model="m", system=(), messages=(Message(role="user", content=(TextPart(text="é"),)),), tools=())
        events = [event async for batch in stream(transport, route, asked) for event in batch]
    assert [event.text for event in events if isinstance(event, ev.TextDelta)] == ["hi"]
    head, _, body = server.received[0].partition(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    assert lines[0] == b"post /v1/chat/completions http/1.1"
    assert b"authorization: bearer sk-secret" in lines
    assert b"content-type: application/json" in lines
    assert body == OpenAIChat().encode(asked)


async def test_a_large_body_arrives_whole(transport: NetworkTransport) -> None:
    """LLM-360: two megabytes are sent in pieces, with their length said in advance."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        await say(writer, HEAD)
        writer.close()

    body = bytes(range(256)) * 8192
    async with serving(answer) as server:
        await read(transport, request(server.url, body))
    head, _, received = server.received[0].partition(b"\r\n\r\n")
    assert received == body
    assert b"transfer-encoding" not in head.lower()


async def never(writer: asyncio.StreamWriter) -> None:
    """Not a byte."""


async def only_the_head(writer: asyncio.StreamWriter) -> None:
    await say(writer, CHUNKED)


async def one_piece(writer: asyncio.StreamWriter) -> None:
    await say(writer, CHUNKED, b"5\r\nhello\r\n")


@pytest.mark.parametrize("answer", [never, only_the_head])
async def test_a_late_first_byte_names_its_limit(transport: NetworkTransport, answer: Answer) -> None:
    """LLM-354, SES-141: whether the head or the body is what does not come; the idle limit has no part in it."""
    async with serving(answer) as server:
        with pytest.raises(LLMError) as late:
            await read(transport, request(server.url, first_byte=0.1, idle=30))
        await server.gone.wait()
    assert late.value.reason == "Transport"
    assert "first-byte limit" in late.value.message
    assert "0.1 s" in late.value.message


async def test_silence_in_the_middle_names_its_limit(transport: NetworkTransport) -> None:
    """LLM-354: the inactivity limit counts from the last byte, and the first-byte limit is over."""
    async with serving(one_piece) as server:
        with pytest.raises(LLMError) as late:
            await read(transport, request(server.url, first_byte=30, idle=0.1))
        await server.gone.wait()
    assert late.value.reason == "Transport"
    assert "inactivity limit" in late.value.message
    assert "0.1 s" in late.value.message


async def test_without_limits_nothing_is_cut(transport: NetworkTransport) -> None:
    """LLM-354, SES-141: no universal timeout; a pause between head, bytes and end is waited out."""

    async def slow(writer: asyncio.StreamWriter) -> None:
        for piece in (CHUNKED, b"5\r\nhello\r\n", b"0\r\n\r\n"):
            await asyncio.sleep(0.02)
            await say(writer, piece)

    async with serving(slow) as server:
        assert await read(transport, request(server.url)) == b"hello"


async def test_nobody_listens(transport: NetworkTransport) -> None:
    """LLM-362: connection refused is a Transport failure that says so."""
    async with serving(never) as server:
        url = server.url
    with pytest.raises(LLMError) as refused:
        await transport.send(request(url))
    assert refused.value.reason == "Transport"
    assert "could not reach" in refused.value.message


async def closed_before_the_head(writer: asyncio.StreamWriter) -> None:
    writer.close()


async def closed_in_a_piece(writer: asyncio.StreamWriter) -> None:
    await say(writer, CHUNKED, b"ff\r\nhello")
    writer.close()


async def reset_in_a_piece(writer: asyncio.StreamWriter) -> None:
    await say(writer, CHUNKED, b"ff\r\nhello")
    writer.transport.abort()


async def closed_before_the_length(writer: asyncio.StreamWriter) -> None:
    await say(writer, HEAD.replace(b"connection: close", b"content-length: 100"), b"hello")
    writer.close()


async def nonsense(writer: asyncio.StreamWriter) -> None:
    await say(writer, b"220 mail.example.org ESMTP\r\n\r\n")
    writer.close()


@pytest.mark.parametrize(
    "answer", [closed_before_the_head, closed_in_a_piece, reset_in_a_piece, closed_before_the_length, nonsense]
)
async def test_a_broken_connection_is_a_transport_failure(transport: NetworkTransport, answer: Answer) -> None:
    """LLM-362: before the head, in the middle of a body of known length, or not HTTP at all."""
    async with serving(answer) as server:
        with pytest.raises(LLMError) as broken:
            await read(transport, request(server.url))
    assert broken.value.reason == "Transport"


async def test_a_redirect_is_not_followed(transport: NetworkTransport) -> None:
    """LLM-339: the credential goes to the configured host and nowhere else."""

    async def redirect(writer: asyncio.StreamWriter) -> None:
        head = b"HTTP/1.1 307 Elsewhere\r\nlocation: /other\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        await say(writer, head)
        writer.close()

    async with serving(redirect) as server:
        response = await transport.send(request(server.url))
        await response.close()
        assert response.status == 307
        await server.gone.wait()
    assert len(server.received) == 1


async def test_closing_a_response_hangs_up(transport: NetworkTransport) -> None:
    """LLM-009: the provider learns at once that nobody listens any more."""
    async with serving(one_piece) as server:
        response = await transport.send(request(server.url))
        assert await anext(response.chunks()) == b"hello"
        await response.close()
        async with asyncio.timeout(10):
            await server.gone.wait()


async def test_a_cancelled_request_hangs_up(transport: NetworkTransport) -> None:
    """LLM-010: while the head is awaited, cancelling closes the connection and raises nothing else."""
    async with serving(never) as server:
        sending = asyncio.create_task(transport.send(request(server.url)))
        while not server.received:  # noqa: ASYNC110 - the server's list calls nobody
            await asyncio.sleep(0.005)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        async with asyncio.timeout(10):
            await server.gone.wait()
