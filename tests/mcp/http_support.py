"""An MCP server over HTTP in this process, whose answers a test writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
from tests.mcp.support import EVERYTHING, Json

from holdfast.mcp.capabilities import Implementation
from holdfast.mcp.client import Client
from holdfast.mcp.handlers import Handlers
from holdfast.mcp.http_exchange import HttpExchange
from holdfast.mcp.streamable_http import StreamableHttp
from holdfast.mcp.timeouts import Timeouts

INFO = Implementation(name="tests", version="1")
RESULT: Json = {"content": [{"type": "text", "text": "done"}]}
OPENING: Json = {"protocolVersion": "2025-11-25", "capabilities": EVERYTHING, "serverInfo": {"name": "http"}}
DISCOVERY: Json = {"supportedVersions": ["2026-07-28"], "capabilities": EVERYTHING}


class Incoming(msgspec.Struct):
    verb: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def message(self) -> Json:
        return msgspec.json.decode(self.body) if self.body else {}

    @property
    def method(self) -> str:
        """The method of the message, or the verb of a request without one."""
        return str(self.message.get("method", "answer")) if self.body else self.verb


class Reply(msgspec.Struct):
    status: int = 200
    headers: dict[str, str] = {}
    body: bytes = b""
    events: list[Any] | None = None
    """Pieces of a stream: bytes, a wait for an asyncio.Event, or EOF to break off."""


BREAK_OFF: Any = object()
FOREVER: Any = object()


def answer(request: Incoming, result: Any, **headers: str) -> Reply:
    message = {"jsonrpc": "2.0", "id": request.message["id"], "result": result}
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(200, {"content-type": "application/json", **given}, msgspec.json.encode(message))


def failure(request: Incoming, status: int, code: int, message: str, *, id: Any = ...) -> Reply:
    error = {
        "jsonrpc": "2.0",
        "id": request.message["id"] if id is ... else id,
        "error": {"code": code, "message": message},
    }
    return Reply(status, {"content-type": "application/json"}, msgspec.json.encode(error))


def event(message: Any, *, id: str | None = None, retry: int | None = None) -> bytes:
    lines = [f"id: {id}"] if id is not None else []
    lines += [f"retry: {retry}"] if retry is not None else []
    data = msgspec.json.encode(message).decode() if message is not None else ""
    return "\n".join([*lines, f"data: {data}", "", ""]).encode()


def result_event(request: Incoming, result: Any, **more: Any) -> bytes:
    return event({"jsonrpc": "2.0", "id": request.message["id"], "result": result}, **more)


def stream(*events: Any) -> Reply:
    return Reply(200, {"content-type": "text/event-stream"}, events=list(events))


Route = Reply | Callable[[Incoming], Reply]


class HttpServer:
    """Replies by the method of the message, or by the verb of a request without one."""

    def __init__(self, routes: dict[str, Route] | None = None) -> None:
        self.received: list[Incoming] = []
        self.routes: dict[str, Route] = {
            "initialize": lambda request: answer(request, OPENING),
            "notifications/initialized": Reply(202),
            "notifications/cancelled": Reply(202),
            "answer": Reply(202),
            "GET": Reply(405),
            "DELETE": Reply(204),
            **(routes or {}),
        }
        self.url = ""
        self.connections = 0
        self._arrived = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()

    def requests(self, method: str) -> list[Incoming]:
        return [request for request in self.received if request.method == method]

    async def request(self, method: str, count: int = 1) -> Incoming:
        """The request of that method, as soon as it has come."""
        async with asyncio.timeout(10):
            while len(found := self.requests(method)) < count:
                self._arrived.clear()
                await self._arrived.wait()
        return found[count - 1]

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
        try:
            yield self.url
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks)
            await server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while await self._exchange(reader, writer):
                    pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        verb, path, _ = first.split(" ")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        request = Incoming(verb, path, headers, body)
        self.received.append(request)
        self._arrived.set()
        route = self.routes.get(request.method, Reply(400, {"content-type": "text/plain"}, b"not here"))
        reply = route(request) if callable(route) else route
        return await self._reply(reply, writer)

    async def _reply(self, reply: Reply, writer: asyncio.StreamWriter) -> bool:
        lines = [f"HTTP/1.1 {reply.status} X", *(f"{name}: {value}" for name, value in reply.headers.items())]
        if reply.events is None:
            lines.append(f"content-length: {len(reply.body)}")
            writer.write("\r\n".join([*lines, "", ""]).encode() + reply.body)
            await writer.drain()
            return True
        writer.write("\r\n".join([*lines, "transfer-encoding: chunked", "", ""]).encode())
        for piece in reply.events:
            if piece is BREAK_OFF:
                return False
            if piece is FOREVER:
                await asyncio.Event().wait()
            elif isinstance(piece, asyncio.Event):
                await piece.wait()
            else:
                writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


@asynccontextmanager
async def http_client(
    server: HttpServer,
    handlers: Handlers | None = None,
    *,
    timeouts: Timeouts | None = None,
    frame_limit: int = 100_000,
    version: str | None = None,
    delays: list[float] | None = None,
    **options: Any,
) -> AsyncIterator[Client]:
    """Delays are noted, not waited for."""

    async def sleep(seconds: float) -> None:
        if delays is not None:
            delays.append(seconds)
        await asyncio.sleep(0.001)

    async with server.serving() as url:
        transport = StreamableHttp(HttpExchange(url, **options), frame_limit=frame_limit, sleep=sleep)
        client = Client(transport, INFO, handlers or Handlers(), timeouts=timeouts)
        try:
            await client.start(version=version, last_version=version or "2025-11-25")
            yield client
        finally:
            await client.close()
