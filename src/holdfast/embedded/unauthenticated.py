"""Limits the number of connections whose caller has not shown credentials: everyone who can reach the port can open
them.

Invariants
- There are never more than `most`. Beyond `limit`, connections that have been idle for `GRACE_SECONDS` are closed,
  oldest first: a burst of callers is answered before any of it is closed, and silent connections do not stay.
- At `most`, a new connection replaces the one that has been idle longest; if none is idle, the one that has waited
  longest for its answer.
- A connection is removed from here when its caller has shown credentials, and is then never closed to make room."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio

LIMIT = 128
MOST = 1024
GRACE_SECONDS = 0.5


class Droppable(Protocol):
    def drop(self) -> None:
        """Close the connection at once; it was already removed from the list."""


class UnauthenticatedConnections:
    def __init__(self, limit: int = LIMIT, most: int = MOST, grace: float = GRACE_SECONDS) -> None:
        self._limit = limit
        self._most = most
        self._grace = grace
        self._idle: dict[Droppable, float] = {}
        """Each with the time since it is idle."""
        self._busy: dict[Droppable, None] = {}
        self._trimming = False

    def __len__(self) -> int:
        return len(self._idle) + len(self._busy)

    def add(self, connection: Droppable, loop: asyncio.AbstractEventLoop) -> None:
        while len(self) >= self._most:
            self._drop_oldest()
        self._idle[connection] = loop.time()
        if len(self) > self._limit and not self._trimming:
            self._trimming = True
            loop.call_later(self._grace, self._trim, loop)

    def busy(self, connection: Droppable) -> None:
        """Called when a request of the connection is being answered."""
        if connection in self._idle:
            del self._idle[connection]
            self._busy[connection] = None

    def idle(self, connection: Droppable, loop: asyncio.AbstractEventLoop) -> None:
        """Called when a request without credentials was answered."""
        if connection in self._busy:
            del self._busy[connection]
            self._idle[connection] = loop.time()

    def remove(self, connection: Droppable) -> None:
        self._idle.pop(connection, None)
        self._busy.pop(connection, None)

    def _trim(self, loop: asyncio.AbstractEventLoop) -> None:
        old = loop.time() - self._grace
        while len(self) > self._limit and self._idle and next(iter(self._idle.values())) <= old:
            self._drop_oldest()
        self._trimming = len(self) > self._limit
        if self._trimming:
            loop.call_later(self._grace, self._trim, loop)

    def _drop_oldest(self) -> None:
        oldest = next(iter(self._idle or self._busy))
        self.remove(oldest)
        oldest.drop()
