"""Reads on the event loop and beside it."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from tests.core.database.units import unit
from tests.stores.pool import PooledDatabase

from holdfast.core.database.errors import StorageError, StorageTimeout
from holdfast.core.database.postgres import address
from holdfast.core.database.postgres.database import PostgresDatabase
from holdfast.core.database.postgres.rows import SHORT_BYTES, RowReader
from holdfast.core.database.postgres.statement import Statements
from holdfast.core.database.read import Read
from holdfast.core.database.unit import NewEvent, Unit
from holdfast.core.event.stored_event import EventRow
from holdfast.schema.codec import encode_text
from holdfast.schema.frozen import Frozen

pytestmark = [pytest.mark.anyio, pytest.mark.store("postgres", reason="pipelines are how PostgreSQL is read")]


class Head(Frozen):
    seq: int
    owner_id: str | None


def head(aggregate: str = "ses_one") -> Read:
    return Read("event.head", {"aggregate_id": aggregate}, Head)


BAD = Read("inbox.overfull", {"session_id": "ses_one", "limit": -5})


async def test_a_read_sees_every_commit_that_was_acknowledged(database: PostgresDatabase) -> None:
    """STO-011"""
    for number in range(20):
        await database.submit(unit(f"evt_{number}"))
        assert await database.fetch("event.head", {"aggregate_id": "ses_one"}, into=Head) == [Head(number, None)]
        assert await database.fetch_large("event.head", {"aggregate_id": "ses_one"}, into=Head) == [Head(number, None)]


async def test_reads_together_are_answered_in_order(database: PostgresDatabase) -> None:
    """STO-010"""
    await database.submit(unit("evt_0"))
    many = database.fetch_many(head(), head("ses_no"), Read("event.head", {"aggregate_id": "ses_one"}))
    others = [database.fetch("event.head", {"aggregate_id": name}) for name in ("ses_one", "ses_no")]
    assert await asyncio.gather(many, *others) == [[[Head(0, None)], [], [(0, None)]], [(0, None)], []]
    assert await database.fetch_many() == []


@pytest.mark.parametrize("sizes", [[10] * 5, [50_000] * 20, [5_000_000], [10, 5_000_000, 10], [300_000] * 3])
async def test_a_large_result_is_converted_beside_the_event_loop(
    database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch, sizes: list[int]
) -> None:
    """STO-154: whole and in order, as structs too."""
    for number, size in enumerate(sizes):
        event = NewEvent(f"evt_{number}", "t.1", encode_text({"text": "x" * size}), None, ())
        await database.submit(Unit("ses_one", events=(event,)))
    here, rows = threading.get_ident(), RowReader.rows
    threads: list[int] = []

    def noted(self: RowReader, *arguments: Any) -> list[Any]:
        threads.append(threading.get_ident())
        return rows(self, *arguments)

    monkeypatch.setattr(RowReader, "rows", noted)
    page = Read("event.page", {"aggregate_id": "ses_one", "after": -1, "limit": 200}, EventRow)
    (found, heads) = await database.fetch_many(page, head())
    assert [(row.seq, len(row.data)) for row in found] == [(seq, size + 11) for seq, size in enumerate(sizes)]
    assert [row.seq for row in heads] == [len(sizes) - 1]
    assert found == await database.fetch(page.name, page.params, into=EventRow)
    assert here not in threads
    assert bool(threads) == (sum(sizes) > SHORT_BYTES)


async def test_a_read_that_fails_concerns_no_other(database: PostgresDatabase) -> None:
    """STO-010"""
    await database.submit(unit("evt_0"))
    results = await asyncio.gather(
        database.fetch("event.head", {"aggregate_id": "ses_one"}),
        database.fetch_many(head(), BAD, head()),
        database.fetch("event.head", {"aggregate_id": "ses_one"}),
        database.fetch_large(BAD.name, BAD.params),
        return_exceptions=True,
    )
    assert results[0] == results[2] == [(0, None)]
    assert isinstance(results[1], StorageError)
    assert isinstance(results[3], StorageError)


async def test_a_caller_that_goes_leaves_the_answers_of_others_in_order(database: PostgresDatabase) -> None:
    """STO-010"""
    await database.submit(unit("evt_0"))
    tasks = [
        asyncio.create_task(database.fetch("event.head", {"aggregate_id": "ses_one" if place % 2 else "ses_no"}))
        for place in range(20)
    ]
    await asyncio.sleep(0)
    for task in tasks[:10:3]:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    for place, result in enumerate(results):
        if place in range(0, 10, 3):
            assert isinstance(result, asyncio.CancelledError)
        else:
            assert result == ([(0, None)] if place % 2 else [])


async def test_a_large_value_comes_whole(database: PostgresDatabase) -> None:
    """STO-008"""
    size = 3 * 1024 * 1024
    await database.submit(unit("evt_0", size=size))
    for fetch in (database.fetch, database.fetch_large):
        ((_, _, _, data, _),) = await fetch("event.page", {"aggregate_id": "ses_one", "after": -1, "limit": 1})
        assert isinstance(data, bytes)
        assert len(data) == size + 10


async def test_a_statement_that_takes_too_long_is_a_typed_error(
    pooled: PooledDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STO-009"""
    monkeypatch.setitem(address.READING, "statement_timeout", "50")
    monkeypatch.setitem(address.READING_LARGE, "statement_timeout", "50")
    database = PostgresDatabase(pooled.address)
    try:
        statements = Statements({"slow": "select pg_sleep(:seconds::int)", "event.head": "select 1"})
        database._reader._statements = statements
        results = await asyncio.gather(
            database.fetch("slow", {"seconds": 9}), database.fetch_large("slow", {"seconds": 9}), return_exceptions=True
        )
        assert [type(result) for result in results] == [StorageTimeout] * 2
        assert await database.fetch("event.head", {}) == [(1,)]
    finally:
        database.close()


async def test_reads_cannot_write(database: PostgresDatabase) -> None:
    database._reader._statements = Statements({"bad": "delete from event"})
    with pytest.raises(StorageError):
        await database.fetch("bad", {})


def test_a_database_serves_one_loop_after_the_other(database: PostgresDatabase) -> None:
    """STO-010"""

    async def use(number: int) -> None:
        await database.submit(unit(f"evt_{number}"))
        assert len(await database.fetch("event.head", {"aggregate_id": "ses_one"})) == 1

    for number in range(3):
        asyncio.run(use(number))
    assert len(database._reader._pipelines) <= 2
