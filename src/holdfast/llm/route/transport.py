"""The transport interface: one POST with a streamed response. Implementations: network, offline, scripted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from holdfast.llm.errors import LLMError
from holdfast.llm.limits import DEFAULT_LIMITS, AnswerLimits
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence


class Timeouts(Frozen):
    """Seconds; None is no limit. Provider and model configuration decide."""

    connect: float | None = 30.0
    first_byte: float | None = None
    idle: float | None = None
    total: float | None = None


class HttpRequest(Frozen):
    """`body` is in pieces and can be sent again."""

    url: str
    headers: Mapping[str, str]
    body: Sequence[bytes]
    timeouts: Timeouts = Timeouts()
    limits: AnswerLimits = DEFAULT_LIMITS

    @property
    def length(self) -> int:
        return sum(map(len, self.body))


class HttpResponse(Protocol):
    status: int

    @property
    def headers(self) -> Mapping[str, str]:
        """Lower-case names."""

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives. Raises LLMError when reading fails."""

    def release(self) -> None:
        """The rest of the body does not matter; the connection may be reused when it ends."""

    async def close(self) -> None:
        """Close the connection, unless the response is complete or was released."""


class Transport(Protocol):
    async def send(self, request: HttpRequest) -> HttpResponse:
        """POST and return once the response's head has arrived. Raises LLMError."""

    async def close(self) -> None: ...


class SchemeTransport:
    """Chooses a transport by URL scheme, so that offline models use the same code as real ones."""

    def __init__(self, schemes: Mapping[str, Transport]) -> None:
        self._schemes = schemes

    def of(self, url: str) -> Transport:
        scheme = url.partition(":")[0].lower()
        if scheme not in self._schemes:
            raise LLMError("NoRoute", f"nothing here reaches a provider by {scheme[:20]}:")
        return self._schemes[scheme]

    async def send(self, request: HttpRequest) -> HttpResponse:
        return await self.of(request.url).send(request)

    async def close(self) -> None:
        for transport in {id(transport): transport for transport in self._schemes.values()}.values():
            await transport.close()


def content_type(response: HttpResponse) -> str:
    return response.headers.get("content-type", "").partition(";")[0].strip().lower()
