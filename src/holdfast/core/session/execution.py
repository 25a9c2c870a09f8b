"""Executing Sessions: from a Session id alone to its Location's runner, one drain at a time, under a lease."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from holdfast.core.database.errors import Refused
from holdfast.core.session.errors import Interrupted
from holdfast.core.session.ownership import LOST
from holdfast.core.session.run_coordinator import RunCoordinator
from holdfast.schema.live_event import Busy, ErrorInfo, Idle, SessionError, SessionStatus, Status

if TYPE_CHECKING:
    from holdfast.core.event.log import EventLog
    from holdfast.core.location.service_map import ServiceMap
    from holdfast.core.location.services import LocationServices
    from holdfast.core.session.interrupt import Interrupt
    from holdfast.core.session.ownership import Ownership
    from holdfast.core.session.store import SessionStore
    from holdfast.schema.location import Location

log = logging.getLogger(__name__)


class Execution:
    """One per process. Callers wait for drains; they never run one."""

    def __init__(
        self, events: EventLog, store: SessionStore, locations: ServiceMap[LocationServices], ownership: Ownership
    ) -> None:
        self._log = events
        self._store = store
        self._locations = locations
        self._ownership = ownership
        self._coordinator: RunCoordinator[str] = RunCoordinator(self._drain)
        ownership.serve(self._obey)

    def wake(self, session_id: str) -> None:
        """There may be something to do. Returns at once and cannot fail."""
        self._coordinator.wake(session_id)

    async def run(self, session_id: str) -> None:
        """Continue from history even with nothing pending, or join what runs; shares its outcome."""
        await self._coordinator.run(session_id)

    async def wait(self, session_id: str) -> None:
        """Returns when nothing executes this Session, here or in another process."""
        await self._coordinator.wait(session_id)
        await self._ownership.wait_elsewhere(session_id)

    async def interrupt(self, session_id: str) -> None:
        """Returns once the running work, here or elsewhere, has ended and is recorded. Idle: nothing to do."""
        await self._coordinator.interrupt(session_id)
        await self._ownership.interrupt_elsewhere(session_id)

    async def active(self) -> list[str]:
        return sorted({*self._coordinator.active(), *await self._ownership.all_elsewhere()})

    async def close(self) -> None:
        await self._coordinator.close()

    async def _obey(self, kind: str, session_id: str) -> None:
        if kind == "wake":
            self._coordinator.wake(session_id)
        elif kind == "interrupt":
            await self._coordinator.interrupt(session_id)

    async def _drain(self, session_id: str, force: bool, interrupt: Interrupt) -> None:
        location: Location | None = None
        try:
            if force and await self._ownership.elsewhere(session_id) is not None:
                # Joining across processes: wait for the other one, and do not run again on top of it.
                joined = self._ownership.wait_elsewhere(session_id)
                await interrupt.cancellable(joined, name="another process's drain")
                force = False
            if not force and not await self._store.waiting(session_id):
                interrupt.check()
                return
            location = (await self._store.get(session_id)).location
            self._announce(session_id, location, Busy())
            while not await self._attempt(session_id, location, force, interrupt):
                pass  # another process was a moment faster; see what is left to do
        except Interrupted:
            raise
        except Exception as error:
            self._report(session_id, location, error)
            raise
        finally:
            if location is not None:
                self._announce(session_id, location, Idle())

    async def _attempt(self, session_id: str, location: Location, force: bool, interrupt: Interrupt) -> bool:
        """One try at draining; False when the lease went to someone else at the last moment."""

        async def wanted() -> bool:
            return force or bool(await self._store.waiting(session_id))

        interrupt.check()
        if not await wanted():
            return True
        lease = await self._ownership.acquire(session_id, interrupt, wanted)
        if lease is None:
            interrupt.check()
            return True
        try:
            async with self._locations.use(location) as services:
                await services.runner.drain(session_id, lease, interrupt)
            return True
        except Refused as refused:
            if refused.reason == LOST:
                return False
            raise
        finally:
            self._ownership.release(lease)

    def _announce(self, session_id: str, location: Location, status: Status) -> None:
        self._log.announce(SessionStatus(session_id=session_id, status=status), location=location)

    def _report(self, session_id: str, location: Location | None, error: Exception) -> None:
        log.warning("the drain of %s failed: %s: %s", session_id, type(error).__name__, error)
        info = ErrorInfo(name="UnknownError", data={"message": str(error)})
        self._log.announce(SessionError(session_id=session_id, error=info), location=location)
