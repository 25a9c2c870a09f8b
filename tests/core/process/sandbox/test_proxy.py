"""The proxy of confined commands."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.process.sandbox.proxy import HEAD_BYTES, Proxy
from holdfast.core.web.address import Address

pytestmark = pytest.mark.anyio
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Origin:
    """A server that keeps what it was sent."""

    def __init__(self) -> None:
        self.heads: list[bytes] = []
        self.port = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self.heads.append(await reader.readuntil(b"\r\n\r\n"))
        except asyncio.IncompleteReadError:
            writer.close()
            return
        writer.write(ANSWER)
        await writer.drain()
        writer.close()


@pytest.fixture
async def origin() -> AsyncIterator[Origin]:
    origin = Origin()
    server = await asyncio.start_server(origin.answer, "127.0.0.1", 0)
    origin.port = server.sockets[0].getsockname()[1]
    yield origin
    server.close()
    await server.wait_closed()


async def resolve(host: str, port: int) -> Collection[Address]:
    return [ip_address("10.0.0.1" if host == "inside.test" else "127.0.0.1")]


@asynccontextmanager
async def proxy(*hosts: str, **options: Any) -> AsyncIterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s"
        async with Proxy(path, hosts=lambda: hosts, resolve=resolve, **options):
            yield path


async def ask(path: Path, request: bytes, *, end: bool = True) -> bytes:
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(request)
    if end:
        writer.write_eof()
    try:
        async with asyncio.timeout(10):
            return await reader.read()
    finally:
        await closed(writer)


async def closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


async def test_plain_requests_are_forwarded_without_what_was_for_the_proxy(origin: Origin) -> None:
    """TOL-378."""
    async with proxy("named.test") as path:
        head = f"GET http://named.test:{origin.port}/a?b HTTP/1.1\r\nHost: other.test\r\n"
        answer = await ask(path, f"{head}Proxy-Authorization: x\r\nConnection: keep-alive\r\nX: y\r\n\r\n".encode())
    assert answer == ANSWER
    assert origin.heads == [
        f"GET /a?b HTTP/1.1\r\nHost: named.test:{origin.port}\r\nX: y\r\nConnection: close\r\n\r\n".encode()
    ]


async def test_the_proxy_tunnels_to_allowed_hosts(origin: Origin) -> None:
    """TOL-378."""
    async with proxy(f"*.named.test:{origin.port}") as path:
        request = f"CONNECT a.named.test:{origin.port} HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n"
        answer = await ask(path, request.encode())
    assert answer == b"HTTP/1.1 200 Connection established\r\n\r\n" + ANSWER


@pytest.mark.parametrize(
    ("hosts", "target", "reason"),
    [
        (("*",), "loop.test", b"address"),
        (("*",), "inside.test", b"address"),
        (("*",), "169.254.169.254", b"address"),
        (("*",), "[::1]", b"address"),
        (("named.test",), "other.test", b"is not among the hosts"),
        (("named.test",), "xnamed.test", b"is not among the hosts"),
        (("*.named.test",), "named.test", b"is not among the hosts"),
        (("named.test:1",), "named.test", b"is not among the hosts"),
    ],
)
async def test_hosts_that_are_not_allowed(origin: Origin, hosts: tuple[str, ...], target: str, reason: bytes) -> None:
    """TOL-378: private addresses only by name, and with a list nothing beside it."""
    async with proxy(*hosts) as path:
        answer = await ask(path, f"CONNECT {target}:{origin.port} HTTP/1.1\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert reason in answer
    assert origin.heads == []


async def test_the_runtime_itself_cannot_be_reached(origin: Origin) -> None:
    """TOL-378: not even by a host that the user listed."""
    async with proxy("127.0.0.1", own_ports=lambda: {origin.port}) as path:
        answer = await ask(path, f"CONNECT 127.0.0.1:{origin.port} HTTP/1.1\r\n\r\n".encode())
    assert b"403" in answer
    assert b"a port of Holdfast itself" in answer


@pytest.mark.parametrize(
    "request_line",
    [
        "GET / HTTP/1.1",
        "GET https://a.test/ HTTP/1.1",
        "GET http://user@a.test/ HTTP/1.1",
        "CONNECT a.test HTTP/1.1",
        "CONNECT :1 HTTP/1.1",
        "CONNECT a.test:99999 HTTP/1.1",
        "nonsense",
    ],
)
async def test_a_malformed_proxy_request_is_refused(request_line: str) -> None:
    """TOL-378."""
    async with proxy("*") as path:
        assert (await ask(path, f"{request_line}\r\n\r\n".encode())).startswith(b"HTTP/1.1 400 ")


async def test_the_proxy_bounds_heads_waits_and_connections(origin: Origin) -> None:
    """TOL-378: of heads, of waiting, of silence and of connections."""
    async with proxy("*", head=0.05) as path:
        assert b" 431 " in await ask(path, b"GET " + b"x" * (2 * HEAD_BYTES), end=False)
        assert b" 408 " in await ask(path, b"GET ", end=False)
    async with proxy("a.test", silence=0.05, connections=1) as path:
        request = f"CONNECT a.test:{origin.port} HTTP/1.1\r\n\r\n".encode()
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(request)
        assert b"200" in await reader.readuntil(b"\r\n\r\n")
        assert b" 503 " in await ask(path, request)
        async with asyncio.timeout(10):
            assert await reader.read() == b""  # nobody said anything
        await closed(writer)


async def test_closing_ends_connections_and_removes_the_socket(origin: Origin) -> None:
    """TOL-378."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s"
        async with Proxy(path, hosts=lambda: ("a.test",), resolve=resolve):
            assert path.stat().st_mode & 0o777 == 0o600
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(f"CONNECT a.test:{origin.port} HTTP/1.1\r\n\r\n".encode())
            await reader.readuntil(b"\r\n\r\n")
        assert await reader.read() == b""
        await closed(writer)
        assert not path.exists()
