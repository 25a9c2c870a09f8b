"""Connections that end at the worst places: before, in and after a commit, and for longer."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

import psycopg
import pytest
from tests.core.database.postgres.proxy import Pair, Proxy
from tests.core.database.postgres.test_flights import locked, stored, waits_for_lock
from tests.core.database.units import project_row, unit, until
from tests.stores.pool import PooledDatabase

from holdfast.core.database.errors import StorageBusy, StorageClosed, StorageUnavailable
from holdfast.core.database.postgres import address, course, reader, writer
from holdfast.core.database.postgres.database import PostgresDatabase
from holdfast.core.database.read import Read
from holdfast.core.database.unit import Committed, Statement, Unit

pytestmark = [pytest.mark.anyio, pytest.mark.store("postgres", reason="connections are PostgreSQL's")]


def once(condition: Callable[[bytes], bool]) -> Callable[[Pair, bytes], bool]:
    """Cut the first connection whose bytes meet the condition."""
    cut = threading.Event()

    def rule(pair: Pair, data: bytes) -> bool:
        if cut.is_set() or not condition(data):
            return False
        cut.set()
        return True

    return rule


def counts(id: str) -> Unit:
    """A unit without events that must not run twice."""
    return Unit("ses_count", local=(Statement("work.add", {"session_id": id, "time": 1}),))


async def warm(database: PostgresDatabase) -> None:
    """Statements are prepared, so that the next flight is one packet."""
    await database.submit(unit("evt_warm", projections=(project_row("p"),)))
    await database.submit(counts("ses_warm"))


async def test_a_flight_that_never_reached_the_server_is_sent_again(
    far: PostgresDatabase, proxy: Proxy, pooled: PooledDatabase
) -> None:
    """STO-005"""
    await warm(far)
    proxy.from_client = once(lambda data: b"evt_1" in data)
    outcomes = await asyncio.gather(far.submit(unit("evt_1")), far.submit(counts("ses_x")))
    assert list(outcomes) == [Committed(1, 1), Committed(-1, -1)]
    assert proxy.cuts == 1
    assert stored(pooled)["ses_one"] == ["evt_warm", "evt_1"]
    assert pooled.run("select time from session_work where session_id = 'ses_x'") == [(1,)]


async def test_a_commit_whose_answer_was_lost_is_not_repeated(
    far: PostgresDatabase, proxy: Proxy, pooled: PooledDatabase
) -> None:
    """STO-005: with events and without, in one flight and in another."""
    await warm(far)
    for id, given in (("evt_1", unit("evt_1")), ("ses_x", counts("ses_x")), ("ses_y", counts("ses_y"))):
        proxy.from_server = once(lambda data: b"COMMIT" in data)
        outcome = await far.submit(given)
        assert outcome == (Committed(1, 1) if id == "evt_1" else Committed(-1, -1))
    assert proxy.cuts == 3
    assert stored(pooled)["ses_one"] == ["evt_warm", "evt_1"]
    assert set(pooled.run("select time from session_work")) == {(1,)}


async def test_a_flight_that_arrives_late_does_not_commit(
    far: PostgresDatabase, proxy: Proxy, pooled: PooledDatabase
) -> None:
    """STO-005: its connection was given up while the server had not yet worked on it."""
    await warm(far)
    with locked(pooled, "ses_one"):
        late = far.submit(unit("evt_1", local=(Statement("work.add", {"session_id": "ses_x", "time": 1}),)))
        await until(lambda: waits_for_lock(pooled))
        proxy.cut()  # the server notices only when it wants to answer
        await until(lambda: far.waiting_since() is not None)
    assert await late == Committed(1, 1)
    assert stored(pooled)["ses_one"] == ["evt_warm", "evt_1"]
    assert pooled.run("select time from session_work where session_id = 'ses_x'") == [(1,)]


async def test_connections_that_end_all_the_time_lose_and_double_nothing(
    far: PostgresDatabase, proxy: Proxy, pooled: PooledDatabase
) -> None:
    """STO-005: cuts after a random number of bytes, either way, and backends that are terminated."""
    await warm(far)
    count = number = 0

    async def disturb() -> None:
        nonlocal count
        while True:
            count += 1
            if count % 3:
                proxy.cut()
            else:
                pooled.run(
                    "select pg_terminate_backend(pid) from pg_stat_activity "
                    "where datname = %s and application_name like %s",
                    (pooled.name, "holdfast:%"),
                )
            await asyncio.sleep(0.03)

    task = asyncio.create_task(disturb())
    heard: list[int] = []
    try:
        while number < 10 or count < 10:
            outcomes = await asyncio.gather(
                far.submit(unit(f"evt_{number}a"), lambda committed: heard.append(committed.first)),
                far.submit(unit(f"evt_{number}b"), lambda committed: heard.append(committed.first)),
                far.submit(counts("ses_x")),
            )
            first = 1 + 2 * number
            assert list(outcomes[:2]) == [Committed(first, first), Committed(first + 1, first + 1)]
            number += 1
    finally:
        task.cancel()
    assert heard == list(range(1, 2 * number + 1))
    assert len(stored(pooled)["ses_one"]) == 2 * number + 1
    assert pooled.run("select time from session_work where session_id = 'ses_x'") == [(number,)]


async def test_a_database_that_is_away_is_a_wait(far: PostgresDatabase, proxy: Proxy) -> None:
    """STO-006: commits and reads go on when it is back."""
    await warm(far)
    assert far.waiting_since() is None
    began = time.monotonic()
    proxy.refuses = True
    proxy.cut()
    commit = far.submit(unit("evt_1"))
    read = asyncio.create_task(far.fetch("event.head", {"aggregate_id": "ses_one"}))
    large = asyncio.create_task(far.fetch_large("event.head", {"aggregate_id": "ses_one"}))
    await until(lambda: far.waiting_since() is not None)
    since = far.waiting_since()
    assert since is not None
    assert since >= began
    assert not commit.done()
    assert not read.done()
    proxy.heal()
    assert await commit == Committed(1, 1)
    assert (await read)[0][1] is None
    assert len(await large) == 1
    assert far.waiting_since() is None


async def test_reads_of_a_database_that_stays_away_fail_after_a_while(
    far: PostgresDatabase, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STO-006"""
    await warm(far)
    await far.fetch("event.head", {"aggregate_id": "ses_one"})
    monkeypatch.setattr(reader, "AWAY_SECONDS", 0.1)
    proxy.refuses = True
    proxy.cut()
    results = await asyncio.gather(
        far.fetch("event.head", {"aggregate_id": "ses_one"}),
        far.fetch_many(Read("event.head", {"aggregate_id": "ses_one"})),
        far.fetch_large("event.head", {"aggregate_id": "ses_one"}),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [StorageUnavailable] * 3
    assert f":{proxy.port}/" in str(results[0])
    proxy.heal()
    assert len(await far.fetch("event.head", {"aggregate_id": "ses_one"})) == 1


async def test_reads_that_were_under_way_are_asked_again(far: PostgresDatabase, proxy: Proxy) -> None:
    """STO-010: over the next connection, each answered once and in order."""
    await warm(far)
    await far.fetch("event.head", {"aggregate_id": "ses_one"})
    for kind in ("from_client", "from_server"):
        setattr(proxy, kind, once(lambda data: True))
        results = await asyncio.gather(
            *(far.fetch("event.head", {"aggregate_id": name}) for name in ("ses_one", "ses_no") * 5)
        )
        assert results == [[(0, None)], []] * 5
    assert proxy.cuts == 2


async def test_closing_commits_what_is_queued(pooled: PooledDatabase) -> None:
    """STO-007"""
    database = PostgresDatabase(pooled.address)
    futures = [database.submit(unit(f"evt_{number}", aggregate=f"ses_{number % 7}")) for number in range(100)]
    database.close()
    assert len(await asyncio.gather(*futures)) == 100
    with pytest.raises(StorageClosed):
        await database.submit(unit("evt_late"))
    with pytest.raises(StorageClosed):
        await database.fetch("event.head", {"aggregate_id": "ses_1"})
    with pytest.raises(StorageClosed):
        await database.fetch_large("event.head", {"aggregate_id": "ses_1"})
    assert sum(map(len, stored(pooled).values())) == 100


@pytest.mark.parametrize("how", ["refuses", "silent"])
async def test_closing_without_a_database_fails_what_is_left_in_time(
    pooled: PooledDatabase, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """STO-007: whether the server is gone, or does not answer any more."""
    monkeypatch.setattr(writer, "CLOSE_SECONDS", 0.2)
    database = PostgresDatabase(proxy.address(pooled.name), writers=2)
    await database.submit(unit("evt_0"))
    if how == "refuses":
        proxy.refuses = True
        proxy.cut()
    else:
        proxy.moves.clear()
    futures = [database.submit(unit(f"evt_{number}", aggregate=f"ses_{number}")) for number in range(1, 4)]
    began = time.monotonic()
    await asyncio.to_thread(database.close)
    assert time.monotonic() - began < 5
    results = await asyncio.gather(*futures, return_exceptions=True)
    assert [type(result) for result in results] == [StorageUnavailable] * 3


async def test_a_node_that_stopped_in_the_middle_of_a_commit_is_ended(
    pooled: PooledDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STO-009: others get its locks; a transaction that is not one of ours, or works, is left alone."""
    monkeypatch.setattr(course, "STALLED_SECONDS", 0)
    monkeypatch.setitem(address.WRITING, "lock_timeout", "50")
    database = PostgresDatabase(pooled.address)
    try:
        await database.submit(unit("evt_0"))
        with psycopg.connect(pooled.address, application_name="holdfast:stopped") as stopped:
            stopped.execute("select 1 from event_sequence for update")
            assert await database.submit(unit("evt_1")) == Committed(1, 1)
            with pytest.raises(psycopg.OperationalError):
                stopped.execute("select 1")
        with locked(pooled, "ses_one"), pytest.raises(StorageBusy):
            await database.submit(unit("evt_2"))
    finally:
        database.close()


async def test_a_server_that_does_not_answer_is_a_wait_that_can_be_seen(
    far: PostgresDatabase, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STO-006: connections stay, answers do not come; reads are asked again over another connection."""
    monkeypatch.setattr(course, "DUE_SECONDS", 0.02)
    monkeypatch.setattr(reader, "SILENT_SECONDS", 0.1)
    await warm(far)
    assert await far.fetch("event.head", {"aggregate_id": "ses_one"}) == [(0, None)]
    proxy.moves.clear()
    commit = far.submit(unit("evt_1"))
    read = asyncio.create_task(far.fetch("event.head", {"aggregate_id": "ses_no"}))
    await until(lambda: far.waiting_since() is not None)
    await asyncio.sleep(0.15)
    assert not commit.done()
    proxy.moves.set()
    assert await commit == Committed(1, 1)
    assert await read == []
    assert far.waiting_since() is None


async def test_a_writer_whose_row_is_gone_goes_on(database: PostgresDatabase, pooled: PooledDatabase) -> None:
    """STO-005: restored from a backup, or removed."""
    await database.submit(unit("evt_0"))
    pooled.run("delete from holdfast_writer")
    assert await database.submit(unit("evt_1")) == Committed(1, 1)
    pooled.run("update holdfast_writer set flight = 99")
    assert await database.submit(unit("evt_2")) == Committed(2, 2)
    assert stored(pooled)["ses_one"] == ["evt_0", "evt_1", "evt_2"]
