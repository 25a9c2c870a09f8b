"""ASGI types, and the input and output types of handlers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from holdfast.core.location.services import LocationServices
    from holdfast.core.runtime.runtime import Runtime
    from holdfast.protocol.endpoint import Endpoint
    from holdfast.schema.location import Location
    from holdfast.schema.session import Session

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class ApiCall(Frozen):
    """A request after authorization, routing and decoding. `session` is set for Session-scoped endpoints, `location`
    for Location-scoped ones."""

    endpoint: Endpoint
    runtime: Runtime
    headers: Mapping[str, str]
    params: Any = None
    query: Any = None
    payload: Any = None
    session: Session | None = None
    location: Location | None = None

    @property
    def services(self) -> AbstractAsyncContextManager[LocationServices]:
        """The services of the endpoint's Location."""
        place = self.session.location if self.session is not None else self.location
        assert place is not None
        return self.runtime.locations.use(place)


class PageOf(Frozen):
    items: list[Any]
    previous: str | None
    next: str | None


class HistoryOf(Frozen):
    items: list[Any]
    has_more: bool


class RawBody(Frozen):
    data: bytes
    media_type: str


class HttpReply(Frozen):
    """A response without the headers that all responses have."""

    status: int
    body: bytes
    media_type: str = "application/json"
    headers: Sequence[tuple[bytes, bytes]] = ()


Headers = list[tuple[bytes, bytes]]
Frames = AsyncGenerator[bytes, None]
Handler = Callable[[ApiCall], Awaitable[Any]]
