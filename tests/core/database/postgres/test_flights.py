"""Commits: what shares a flight, what fails alone, and what two nodes do to each other."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from tests.core.database.units import project_row, unit, until
from tests.stores.pool import PooledDatabase
from tests.stores.stores import STORES

from holdfast.core.database.errors import Fenced, InvalidDurableEvent, Moved, Refused, StorageBusy, StorageError
from holdfast.core.database.postgres import address
from holdfast.core.database.postgres.database import PostgresDatabase
from holdfast.core.database.unit import Committed, Fence, NewEvent, Replay, Statement, Unit, Value
from holdfast.schema.exceptions import HoldfastError

pytestmark = [pytest.mark.anyio, pytest.mark.store("postgres", reason="flights are how PostgreSQL is written to")]

NO_SUCH_PROJECT = Statement("project.of_worktree", {"worktree": "/elsewhere"}, found=True)
_numbers = itertools.count()


class NoProject(HoldfastError):
    """What a statement says when its condition does not hold."""


@contextmanager
def locked(pooled: PooledDatabase, aggregate: str) -> Iterator[psycopg.Connection]:
    """Another transaction that holds the head of an aggregate."""
    with psycopg.connect(pooled.address, application_name="tests") as connection:
        connection.execute("select 1 from event_sequence where aggregate_id = %s for update", [aggregate])
        yield connection
        connection.rollback()


async def in_one_batch(
    database: PostgresDatabase, pooled: PooledDatabase, units: Sequence[Unit]
) -> list[Committed | BaseException]:
    """Hand units over while the only writer waits for a lock, so that it finds them all at once."""
    await database.submit(unit(f"evt_hold_{next(_numbers)}", aggregate="ses_hold"))
    with locked(pooled, "ses_hold"):
        first = database.submit(unit(f"evt_hold_{next(_numbers)}", aggregate="ses_hold"))
        await until(lambda: waits_for_lock(pooled))
        futures = [database.submit(item) for item in units]
    await first
    return await asyncio.gather(*futures, return_exceptions=True)


def waits_for_lock(pooled: PooledDatabase) -> bool:
    asked = "select 1 from pg_stat_activity where datname = %s and wait_event_type = 'Lock'"
    return bool(pooled.run(asked, (pooled.name,)))


def stored(pooled: PooledDatabase) -> dict[str, list[str]]:
    """The ids of the events of each aggregate, after checking that no sequence has a hole."""
    found: dict[str, list[str]] = {}
    for aggregate, seq, id in pooled.run("select aggregate_id, seq, id from event order by aggregate_id, seq"):
        ids = found.setdefault(aggregate, [])
        assert seq == len(ids), f"{aggregate} has a hole at {len(ids)}"
        ids.append(id)
    heads = dict(pooled.run("select aggregate_id, seq from event_sequence where seq >= 0"))
    assert heads == {aggregate: len(ids) - 1 for aggregate, ids in found.items()}
    return found


@pytest.fixture
def one(pooled: PooledDatabase) -> Iterator[PostgresDatabase]:
    """A database with one writer, so that everything that waits is one batch."""
    database = PostgresDatabase(pooled.address, writers=1)
    yield database
    database.close()


async def test_units_that_wait_together_are_one_transaction(one: PostgresDatabase, pooled: PooledDatabase) -> None:
    """STO-001"""
    outcomes = await in_one_batch(
        one,
        pooled,
        [unit("evt_a"), unit("evt_b", aggregate="ses_two"), unit("evt_c"), unit("evt_d", aggregate="ses_two")],
    )
    assert outcomes == [Committed(0, 0), Committed(0, 0), Committed(1, 1), Committed(1, 1)]
    found = pooled.run("select count(distinct position) from event where aggregate_id <> 'ses_hold'")
    assert found == [(1,)]


async def test_a_refused_unit_takes_nobody_with_it(one: PostgresDatabase, pooled: PooledDatabase) -> None:
    """STO-003: of seven units in one flight the three that fail leave nothing behind."""
    refused = Statement("project.of_worktree", {"worktree": "/elsewhere"}, found=True, error=NoProject)
    outcomes = await in_one_batch(
        one,
        pooled,
        [
            unit("evt_1", projections=(project_row("p1"),)),
            unit("evt_2", projections=(project_row("p2"), refused)),
            unit("evt_3", projections=(project_row("p3"),)),
            unit("evt_4", local=(project_row("p4"), Statement("lease.release", LEASE, changes=1))),
            unit("evt_1", projections=(project_row("p5"),)),
            unit("evt_6", projections=(Statement("no.such.statement", {}),)),
            unit("evt_7", projections=(project_row("p7"),)),
        ],
    )
    assert [item for item in outcomes if isinstance(item, Committed)] == [
        Committed(0, 0),
        Committed(1, 1),
        Committed(2, 2),
    ]
    assert [type(item) for item in outcomes if not isinstance(item, Committed)] == [
        NoProject,
        Refused,
        InvalidDurableEvent,
        KeyError,
    ]
    assert str(outcomes[4]) == "probe.happened: Event evt_1 already exists at ses_one:0"
    assert stored(pooled)["ses_one"] == ["evt_1", "evt_3", "evt_7"]
    assert pooled.run("select id from project order by id") == [("p1",), ("p3",), ("p7",)]


LEASE: dict[str, Any] = {"session_id": "ses_one", "owner_id": "own_a", "token": 1, "seen_token": -1}


async def test_a_lease_that_was_taken_over_is_fenced_off(database: PostgresDatabase) -> None:
    """STO-003"""
    await database.submit(Unit("ses_one", before=(Statement("lease.take", LEASE, changes=1),)))
    fence = Fence("ses_one", "own_a", 1)
    assert await database.submit(unit("evt_1").replace(fence=fence)) == Committed(0, 0)
    taken = {**LEASE, "owner_id": "own_b", "token": 2, "seen_token": 1}
    await database.submit(Unit("ses_one", before=(Statement("lease.take", taken, changes=1),)))
    with pytest.raises(Fenced):
        await database.submit(unit("evt_2").replace(fence=fence))


async def test_a_check_sees_what_was_committed_while_its_unit_waited(
    one: PostgresDatabase, pooled: PooledDatabase
) -> None:
    """STO-004: a fence is looked at after the lock was granted, not before."""
    await one.submit(unit("evt_0"))
    await one.submit(Unit("ses_one", before=(Statement("lease.take", LEASE, changes=1),)))
    with locked(pooled, "ses_one") as other:
        late = one.submit(unit("evt_1").replace(fence=Fence("ses_one", "own_a", 1)))
        await until(lambda: waits_for_lock(pooled))
        other.execute("update session_lease set owner_id = 'own_b', token = 2")
        other.commit()
    with pytest.raises(Fenced):
        await late
    assert stored(pooled)["ses_one"] == ["evt_0"]


async def test_two_nodes_write_to_the_same_aggregates(pooled: PooledDatabase) -> None:
    """STO-004: without a hole, a repetition or a failure, whoever was first."""
    nodes = [PostgresDatabase(pooled.address) for _ in range(2)]
    try:
        futures = [
            node.submit(unit(f"evt_{number}_{place}", aggregate=f"ses_{number % 3}"))
            for number in range(60)
            for place, node in enumerate(nodes)
        ]
        outcomes = await asyncio.gather(*futures)
    finally:
        for node in nodes:
            node.close()
    assert all(isinstance(item, Committed) for item in outcomes)
    found = stored(pooled)
    assert sorted(id for ids in found.values() for id in ids) == sorted(
        f"evt_{number}_{place}" for number in range(60) for place in range(2)
    )
    for place in range(2):  # each node's own order is kept
        for ids in found.values():
            own = [int(id.split("_")[1]) for id in ids if id.endswith(f"_{place}")]
            assert own == sorted(own)


async def test_of_two_nodes_that_create_the_same_thing_one_is_told_so(pooled: PooledDatabase) -> None:
    """STO-004: the check for an aggregate that does not exist yet holds, although there is nothing to lock."""
    absent = Statement("event.any_of", {"aggregate_id": "ses_new"}, found=False, error=NoProject)
    nodes = [PostgresDatabase(pooled.address) for _ in range(2)]
    try:
        for round in range(5):
            outcomes = await asyncio.gather(
                *(
                    node.submit(unit(f"evt_{round}_{place}", aggregate="ses_new", before=(absent,)))
                    for place, node in enumerate(nodes)
                ),
                return_exceptions=True,
            )
            assert sorted(type(item).__name__ for item in outcomes) == ["Committed", "NoProject"]
            await nodes[0].submit(
                Unit(
                    "ses_new",
                    local=(
                        Statement("event.remove_all", {"aggregate_id": "ses_new"}),
                        Statement("event.remove_sequence", {"aggregate_id": "ses_new"}),
                    ),
                )
            )
    finally:
        for node in nodes:
            node.close()


async def test_deadlocks_are_tried_again(pooled: PooledDatabase) -> None:
    """STO-004: another transaction changes the rows of a unit in the opposite order, and survives."""
    pooled.run(f"alter database {pooled.name} set deadlock_timeout = '300ms'")
    node = PostgresDatabase(pooled.address)
    work = [Statement("work.add", {"session_id": id, "time": 1}) for id in ("ses_a", "ses_b")]
    try:
        await node.submit(unit("evt_0", projections=tuple(work)))
        with psycopg.connect(
            STORES.pool.server.address(pooled.name, user="postgres"), application_name="tests"
        ) as other:
            other.execute("set deadlock_timeout = '10s'")
            other.execute("update session_work set time = time + 10 where session_id = 'ses_b'")
            late = node.submit(unit("evt_1", projections=tuple(work)))
            await until(lambda: waits_for_lock(pooled))
            await asyncio.to_thread(
                other.execute, "update session_work set time = time + 10 where session_id = 'ses_a'"
            )
            assert not late.done()
        assert await late == Committed(1, 1)
    finally:
        node.close()
        pooled.run(f"alter database {pooled.name} reset deadlock_timeout")
    assert pooled.run("select time from session_work") == [(12,), (12,)]


async def test_an_aggregate_that_stays_locked_is_a_typed_error(
    pooled: PooledDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STO-009: only units of that aggregate fail."""
    monkeypatch.setitem(address.WRITING, "lock_timeout", "50")
    database = PostgresDatabase(pooled.address, writers=1)
    try:
        await database.submit(unit("evt_0"))
        with locked(pooled, "ses_one"):
            futures = [database.submit(unit("evt_1")), database.submit(unit("evt_2", aggregate="ses_two"))]
            outcomes = await asyncio.gather(*futures, return_exceptions=True)
        assert isinstance(outcomes[0], StorageBusy)
        assert outcomes[1] == Committed(0, 0)
    finally:
        database.close()


async def test_large_units_are_stored(database: PostgresDatabase, pooled: PooledDatabase) -> None:
    """STO-008: forty megabytes at once, over a socket that holds a fraction of that."""
    size = 1024 * 1024
    outcomes = await asyncio.gather(
        *(database.submit(unit(f"evt_{number}", aggregate=f"ses_{number % 4}", size=size)) for number in range(40))
    )
    assert len(outcomes) == 40
    assert pooled.run("select min(length(data)), count(*) from event") == [(size + 10, 40)]


@pytest.mark.parametrize(
    "text",
    [
        '{"a":"\\u0000"}',
        '{"a":"\\ud800"}',
        '{"a":"\uf8f1 \\uF8F1 \\\\u0000"}',
        '{"a":"plain \\u0000\uf8f10000"}',
        "\0 raw",
        '{"n":1e3,"m":1.0,"b":2,"a":1}',
    ],
)
async def test_every_text_comes_back(database: PostgresDatabase, text: str) -> None:
    """STO-008"""
    event = NewEvent("evt_1", "probe.happened.1", text, text, ())
    await database.submit(Unit("ses_one", events=(event,)))
    page: dict[str, Value] = {"aggregate_id": "ses_one", "after": -1, "limit": 9}
    expected = [(0, "evt_1", "probe.happened.1", text.encode(), text)]
    assert await database.fetch("event.page", page) == expected
    assert await database.fetch_large("event.page", page) == expected


async def test_a_text_that_no_store_takes_fails_alone(one: PostgresDatabase, pooled: PooledDatabase) -> None:
    """STO-003: a lone surrogate outside JSON."""
    bad = NewEvent("evt_2", "probe.happened.1", "\ud800", None, ())
    outcomes = await in_one_batch(one, pooled, [unit("evt_1"), Unit("ses_one", events=(bad,)), unit("evt_3")])
    assert [type(item).__name__ for item in outcomes] == ["Committed", "UnicodeEncodeError", "Committed"]


async def test_commits_are_observed_in_order_before_the_caller_even_if_it_has_gone(database: PostgresDatabase) -> None:
    """STO-002"""
    heard: list[int] = []
    futures = [
        database.submit(unit(f"evt_{number}"), lambda committed: heard.append(committed.first)) for number in range(20)
    ]
    futures[3].cancel()
    results = await asyncio.gather(*futures, return_exceptions=True)
    assert heard == list(range(20))
    assert isinstance(results[3], asyncio.CancelledError)


async def test_replays_are_admitted_once(database: PostgresDatabase, pooled: PooledDatabase) -> None:
    """STO-003: as on SQLite."""

    def replayed(seq: int, id: str, *, owner: str | None = None, strict: bool = True) -> Unit:
        return unit(id).replace(replay=Replay(seq, owner, strict))

    assert await database.submit(replayed(0, "evt_0")) == Committed(0, 0)
    assert await database.submit(replayed(0, "evt_0")) == Committed(0, 0, applied=False)
    assert await database.submit(replayed(1, "evt_1", owner="own_a")) == Committed(1, 1)
    with pytest.raises(InvalidDurableEvent, match="Replay diverged at ses_one:1"):
        await database.submit(replayed(1, "evt_other", owner="own_a"))
    with pytest.raises(InvalidDurableEvent, match="Sequence mismatch: expected 2, got 5"):
        await database.submit(replayed(5, "evt_5", owner="own_a"))
    with pytest.raises(InvalidDurableEvent, match="belongs to own_a"):
        await database.submit(replayed(2, "evt_2", owner="own_b"))
    foreign = await database.submit(replayed(2, "evt_2", owner="own_b", strict=False))
    assert foreign == Committed(2, 2, applied=False)
    batch = [database.submit(replayed(seq, f"evt_{seq}", owner="own_a")) for seq in range(2, 40)]
    assert [item.last for item in await asyncio.gather(*batch)] == list(range(2, 40))
    begun = unit("evt_late", aggregate="ses_late")
    begun = begun.replace(events=(begun.events[0].replace(begins_at=7),), replay=Replay(7, None, strict=True))
    assert await database.submit(begun) == Committed(7, 7)


async def test_a_rebuild_of_an_aggregate_that_moved_is_refused(database: PostgresDatabase) -> None:
    """STO-003"""
    await database.submit(unit("evt_0"))
    await database.submit(unit("evt_1"))
    event = unit("evt_0").events[0].replace(seq=0)
    with pytest.raises(Moved):
        await database.submit(Unit("ses_one", events=(event,), rebuild=True))
    both = (event, unit("evt_1").events[0].replace(seq=1))
    assert await database.submit(Unit("ses_one", events=both, rebuild=True)) == Committed(0, 1)


async def test_a_unit_with_many_events_has_them_in_order(database: PostgresDatabase) -> None:
    """STO-001: more than one statement inserts."""
    events = tuple(NewEvent(f"evt_{n:03}", "probe.happened.1", json.dumps({"n": n}), None, ()) for n in range(50))
    assert await database.submit(Unit("ses_one", events=events)) == Committed(0, 49)
    page = await database.fetch("event.page", {"aggregate_id": "ses_one", "after": -1, "limit": 99})
    assert [(row[0], row[1]) for row in page] == [(n, f"evt_{n:03}") for n in range(50)]


async def test_a_statement_of_the_server_that_fails_is_an_error_of_storage(database: PostgresDatabase) -> None:
    """STO-003"""
    bad = Statement("inbox.overfull", {"session_id": "ses_one", "limit": -5}, found=True)
    with pytest.raises(StorageError, match="SQLSTATE 2201X"):
        await database.submit(unit("evt_0", before=(bad,)))
    assert await database.submit(unit("evt_1")) == Committed(0, 0)
