"""Requests to whatever executes Sessions, from those that learn that there may be work, or that it is to stop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from holdfast.schema.location import Location


class Worker(Protocol):
    """Executes Sessions."""

    closed: bool

    def wake(self, session_id: str) -> None: ...

    def wake_location(self, location: Location) -> None: ...

    def here(self, session_id: str) -> bool: ...

    def go_on(self, session_id: str) -> None: ...

    async def stop(self, session_id: str) -> None: ...


class Wakeups:
    """One per process. Built before the worker, because what the worker needs also wakes Sessions."""

    def __init__(self) -> None:
        self._worker: Worker | None = None

    def serve(self, worker: Worker) -> None:
        self._worker = worker

    def session(self, session_id: str) -> None:
        """There may be something to do for this Session. Returns at once."""
        if self._worker is not None:
            self._worker.wake(session_id)

    def location(self, location: Location) -> None:
        """Input of this Location that could not start may start now. Returns at once."""
        if self._worker is not None:
            self._worker.wake_location(location)

    def executing(self, session_id: str) -> bool:
        """Whether this process executes the Session right now."""
        return self._worker is not None and self._worker.here(session_id)

    def go_on(self, session_id: str) -> None:
        """Decide about what an ended process left in this Session, as the policy says; then look for input. Returns at
        once."""
        if self._worker is not None:
            self._worker.go_on(session_id)

    async def stop(self, session_id: str) -> None:
        """Interrupt what runs in this Session, and give up what it owes."""
        if self._worker is not None:
            await self._worker.stop(session_id)

    def ending(self) -> bool:
        """Whether the process shuts down: what waits for a person then stays open for the next one."""
        return self._worker is not None and self._worker.closed
