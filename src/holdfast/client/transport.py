"""The seam below a client: one request, one response with a body that can be streamed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping


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


class SyncTransport(Protocol):
    def send(self, request: Request) -> SyncResponse:
        """Raises ClientError with reason Transport."""

    def close(self) -> None: ...
