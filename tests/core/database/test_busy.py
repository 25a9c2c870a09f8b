"""Another process holds the write lock: waiting is visible, bounded and typed."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.core.database.units import AGGREGATE, event_ids, in_one_batch, unit, until_waiting, write_lock

from holdfast.core.database.database import BusyWait, SqliteDatabase
from holdfast.core.database.errors import StorageBusy
from holdfast.core.database.unit import Committed

pytestmark = [pytest.mark.anyio, pytest.mark.store("sqlite", reason="the write lock of a file")]

LIMIT = 0.2


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    """The same as elsewhere, but impatient."""
    database = SqliteDatabase(tmp_path / "data" / "holdfast.db", busy=BusyWait(LIMIT))
    yield database
    database.close()


async def test_a_lock_held_for_too_long_is_a_typed_error(database: SqliteDatabase) -> None:
    """EVT-017: the own busy handler gives up after its bound; nothing is written and the next attempt works."""
    with write_lock(database.path):
        started = time.monotonic()
        with pytest.raises(StorageBusy, match=f"{LIMIT:.1f} s"):
            await database.submit(unit("evt_1"))
        assert time.monotonic() - started >= LIMIT
    assert await database.submit(unit("evt_1")) == Committed(0, 0)
    assert event_ids(database.path) == ["evt_1"]


async def test_a_short_lock_is_only_a_delay_and_its_wait_can_be_seen(tmp_path: Path) -> None:
    """EVT-017: the commit lands when the lock is let go; while it waits, anyone can see since when."""
    database = SqliteDatabase(tmp_path / "h.db", busy=BusyWait(30))
    assert database.waiting_since() is None
    before = time.monotonic()
    with write_lock(database.path):
        future = database.submit(unit("evt_1"))
        await until_waiting(database)
        since = database.waiting_since()
        assert since is not None
        assert before <= since <= time.monotonic()
        outage = database.outage()
        assert outage is not None
        assert outage.reason == f"another process keeps {database.path} locked; commits wait"
        assert not future.done()
    assert await future == Committed(0, 0)
    assert database.waiting_since() is None
    assert database.outage() is None
    database.close()


async def test_waiting_takes_no_numbers_from_the_program_s_generator(database: SqliteDatabase) -> None:
    """EVT-017: a host that seeded `random` gets the same numbers, whatever its writer waits for."""
    before = random.getstate()
    with write_lock(database.path), pytest.raises(StorageBusy):
        await database.submit(unit("evt_1"))
    assert random.getstate() == before


async def test_reads_do_not_wait_for_a_writer(database: SqliteDatabase) -> None:
    """EVT-017: in WAL mode a write in progress elsewhere holds no reader up."""
    await database.submit(unit("evt_1"))
    with write_lock(database.path):
        for read in (database.fetch, database.fetch_large):
            assert await read("event.head", {"aggregate_id": AGGREGATE}) == [(0, None)]


async def test_the_bound_holds_for_a_whole_batch(database: SqliteDatabase) -> None:
    """After a bound the answer is StorageBusy. Units that wait together do not wait in turn."""
    with write_lock(database.path):
        first = database.submit(unit("evt_0"))
        await until_waiting(database)
        started = time.monotonic()
        rest = [database.submit(unit(f"evt_{number}")) for number in range(1, 11)]
        outcomes = await asyncio.gather(first, *rest, return_exceptions=True)
        waited = time.monotonic() - started
    assert all(isinstance(outcome, StorageBusy) for outcome in outcomes)
    assert waited < 10 * LIMIT, "eleven in turn take eleven times the bound"
    assert event_ids(database.path) == []
    outcomes = await in_one_batch(database, [unit("evt_0"), unit("evt_1")])
    assert outcomes == [Committed(0, 0), Committed(1, 1)]
