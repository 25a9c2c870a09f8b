"""What the projections of an aggregate would be: units run on an empty SQLite database in memory, whatever the store.

So the projections of another store are compared with what SQLite makes of the same events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.database.execute import Executor
from holdfast.core.database.queries import load_queries
from holdfast.core.database.sqlite import MEMORY, BusyWait, connect, latest_schema

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.database.unit import Row, Unit

PROJECTIONS = (
    *("session", "lineage", "messages", "parts", "inbox", "todos", "attachments", "instructions"),
    *("instruction_entries", "turn", "activity", "requests", "tasks", "budget"),
)


def rehearse(units: Iterable[Unit], aggregate_id: str) -> dict[str, list[Row]]:
    scratch = connect(MEMORY, BusyWait())
    try:
        scratch.execute(latest_schema()).fetchall()
        scratch.execute("pragma foreign_keys=off")
        queries = load_queries()
        executor = Executor(scratch, queries)
        for unit in units:
            (outcome,) = executor.run_batch([unit])
            if isinstance(outcome, Exception):
                raise outcome
        return {
            table: scratch.execute(queries[f"projection.{table}"], {"id": aggregate_id}).fetchall()
            for table in PROJECTIONS
        }
    finally:
        scratch.close()
