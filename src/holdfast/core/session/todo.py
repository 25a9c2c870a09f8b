"""A Session's todo list: replaced as a whole, as one durable event, and announced when that is stored."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from holdfast.schema.live_event import TodoUpdated
from holdfast.schema.session_event import TodosReplaced
from holdfast.schema.todo import Todo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.clock import Clock
    from holdfast.core.database.database import Database
    from holdfast.core.database.unit import Committed
    from holdfast.core.event.log import EventLog


class Todos:
    def __init__(self, log: EventLog, database: Database, clock: Clock) -> None:
        self._log = log
        self._database = database
        self._clock = clock

    async def get(self, session_id: str) -> tuple[Todo, ...]:
        """The todos of a Session, in their order."""
        return tuple(await self._database.fetch("todo.list", {"session_id": session_id}, into=Todo))

    async def replace(self, session_id: str, todos: Sequence[Todo]) -> None:
        """Replace the list and return when it is stored; an empty list clears it. Cancelling the caller does not
        prevent the announcement."""
        replaced = TodosReplaced(timestamp=self._clock.now(), session_id=session_id, todos=tuple(todos))
        stored = self._log.submit(replaced)

        def announce(stored: asyncio.Future[Committed]) -> None:
            if not stored.cancelled() and stored.exception() is None:
                self._log.announce(TodoUpdated(session_id=session_id, todos=replaced.todos))

        stored.add_done_callback(announce)
        await asyncio.shield(stored)
