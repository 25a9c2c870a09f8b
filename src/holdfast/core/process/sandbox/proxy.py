"""The only way from a confined command to the network: an HTTP proxy on a Unix socket.

Invariants
- A host is reached only if the user's list allows it; without its own entry there, only at public addresses.
- The addresses that were judged are the ones connected to; a port on which this runtime listens is never one of them.
- Connections, heads, waiting and silence are bounded. Closing ends every connection."""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from holdfast.core.web.address import AddressPolicy
from holdfast.core.web.errors import FetchFailed
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from holdfast.core.web.address import Resolve

    Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]

CONNECTIONS = 64
HEAD_BYTES = 32 * 1024
HEAD_SECONDS = 10.0
CONNECT_SECONDS = 15.0
SILENCE_SECONDS = 300.0
LINGER_SECONDS = 1.0
CHUNK = 64 * 1024

log = logging.getLogger(__name__)


class _Failure(Exception):
    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class _Request(Frozen):
    host: str
    port: int
    forwarded: bytes
    """What goes to the host before anything else; empty for a tunnel."""
    tunnel: bool


class Proxy:
    """Use as `async with Proxy(...)`. Serves the socket at `path`, which only its owner can open."""

    def __init__(
        self,
        path: Path,
        *,
        hosts: Callable[[], Sequence[str]],
        own_ports: Callable[[], Collection[int]] = frozenset,
        resolve: Resolve | None = None,
        connections: int = CONNECTIONS,
        silence: float = SILENCE_SECONDS,
        head: float = HEAD_SECONDS,
    ) -> None:
        self._path = path
        self._hosts = hosts
        self._own_ports = own_ports
        self._policy = (
            AddressPolicy(own_ports=own_ports)
            if resolve is None
            else AddressPolicy(resolve=resolve, own_ports=own_ports)
        )
        self._limit = connections
        self._silence = silence
        self._head = head
        self._serving: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_unix_server(self._accept, self._path, limit=HEAD_BYTES)
        os.chmod(self._path, 0o600)
        return self

    async def __aexit__(self, *ended: object) -> None:
        await self.close()

    async def close(self) -> None:
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        for task in self._serving:
            task.cancel()
        if self._serving:
            await asyncio.wait(self._serving)
        with suppress(OSError):
            self._path.unlink()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Half as many again are told that there are too many; beyond that the connection is only closed."""
        if len(self._serving) >= self._limit * 3 // 2 + 1:
            writer.close()
            return
        full = len(self._serving) >= self._limit
        work = self._turn_away(reader, writer) if full else self._serve(reader, writer)
        task = asyncio.get_running_loop().create_task(work)
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _turn_away(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await _answer(reader, writer, _Failure("503 Service Unavailable", f"more than {self._limit} connections"))
        finally:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await self._read(reader)
            near, far = await self._connect(request)
            await self._join(request, (reader, writer), (near, far))
        except _Failure as refused:
            await _answer(reader, writer, refused)
        except (OSError, asyncio.IncompleteReadError):
            pass  # it went away
        finally:
            writer.close()

    async def _join(self, request: _Request, command: Stream, host: Stream) -> None:
        """Copy in both directions, until both have ended or nobody has said anything for too long."""
        try:
            if request.tunnel:
                command[1].write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            host[1].write(request.forwarded)
            last = [asyncio.get_running_loop().time()]
            async with asyncio.TaskGroup() as group:
                ways = [
                    group.create_task(_copy(command[0], host[1], last)),
                    group.create_task(_copy(host[0], command[1], last)),
                ]
                group.create_task(self._end_silence(ways, last))
        finally:
            host[1].close()

    async def _read(self, reader: asyncio.StreamReader) -> _Request:
        try:
            async with asyncio.timeout(self._head):
                head = await reader.readuntil(b"\r\n\r\n")
        except TimeoutError:
            raise _Failure("408 Request Timeout", "the request did not arrive in time") from None
        except asyncio.LimitOverrunError:
            raise _Failure("431 Request Header Fields Too Large", f"more than {HEAD_BYTES} bytes of head") from None
        return _parse(head)

    async def _connect(self, request: _Request) -> Stream:
        exempt = self._judge(request)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                addresses = await self._policy.vet(request.host, request.port, exempt=exempt)
                if request.port in self._own_ports() and any(address.is_loopback for address in addresses):
                    raise _Failure("403 Forbidden", "this is a port of Holdfast itself")
                for address in addresses:
                    with suppress(OSError):
                        return await asyncio.open_connection(str(address), request.port)
        except FetchFailed as refused:
            raise _Failure("403 Forbidden", f"{request.host}: {refused}") from refused
        except TimeoutError:
            raise _Failure("504 Gateway Timeout", f"{request.host} does not answer") from None
        raise _Failure("502 Bad Gateway", f"{request.host} cannot be reached")

    def _judge(self, request: _Request) -> bool:
        """Whether the host is listed itself, so that it may be private."""
        hosts = self._hosts()
        if any(pattern != "*" and _names(pattern, request.host, request.port) for pattern in hosts):
            return True
        if "*" not in hosts:
            raise _Failure("403 Forbidden", f"{request.host} is not among the hosts of holdfast.sandbox")
        return False

    async def _end_silence(self, ways: Sequence[asyncio.Task[None]], last: list[float]) -> None:
        clock = asyncio.get_running_loop().time
        while not all(way.done() for way in ways):
            left = last[0] + self._silence - clock()
            if left <= 0:
                for way in ways:
                    way.cancel()
                return
            await asyncio.wait(ways, timeout=left, return_when=asyncio.ALL_COMPLETED)


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter, last: list[float]) -> None:
    clock = asyncio.get_running_loop().time
    with suppress(OSError):
        while chunk := await source.read(CHUNK):
            last[0] = clock()
            target.write(chunk)
            await target.drain()
        target.write_eof()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, refused: _Failure) -> None:
    """Waits a moment for the end of the request: closing on unread bytes would take the answer back."""
    body = f"holdfast: {refused}\n".encode()
    head = f"HTTP/1.1 {refused.status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n"
    writer.write(head.encode() + b"Connection: close\r\n\r\n" + body)
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(LINGER_SECONDS):
            await writer.drain()
            writer.write_eof()
            while await reader.read(CHUNK):
                pass


def _parse(head: bytes) -> _Request:
    try:
        line, *fields = head.decode("latin-1").split("\r\n")
        method, target, version = line.split(" ")
        if method == "CONNECT":
            host, port = _place(target)
            return _Request(host, port, b"", tunnel=True)
        scheme, _, rest = target.partition("://")
        place, slash, path = rest.partition("/")
        if scheme.lower() != "http" or "@" in place:
            raise ValueError(target)
        host, port = _place(place, 80)
    except ValueError:
        raise _Failure("400 Bad Request", "not a request to a proxy") from None
    dropped = ("proxy-", "connection:", "keep-alive:", "host:")
    kept = [field for field in fields if field and not field.lower().startswith(dropped)]
    lines = [f"{method} {slash or '/'}{path} {version}", f"Host: {place}", *kept, "Connection: close", "", ""]
    return _Request(host, port, "\r\n".join(lines).encode("latin-1"), tunnel=False)


def _place(text: str, default: int | None = None) -> tuple[str, int]:
    """Raises ValueError."""
    host, colon, port = text.rpartition(":") if not text.endswith("]") else (text, "", "")
    if not colon:
        host, port = text, "" if default is None else str(default)
    number = int(port)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not 0 < number < 65536 or any(character <= " " for character in host):
        raise ValueError(text)
    return host, number


def _names(pattern: str, host: str, port: int) -> bool:
    """`name`, `name:port` or `*.name`; without a port, any."""
    name, colon, number = pattern.rpartition(":")
    if not colon or not number.isdecimal():
        name, number = pattern, str(port)
    name, host = name.strip("[]").lower().rstrip("."), host.lower().rstrip(".")
    if int(number) != port:
        return False
    return host.endswith(name[1:]) if name.startswith("*.") else host == name
