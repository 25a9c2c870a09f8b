"""The live bus: every event is encoded once and the same bytes go to every subscriber.

A subscriber has a bounded buffer. One that falls behind gets what is buffered, then an error; nobody waits for it."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable

from holdfast.core.event.errors import SubscriberOverflow
from holdfast.schema.frozen import Frozen

CAPACITY = 256
BUFFER_BYTES = 32 * 1024 * 1024
"""Limit of one buffer. A single event may be larger: an event is never dropped for its size alone."""

log = logging.getLogger(__name__)


class Announcement(Frozen):
    """One event on its way to observers. `wire` is the complete JSON of the event."""

    id: str
    type: str
    aggregate_id: str | None
    """For a live event: its Session, if it has one."""
    wire: bytes
    seq: int | None = None
    """Only durable events have it."""
    relayed: bool = False
    """Whether another process announced it first."""
    ancestors: tuple[str, ...] = ()
    """Further Sessions whose observers get it: those above the Session of a request to a person."""


Listener = Callable[[Announcement], None]
Filter = Callable[[Announcement], bool]


class Subscription:
    def __init__(
        self,
        bus: Bus,
        types: frozenset[str] | None,
        capacity: int,
        aggregate_id: str | None,
        accepts: Filter | None = None,
    ) -> None:
        self._bus = bus
        self._types = types
        self._aggregate_id = aggregate_id
        self._accepts = accepts
        self._capacity = capacity
        self._buffer: deque[Announcement] = deque()
        self._size = 0
        self._ready = asyncio.Event()
        self._overflowed = False
        self._closed = False

    def offer(self, announcement: Announcement) -> None:
        if self._overflowed or (self._types is not None and announcement.type not in self._types):
            return
        if self._accepts is not None and not self._accepts(announcement):
            return
        wanted = self._aggregate_id
        if wanted is not None and announcement.aggregate_id != wanted and wanted not in announcement.ancestors:
            return
        self._size += len(announcement.wire)
        if self._buffer and (len(self._buffer) >= self._capacity or self._size > BUFFER_BYTES):
            self.overflow()
        else:
            self._buffer.append(announcement)
            self._ready.set()

    def overflow(self) -> None:
        """Take nothing more. What is buffered is delivered, then an error."""
        self._overflowed = True
        self._bus.drop(self)
        self._ready.set()

    async def next(self) -> list[Announcement]:
        """Wait for events and return all that arrived; empty when the bus is closed."""
        while not self._buffer:
            if self._overflowed:
                raise SubscriberOverflow(self._capacity)
            if self._closed:
                return []
            self._ready.clear()
            await self._ready.wait()
        return self.take()

    def take(self) -> list[Announcement]:
        """All events that have arrived, without waiting."""
        taken = list(self._buffer)
        self._buffer.clear()
        self._size = 0
        return taken

    async def __aiter__(self) -> AsyncIterator[Announcement]:
        while batch := await self.next():
            for announcement in batch:
                yield announcement

    def finish(self) -> None:
        """End the subscription. Buffered events are still delivered."""
        self._closed = True
        self._ready.set()

    def close(self) -> None:
        self._bus.drop(self)
        self.finish()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class Bus:
    """Order for one event: listeners in registration order, subscribers of its type, subscribers of everything."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []
        self._typed: list[Subscription] = []
        self._all: list[Subscription] = []

    @property
    def observed(self) -> bool:
        """Whether anyone would see a live event; publishing deltas can be skipped when not."""
        return bool(self._listeners or self._typed or self._all)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` for each event, on the loop, before subscribers get it. Returns a function that stops it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def subscribe(
        self,
        types: frozenset[str] | None = None,
        *,
        capacity: int = CAPACITY,
        aggregate_id: str | None = None,
        accepts: Filter | None = None,
    ) -> Subscription:
        """Subscribe to events of these types, of this aggregate, and that `accepts` takes; or to all."""
        subscription = Subscription(self, types, capacity, aggregate_id, accepts)
        (self._all if types is None else self._typed).append(subscription)
        return subscription

    def announce(self, announcement: Announcement) -> None:
        for listener in tuple(self._listeners):
            try:
                listener(announcement)
            except Exception:
                # A faulty observer must not undo a commit or abort a turn.
                log.exception("listener failed on event %s (%s)", announcement.id, announcement.type)
        for subscription in (*self._typed, *self._all):
            subscription.offer(announcement)

    def drop(self, subscription: Subscription) -> None:
        for group in (self._typed, self._all):
            if subscription in group:
                group.remove(subscription)

    def close(self) -> None:
        for subscription in (*self._typed, *self._all):
            subscription.finish()
        self._typed.clear()
        self._all.clear()
