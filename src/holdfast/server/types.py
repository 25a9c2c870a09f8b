"""Names for what ASGI passes around, and what a handler gets and gives."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from holdfast.core.runtime import Runtime
    from holdfast.protocol.endpoint import Endpoint
    from holdfast.schema.location import Location
    from holdfast.schema.session import Session

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Call(NamedTuple):
    """A request after authorization, routing and decoding. `session` is set on Session-scoped endpoints, `location`
    on Location-scoped ones."""

    endpoint: Endpoint
    runtime: Runtime
    headers: Mapping[str, str]
    params: Any = None
    query: Any = None
    payload: Any = None
    session: Session | None = None
    location: Location | None = None


class PageOf(NamedTuple):
    items: list[Any]
    previous: str | None
    next: str | None


class HistoryOf(NamedTuple):
    items: list[Any]
    has_more: bool


Frames = AsyncIterator[bytes]
Handler = Callable[[Call], Awaitable[Any]]
