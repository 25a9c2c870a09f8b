"""Runs commit units in one SQLite transaction (group commit). Each unit is applied as a whole or not at all.

A batch first runs without savepoints. If a unit fails, the batch runs again with a savepoint for each unit, so that
the other units are committed. Failures are rare, and savepoints cost time.

Invariants
- No caller is told "committed" before COMMIT has returned.
- A unit that fails does not affect other units, and nothing of it is written.
- When SQLite ends the whole transaction itself (disk full, I/O error), the units of the batch run again one by one,
  so that exactly the acknowledged ones exist.
- When the outcome of COMMIT is unknown, the log is read to find which events exist before any caller is answered.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NoReturn

import apsw
from msgspec.structs import asdict

from holdfast.core.database.errors import Fenced, Moved, Refused
from holdfast.core.database.replay import Verdict, invalid_event, judge_replay
from holdfast.core.database.unit import Committed, Replay, Statement, Unit
from holdfast.schema.exceptions import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.database.job import Outcome
    from holdfast.core.database.unit import NewEvent


class Void(Exception):
    """SQLite rolled the whole transaction back in the middle of a batch."""


class Executor:
    """Runs units on a connection that its caller owns."""

    def __init__(self, connection: apsw.Connection, queries: dict[str, str]) -> None:
        self.connection = connection
        self.sql = queries

    def run_batch(self, units: Sequence[Unit], *, guarded: bool = False) -> list[Outcome]:
        connection = self.connection
        try:
            connection.execute("begin immediate")
            outcomes = [self._run_saved(unit) if guarded else self._run(unit) for unit in units]
            connection.execute("commit")
            return list(outcomes)
        except Exception as error:  # noqa: BLE001 - every caller gets an answer and the thread goes on
            if connection.in_transaction:
                connection.execute("rollback")
            if isinstance(error, apsw.BusyError):
                return [error] * len(units)  # waiting again for each unit would multiply the limit
            if isinstance(error, apsw.IOError):
                return [self._after_io_error(unit, error, alone=len(units) == 1) for unit in units]
            if len(units) == 1:
                return [error]
            if not guarded and not isinstance(error, apsw.FullError):
                return self.run_batch(units, guarded=True)
            return [self.run_batch([unit])[0] for unit in units]

    def run_rebuild(self, unit: Unit) -> Outcome:
        """Run one unit without foreign keys: a rebuild deletes and inserts rows that others refer to."""
        self.connection.execute("pragma foreign_keys=off")
        try:
            return self.run_batch([unit])[0]
        finally:
            self.connection.execute("pragma foreign_keys=on")

    def _run_saved(self, unit: Unit) -> Outcome:
        connection = self.connection
        connection.execute("savepoint unit")
        try:
            outcome: Outcome = self._run(unit)
        except Exception as error:
            if not connection.in_transaction:
                raise Void from error
            connection.execute("rollback to unit")
            outcome = error
        connection.execute("release unit")
        return outcome

    def _run(self, unit: Unit) -> Committed:
        for statement in unit.before:
            self.execute(statement)
        if unit.fence is not None and not self._rows("lease.fence", asdict(unit.fence)):
            raise Fenced(unit.fence.session_id)
        if unit.rebuild:
            return self._reproject(unit)
        if not unit.events:
            for statement in unit.local:
                self.execute(statement)
            return Committed(-1, -1)
        if (begins_at := unit.events[0].begins_at) is not None:
            self.execute(Statement("event.begin", {"aggregate_id": unit.aggregate_id}), begins_at - 1)
        if unit.replay is not None and not self._admit_replay(unit, unit.replay):
            return Committed(unit.replay.seq, unit.replay.seq, applied=False)
        first = self._advance(unit)
        try:
            self._append(unit, first)
        except (HoldfastError, apsw.ConstraintError) as error:
            self._reject_reused(unit, first, error)
            raise
        return Committed(first, first + len(unit.events) - 1)

    def _append(self, unit: Unit, first: int) -> None:
        for seq, event in zip(itertools.count(first), unit.events, strict=False):
            for statement in event.projections:
                self.execute(statement, seq)
        last = first + len(unit.events) - 1
        for statement in unit.local:
            self.execute(statement, last)
        rows = (
            {
                "id": event.id,
                "aggregate_id": unit.aggregate_id,
                "seq": seq,
                "type": event.type,
                "data": event.data,
                "metadata": event.metadata,
            }
            for seq, event in zip(itertools.count(first), unit.events, strict=False)
        )
        self.connection.executemany(self.sql["event.append"], rows)

    def _reject_reused(self, unit: Unit, first: int, cause: Exception) -> None:
        """Raise for a reused event id, which is the reason for whatever else failed."""
        for event in unit.events:
            for aggregate_id, seq in self._rows("event.place", {"id": event.id}):
                assert isinstance(seq, int)
                if aggregate_id != unit.aggregate_id or seq < first:
                    raise invalid_event(event, f"Event {event.id} already exists at {aggregate_id}:{seq}") from cause

    def _advance(self, unit: Unit) -> int:
        """Reserve the next sequences of the aggregate and return the first."""
        size = len(unit.events)
        key = {"aggregate_id": unit.aggregate_id, "size": size}
        ((last,),) = self.connection.execute(self.sql["event.advance"], key).fetchall()
        assert isinstance(last, int)
        return last - size + 1

    def _admit_replay(self, unit: Unit, replay: Replay) -> bool:
        latest, owner = self._head(unit.aggregate_id)
        place = {"aggregate_id": unit.aggregate_id, "seq": replay.seq}
        verdict = judge_replay(unit, replay, latest, owner, lambda: self._rows("event.at", place))
        if verdict is not Verdict.FOREIGN and replay.owner_id is not None and owner is None:
            self.execute(
                Statement("event.claim", {"aggregate_id": unit.aggregate_id, "owner_id": replay.owner_id}),
            )
        return verdict is Verdict.NEXT

    def project(self, events: Iterable[NewEvent]) -> int:
        """Run the projections of events that have their sequences; returns the last of these, or -1."""
        last = -1
        for event in events:
            assert event.seq is not None
            last = event.seq
            for statement in event.projections:
                if not statement.operational:
                    self.execute(statement, last)
        return last

    def _reproject(self, unit: Unit) -> Committed:
        last = self.project(unit.events)
        latest, _ = self._head(unit.aggregate_id)
        if latest != last:
            raise Moved(unit.aggregate_id)
        return Committed(0, last)

    def _after_io_error(self, unit: Unit, error: Exception, *, alone: bool) -> Outcome:
        """The outcome of COMMIT is unknown. A unit that the log has is committed; any other runs once more, alone."""
        try:
            stored = self._already_stored(unit)
        except apsw.Error:
            return error
        if stored is not None:
            return stored
        return error if alone else self.run_batch([unit])[0]

    def _already_stored(self, unit: Unit) -> Committed | None:
        """The commit of this unit, if the log has it."""
        if not unit.events or unit.rebuild:
            return None
        place = self._rows("event.place", {"id": unit.events[0].id})
        if not place:
            return None
        first = place[0][1]
        assert isinstance(first, int)
        return Committed(first, first + len(unit.events) - 1)

    def _head(self, aggregate_id: str) -> tuple[int, str | None]:
        rows = self.connection.execute(self.sql["event.head"], {"aggregate_id": aggregate_id}).fetchall()
        if not rows:
            return -1, None
        seq, owner = rows[0]
        assert isinstance(seq, int)
        assert owner is None or isinstance(owner, str)
        return seq, owner

    def _rows(self, name: str, params: dict[str, object]) -> list[tuple[object, ...]]:
        return self.connection.execute(self.sql[name], params).fetchall()

    def execute(self, statement: Statement, seq: int | None = None) -> None:
        params = statement.params if seq is None else {**statement.params, "seq": seq}
        cursor = self.connection.execute(self.sql[statement.name], params)
        # Read to the end: a statement left in the middle would keep this connection's snapshot, and the next write
        # would find that another process has moved on.
        if statement.found is not None and bool(cursor.fetchall()) != statement.found:
            _refuse(statement, "nothing found" if statement.found else "something found")
        if statement.changes is not None and (changed := self.connection.changes()) != statement.changes:
            _refuse(statement, f"changed {changed} rows, not {statement.changes}")


def _refuse(statement: Statement, found: str) -> NoReturn:
    refused = Refused(f"{statement.name}: {found}")
    if statement.error is None:
        raise refused
    raise statement.error() from refused
