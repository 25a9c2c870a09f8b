"""What the projections of an aggregate would be: units run on an empty SQLite database in memory, whatever the store.

So the projections of another store are compared with what SQLite makes of the same events, and those of an earlier time
are read with the statements of the live ones."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Self

import apsw

from holdfast.core.database.execute import Executor
from holdfast.core.database.queries import load_queries
from holdfast.core.database.rows import row_mapper
from holdfast.core.database.sqlite import MEMORY, BusyWait, connect, latest_schema
from holdfast.core.run_to_completion import run_to_completion

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType

    from holdfast.core.database.read import Read
    from holdfast.core.database.unit import NewEvent, Row, Statement, Value

PROJECTIONS = (
    *("session", "lineage", "messages", "parts", "inbox", "todos", "attachments", "instructions"),
    *("instruction_entries", "turn", "activity", "requests", "tasks", "budget"),
)


class Rehearsal:
    """A temporary database. It may be used from any thread, by one at a time. What is awaited runs on another thread
    than the loop's, and to its end, so that closing it comes after that."""

    def __init__(self) -> None:
        self._connection = connect(MEMORY, BusyWait())
        self._connection.execute(latest_schema()).fetchall()
        self._connection.execute("pragma foreign_keys=off")
        self._queries = load_queries()
        self._executor = Executor(self._connection, self._queries)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    async def projections(
        self, aggregate_id: str, events: Iterable[NewEvent], before: Iterable[Statement] = ()
    ) -> dict[str, list[Row]]:
        """What the projections of an aggregate would be after these statements and events. Nothing of it is kept, so
        that the next aggregate finds an empty database again."""
        return await run_to_completion(asyncio.to_thread(self._projections, aggregate_id, events, before))

    async def project(self, events: Iterable[NewEvent]) -> None:
        """Run the projections of events, as a rebuild does. The events themselves are not stored."""
        await run_to_completion(asyncio.to_thread(self._project, events))

    def rows(self, name: str, params: Mapping[str, Value], into: Any = None) -> list[Any]:
        cursor = self._connection.execute(self._queries[name], params)
        if into is None:
            return cursor.fetchall()
        try:
            columns = [column[0] for column in cursor.get_description()]
        except apsw.ExecutionCompleteError:  # there are no rows
            return []
        return row_mapper(into, columns)(cursor.fetchall())

    async def fetch(self, name: str, params: Mapping[str, Value], into: Any = None) -> list[Any]:
        return await run_to_completion(asyncio.to_thread(self.rows, name, params, into))

    fetch_large = fetch

    async def fetch_many(self, *reads: Read) -> list[list[Any]]:
        return [await self.fetch(read.name, read.params, read.into) for read in reads]

    fetch_large_many = fetch_many

    def _project(self, events: Iterable[NewEvent]) -> None:
        with self._connection:
            self._executor.project(events)

    def _projections(
        self, aggregate_id: str, events: Iterable[NewEvent], before: Iterable[Statement]
    ) -> dict[str, list[Row]]:
        self._connection.execute("begin")
        try:
            for statement in before:
                self._executor.execute(statement)
            self._executor.project(events)
            return {table: self.rows(f"projection.{table}", {"id": aggregate_id}) for table in PROJECTIONS}
        finally:
            self._connection.execute("rollback")
