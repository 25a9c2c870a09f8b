"""Records what a runtime does with its SQLite database, to do the same with another store and compare.

Units and reads are recorded in the order in which SQLite ran them: one lock is held around both."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import apsw
import pytest

from holdfast.core.database.execute import Executor
from holdfast.core.database.reader import Reader
from holdfast.core.database.unit import Row, Unit, Value
from holdfast.schema.frozen import Frozen


class Committing(Frozen):
    unit: Unit
    outcome: Any


class Reading(Frozen):
    name: str
    params: dict[str, Value]
    rows: list[Row]


class Recording:
    def __init__(self) -> None:
        self.steps: list[Committing | Reading] = []
        self.path: str | None = None
        self._lock = threading.RLock()

    @property
    def names(self) -> set[str]:
        """The statements that were used."""
        found = {step.name for step in self.steps if isinstance(step, Reading)}
        for step in self.steps:
            if isinstance(step, Committing):
                found |= {statement.name for statement in statements_of(step.unit)}
        return found

    @contextmanager
    def installed(self) -> Iterator[None]:
        run, read, lock = Executor.run_batch, Reader._read, self._lock

        def run_batch(executor: Executor, units: Sequence[Unit], *, guarded: bool = False) -> list[Any]:
            if not executor.connection.filename or guarded:  # a rehearsal, or again with savepoints
                return run(executor, units, guarded=guarded)
            with lock:
                outcomes = run(executor, units)
                self.path = executor.connection.filename
                self.steps += [Committing(unit, outcome) for unit, outcome in zip(units, outcomes, strict=True)]
                return outcomes

        def read_rows(
            reader: Reader, connection: apsw.Connection, name: str, params: Mapping[str, Value], into: Any
        ) -> list[Any]:
            with lock:
                rows = connection.execute(reader._sql[name], params).fetchall()
                self.steps.append(Reading(name, dict(params), rows))
                return read(reader, connection, name, params, into)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Executor, "run_batch", run_batch)
            patch.setattr(Reader, "_read", read_rows)
            yield

    def tables(self) -> dict[str, list[Row]]:
        """All rows, by table."""
        assert self.path is not None
        connection = apsw.Connection(self.path)
        try:
            named = "select name from sqlite_master where type = 'table' and name not like 'sqlite_%'"
            tables = [str(name) for (name,) in connection.execute(named).fetchall()]
            return {table: connection.execute(f"select * from {table}").fetchall() for table in tables}
        finally:
            connection.close()


def statements_of(unit: Unit) -> Iterator[Any]:
    yield from unit.before
    for event in unit.events:
        yield from event.projections
    yield from unit.local
