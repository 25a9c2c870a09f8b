"""The writer: group commit, refusals, fences, and units that no statement fits."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.core.database.conftest import FaultyDisk
from tests.core.database.units import AGGREGATE, event_ids, in_one_batch, project_row, rows, unit

from holdfast.core.database.database import SqliteDatabase
from holdfast.core.database.errors import Fenced, Refused, StorageClosed, StorageError
from holdfast.core.database.unit import Committed, Fence, NewEvent, Statement, Unit, Value
from holdfast.schema.exceptions import HoldfastError

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.store("sqlite", reason="the writer of SQLite"),
]


class NoProject(HoldfastError):
    """What a statement says when its condition does not hold."""


TAKE: dict[str, Value] = {"session_id": AGGREGATE, "owner_id": "own_a", "token": 1, "seen_token": -1}
NO_SUCH_PROJECT = Statement("project.of_worktree", {"worktree": "/elsewhere"}, found=True, error=NoProject)


async def test_waiting_units_share_one_transaction_and_one_sync(disk: FaultyDisk, tmp_path: Path) -> None:
    """EVT-003, EVT-018: a batch is synced once; each aggregate counts for itself, from 0, without a hole."""
    database = SqliteDatabase(tmp_path / "h.db")
    await database.submit(unit("evt_first"))
    before = disk.wal_syncs
    outcomes = await in_one_batch(
        database,
        [unit("evt_a"), unit("evt_b", aggregate="ses_two"), unit("evt_c"), unit("evt_d", aggregate="ses_two")],
    )
    assert outcomes == [Committed(1, 1), Committed(0, 0), Committed(2, 2), Committed(1, 1)]
    assert disk.wal_syncs - before == 2, "the unit that was held up, and the batch"
    database.close()
    assert event_ids(database.path) == ["evt_first", "evt_a", "evt_b", "evt_c", "evt_d"]


async def test_a_receipt_is_given_only_after_its_sync(disk: FaultyDisk, tmp_path: Path) -> None:
    """EVT-017: with `synchronous=FULL` every acknowledged commit has been synced."""
    database = SqliteDatabase(tmp_path / "h.db")
    for number in range(3):
        before = disk.wal_syncs
        await database.submit(unit(f"evt_{number}"))
        assert disk.wal_syncs > before
    database.close()


async def test_a_refused_unit_takes_nobody_with_it(database: SqliteDatabase) -> None:
    """EVT-010: of five units in one transaction the refused one leaves no event, no projection and no sequence."""
    outcomes = await in_one_batch(
        database,
        [
            unit("evt_1", projections=(project_row("p1"),)),
            unit("evt_2", projections=(project_row("p2"),)),
            unit("evt_3", projections=(project_row("p3"), NO_SUCH_PROJECT)),
            unit("evt_4", local=(project_row("p4"), Statement("lease.release", TAKE, changes=1))),
            unit("evt_5", projections=(project_row("p5"),)),
        ],
    )
    assert [outcome for outcome in outcomes if isinstance(outcome, Committed)] == [
        Committed(0, 0),
        Committed(1, 1),
        Committed(2, 2),
    ]
    refused = outcomes[2]
    assert isinstance(refused, NoProject)
    assert isinstance(outcomes[3], Refused)
    assert event_ids(database.path) == ["evt_1", "evt_2", "evt_5"]
    assert rows(database.path, "select id from project order by id") == [("p1",), ("p2",), ("p5",)]


@pytest.mark.parametrize(
    "bad",
    [
        Statement("no.such.statement", {}),
        Statement("project.ensure", {"id": "p"}),
        Statement("project.ensure", {"id": "p", "worktree": [], "vcs": None, "time_created": 1}),  # type: ignore[dict-item]
        Statement("session.insert", {"id": "ses_x"}),
    ],
    ids=["unknown name", "missing parameter", "wrong type", "nearly everything missing"],
)
@pytest.mark.parametrize("alone", [True, False])
async def test_the_writer_survives_a_unit_that_cannot_run(
    database: SqliteDatabase, bad: Statement, alone: bool
) -> None:
    """EVT-010: whatever is wrong with a unit, its caller is told, nothing of it stays, and the next one works."""
    units = [unit("evt_bad", projections=(project_row("kept out"), bad))]
    if not alone:
        units = [unit("evt_before"), *units, unit("evt_after")]
    outcomes = await in_one_batch(database, units)
    assert [isinstance(outcome, Committed) for outcome in outcomes] == ([False] if alone else [True, False, True])
    await database.submit(unit("evt_next"))
    assert "evt_bad" not in event_ids(database.path)
    assert rows(database.path, "select id from project") == []


async def test_checks_before_the_events_decide(database: SqliteDatabase) -> None:
    """EVT-010, API-473: a check that fails refuses the whole unit; one that holds lets it through."""
    absent = Statement("project.of_worktree", {"worktree": "/w"}, found=False, error=NoProject)
    first = await database.submit(unit("evt_1", before=(absent, project_row("p1"))))
    assert first == Committed(0, 0)
    raised = set()
    for _ in range(2):
        with pytest.raises(NoProject) as refused:
            await database.submit(unit("evt_2", before=(absent, project_row("p2"))))
        assert str(refused.value.__cause__) == "project.of_worktree: something found"
        raised.add(refused.value)
    assert len(raised) == 2, "each caller gets an exception of its own"
    assert event_ids(database.path) == ["evt_1"]
    assert rows(database.path, "select id from project") == [("p1",)]


async def test_a_fence_is_checked_inside_the_commit(database: SqliteDatabase) -> None:
    """EVT-042: the lease that travels in the same unit counts; once a newer owner has it, nothing is written."""
    mine = Fence(AGGREGATE, "own_a", 1)
    take = Statement("lease.take", TAKE, changes=1)
    assert await database.submit(unit("evt_1", before=(take,)).replace(fence=mine)) == Committed(0, 0)
    assert await database.submit(unit("evt_2").replace(fence=mine)) == Committed(1, 1)
    newer: dict[str, Value] = {"session_id": AGGREGATE, "owner_id": "own_b", "token": 2, "seen_token": 1}
    outcomes = await in_one_batch(
        database,
        [
            unit("evt_3").replace(fence=mine),
            unit("evt_4", before=(Statement("lease.take", newer, changes=1),)).replace(
                fence=Fence(AGGREGATE, "own_b", 2)
            ),
            unit("evt_5", projections=(project_row("late"),)).replace(fence=mine),
            unit("evt_6"),
        ],
    )
    assert outcomes[0] == Committed(2, 2)
    assert outcomes[1] == Committed(3, 3)
    assert isinstance(outcomes[2], Fenced)
    assert outcomes[2].session_id == AGGREGATE
    assert outcomes[3] == Committed(4, 4), "a commit by a client needs no lease"
    assert "evt_5" not in event_ids(database.path)
    assert rows(database.path, "select id from project") == []


async def test_one_unit_may_hold_several_events(database: SqliteDatabase) -> None:
    """EVT-019: several events of one aggregate are one commit with consecutive sequences, all or none."""
    await database.submit(unit("evt_0"))
    three = tuple(NewEvent(f"evt_{number}", "probe.happened.1", "{}", None, ()) for number in (1, 2, 3))
    assert await database.submit(Unit(AGGREGATE, events=three)) == Committed(1, 3)
    again = (NewEvent("evt_4", "probe.happened.1", "{}", None, ()), three[1])
    with pytest.raises(StorageError):
        await database.submit(Unit(AGGREGATE, events=again))
    assert event_ids(database.path) == ["evt_0", "evt_1", "evt_2", "evt_3"]


async def test_observers_are_told_in_commit_order_before_the_callers(database: SqliteDatabase) -> None:
    """EVT-012: the commit's observer runs also when the caller has been cancelled, and in commit order."""
    told: list[int] = []
    futures = [database.submit(unit(f"evt_{number}"), lambda done: told.append(done.first)) for number in range(5)]
    futures[2].cancel()
    await futures[4]
    assert told == [0, 1, 2, 3, 4]
    assert futures[2].cancelled()
    assert len(event_ids(database.path)) == 5


async def test_closing_commits_what_was_handed_over(tmp_path: Path) -> None:
    """EVT-010: nothing that was accepted is dropped by closing; afterwards the answer is typed."""
    database = SqliteDatabase(tmp_path / "h.db")
    futures = [database.submit(unit(f"evt_{number}")) for number in range(20)]
    database.close()
    assert await asyncio.gather(*futures) == [Committed(number, number) for number in range(20)]
    assert len(event_ids(database.path)) == 20
    with pytest.raises(StorageClosed):
        await database.submit(unit("evt_late"))
    database.close()


@pytest.mark.parametrize("read", ["fetch", "fetch_large"])
async def test_reading_a_closed_database_is_a_typed_error(tmp_path: Path, read: str) -> None:
    """A reader that comes too late, as a tail during shutdown may, is told what happened (errors.py: StorageClosed)."""
    database = SqliteDatabase(tmp_path / "h.db")
    await database.submit(unit("evt_0"))
    database.close()
    with pytest.raises(StorageClosed):
        await getattr(database, read)("event.head", {"aggregate_id": AGGREGATE})
