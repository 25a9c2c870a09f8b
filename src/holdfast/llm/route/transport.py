"""The seam to the outside: one exchange with a streamed answer. Real, scripted and recorded ones look alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from holdfast.llm.errors import LLMError
from holdfast.llm.limits import DEFAULT_LIMITS, AnswerLimits
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence


class Timeouts(Frozen):
    """Seconds; None is no limit. There is no universal one: provider and model configuration decide."""

    connect: float | None = 30.0
    first_byte: float | None = None
    idle: float | None = None
    total: float | None = None


class HttpRequest(Frozen):
    """`body` is in pieces and can be sent again; `length` is their sum."""

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
        """Everything that matters was read: the connection may serve again, once the answer is over."""

    async def close(self) -> None:
        """Let go of the connection, whatever was read, unless it was released."""


class Transport(Protocol):
    async def send(self, request: HttpRequest) -> HttpResponse:
        """POST and return once the response's head has arrived. Raises LLMError."""

    async def close(self) -> None: ...


class SchemeTransport:
    """Chooses by URL scheme, so that an offline model travels the same road as a real one."""

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
