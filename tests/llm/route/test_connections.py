"""Connections to a provider: kept, found stale, through TLS and proxies, and never more unread than is allowed."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, aclosing, suppress
from typing import TYPE_CHECKING

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
from tests.llm.route.test_network import transport, turn
from tests.llm.support import HELLO_CLAUDE, claude

from holdfast.http import connection
from holdfast.http.parser import ResponseParser
from holdfast.llm.errors import LLMError
from holdfast.llm.route.transport import HttpRequest, Timeouts

if TYPE_CHECKING:
    from holdfast.llm.route.network import NetworkTransport

__all__ = ["authority", "direct", "transport"]

pytestmark = pytest.mark.anyio


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    """A server runs on uvloop, a one-shot command on asyncio's own loop."""
    return "asyncio", {"use_uvloop": request.param}


async def ask(transport: NetworkTransport, base: str, *, body: bytes = b"{}", **headers: str) -> bytes:
    response = await transport.send(HttpRequest(f"{base}/chat", headers, [body]))
    try:
        return b"".join([chunk async for chunk in response.chunks()])
    finally:
        await response.close()


# -- keeping -----------------------------------------------------------------------------------------------------------


async def test_a_connection_that_went_stale_is_replaced_at_once(transport: NetworkTransport) -> None:
    """LLM-352: a provider that let go of a kept connection just as it was used costs no attempt and no wait."""
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await read_request(reader)
        writer.write(ANSWER)
        await writer.drain()
        if connections == 1:
            await read_request(reader)  # and says nothing to it

    async with raw_server(serve) as base:
        assert await ask(transport, base) == b"hello"
        assert await ask(transport, base) == b"hello"
    assert connections == 2


async def test_a_connection_that_was_closed_meanwhile_is_not_used(transport: NetworkTransport) -> None:
    """LLM-352"""
    server = Answering(requests=1)
    async with raw_server(server) as base:
        await ask(transport, base)
        await server.closed.wait()
        await ask(transport, base)
    assert server.connections == 2


@pytest.mark.parametrize(
    "answer",
    [
        HEAD.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n") + piece(b"hello") + piece(b""),
        b"HTTP/1.0 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        ANSWER + b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nbad",
    ],
    ids=["says so", "old", "says more than asked"],
)
async def test_a_connection_is_not_kept(transport: NetworkTransport, answer: bytes) -> None:
    server = Answering(answer)
    async with raw_server(server) as base:
        assert await ask(transport, base) == b"hello"
        assert await ask(transport, base) == b"hello"
    assert server.connections == 2


async def test_a_request_is_sent_again_once_at_most(transport: NetworkTransport) -> None:
    """LLM-352: however many connections were kept, a provider that hangs up on each does not get it from all."""
    asked = 0
    gate = asyncio.Barrier(3)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        await read_request(reader)
        await gate.wait()
        writer.write(ANSWER)
        await writer.drain()
        with suppress(asyncio.IncompleteReadError):  # it was let go of with the others
            await read_request(reader)
            asked += 1

    async with raw_server(serve) as base:
        await asyncio.gather(*(ask(transport, base) for _ in range(3)))
        request = HttpRequest(f"{base}/chat", {}, [b"{}"], Timeouts(first_byte=0.2))
        with pytest.raises(LLMError):
            await transport.send(request)
    assert asked == 1


@pytest.mark.parametrize("late", [False, True])
async def test_a_trailer_and_what_follows_an_answer_change_nothing(transport: NetworkTransport, late: bool) -> None:
    """LLM-362: an answer that was complete stays so."""
    head, _, _ = ANSWER.rpartition(piece(b""))
    answer = head + b"0\r\ncontent-encoding: br\r\n\r\n"
    async with raw_server(answering(answer if late else answer + b"\x00 nonsense", close=False)) as base:
        assert await ask(transport, base) == b"hello"
        await transport.close()


async def test_a_large_head_in_several_reads(transport: NetworkTransport) -> None:
    """LLM-363: each byte of it counts once."""
    big = b"x-note: " + b"y" * 40_000 + b"\r\n"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(HEAD[:-2] + big)
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.write(b"\r\n" + piece(b"hello") + piece(b""))
        await writer.drain()

    async with raw_server(serve) as base:
        assert await ask(transport, base) == b"hello"


async def test_a_header_about_length_cannot_be_chosen(transport: NetworkTransport) -> None:
    """LLM-360: nobody downstream may read another request than was sent."""
    with pytest.raises(LLMError, match="length") as caught:
        await transport.send(HttpRequest("http://127.0.0.1:1/v1", {"Transfer-Encoding": "chunked"}, [b"{}"]))
    assert caught.value.reason == "InvalidRequest"


async def test_unexpected_data_closes_a_kept_connection(transport: NetworkTransport) -> None:
    gone = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(ANSWER)
        await writer.drain()
        if gone.is_set():
            return
        writer.write(b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n")
        await wait_for_close(reader)
        gone.set()

    async with raw_server(serve) as base:
        assert await ask(transport, base) == b"hello"
        await gone.wait()
        assert await ask(transport, base) == b"hello"


async def test_an_interim_answer_is_not_the_answer(transport: NetworkTransport) -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"
    async with raw_server(answering(interim + ANSWER)) as base:
        response = await transport.send(HttpRequest(f"{base}/chat", {}, [b"{}"]))
        assert (response.status, "link" in response.headers) == (200, False)
        await response.close()


async def test_a_body_without_length_ends_with_the_connection(transport: NetworkTransport) -> None:
    async with raw_server(answering(b"HTTP/1.1 200 OK\r\n\r\nhello")) as base:
        assert await ask(transport, base) == b"hello"


async def test_a_refusal_in_the_middle_of_a_large_body_is_heard(transport: NetworkTransport) -> None:
    """LLM-335: who says no before everything was sent is understood, and nothing waits for the rest to go out."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 3\r\n\r\nbig")
        await writer.drain()
        await wait_for_close(reader)

    async with raw_server(serve) as base:
        response = await transport.send(HttpRequest(f"{base}/chat", {}, [b"x" * 2**20] * 40))
        assert response.status == 413
        assert [chunk async for chunk in response.chunks()] == [b"big"]
        await response.close()


async def test_a_slow_reader_holds_the_provider_back(
    transport: NetworkTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LLM-373: nothing is dropped, and what waits to be read does not grow without bound."""
    most = 0
    on_body = ResponseParser.on_body

    def watch(self: ResponseParser, data: bytes) -> None:
        nonlocal most
        on_body(self, data)
        most = max(most, self.unread)

    monkeypatch.setattr(ResponseParser, "on_body", watch)
    block = bytes(range(256)) * 256

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(HEAD)
        for _ in range(200):
            writer.write(piece(block))
            await writer.drain()
        writer.write(piece(b""))
        await writer.drain()

    async with raw_server(serve) as base:
        response = await transport.send(HttpRequest(f"{base}/chat", {}, [b"{}"]))
        received = bytearray()
        async for chunk in response.chunks():
            received += chunk
            await asyncio.sleep(0)
        await response.close()
    assert received == block * 200
    assert most < 2 * connection.READ_AHEAD + 2**18


@pytest.mark.parametrize("encoding", ["br", "gzip, gzip"])
async def test_an_encoding_that_nobody_asked_for(transport: NetworkTransport, encoding: str) -> None:
    """LLM-362"""
    head = HEAD.replace(b"\r\n\r\n", b"\r\ncontent-encoding: %s\r\n\r\n" % encoding.encode())
    async with raw_server(answering(head + piece(b"?") + piece(b""))) as base:
        with pytest.raises(LLMError, match="encoded") as caught:
            await ask(transport, base)
    assert caught.value.reason == "InvalidProviderOutput"


# -- addresses ---------------------------------------------------------------------------------------------------------


async def test_a_name_and_password_in_the_address(transport: NetworkTransport) -> None:
    seen: list[dict[str, str]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append((await read_request(reader))[0])
        writer.write(ANSWER)
        await writer.drain()

    async with raw_server(serve) as base:
        await ask(transport, base.replace("http://", "http://me:p%40ss@"))
        await ask(transport, base.replace("http://", "http://me:p%40ss@"), authorization="Bearer k")
    assert [headers["authorization"] for headers in seen] == ["Basic bWU6cEBzcw==", "Bearer k"]
    assert "@" not in seen[0]["host"]


# -- TLS and proxies ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_tls_connects_when_one_of_several_addresses_answers(
    transport: NetworkTransport, authority: Authority, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    """LLM-360: also where a name has several addresses and only one of them answers."""
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    async with raw_server(Answering(), authority.context) as here:
        base = here.replace("127.0.0.1", host)
        assert await ask(transport, base) == b"hello"
        assert await ask(transport, base, body=b"x" * 2_000_000) == b"hello"


async def test_a_certificate_that_nobody_vouches_for(transport: NetworkTransport, authority: Authority) -> None:
    """LLM-352: that does not pass by trying again."""
    async with raw_server(Answering(), authority.context) as base:
        with pytest.raises(LLMError, match="certificate") as caught:
            await ask(transport, base)
    assert (caught.value.reason, caught.value.kind, caught.value.retryable) == ("Transport", "connect", False)


async def test_a_proxy_tunnels_https_and_forwards_http(
    transport: NetworkTransport, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plain address is asked for whole, a secure one through a tunnel that shows nothing but where it leads."""
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    proxy = ForwardProxy()
    async with AsyncExitStack() as stack:
        secure = await stack.enter_async_context(raw_server(Answering(), authority.context))
        plain = await stack.enter_async_context(raw_server(Answering()))
        via = (await stack.enter_async_context(raw_server(proxy))).removesuffix("/v1").replace("//", "//me:secret@")
        for name in ("http_proxy", "https_proxy"):
            monkeypatch.setenv(name, via)
        assert await ask(transport, plain) == b"hello"
        assert await ask(transport, secure, authorization="Bearer k") == b"hello"
        assert await ask(transport, secure, authorization="Bearer k") == b"hello"
        await transport.close()
    first, second = proxy.asked
    assert first[":request"] == f"POST {plain}/chat HTTP/1.1"
    assert second[":request"].startswith("CONNECT 127.0.0.1:")
    assert {each["proxy-authorization"] for each in proxy.asked} == {"Basic bWU6c2VjcmV0"}
    assert "authorization" not in second


@pytest.mark.parametrize("answer", NO_TUNNELS.values(), ids=NO_TUNNELS)
async def test_a_proxy_that_does_not_connect(
    transport: NetworkTransport, monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    async with raw_server(ForwardProxy(refuse=answer)) as via:
        monkeypatch.setenv("https_proxy", via.removesuffix("/v1"))
        with pytest.raises(LLMError, match="proxy") as caught:
            await ask(transport, "https://provider.invalid/v1")
    assert (caught.value.reason, caught.value.kind) == ("Transport", "connect")


async def test_a_kind_of_proxy_that_is_not_known(transport: NetworkTransport, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("all_proxy", "socks5://127.0.0.1:1")
    with pytest.raises(LLMError) as caught:
        await ask(transport, "http://127.0.0.1:1/v1")
    assert caught.value.reason == "InvalidRequest"
    assert "socks5 proxy" in caught.value.message


# -- ends --------------------------------------------------------------------------------------------------------------


async def test_closing_the_transport_lets_go_of_kept_connections(transport: NetworkTransport) -> None:
    """LLM-010"""
    gone = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(ANSWER)
        await writer.drain()
        await wait_for_close(reader)
        gone.set()

    async with raw_server(serve) as base:
        await ask(transport, base)
        await transport.close()
        await gone.wait()


async def test_cut_at_every_byte_an_answer_ends(transport: NetworkTransport) -> None:
    """LLM-362: wherever the connection ends, there is a typed error or the whole answer, and never a wait."""
    answer = HEAD + piece(b"hel") + piece(b"lo") + piece(b"")
    server = CutAnswer(answer)
    async with raw_server(server) as base:
        for server.cut in range(len(answer)):
            with pytest.raises(LLMError) as caught:
                await ask(transport, base)
            assert caught.value.kind == ("connect" if server.cut < len(HEAD) else "read")
        server.cut = len(answer)
        assert await ask(transport, base) == b"hello"


async def test_a_limit_on_the_answer_of_a_kept_connection(transport: NetworkTransport) -> None:
    """LLM-354"""
    asked = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        while not reader.at_eof():
            await read_request(reader)
            asked += 1
            if asked == 1:
                writer.write(ANSWER)
                await writer.drain()

    async with raw_server(serve) as base:
        await ask(transport, base)
        request = HttpRequest(f"{base}/chat", {}, [b"{}"], Timeouts(first_byte=0.05))
        with pytest.raises(LLMError, match="first-byte limit"):
            await transport.send(request)


@pytest.mark.parametrize("late", [True, False], ids=["its end comes later", "its end never comes"])
async def test_an_answer_of_which_all_was_heard_leaves_its_connection(
    transport: NetworkTransport, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    """LLM-227, LLM-009: the turn is over with the last event, and the connection as soon as the body is; one that
    goes on after that is closed."""
    monkeypatch.setattr(connection, "LINGER_SECONDS", 30 if late else 0.05)
    connections = 0
    go, gone = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await read_request(reader)
        writer.write(HEAD + piece(HELLO_CLAUDE))
        if late:
            await go.wait()
            writer.write(piece(b""))
            await read_request(reader)
            writer.write(HEAD + piece(HELLO_CLAUDE) + piece(b""))
        await wait_for_close(reader)
        gone.set()

    async with raw_server(serve) as base:
        await turn(transport, claude(base_url=base))
        go.set()
        if late:
            while not transport._http()._idle:  # noqa: ASYNC110 - the last bytes are on their way
                await asyncio.sleep(0.01)
            await turn(transport, claude(base_url=base))
            await transport.close()
        await gone.wait()
    assert connections == 1


async def test_reading_may_stop_at_any_time(transport: NetworkTransport) -> None:
    """LLM-009: an answer that had come whole leaves its connection, even if nobody read it to its end."""
    server = Answering()
    async with raw_server(server) as base:
        for _ in range(3):
            response = await transport.send(HttpRequest(f"{base}/chat", {}, [b"{}"]))
            async with aclosing(response.chunks()) as chunks:  # type: ignore[type-var]
                await anext(chunks)
            await response.close()
    assert server.connections == 1
