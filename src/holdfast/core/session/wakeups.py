"""Requests to look at Sessions again, from whoever learns that there may be work for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from holdfast.schema.location import Location


class Worker(Protocol):
    """Executes Sessions."""

    closed: bool

    def wake(self, session_id: str) -> None: ...

    def wake_location(self, location: Location) -> None: ...


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

    def ending(self) -> bool:
        """Whether the process shuts down: what waits for a person then stays open for the next one."""
        return self._worker is not None and self._worker.closed
