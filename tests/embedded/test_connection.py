"""What a connection may cost before anybody has shown a credential."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import uvicorn
from tests.plain_http import loopback_listener

from holdfast.embedded import connection
from holdfast.embedded.connection import HEAD_BYTES, HEADERS, PIPELINED, Connection
from holdfast.embedded.unauthenticated import UnauthenticatedConnections
from holdfast.server.extensions import AUTHENTICATED

pytestmark = pytest.mark.anyio

PATIENCE = 30.0
GET = b"GET / HTTP/1.1\r\nhost: localhost\r\n"
POST = b"POST / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"


async def answering(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
    while (message := await receive())["type"] == "http.request" and message.get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@asynccontextmanager
async def serving(
    application: Any = answering, unauthenticated: UnauthenticatedConnections | None = None
) -> AsyncIterator[int]:
    protocol: Any = partial(Connection, unauthenticated=unauthenticated)
    server = uvicorn.Server(uvicorn.Config(application, http=protocol, lifespan="off", log_level="critical"))
    with loopback_listener() as listener:
        task = asyncio.create_task(server.serve(sockets=[listener]))
        yield int(listener.getsockname()[1])
        server.should_exit = True
        await task


async def exchange(port: int, *pieces: bytes) -> bytes:
    """What comes back until the server closes the connection; it may do so while we are still sending."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    received = b""
    try:
        async with asyncio.timeout(PATIENCE):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            while chunk := await reader.read(65_536):
                received += chunk
    except ConnectionError:
        pass
    finally:
        writer.close()
    return received


MEBIBYTE = b"x" * (1024 * 1024)
ENOUGH = MEBIBYTE[:HEAD_BYTES]
HEADER = b"x: " + b"y" * 6_000 + b"\r\n"


@pytest.mark.parametrize(
    "pieces",
    [
        (b"GET /", ENOUGH, ENOUGH),
        (GET + b"x: ", ENOUGH, ENOUGH, MEBIBYTE),
        (GET, ENOUGH, ENOUGH, MEBIBYTE),
        (GET, *[HEADER] * 12),
        (GET, b"x: y\r\n" * (HEADERS + 1)),
        (POST + b"0\r\n", *[HEADER] * 12),
        (POST + b"0\r\n", b"x: y\r\n" * (HEADERS + 1)),
        (POST + b"0\r\nx: ", ENOUGH, ENOUGH, MEBIBYTE),
        (b"\r\n" * HEAD_BYTES,),
        (GET + b"\r\n", *[b"\r\n" * HEAD_BYTES] * 4),
        (POST, b"5;x=", ENOUGH, ENOUGH, MEBIBYTE),
        ((GET + b"\r\n") * (PIPELINED * 3),),
    ],
    ids=[
        "path",
        "value",
        "name",
        "size",
        "count",
        "size after the body",
        "count after the body",
        "value after the body",
        "empty lines",
        "empty lines after a request",
        "chunk extension",
        "pipelined",
    ],
)
async def test_a_head_without_end_is_refused(pieces: tuple[bytes, ...]) -> None:
    """API-010, API-411: no more of it is kept than the bound, and others are served."""
    async with serving() as port:
        answer = await exchange(port, *pieces)
        assert answer == b"" or b"HTTP/1.1 400 " in answer or answer.startswith(b"HTTP/1.1 200 ")
        assert (await exchange(port, GET + b"connection: close\r\n\r\n")).endswith(b"\r\n\r\nok")


async def test_the_parser_holds_no_more_than_it_may() -> None:
    """API-411: also of what follows an answer, where nobody waits for a head any more."""
    sent = 0
    async with serving() as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(POST + b"0\r\nx: ")
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(PATIENCE):
                while sent < 64 * len(MEBIBYTE):
                    writer.write(MEBIBYTE)
                    await writer.drain()
                    sent += len(MEBIBYTE)
        writer.close()

    assert sent < 64 * len(MEBIBYTE)


async def test_a_large_head_within_the_bound_is_served() -> None:
    """API-006: and so is the next request on the same connection, after a body that is larger."""
    large = GET + b"x: " + b"y" * (HEAD_BYTES - 1_000) + b"\r\n\r\n"
    many = GET + b"".join(b"x-%d: y\r\n" % number for number in range(HEADERS - 1)) + b"\r\n"
    body = b"100000\r\n" + MEBIBYTE + b"\r\n0\r\n\r\n"
    async with serving() as port:
        answer = await exchange(port, large, many, POST, body, large, GET + b"connection: close\r\n\r\n")

    assert answer.count(b"HTTP/1.1 200 OK") == 5


@pytest.mark.parametrize(
    "begun",
    [b"", b"GET / HT", GET, b"\r\n\r\n"],
    ids=["nothing", "a line", "a header", "empty lines"],
)
async def test_a_head_that_never_comes_is_not_waited_for(begun: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """API-411: a connection that says nothing is closed."""
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.05)
    async with serving() as port:
        assert await exchange(port, begun) == b""


async def test_an_empty_line_does_not_keep_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """API-411: it begins no request, but it ends the wait for one."""
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.05)
    async with serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(PATIENCE):
            writer.write(GET + b"\r\n")
            await reader.readuntil(b"\r\n\r\nok")
            writer.write(b"\r\n")
            assert await reader.read() == b""
        writer.close()


async def test_a_request_may_take_its_time_once_its_head_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """API-204: the bound is on the head alone."""
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.1)
    async with serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(POST)
        await asyncio.sleep(0.3)
        writer.write(b"0\r\n\r\n")
        async with asyncio.timeout(PATIENCE):
            assert (await reader.readline()) == b"HTTP/1.1 200 OK\r\n"
        writer.close()


# -- after an answer ---------------------------------------------------------------------------------------------


async def refusing(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
    """As the application does without credentials: from the head alone."""
    if b"let me in" in dict(scope["headers"]).values():
        scope["extensions"][AUTHENTICATED]["report"]()
    await send({"type": "http.response.start", "status": 401, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


async def test_the_rest_of_a_body_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """API-411: the answer came without it; whoever goes on sending is cut off."""
    monkeypatch.setattr(connection, "REST_SECONDS", 0.05)
    async with serving(refusing) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(POST)
        async with asyncio.timeout(PATIENCE):
            with contextlib.suppress(ConnectionError):
                while True:
                    writer.write(b"1\r\nx\r\n")
                    await writer.drain()
                    await asyncio.sleep(0.01)
        writer.close()


async def test_a_body_that_ends_in_time_keeps_the_connection() -> None:
    """API-411: the next request is served on it."""
    async with serving(refusing) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(PATIENCE):
            for request in (POST, b"1\r\nx\r\n0\r\n\r\n" + GET + b"\r\n"):
                writer.write(request)
                assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 401 ")
        writer.close()


# -- connections without credentials -----------------------------------------------------------------------------


class Counted(UnauthenticatedConnections):
    most = 0

    def add(self, connection: Any, loop: asyncio.AbstractEventLoop) -> None:
        super().add(connection, loop)
        self.most = max(self.most, len(self))


async def open_connections(port: int, count: int) -> list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    return [await asyncio.open_connection("127.0.0.1", port) for _ in range(count)]


@pytest.mark.parametrize(("limit", "most"), [(4, 100), (100, 4)], ids=["after a moment", "at once"])
async def test_the_oldest_idle_connections_make_room(limit: int, most: int) -> None:
    """API-412: one that has shown credentials stays, however old it is."""
    waiting = Counted(limit, most, grace=0.05)
    async with serving(refusing, waiting) as port:
        ((reader, writer),) = await open_connections(port, 1)
        writer.write(GET + b"authorization: let me in\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        idle = await open_connections(port, 10)
        async with asyncio.timeout(PATIENCE):
            for dropped, _ in idle[:6]:
                with contextlib.suppress(ConnectionError):
                    assert await dropped.read() == b""
        for alive, speaking in (*idle[6:], (reader, writer)):
            speaking.write(GET + b"\r\n")
            async with asyncio.timeout(PATIENCE):
                assert (await alive.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 401 ")
        assert waiting.most <= most
        assert len(waiting) == 4
        for _, used in (*idle, (reader, writer)):
            used.close()
        async with asyncio.timeout(PATIENCE):
            while len(waiting):  # noqa: ASYNC110
                await asyncio.sleep(0.005)


async def test_a_burst_of_callers_is_heard() -> None:
    """API-412: more of them at once than may stay unauthenticated; none is closed before it could say who it is."""
    async with serving(refusing, UnauthenticatedConnections(2, 100)) as port:
        answers = await asyncio.gather(*(exchange(port, GET + b"connection: close\r\n\r\n") for _ in range(50)))

    assert all(answer.startswith(b"HTTP/1.1 401 ") for answer in answers)


class Line:
    def __init__(self, name: str, dropped: list[str]) -> None:
        self._name = name
        self._dropped = dropped

    def drop(self) -> None:
        self._dropped.append(self._name)


async def test_a_connection_that_is_being_answered_is_the_last_to_go() -> None:
    """API-412: the idle ones first, in the order in which they became idle."""
    loop = asyncio.get_running_loop()
    dropped: list[str] = []
    waiting = UnauthenticatedConnections(3, 3)
    a, b, c, d, e, f = (Line(name, dropped) for name in "abcdef")
    for line in (a, b, c):
        waiting.add(line, loop)
    waiting.busy(a)
    waiting.add(d, loop)
    waiting.busy(c)
    waiting.busy(d)
    waiting.add(e, loop)
    waiting.idle(d, loop)
    waiting.add(f, loop)
    waiting.busy(b)

    assert dropped == ["b", "a", "e"]
    assert len(waiting) == 3
