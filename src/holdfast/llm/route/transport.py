"""The seam to the outside: one HTTP exchange with a streamed body."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping


class Timeouts(NamedTuple):
    """Seconds; None is no limit. There is no universal one: a provider's configuration decides."""

    connect: float | None = 30.0
    first_byte: float | None = None
    idle: float | None = None


class HttpRequest(NamedTuple):
    url: str
    headers: Mapping[str, str]
    body: bytes
    timeouts: Timeouts = Timeouts()


class HttpResponse(Protocol):
    status: int
    content_type: str

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives. Raises LLMError when reading fails."""

    async def close(self) -> None:
        """Let go of the connection, whatever was read."""


class Transport(Protocol):
    async def send(self, request: HttpRequest) -> HttpResponse:
        """POST and return once the response's head has arrived. Raises LLMError."""

    async def close(self) -> None: ...


class SchemeTransport:
    """Chooses by URL scheme, so that an offline model travels the same road as a real one."""

    def __init__(self, schemes: Mapping[str, Transport]) -> None:
        self._schemes = schemes

    async def send(self, request: HttpRequest) -> HttpResponse:
        return await self._schemes[request.url.partition(":")[0]].send(request)

    async def close(self) -> None:
        for transport in set(self._schemes.values()):
            await transport.close()
