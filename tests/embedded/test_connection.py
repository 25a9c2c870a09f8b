"""What a connection may cost before anybody has shown a credential."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn

from holdfast.embedded import connection
from holdfast.embedded.connection import HEAD_BYTES, Connection

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
async def serving() -> AsyncIterator[int]:
    server = uvicorn.Server(uvicorn.Config(answering, http=Connection, lifespan="off", log_level="critical"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
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


@pytest.mark.parametrize(
    "pieces",
    [
        (b"GET /", MEBIBYTE, MEBIBYTE),
        (GET + b"x: ", MEBIBYTE, MEBIBYTE),
        (GET, MEBIBYTE, MEBIBYTE),
        (GET, *[b"x: " + b"y" * 60_000 + b"\r\n"] * 40),
        (POST + b"0\r\n", *[b"x: " + b"y" * 60_000 + b"\r\n"] * 40),
    ],
    ids=["path", "value", "name", "many", "after the body"],
)
async def test_a_head_without_end_is_refused(pieces: tuple[bytes, ...]) -> None:
    """API-010, API-011: no more of it is kept than the bound, and others are served."""
    async with serving() as port:
        answer = await exchange(port, *pieces)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 400 ")
        assert (await exchange(port, GET + b"connection: close\r\n\r\n")).endswith(b"\r\n\r\nok")


async def test_a_large_head_within_the_bound_is_served() -> None:
    """API-006: and so is the next request on the same connection, after a body as large."""
    large = GET + b"x: " + b"y" * (HEAD_BYTES - 1_000) + b"\r\n\r\n"
    body = b"100000\r\n" + MEBIBYTE + b"\r\n0\r\n\r\n"
    async with serving() as port:
        answer = await exchange(port, large, POST, body * 1, large, GET + b"connection: close\r\n\r\n")

    assert answer.count(b"HTTP/1.1 200 OK") == 4


@pytest.mark.parametrize("begun", [b"", b"GET / HT", GET], ids=["nothing", "a line", "a header"])
async def test_a_head_that_never_comes_is_not_waited_for(begun: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """API-011: a connection that says nothing is closed."""
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.05)
    async with serving() as port:
        assert await exchange(port, begun) == b""


async def test_a_request_may_take_its_time_once_its_head_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """API-204: the bound is on the head alone."""
    monkeypatch.setattr(connection, "HEAD_SECONDS", 0.5)
    async with serving() as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(POST)
        await asyncio.sleep(0.8)
        writer.write(b"0\r\n\r\n")
        async with asyncio.timeout(PATIENCE):
            assert (await reader.readline()) == b"HTTP/1.1 200 OK\r\n"
        writer.close()
