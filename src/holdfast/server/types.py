"""ASGI types, and the input and output types of handlers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, MutableMapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.schema.exceptions import ServiceUnavailable
from holdfast.schema.frozen import Frozen
from holdfast.server.caller import Caller

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from holdfast.core.location.services import LocationServices
    from holdfast.core.runtime.runtime import Runtime
    from holdfast.protocol.endpoint import Endpoint
    from holdfast.schema.location import Location
    from holdfast.schema.session import Session
    from holdfast.server.disk_floor import DiskFloor
    from holdfast.server.stream_ends import StreamEnd

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


ABANDONED = "The caller has disconnected, or the server stops. Nothing was done."

OWNER = Caller("local")

T = TypeVar("T")


async def _never() -> None:
    await asyncio.get_running_loop().create_future()


class ApiCall(Frozen):
    """A request after authorization, routing and decoding. `session` is set for Session-scoped endpoints, `location`
    for Location-scoped ones. One of them is set for those of forms."""

    endpoint: Endpoint
    runtime: Runtime
    headers: Mapping[str, str]
    params: Any = None
    query: Any = None
    payload: Any = None
    session: Session | None = None
    location: Location | None = None
    by_node: bool = False
    """Whether another node has authorized the caller and passed the request on."""
    abandoned: Callable[[], Coroutine[Any, Any, None]] = _never
    """Returns when the caller has disconnected or the server stops."""
    disconnected: Callable[[], Coroutine[Any, Any, None]] = _never
    """Returns when the caller has disconnected."""
    caller: Caller = OWNER
    holding: Callable[[], AbstractAsyncContextManager[None]] = nullcontext
    """Around each stored page that is sent to a follower."""
    end: Callable[[str], None] = lambda id: None
    """Ends the streams of a token that was revoked."""
    disk: DiskFloor | None = None

    async def while_connected(self, work: Coroutine[Any, Any, T], *, also_stopping: bool = False) -> T:
        """Run work that may wait for a person and has no effect before it ends: it is cancelled when the caller
        disconnects or the server stops, unless it ends by itself then (`also_stopping`). All other work is finished
        whether or not the caller stays."""
        leaves = self.disconnected() if also_stopping else self.abandoned()
        running, leaving = asyncio.ensure_future(work), asyncio.ensure_future(leaves)
        try:
            await asyncio.wait({running, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                raise ServiceUnavailable(ABANDONED)
            return running.result()
        finally:
            running.cancel()
            leaving.cancel()
            await asyncio.wait({running, leaving})
            for task in (running, leaving):
                if not task.cancelled():
                    task.exception()  # marks a failure that nobody asks for as retrieved

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
    sent: Callable[[], Awaitable[None]] | None = None
    """Called when it was sent or dropped."""


Headers = list[tuple[bytes, bytes]]
Frames = AsyncGenerator[bytes, None]


class Streamed(Frozen):
    """An answer of server-sent events."""

    frames: Frames
    ended: StreamEnd | None = None
    """Set when the caller's sign-in or token has ended."""
    released: Callable[[], None] | None = None
    """Called when the stream has ended, where streams are counted."""


Handler = Callable[[ApiCall], Awaitable[Any]]
