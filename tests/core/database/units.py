"""Commit units without projections, and ways to look at the file from outside."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from holdfast.core.database.database import SqliteDatabase
from holdfast.core.database.unit import Committed, NewEvent, Statement, Unit, Value

AGGREGATE = "ses_one"
HOLDING = "ses_holding"
_numbers = itertools.count()


def unit(
    id: str,
    *,
    aggregate: str = AGGREGATE,
    size: int = 0,
    projections: tuple[Statement, ...] = (),
    before: tuple[Statement, ...] = (),
    local: tuple[Statement, ...] = (),
) -> Unit:
    """One event whose payload has about `size` bytes."""
    event = NewEvent(id, "probe.happened.1", '{"pad":"' + "x" * size + '"}', None, projections)
    return Unit(aggregate, events=(event,), before=before, local=local)


def project_row(id: str) -> Statement:
    return Statement("project.ensure", {"id": id, "worktree": "/w", "vcs": None, "time_created": 1})


def raw(path: Path) -> apsw.Connection:
    """Another program's view of the file."""
    return apsw.Connection(str(path), vfs="unix")


def rows(path: Path, sql: str, params: tuple[Value, ...] = ()) -> list[tuple[Any, ...]]:
    connection = raw(path)
    try:
        return connection.execute(sql, params).fetchall()
    finally:
        connection.close()


def event_ids(path: Path) -> list[str]:
    """Stored events in the order of their commit, after checking that no sequence has a hole."""
    stored = rows(path, "select aggregate_id, seq, id from event order by position")
    for aggregate in {row[0] for row in stored}:
        seqs = [row[1] for row in stored if row[0] == aggregate]
        assert seqs == list(range(len(seqs)))
        assert rows(path, "select seq from event_sequence where aggregate_id = ?", (aggregate,)) == [(len(seqs) - 1,)]
    return [row[2] for row in stored if row[0] != HOLDING]


@contextmanager
def write_lock(path: Path) -> Iterator[None]:
    """Another process in the middle of a write."""
    connection = raw(path)
    connection.execute("begin immediate")
    try:
        yield
    finally:
        connection.execute("rollback")
        connection.close()


async def in_one_batch(database: SqliteDatabase, units: Sequence[Unit]) -> list[Committed | BaseException]:
    """Hand units over while the writer is held up, so that it finds them all waiting at once."""
    with write_lock(database.path):
        first = database.submit(unit(f"evt_holding_{next(_numbers)}", aggregate=HOLDING))
        await until_waiting(database)
        futures = [database.submit(item) for item in units]
    await first
    return await asyncio.gather(*futures, return_exceptions=True)


async def until_waiting(database: SqliteDatabase) -> None:
    await until(lambda: database.waiting_since() is not None)


async def until(condition: Callable[[], bool]) -> None:
    """For what another thread or process does: there is nothing to await."""
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.002)
