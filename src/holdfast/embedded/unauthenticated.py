"""Connections on which nobody has shown a credential yet. They are open to whoever can reach the port, so there are
only so many of them.

Invariants
- There are never more than the limit. A further one takes the place of the one that has been idle for longest; only if
  none is idle, of the one that has been waiting for its answer for longest.
- A connection leaves once its caller has shown credentials, and is never closed to make room."""

from __future__ import annotations

from typing import Protocol

LIMIT = 128


class Droppable(Protocol):
    def drop(self) -> None:
        """Close at once; this connection is not in the list any more."""


class UnauthenticatedConnections:
    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._idle: dict[Droppable, None] = {}
        self._busy: dict[Droppable, None] = {}

    def __len__(self) -> int:
        return len(self._idle) + len(self._busy)

    def add(self, connection: Droppable) -> None:
        while len(self) >= self._limit:
            oldest = next(iter(self._idle or self._busy))
            self.remove(oldest)
            oldest.drop()
        self._idle[connection] = None

    def busy(self, connection: Droppable) -> None:
        """It has sent a request that is being answered."""
        if connection in self._idle:
            del self._idle[connection]
            self._busy[connection] = None

    def idle(self, connection: Droppable) -> None:
        """Its request was answered, without credentials."""
        if connection in self._busy:
            del self._busy[connection]
            self._idle[connection] = None

    def remove(self, connection: Droppable) -> None:
        self._idle.pop(connection, None)
        self._busy.pop(connection, None)
