"""Inputs that a drain was to start and could not: remembered for waiters of this process, and stored with the cause
for everybody."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from holdfast.core.database.errors import StorageError
from holdfast.core.database.unit import Statement

if TYPE_CHECKING:
    from holdfast.core.clock import Clock
    from holdfast.core.database.unit import Value
    from holdfast.core.event.log import EventLog
    from holdfast.core.session.store import SessionStore

LIMIT = 10_000
"""Sessions of which it is remembered that this process could not start some input."""


class Unstarted:
    def __init__(self, events: EventLog, store: SessionStore, clock: Clock) -> None:
        self._log = events
        self._store = store
        self._clock = clock
        self._inputs: OrderedDict[str, frozenset[str]] = OrderedDict()

    def of(self, session_id: str) -> frozenset[str]:
        return self._inputs.get(session_id, frozenset())

    def has(self, session_id: str) -> bool:
        return session_id in self._inputs

    def forget(self, session_id: str) -> None:
        self._inputs.pop(session_id, None)

    async def note(self, session_id: str, pending: frozenset[str]) -> None:
        """So that nobody here waits for what this process has tried in vain."""
        if not pending:
            return
        try:
            left = pending & await self._store.wakes(session_id)
        except StorageError:
            left = pending
        if left:
            self._inputs[session_id] = left
            if len(self._inputs) > LIMIT:
                self._inputs.popitem(last=False)

    async def note_cause(self, session_id: str, error: Exception) -> None:
        """Why pending input does not start, for whoever asks, in any process."""
        if isinstance(error, StorageError) or not await self._store.waiting(session_id):
            return
        row: dict[str, Value] = {
            "session_id": session_id,
            "since": self._clock.now(),
            "name": type(error).__name__,
            "message": str(error),
        }
        await self._log.write(session_id, (), (Statement("blocked.set", row),))
