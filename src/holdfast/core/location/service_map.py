"""One set of services per Location: built at first use, shared, released when idle for long, or when many others have
been idle for less long."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from holdfast.schema.location import Location

IDLE_SECONDS = 60 * 60.0
MOST_IDLE = 100
"""Idle Locations that are kept: each has services in memory, and may have processes of MCP servers."""

log = logging.getLogger(__name__)


class Closable(Protocol):
    @property
    def busy(self) -> bool:
        """Whether something runs here that nobody need be looking at."""

    async def close(self) -> None: ...


S = TypeVar("S", bound=Closable)


class _Slot(Generic[S]):
    def __init__(self, building: asyncio.Task[S]) -> None:
        self.building = building
        self.users = 0
        self.release: asyncio.TimerHandle | None = None


class ServiceMap(Generic[S]):
    def __init__(
        self, build: Callable[[Location], Awaitable[S]], *, idle: float = IDLE_SECONDS, most: int = MOST_IDLE
    ) -> None:
        self._build = build
        self._idle = idle
        self._most = most
        self._slots: dict[Location, _Slot[S]] = {}
        self._unused: dict[Location, _Slot[S]] = {}
        """Those that nobody uses, the one that is idle for longest first."""
        self._closing: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def use(self, location: Location) -> AsyncIterator[S]:
        """The Location's services, kept alive at least until the block ends."""
        slot = self._slots.get(location)
        if slot is None:
            building = asyncio.get_running_loop().create_task(self._built(location))
            slot = self._slots[location] = _Slot(building)
        slot.users += 1
        self._unused.pop(location, None)
        if slot.release is not None:
            slot.release.cancel()
            slot.release = None
        try:
            yield await asyncio.shield(slot.building)
        finally:
            slot.users -= 1
            failed = slot.building.done() and (slot.building.cancelled() or slot.building.exception() is not None)
            if failed:  # a failed start is not kept: the next use tries again
                if self._slots.get(location) is slot:
                    del self._slots[location]
            elif slot.users == 0:
                self._rest(location, slot)
                for place, unused in tuple(self._unused.items())[: -self._most]:
                    self._idled(place, unused)

    def opened(self) -> tuple[Location, ...]:
        """Those whose services are there, or are being built."""
        return tuple(self._slots)

    def built(self) -> dict[Location, S]:
        """The services that are there. Looking at them does not keep them open."""
        done = {place: slot.building for place, slot in self._slots.items() if slot.building.done()}
        return {
            place: task.result() for place, task in done.items() if not task.cancelled() and task.exception() is None
        }

    def __contains__(self, location: Location) -> bool:
        return location in self._slots

    async def close(self) -> None:
        for location, slot in tuple(self._slots.items()):
            self._release(location, slot)
        if self._closing:
            await asyncio.wait(self._closing)

    async def _built(self, location: Location) -> S:
        return await self._build(location)

    def _rest(self, location: Location, slot: _Slot[S]) -> None:
        """Keep what nobody uses for some time."""
        if slot.release is not None:
            slot.release.cancel()
        self._unused.pop(location, None)
        self._unused[location] = slot
        slot.release = asyncio.get_running_loop().call_later(self._idle, self._idled, location, slot)

    def _idled(self, location: Location, slot: _Slot[S]) -> None:
        if slot.building.result().busy:
            self._rest(location, slot)
        else:
            self._release(location, slot)

    def _release(self, location: Location, slot: _Slot[S]) -> None:
        self._unused.pop(location, None)
        if slot.release is not None:
            slot.release.cancel()
        if self._slots.get(location) is slot:
            del self._slots[location]
        task = asyncio.get_running_loop().create_task(self._close(slot))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _close(self, slot: _Slot[S]) -> None:
        try:
            await (await slot.building).close()
        except Exception:
            log.exception("closing the services of a location")
