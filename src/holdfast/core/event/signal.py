"""Dirty signals: followers of an aggregate are told that it has new events, not which.

A signal is one sticky flag, so any number of commits while its holder is busy collapse into one wake. Commits of this
process set it directly; those of others are found by asking the database for its version while anyone cares, or by the
gap that they leave before one of ours."""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.core.database.errors import StorageError
from holdfast.core.event.stored_event import NewEvents, Position

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.core.database.database import Database

# Halved on average, this is how late another process's commit is seen; it is also all that idle tails cost.
POLL_SECONDS = 0.033

UNKNOWN = 2**63

log = logging.getLogger(__name__)


class Flag(asyncio.Event):
    """Set after each commit to an aggregate."""

    def __init__(self) -> None:
        super().__init__()
        self.head = -1
        """The last sequence of the aggregate that this process has heard of since; `UNKNOWN` if it moved somehow."""


class Signals:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._flags: dict[str, set[Flag]] = {}
        self._heard: dict[str, int] = {}
        """The last sequence that the followers of an aggregate were told of, if known."""
        self._watchers: set[Callable[[], None]] = set()
        self._position: str | None = None
        self._version = -1
        self._timer: asyncio.TimerHandle | None = None
        self._looking: asyncio.Task[None] | None = None
        self.closed = False

    @contextmanager
    def follow(self, aggregate_id: str) -> Iterator[Flag]:
        """A flag which is set after each commit to this aggregate, by whichever process. An aggregate that nobody
        follows keeps no state."""
        flag = Flag()
        self._flags.setdefault(aggregate_id, set()).add(flag)
        self._start()
        try:
            yield flag
        finally:
            flags = self._flags[aggregate_id]
            flags.discard(flag)
            if not flags:
                del self._flags[aggregate_id]
                self._heard.pop(aggregate_id, None)
            self._stop_if_idle()

    @contextmanager
    def watch(self, changed: Callable[[], None]) -> Iterator[None]:
        """Call `changed` whenever any process has committed anything."""
        self._watchers.add(changed)
        self._start()
        try:
            yield
        finally:
            self._watchers.discard(changed)
            self._stop_if_idle()

    def followed(self) -> frozenset[str]:
        return frozenset(self._flags)

    def committed(self, aggregate_id: str, last: int) -> None:
        """This process has committed to the aggregate, up to `last`."""
        heard = self._heard.get(aggregate_id)
        if heard is not None:
            self._heard[aggregate_id] = max(heard, last)
        self._touch(aggregate_id, last)

    def _touch(self, aggregate_id: str, last: int) -> None:
        for flag in self._flags.get(aggregate_id, ()):
            flag.head = max(flag.head, last)
            flag.set()

    async def close(self) -> None:
        self.closed = True
        self._cancel_timer()
        if self._looking is not None:
            await asyncio.wait({self._looking})
        for aggregate_id in list(self._flags):
            self._touch(aggregate_id, UNKNOWN)

    def _start(self) -> None:
        if self._timer is None and self._looking is None and not self.closed:
            self._version, self._position = -1, None
            self._timer = asyncio.get_running_loop().call_later(POLL_SECONDS, self._poll)

    def _stop_if_idle(self) -> None:
        if not self._flags and not self._watchers:
            self._cancel_timer()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _poll(self) -> None:
        self._timer = None
        if self.closed:
            return
        try:
            version = self._database.version()
        except StorageError:
            log.exception("asking the database for changes")
            version = self._version
        if version == self._version:
            self._timer = asyncio.get_running_loop().call_later(POLL_SECONDS, self._poll)
            return
        self._version = version
        self._looking = asyncio.get_running_loop().create_task(self._look_and_go_on(), name="holdfast-signals")

    async def _look_and_go_on(self) -> None:
        try:
            await self.look()
        finally:
            self._looking = None
            if (self._flags or self._watchers) and not self.closed:
                self._timer = asyncio.get_running_loop().call_later(POLL_SECONDS, self._poll)

    async def look(self) -> None:
        """Ask the database which aggregates have new events, and tell their followers."""
        try:
            moved = await self._moved()
        except StorageError as error:
            log.warning("asking the database what moved: %s", error)
            moved = dict.fromkeys(self._flags, UNKNOWN)
        for aggregate_id, last in moved.items():
            self._touch(aggregate_id, last)
        for changed in tuple(self._watchers):
            changed()

    async def _moved(self) -> dict[str, int]:
        """Aggregates with events that their followers have not been told of, with their last sequences."""
        if self._position is None:
            # What happened between registering and now is unknown, so the first look tells everyone.
            (self._position,) = [
                row.position for row in await self._database.fetch("event.position", {}, into=Position)
            ]
            self._heard.clear()
            return dict.fromkeys(self._flags, UNKNOWN)
        moved: dict[str, int] = {}
        for new in await self._database.fetch("event.moved_since", {"position": self._position}, into=NewEvents):
            self._position = new.position
            heard = self._heard.get(new.aggregate_id, -1)
            if new.aggregate_id in self._flags and new.last != heard:  # lower after it was removed and began again
                self._heard[new.aggregate_id] = new.last
                moved[new.aggregate_id] = new.last if new.last > heard else UNKNOWN
        return moved
