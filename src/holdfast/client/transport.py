"""The transport interface below a client: one request, one response with a body that can be streamed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping


NO_SOCKETS = "this transport opens no WebSockets"


class Request(Frozen):
    method: str
    target: str
    """Path and query."""
    headers: Mapping[str, str]
    body: bytes | None = None
    timeout: float | None = None


class Response(Protocol):
    status: int
    content_type: str

    async def read(self) -> bytes: ...

    def chunks(self) -> AsyncIterator[bytes]: ...

    async def close(self) -> None: ...


class SocketClosed(Exception):
    """The other side closed a WebSocket, or the connection broke (code 1006)."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"closed with {code} {reason}".rstrip())
        self.code = code
        self.reason = reason


class SocketRefused(Exception):
    """The server answered the request for a WebSocket with an ordinary response."""

    def __init__(self, status: int, content_type: str, body: bytes) -> None:
        super().__init__(f"the server answered {status}")
        self.status = status
        self.content_type = content_type
        self.body = body


class Socket(Protocol):
    """An open WebSocket."""

    async def receive(self) -> str | bytes:
        """The next message. Raises SocketClosed."""

    async def send(self, text: str) -> None:
        """Raises SocketClosed."""

    async def close(self) -> None: ...


@runtime_checkable
class SocketTransport(Protocol):
    """A transport that can also open WebSockets; terminals need one."""

    async def open_socket(self, request: Request) -> Socket:
        """Raises SocketRefused, or ClientError with reason Transport."""


class AsyncTransport(Protocol):
    async def send(self, request: Request) -> Response:
        """Raises ClientError with reason Transport."""

    async def close(self) -> None: ...


class SyncResponse(Protocol):
    status: int
    content_type: str

    def read(self) -> bytes: ...

    def chunks(self) -> Iterator[bytes]: ...

    def close(self) -> None: ...


class SyncSocket(Protocol):
    def receive(self) -> str | bytes:
        """The next message. Raises SocketClosed."""

    def send(self, text: str) -> None:
        """Raises SocketClosed."""

    def close(self) -> None: ...


@runtime_checkable
class SyncSocketTransport(Protocol):
    def open_socket(self, request: Request) -> SyncSocket:
        """Raises SocketRefused, or ClientError with reason Transport."""


class SyncTransport(Protocol):
    def send(self, request: Request) -> SyncResponse:
        """Raises ClientError with reason Transport."""

    def close(self) -> None: ...
