"""An in-memory transport with streaming: the application runs in its own task, its body goes through a bounded buffer.

- An application whose body nobody reads waits when the buffer is full.
- A caller that is cancelled disconnects: the application is told, and never cancelled.
- A body outlives the task that opened it. A body that is dropped without being closed disconnects."""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

from holdfast.client.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping

    from holdfast.client.transport import Request
    from holdfast.embedded.asgi_socket import AsgiSocket

    Application = Callable[[MutableMapping[str, Any], Any, Any], Awaitable[None]]

T = TypeVar("T")

CLOSED = "the host is not open; use it inside its `with` block"
BUFFER_BYTES = 256 * 1024
GRACE_SECONDS = 5.0


class AsgiTransport:
    def __init__(self, application: Application) -> None:
        self._application = application
        self._tasks: set[asyncio.Task[None]] = set()

    async def send(self, request: Request) -> AsgiResponse:
        exchange = _Exchange(request.body or b"")
        task = asyncio.get_running_loop().create_task(self._run(request, exchange), name=f"embedded {request.target}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            await _within(request.timeout, exchange.started.wait())
        except (ClientError, asyncio.CancelledError):
            exchange.disconnect()
            raise
        if exchange.failure is not None and exchange.empty:
            raise _transport_error(exchange.failure)
        return AsgiResponse(exchange, request.timeout)

    async def open_socket(self, request: Request) -> AsgiSocket:
        """A WebSocket in memory, for terminals."""
        from holdfast.embedded.asgi_socket import AsgiSocket

        socket = AsgiSocket()
        scope = {**_scope(request), "type": "websocket", "scheme": "ws", "extensions": {"websocket.http.response": {}}}
        task = asyncio.get_running_loop().create_task(socket.run(self._application, scope), name="embedded socket")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            await _within(request.timeout, socket.opened())
        except (ClientError, asyncio.CancelledError):
            await socket.close()
            raise
        return socket

    async def close(self) -> None:
        """Wait for running requests, at most `GRACE_SECONDS`, then cancel them. Streams must have been ended before."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=GRACE_SECONDS)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)

    async def _run(self, request: Request, exchange: _Exchange) -> None:
        try:
            await self._application(_scope(request), exchange.receive, exchange.send)
        except Exception as error:  # noqa: BLE001 - raised in the reader of the body
            exchange.failure = error
        finally:
            exchange.finish()


class _Exchange:
    def __init__(self, body: bytes) -> None:
        self._body: bytes | None = body
        self._buffer: deque[bytes] = deque()
        self._size = 0
        self._readable = asyncio.Event()
        self._writable = asyncio.Event()
        self._gone = asyncio.Event()
        self._ended = False
        self.started = asyncio.Event()
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.failure: Exception | None = None

    @property
    def empty(self) -> bool:
        """Whether no part of the body waits to be read."""
        return not self._buffer

    async def receive(self) -> dict[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if self._gone.is_set():
            raise OSError("the client has disconnected")
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], list(message["headers"])
            return
        if body := message.get("body", b""):
            self._buffer.append(body)
            self._size += len(body)
        self._ended = not message.get("more_body", False)
        self.started.set()
        self._readable.set()
        while self._size > BUFFER_BYTES and not self._gone.is_set():
            self._writable.clear()
            await self._writable.wait()

    async def take(self) -> bytes:
        """The parts of the body that have arrived; empty at its end."""
        while not self._buffer:
            if self.failure is not None:
                raise _transport_error(self.failure)
            if self._ended:
                return b""
            self._readable.clear()
            await self._readable.wait()
        taken = b"".join(self._buffer)
        self._buffer.clear()
        self._size = 0
        self._writable.set()
        return taken

    def finish(self) -> None:
        if not self._ended and self.failure is None and not self._gone.is_set():
            self.failure = RuntimeError("the application ended without finishing its response")
        self._ended = True
        self.started.set()
        self._readable.set()

    def disconnect(self) -> None:
        self._gone.set()
        self._writable.set()


class AsgiResponse:
    def __init__(self, exchange: _Exchange, timeout: float | None) -> None:
        self._exchange = exchange
        self._timeout = timeout
        self._finalizer = weakref.finalize(self, exchange.disconnect)
        self.status = exchange.status
        headers = dict(exchange.headers)
        self.content_type = headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip()

    async def read(self) -> bytes:
        return b"".join([chunk async for chunk in self.chunks()])

    async def chunks(self) -> AsyncIterator[bytes]:
        while chunk := await _within(self._timeout, self._exchange.take()):
            yield chunk

    async def close(self) -> None:
        self._finalizer()


def _scope(request: Request) -> dict[str, Any]:
    path, _, query = request.target.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in request.headers.items()],
        "client": None,
        "server": ("embedded", None),
    }


async def _within(seconds: float | None, waiting: Awaitable[T]) -> T:
    try:
        async with asyncio.timeout(seconds):
            return await waiting
    except TimeoutError as error:
        raise ClientError("Transport", f"no answer within {seconds:g} s") from error


def _transport_error(failure: Exception) -> ClientError:
    if isinstance(failure, ClientError):
        return failure
    error = ClientError("Transport", f"the embedded server failed: {type(failure).__name__}: {failure}")
    error.__cause__ = failure
    return error
