"""A disk that is full, does not sync or does not read: exactly the acknowledged units exist, and work goes on later."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.core.database.conftest import FaultyDisk
from tests.core.database.units import AGGREGATE, event_ids, in_one_batch, project_row, rows, unit

from holdfast.core.database.database import SqliteDatabase
from holdfast.core.database.errors import StorageError, StorageFull, StorageUnavailable
from holdfast.core.database.unit import Committed, Statement, Unit

pytestmark = [pytest.mark.anyio, pytest.mark.store("sqlite", reason="faults of the file system below SQLite")]

LARGE = 200_000


@pytest.fixture
def database(disk: FaultyDisk, tmp_path: Path) -> Iterator[SqliteDatabase]:
    """The same as elsewhere, on the disk that can fail."""
    database = SqliteDatabase(tmp_path / "data" / "holdfast.db")
    yield database
    database.close()


@pytest.fixture
async def stored(database: SqliteDatabase) -> SqliteDatabase:
    await database.submit(unit("evt_0"))
    return database


async def test_a_disk_that_fills_up_in_a_batch_keeps_what_was_acknowledged(
    stored: SqliteDatabase, disk: FaultyDisk
) -> None:
    """EVT-010: the log may grow by room for two large units; the batch of five is void and each is tried alone."""
    disk.wal_room = _wal(stored).stat().st_size + int(2.9 * LARGE)
    sizes = [LARGE, LARGE, LARGE, 10, LARGE]
    units = [
        unit(f"evt_{number}", size=size, projections=(project_row(f"p{number}"),))
        for number, size in enumerate(sizes, start=1)
    ]
    outcomes = await in_one_batch(stored, units)
    assert outcomes[:2] == [Committed(1, 1), Committed(2, 2)]
    assert isinstance(outcomes[2], StorageFull)
    assert outcomes[3] == Committed(3, 3)
    assert isinstance(outcomes[4], StorageFull)
    acknowledged = ["evt_0", "evt_1", "evt_2", "evt_4"]
    assert event_ids(stored.path) == acknowledged

    disk.wal_room = None
    assert await stored.submit(units[2]) == Committed(4, 4)
    stored.close()
    reopened = SqliteDatabase(stored.path)
    assert await reopened.submit(units[4]) == Committed(5, 5)
    reopened.close()
    assert event_ids(stored.path) == [*acknowledged, "evt_3", "evt_5"]
    assert rows(stored.path, "select count(*) from project") == [(5,)]


async def test_a_unit_refused_for_lack_of_space_is_absent_after_a_crash(
    stored: SqliteDatabase, disk: FaultyDisk, tmp_path: Path
) -> None:
    """EVT-010: the files as a crash would leave them hold the acknowledged events and nothing else."""
    disk.wal_room = _wal(stored).stat().st_size + LARGE // 2
    outcomes = await in_one_batch(stored, [unit("evt_1"), unit("evt_2", size=LARGE), unit("evt_3")])
    assert [isinstance(outcome, Committed) for outcome in outcomes] == [True, False, True]
    disk.wal_room = None
    copy = tmp_path / "copy.db"
    copy.write_bytes(stored.path.read_bytes())
    copy.with_name("copy.db-wal").write_bytes(_wal(stored).read_bytes())
    SqliteDatabase(copy).close()
    assert event_ids(copy) == ["evt_0", "evt_1", "evt_3"]


async def test_a_quota_met_in_the_middle_of_a_unit_voids_the_batch_but_no_other_unit(stored: SqliteDatabase) -> None:
    """EVT-010: SQLite itself ends the transaction inside the third unit; the other four stand."""
    stored._queries["test.quota"] = "pragma max_page_count=100"
    stored._queries["test.no_quota"] = "pragma max_page_count=4294967294"
    await stored.submit(Unit(AGGREGATE, local=(Statement("test.quota", {}),)))
    outcomes = await in_one_batch(
        stored,
        [
            unit("evt_1", projections=(project_row("p1"),)),
            unit("evt_2"),
            unit("evt_3", size=1_000_000, projections=(project_row("p3"),)),
            unit("evt_4"),
            unit("evt_5", projections=(project_row("p5"),)),
        ],
    )
    assert [outcomes[index] for index in (0, 1, 3, 4)] == [Committed(number, number) for number in (1, 2, 3, 4)]
    assert isinstance(outcomes[2], StorageFull)
    assert event_ids(stored.path) == ["evt_0", "evt_1", "evt_2", "evt_4", "evt_5"]
    assert rows(stored.path, "select id from project order by id") == [("p1",), ("p5",)]

    await stored.submit(Unit(AGGREGATE, local=(Statement("test.no_quota", {}),)))
    assert await stored.submit(unit("evt_3", size=1_000_000)) == Committed(5, 5)


async def test_a_sync_that_fails_is_never_acknowledged(stored: SqliteDatabase, disk: FaultyDisk) -> None:
    """EVT-017: no receipt without a sync, alone or in a batch; afterwards the same units commit once."""
    disk.sync_fails = True
    with pytest.raises(StorageUnavailable):
        await stored.submit(unit("evt_1"))
    outcomes = await in_one_batch_ignoring_the_first(stored, [unit("evt_1"), unit("evt_2")])
    assert all(isinstance(outcome, StorageUnavailable) for outcome in outcomes)
    assert event_ids(stored.path) == ["evt_0"]
    disk.sync_fails = False
    outcomes = await in_one_batch(stored, [unit("evt_1"), unit("evt_2")])
    assert outcomes == [Committed(1, 1), Committed(2, 2)]
    assert event_ids(stored.path) == ["evt_0", "evt_1", "evt_2"]


async def test_the_writer_outlives_a_disk_that_can_neither_sync_nor_read(
    stored: SqliteDatabase, disk: FaultyDisk
) -> None:
    """EVT-010: every caller is answered with a typed error, none waits for ever, and the disk's return is enough."""
    disk.sync_fails = disk.read_fails = True
    async with asyncio.timeout(5):
        for number in range(3):
            with pytest.raises(StorageError):
                await stored.submit(unit("evt_1", size=number * LARGE))
    disk.sync_fails = disk.read_fails = False
    async with asyncio.timeout(5):
        assert await stored.submit(unit("evt_1")) == Committed(1, 1)
    assert event_ids(stored.path) == ["evt_0", "evt_1"]


async def test_a_read_that_fails_is_typed_and_the_next_one_works(stored: SqliteDatabase, disk: FaultyDisk) -> None:
    """The reader's errors are errors of this package too."""
    stored.close()
    reopened = SqliteDatabase(stored.path)
    disk.read_fails = True
    for read in (reopened.fetch, reopened.fetch_large):
        with pytest.raises(StorageUnavailable):
            await read("event.page", {"aggregate_id": AGGREGATE, "after": -1, "limit": 10})
    disk.read_fails = False
    for read in (reopened.fetch, reopened.fetch_large):
        assert len(await read("event.page", {"aggregate_id": AGGREGATE, "after": -1, "limit": 10})) == 1
    reopened.close()


async def test_a_file_system_that_became_read_only_refuses_and_recovers(
    stored: SqliteDatabase, disk: FaultyDisk
) -> None:
    """EVT-010: refused as unavailable, nothing kept, reads go on, writing resumes when it can."""
    disk.read_only = True
    with pytest.raises(StorageUnavailable):
        await stored.submit(unit("evt_1"))
    assert len(await stored.fetch("event.head", {"aggregate_id": AGGREGATE})) == 1
    disk.read_only = False
    assert await stored.submit(unit("evt_1")) == Committed(1, 1)
    assert event_ids(stored.path) == ["evt_0", "evt_1"]


async def in_one_batch_ignoring_the_first(
    database: SqliteDatabase, units: list[Unit]
) -> list[Committed | BaseException]:
    """Handed over in one go; here the writer may take the first alone."""
    return await asyncio.gather(*(database.submit(item) for item in units), return_exceptions=True)


def _wal(database: SqliteDatabase) -> Path:
    return database.path.with_name(database.path.name + "-wal")
