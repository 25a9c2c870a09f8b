"""Both clients against real servers on the loopback: hostile answers, slow ones, reuse, proxies, TLS, Unix sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from ipaddress import ip_address
from pathlib import Path

import pytest
from tests.http.support import (
    ANSWER,
    HEAD,
    NO_TUNNELS,
    Answering,
    Authority,
    CutAnswer,
    ForwardProxy,
    answering,
    authority,
    direct,
    piece,
    raw_server,
    read_request,
    wait_for_close,
)

from holdfast.http.blocking import BlockingClient, BlockingResponse
from holdfast.http.client import HttpClient
from holdfast.http.errors import (
    HeadTooLarge,
    HttpError,
    InvalidRequest,
    MalformedResponse,
    NoResponse,
    ResponseTimeout,
    ResponseTruncated,
)
from holdfast.http.request import Request
from holdfast.http.url import parse

__all__ = ["authority", "direct"]

pytestmark = pytest.mark.anyio

Send = Callable[..., Awaitable[tuple[int, bytes]]]


class Asynchronous:
    def __init__(self, keep_seconds: float = 30.0) -> None:
        self.client = HttpClient(keep_seconds=keep_seconds)

    async def __call__(self, request: Request, seconds: float | None = None) -> tuple[int, bytes]:
        response = await self.client.send(request, connect_seconds=5, response_seconds=seconds)
        body = b""
        try:
            while data := await response.read(seconds):
                body += data
        finally:
            response.close()
        return response.status, body

    async def notices_closed(self) -> None:
        """Until the loop has seen that the server closed the kept connections."""
        while any(not each.closed for idle in self.client._idle.values() for each in idle):  # noqa: ASYNC110
            await asyncio.sleep(0)

    async def close(self) -> None:
        await self.client.close()


class Blocking:
    def __init__(self, keep_seconds: float = 30.0) -> None:
        self.client = BlockingClient(keep_seconds=keep_seconds)

    async def __call__(self, request: Request, seconds: float | None = None) -> tuple[int, bytes]:
        return await asyncio.to_thread(self._send, request, seconds)

    def _send(self, request: Request, seconds: float | None) -> tuple[int, bytes]:
        response = self.client.send(request, connect_seconds=5, read_seconds=seconds)
        body = b""
        try:
            while data := response.read():
                body += data
        finally:
            response.close()
        return response.status, body

    async def notices_closed(self) -> None:
        """It looks when it takes one."""

    async def close(self) -> None:
        self.client.close()


@pytest.fixture(params=[Asynchronous, Blocking])
async def send(request: pytest.FixtureRequest) -> object:
    made = request.param()
    yield made
    await made.close()


def post(base: str, body: bytes = b"{}", **headers: str) -> Request:
    return Request("POST", parse(f"{base}/x"), headers, (body,))


# -- answers -----------------------------------------------------------------------------------------------------------


async def test_cut_at_every_byte_a_response_ends_with_a_typed_error(send: Send) -> None:
    server = CutAnswer(ANSWER)
    async with raw_server(server) as base, asyncio.timeout(60):
        for server.cut in range(len(ANSWER)):
            with pytest.raises(ResponseTruncated if server.cut else NoResponse):
                await send(post(base))
        server.cut = len(ANSWER)
        assert await send(post(base)) == (200, b"hello")


async def test_slow_bytes_are_read_and_silence_is_not_waited_for(send: Send) -> None:
    """The limit is for each wait, so a slow response may take longer in all."""

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        for byte in ANSWER:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.001)

    async with raw_server(slow) as base:
        assert await send(post(base), 5) == (200, b"hello")
    for start in (b"", HEAD[:20], HEAD + piece(b"hel")):
        async with raw_server(answering(start, close=False)) as base:
            with pytest.raises(ResponseTimeout):
                await send(post(base), 0.05)


@pytest.mark.parametrize(
    ("blocks", "error"),
    [
        ((b"SSH-2.0-OpenSSH\r\n\r\n",), MalformedResponse),
        ((b"HTTP/1.1 200 OK\r\nx: ", *[b"y" * 8192] * 100), HeadTooLarge),
        ((HEAD + piece(b"hello") + b"0\r\nx: ", *[b"y" * 8192] * 100), HeadTooLarge),
        ((HEAD + piece(b"hello") + b"zz\r\n",), MalformedResponse),
    ],
    ids=["no HTTP", "endless header", "endless trailer", "broken chunk"],
)
async def test_what_is_malformed_or_endless_is_refused(send: Send, blocks: tuple[bytes, ...], error: type) -> None:
    async with raw_server(answering(*blocks, close=False)) as base, asyncio.timeout(10):
        with pytest.raises(error):
            await send(post(base))


async def test_an_early_refusal_of_a_large_body_is_understood(send: Send) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Content Too Large\r\nconnection: close\r\ncontent-length: 3\r\n\r\nbig")
        await writer.drain()
        await wait_for_close(reader)

    async with raw_server(serve) as base:
        assert await send(post(base, b"x" * 2**22)) == (413, b"big")


async def test_a_request_that_cannot_be_sent_opens_no_connection(send: Send) -> None:
    with pytest.raises(InvalidRequest):
        await send(post("http://127.0.0.1:1", evil="a\r\nb: c"))


async def test_a_refused_connection_is_the_error_of_the_system(send: Send) -> None:
    async with raw_server(answering(ANSWER)) as base:
        pass
    with pytest.raises(ConnectionRefusedError):
        await send(post(base))


# -- connections -------------------------------------------------------------------------------------------------------


async def test_a_connection_is_reused_and_one_that_was_closed_is_not(send: Send) -> None:
    server = Answering(requests=2)
    async with raw_server(server) as base:
        for _ in range(2):
            await send(post(base))
        assert server.connections == 1
        await server.closed.wait()
        await send.notices_closed()  # type: ignore[attr-defined]
        assert await send(post(base)) == (200, b"hello")
    assert server.connections == 2


@pytest.mark.parametrize("kind", [Asynchronous, Blocking])
async def test_a_request_is_not_sent_twice_unless_that_is_wanted(kind: type[Asynchronous] | type[Blocking]) -> None:
    """The server closes a kept connection just as it is used: it may have acted on the request."""
    requests = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal requests
        await read_request(reader)
        requests += 1
        writer.write(ANSWER)
        await writer.drain()
        await read_request(reader)
        requests += 1

    send = kind()
    async with raw_server(serve) as base:
        await send(post(base))
        with pytest.raises(NoResponse):
            await send(post(base))
    await send.close()
    assert requests == 2


@pytest.mark.parametrize("kind", [Asynchronous, Blocking])
async def test_without_keeping_every_request_has_its_own_connection(
    kind: type[Asynchronous] | type[Blocking],
) -> None:
    server = Answering()
    send = kind(0.0)
    async with raw_server(server) as base:
        for _ in range(2):
            await send(post(base))
    await send.close()
    assert server.connections == 2


async def test_a_unix_socket_takes_the_place_of_the_address(send: Send, tmp_path: Path) -> None:
    seen: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append((await read_request(reader))[0]["host"])
        writer.write(ANSWER)
        await writer.drain()
        writer.close()

    path = str(tmp_path / "s")
    async with await asyncio.start_unix_server(serve, path):
        url = parse("http://elsewhere.example:4096/x", socket=path)
        assert await send(Request("POST", url, {}, (b"{}",))) == (200, b"hello")
    with pytest.raises(OSError):
        await send(Request("POST", parse("http://h/", socket=str(tmp_path / "none")), {}))
    assert seen == ["elsewhere.example:4096"]


async def test_through_tls_and_a_proxy(send: Send, authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    proxy = ForwardProxy()
    async with AsyncExitStack() as stack:
        secure = await stack.enter_async_context(raw_server(answering(ANSWER), authority.context))
        plain = await stack.enter_async_context(raw_server(answering(ANSWER)))
        via = (await stack.enter_async_context(raw_server(proxy))).removesuffix("/v1")
        assert await send(post(secure)) == (200, b"hello")
        for name in ("http_proxy", "https_proxy"):
            monkeypatch.setenv(name, via.replace("//", "//me:secret@"))
        assert await send(post(plain)) == (200, b"hello")
        assert await send(post(secure)) == (200, b"hello")
        await send.close()  # type: ignore[attr-defined]
    assert [asked[":request"].split(" ")[0] for asked in proxy.asked] == ["POST", "CONNECT"]
    assert {asked["proxy-authorization"] for asked in proxy.asked} == {"Basic bWU6c2VjcmV0"}


async def test_a_certificate_that_is_not_trusted_is_refused(send: Send, authority: Authority) -> None:
    import ssl

    async with raw_server(answering(ANSWER), authority.context) as base:
        with pytest.raises(ssl.SSLCertVerificationError):
            await send(post(base))


@pytest.mark.parametrize("answer", NO_TUNNELS.values(), ids=NO_TUNNELS)
async def test_a_proxy_that_opens_no_tunnel(send: Send, monkeypatch: pytest.MonkeyPatch, answer: bytes) -> None:
    async with raw_server(ForwardProxy(refuse=answer)) as via:
        monkeypatch.setenv("https_proxy", via.removesuffix("/v1"))
        with pytest.raises(HttpError, match="proxy"):
            await send(post("https://server.invalid"))


async def test_given_addresses_take_the_place_of_name_resolution() -> None:
    async with raw_server(answering(ANSWER)) as base:
        url = parse(base.replace("127.0.0.1", "name.invalid"))
        client = HttpClient()
        for addresses in ([ip_address("127.0.0.1")], [ip_address("::1"), ip_address("127.0.0.1")]):
            response = await client.send(Request("POST", url, {}, (b"",)), addresses=addresses)
            assert response.status == 200
            response.close()
        await client.close()


# -- closing -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("secure", [False, True])
async def test_another_thread_may_close_a_response_that_is_being_read(
    authority: Authority, monkeypatch: pytest.MonkeyPatch, secure: bool
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    gone = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(HEAD + piece(b"hello"))
        await wait_for_close(reader)
        gone.set()

    client = BlockingClient(keep_seconds=30)
    reading = asyncio.Event()
    loop = asyncio.get_running_loop()

    def read(response: BlockingResponse) -> None:
        assert response.read() == b"hello"
        loop.call_soon_threadsafe(reading.set)
        response.read()

    async with raw_server(serve, authority.context if secure else None) as base, asyncio.timeout(10):
        response = await asyncio.to_thread(client.send, post(base))
        waiting = asyncio.create_task(asyncio.to_thread(read, response))
        await reading.wait()
        while not waiting.done():
            response.close()
            await asyncio.sleep(0.01)
        with pytest.raises(ResponseTruncated):
            await waiting
        await gone.wait()  # the thread that waited has closed the connection
    client.close()


async def test_a_blocking_client_that_is_closed_keeps_no_connection() -> None:
    """A response that is read to its end after that closes its connection."""
    gone = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(ANSWER)
        await wait_for_close(reader)
        gone.set()

    client = BlockingClient(keep_seconds=30)
    async with raw_server(serve) as base, asyncio.timeout(10):
        response = await asyncio.to_thread(client.send, post(base))
        client.close()
        assert (response.read(), response.read()) == (b"hello", b"")
        response.close()
        await gone.wait()
