"""All rows of one store in another, whatever the kinds of the two."""

from __future__ import annotations

import asyncio
import itertools
import tracemalloc
from pathlib import Path

import apsw
import pytest
from tests.core.database.postgres.test_equality import empty_session
from tests.core.database.transfer.support import (
    BOTH,
    FILE,
    PAIRS,
    SERVER,
    SERVERS,
    content,
    fill,
    many_events,
    new_place,
    opened,
    transfer,
)
from tests.stores.stores import STORES

from holdfast.core.database.place import Place
from holdfast.core.database.sqlite import latest_schema
from holdfast.core.database.transfer import transfer as transfers
from holdfast.core.database.transfer.store import TransferStore
from holdfast.core.database.transfer.tables import COPIED, EVENTS, LEFT
from holdfast.core.database.transfer.transfer import Progress
from holdfast.core.database.unit import NewEvent, Statement, Unit, Value


@pytest.mark.parametrize(("source_kind", "target_kind"), PAIRS)
def test_every_row_arrives_as_it_was(source_kind: str, target_kind: str, tmp_path: Path) -> None:
    """STO-160, STO-167: NUL, lone surrogates, marks of escapes, large values, spellings of JSON."""
    source, target = new_place(source_kind, tmp_path, "a"), new_place(target_kind, tmp_path, "b")
    fill(source)
    before = content(source)
    done = transfer(source, target)
    assert content(target) == before
    assert content(source) == before
    assert done.rows == done.copied == sum(map(len, before.values()))
    assert (done.sessions, done.events) == (len(before["session"]), len(before["event"]))
    with opened(target):
        """It can be used."""


@SERVERS
def test_there_and_back_is_the_same(tmp_path: Path) -> None:
    """STO-160, STO-167: also the types of values in the file, such as bytes."""
    places = [tmp_path / "a.db", new_place(SERVER, tmp_path, "b"), tmp_path / "c.db"]
    manifest: dict[str, Value] = {"hash": "h", "data": '{"é":"\\u0000"}'.encode(), "now": 1}
    fill(tmp_path / "a.db", Unit("agg", local=(Statement("mcp.store_manifest", manifest),)), *many_events(1000))
    for source, target in itertools.pairwise(places):
        transfer(source, target)
    assert content(tmp_path / "a.db") == content(tmp_path / "c.db")
    assert content(tmp_path / "c.db")["mcp_manifest"][0][1] == manifest["data"]


@pytest.mark.parametrize("kind", BOTH)
def test_positions_keep_the_order_of_sessions_and_events(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STO-168: a fork comes after its source, whatever their ids are."""
    monkeypatch.setattr(transfers, "GROUP_ROWS", 4)
    source, target = tmp_path / "a.db", new_place(kind, tmp_path, "b")
    ids = ["ses_m", "ses_z", "ses_a", "ses_k", "ses_b"]
    fill(source, *(begin(id, at, fork=id == "ses_a") for at, id in enumerate(ids)), *(more(id) for id in ids))
    transfer(source, target)
    assert listed(target).index("ses_a") < listed(target).index("ses_m")
    if kind == FILE:
        assert listed(target) == list(reversed(ids))
        rows = apsw.Connection(str(target)).execute("select aggregate_id, seq from event order by position").fetchall()
        assert rows == [(id, seq) for id in ids for seq in range(3)]


def begin(id: str, at: int, *, fork: bool) -> Unit:
    row = empty_session() | {"id": id, "project_id": "p", "slug": "s", "directory": "/d", "title": "t", "version": "1"}
    row |= {"cost": 0.0, "time_created": at, "time_updated": at, "fork": '{"sessionID":"ses_m"}' if fork else None}
    project = Statement("project.ensure", {"id": "p", "worktree": "/d", "vcs": None, "time_created": 1})
    event = NewEvent(f"evt_{id}_0", "t.1", "{}", None, (project, Statement("session.insert", row)))
    return Unit(id, events=(event,))


def more(id: str) -> Unit:
    return Unit(id, events=tuple(NewEvent(f"evt_{id}_{at}", "t.1", "{}", None, ()) for at in (1, 2)))


def listed(place: Place) -> list[str]:
    async def fetch() -> list[str]:
        with opened(place) as database:
            return [str(row[0]) for row in await database.fetch_large("event.aggregates", {})]

    return asyncio.run(fetch())


def test_every_table_is_copied_or_left_for_a_reason() -> None:
    """STO-173."""
    connection = apsw.Connection(":memory:")
    connection.execute(latest_schema())
    tables = {str(name) for (name,) in connection.execute("select name from sqlite_master where type = 'table'")}
    decided = {table.name for table in COPIED} | {EVENTS} | set(LEFT)
    assert tables - decided == set()
    assert {table.name for table in COPIED} <= tables
    assert not {table.name for table in COPIED} & set(LEFT)
    for table in COPIED:
        columns = {str(row[1]) for row in connection.execute(f"pragma table_info({table.name})")}
        assert set(table.key) <= columns
        key = {str(row[1]) for row in connection.execute(f"pragma table_info({table.name})") if row[5]}
        assert key == set(table.key), table.name


@SERVERS
def test_every_table_of_a_server_is_copied_or_left_for_a_reason(tmp_path: Path) -> None:
    """STO-173."""
    pooled = STORES.pool.take()
    found = {name for (name,) in pooled.run("select tablename from pg_tables where schemaname = 'public'")}
    STORES.pool.give_back(pooled)
    assert found - ({table.name for table in COPIED} | {EVENTS} | set(LEFT)) == set()


@pytest.mark.parametrize(("source_kind", "target_kind"), PAIRS)
def test_memory_does_not_grow_with_the_store(source_kind: str, target_kind: str, tmp_path: Path) -> None:
    """STO-166: thirty megabytes of events, in a few."""
    source, target = new_place(source_kind, tmp_path, "a"), new_place(target_kind, tmp_path, "b")
    fill(source, *many_events(1_000, aggregates=2, size=30_000))
    tracemalloc.start()
    try:
        transfer(source, target)
        assert tracemalloc.get_traced_memory()[1] < 24_000_000
    finally:
        tracemalloc.stop()


def test_progress_is_told(tmp_path: Path) -> None:
    """STO-174."""
    told: list[Progress] = []
    fill(tmp_path / "a.db", *many_events(5_000))
    transfer(tmp_path / "a.db", tmp_path / "b.db", told=told.append)
    copying = [progress for progress in told if (progress.phase, progress.table) == ("copying", "event")]
    assert [progress.rows for progress in copying] == [2_000, 4_000, 5_000]
    assert {progress.all_rows for progress in copying} == {5_000}
    assert told[-1].phase == "verifying"


def test_a_group_has_a_bounded_size(tmp_path: Path) -> None:
    """STO-166."""
    groups: list[int] = []

    def watch(source: TransferStore, target: TransferStore) -> None:
        write = target.write

        def counted(table, columns, rows, place):  # type: ignore[no-untyped-def]
            groups.append(sum(len(str(value)) for row in rows for value in row))
            write(table, columns, rows, place)

        target.write = counted  # type: ignore[method-assign]

    fill(tmp_path / "a.db", *many_events(1_000, aggregates=2, size=20_000))
    transfer(tmp_path / "a.db", tmp_path / "b.db", changed=watch)
    assert max(groups) < transfers.GROUP_BYTES + 30_000
