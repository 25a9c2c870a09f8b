"""A route: which protocol, where, with which headers and limits. An immutable value; nothing registers itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from holdfast.llm.route.transport import Timeouts

if TYPE_CHECKING:
    from holdfast.llm.event import Event
    from holdfast.llm.request import Request


class Decoder(Protocol):
    def feed(self, frame: bytes) -> list[Event]:
        """The events that one frame completes."""

    def finish(self) -> list[Event]:
        """The frames have ended: what is still owed. Raises LLMError when the stream was cut."""


class WireProtocol(Protocol):
    id: str
    path: str

    def encode(self, request: Request) -> bytes: ...

    def decoder(self) -> Decoder: ...


class Route(NamedTuple):
    protocol: WireProtocol
    base_url: str
    headers: tuple[tuple[str, str], ...] = ()
    secret: str | None = None
    """The credential; sent as a bearer token, never shown."""
    timeouts: Timeouts = Timeouts()

    @property
    def url(self) -> str:
        return self.base_url.rstrip("/") + self.protocol.path
