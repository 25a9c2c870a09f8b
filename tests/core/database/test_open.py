"""Opening: new, old, damaged, foreign and unreachable files. A file that is refused is left as it is."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import apsw
import pytest
from tests.core.database.conftest import FaultyDisk
from tests.core.database.units import AGGREGATE, event_ids, raw, rows, unit, until

from holdfast.core.database.database import SqliteDatabase
from holdfast.core.database.errors import (
    StorageCorrupt,
    StorageError,
    StorageFull,
    StorageTooNew,
    StorageUnavailable,
)
from holdfast.core.database.sqlite import BusyWait, connect
from holdfast.core.database.unit import Committed, Statement, Value
from holdfast.core.database.writer import Writer

pytestmark = [pytest.mark.anyio, pytest.mark.store("sqlite", reason="files as they are found on disk")]

ORPHAN: dict[str, Value] = {
    "session_id": "ses_none",
    "id": "msg_1",
    "kind": "user",
    "prompt": "{}",
    "delivery": "steer",
    "timestamp": 1,
    "no_reply": 0,
}


async def test_settings_of_the_file_and_its_connections(database: SqliteDatabase) -> None:
    """EVT-017: WAL, synchronous FULL, foreign keys, a cache of 4 MB, on every connection that is opened."""
    assert rows(database.path, "pragma journal_mode") == [("wal",)]
    for readonly in (False, True):
        connection = connect(str(database.path), BusyWait(), readonly=readonly)
        settings = {name: connection.pragma(name) for name in ("synchronous", "foreign_keys", "cache_size")}
        connection.close()
        assert settings == {"synchronous": 2, "foreign_keys": 1, "cache_size": -4000}


async def test_foreign_keys_are_enforced(database: SqliteDatabase) -> None:
    """EVT-010, EVT-017: an inbox row of a Session that does not exist fails the unit as a whole."""
    with pytest.raises(StorageError):
        await database.submit(unit("evt_1", projections=(Statement("inbox.insert", ORPHAN),)))
    assert event_ids(database.path) == []


async def test_an_idle_writer_folds_the_log_back(database: SqliteDatabase) -> None:
    """EVT-017: a passive checkpoint when the writer is idle: the write-ahead log stays far below what was written."""
    for number in range(60):
        await database.submit(unit(f"evt_{number}", size=200_000))
        if number % 10 == 9:  # the writer is idle only when nobody submits
            await until(lambda: _unmoved_frames(database.path) < 1000)
    assert database.path.with_name(database.path.name + "-wal").stat().st_size < 8_000_000


async def test_a_log_that_others_read_is_not_folded_back_after_each_commit(
    database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EVT-017: while somebody reads, a large log cannot begin anew. Its next part is folded back when it is large."""
    await database.submit(unit("evt_first"))
    reader = raw(database.path)
    reader.execute("begin; select count(*) from event").fetchall()
    moved: list[int] = []
    checkpoint = Writer._checkpoint

    def counted(writer: Writer) -> None:
        checkpoint(writer)
        moved.append(writer._wal_pages)

    monkeypatch.setattr(Writer, "_checkpoint", counted)
    await database.submit(unit("evt_large", size=6_000_000))
    await until(lambda: len(moved) == 1)
    for number in range(30):
        await database.submit(unit(f"evt_{number}"))
        await asyncio.sleep(0.001)  # the writer is idle in between
    assert len(moved) == 1
    await database.submit(unit("evt_larger", size=6_000_000))
    await until(lambda: len(moved) == 2)
    reader.close()
    await database.submit(unit("evt_last", size=6_000_000))
    await until(lambda: _unmoved_frames(database.path) == 0)


async def test_a_log_that_another_process_left_behind_is_folded_back(tmp_path: Path) -> None:
    """EVT-017: opening takes care of a log that somebody else let grow, even while they hold the file open."""
    path = tmp_path / "h.db"
    SqliteDatabase(path).close()
    careless = raw(path)
    careless.execute("pragma wal_autocheckpoint=0").fetchall()
    careless.execute("create table padding (x); insert into padding values (zeroblob(6000000))")
    assert _unmoved_frames(path) > 1000
    database = SqliteDatabase(path)
    await database.submit(unit("evt_0"))
    await until(lambda: _unmoved_frames(path) == 0)
    database.close()
    careless.close()


async def test_a_file_can_be_opened_again_and_again(tmp_path: Path) -> None:
    """EVT-003: sequences go on where they were."""
    for number in range(4):
        database = SqliteDatabase(tmp_path / "new" / "folders" / "h.db")
        assert await database.submit(unit(f"evt_{number}")) == Committed(number, number)
        database.close()
    assert event_ids(tmp_path / "new" / "folders" / "h.db") == ["evt_0", "evt_1", "evt_2", "evt_3"]


@pytest.mark.parametrize("content", [b"not a database at all, but long enough to look at" * 100, b"\0" * 8192, b"SQL"])
def test_a_file_that_is_no_database_is_refused_and_kept(tmp_path: Path, content: bytes) -> None:
    """A damaged header is StorageCorrupt; the bytes stay for whoever can use them."""
    path = tmp_path / "h.db"
    path.write_bytes(content)
    with pytest.raises(StorageCorrupt):
        SqliteDatabase(path)
    assert path.read_bytes() == content


async def test_a_damaged_page_is_a_typed_error_where_it_is_met(tmp_path: Path) -> None:
    """Writes and reads that meet the damage fail as StorageCorrupt, and nothing hangs or dies."""
    path = tmp_path / "h.db"
    database = SqliteDatabase(path)
    for number in range(20):
        await database.submit(unit(f"evt_{number}", size=2000))
    database.close()
    rows(path, "pragma wal_checkpoint(truncate)")
    healthy = path.read_bytes()
    path.write_bytes(healthy[:4096] + b"\xa5" * (len(healthy) - 4096))
    try:
        database = SqliteDatabase(path)
    except StorageCorrupt:
        pass
    else:
        for read in (database.fetch, database.fetch_large):
            with pytest.raises(StorageCorrupt):
                await read("event.head", {"aggregate_id": AGGREGATE})
        for _ in range(2):
            with pytest.raises(StorageCorrupt):
                await database.submit(unit("evt_next"))
        database.close()
    path.write_bytes(healthy)
    database = SqliteDatabase(path)
    assert await database.submit(unit("evt_next")) == Committed(20, 20)
    database.close()


@pytest.mark.parametrize("version", [0, 1, 7])
@pytest.mark.parametrize("application", [0, 1234])
def test_a_database_of_another_program_is_refused_and_kept(tmp_path: Path, version: int, application: int) -> None:
    """Somebody else's tables are never touched."""
    path = tmp_path / "h.db"
    _foreign(path, version, application, "create table bookmark (url text); insert into bookmark values ('x')")
    before = path.read_bytes()
    with pytest.raises(StorageCorrupt):
        SqliteDatabase(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(("version", "application"), [(1, 0), (7, 0), (1, 1234), (0, 1234)])
async def test_an_empty_database_of_another_program_is_refused_or_made_ours_completely(
    tmp_path: Path, version: int, application: int
) -> None:
    """A foreign version number in a file without tables must not pass for our schema."""
    path = tmp_path / "h.db"
    _foreign(path, version, application, "create table t (x); drop table t")
    try:
        database = SqliteDatabase(path)
    except StorageCorrupt:
        return
    try:
        assert await database.submit(unit("evt_0")) == Committed(0, 0)
    finally:
        database.close()


def test_a_file_of_a_newer_holdfast_is_refused_and_kept(tmp_path: Path) -> None:
    """An older program says so and changes nothing; the newer one can go on."""
    path = tmp_path / "h.db"
    SqliteDatabase(path).close()
    (current,) = rows(path, "pragma user_version")
    rows(path, "pragma user_version = 99")
    before = path.read_bytes()
    with pytest.raises(StorageTooNew, match="99"):
        SqliteDatabase(path)
    assert path.read_bytes() == before
    rows(path, f"pragma user_version = {current[0]}")
    SqliteDatabase(path).close()


def test_a_place_that_cannot_hold_a_database_is_unavailable(tmp_path: Path) -> None:
    """Below a regular file, or where a directory is: a typed error, nothing created."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageUnavailable):
        SqliteDatabase(tmp_path / "file" / "below" / "h.db")
    (tmp_path / "folder.db").mkdir()
    with pytest.raises(StorageUnavailable):
        SqliteDatabase(tmp_path / "folder.db")
    assert (tmp_path / "file").read_text() == "x"
    assert list((tmp_path / "folder.db").iterdir()) == []


def test_a_read_only_file_system_is_unavailable_at_open(disk: FaultyDisk, tmp_path: Path) -> None:
    """Nothing half made stays behind: the same path opens once it can be written."""
    disk.read_only = True
    with pytest.raises(StorageUnavailable):
        SqliteDatabase(tmp_path / "h.db")
    disk.read_only = False
    SqliteDatabase(tmp_path / "h.db").close()


async def test_a_full_disk_in_the_middle_of_the_first_migration_leaves_nothing_half_made(
    disk: FaultyDisk, tmp_path: Path
) -> None:
    """The schema is one transaction: all tables or none, and the next open makes them."""
    disk.wal_room = 20_000
    with pytest.raises(StorageFull):
        SqliteDatabase(tmp_path / "h.db")
    disk.wal_room = None
    database = SqliteDatabase(tmp_path / "h.db")
    assert await database.submit(unit("evt_0")) == Committed(0, 0)
    database.close()


def test_processes_that_make_a_new_file_at_once_all_succeed(tmp_path: Path) -> None:
    """EVT-003, EVT-018: three processes migrate and write one new file; every commit is there, sequences whole."""
    path, start = tmp_path / "data" / "h.db", tmp_path / "start"
    script = (
        "import asyncio, sys, time\n"
        "from pathlib import Path\n"
        "from holdfast.core.database.database import SqliteDatabase\n"
        "from holdfast.core.database.unit import NewEvent, Unit\n"
        "path, start, name = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]\n"
        "print('ready', flush=True)\n"
        "while not start.exists(): time.sleep(0.001)\n"
        "async def main():\n"
        "    database = SqliteDatabase(path)\n"
        "    for number in range(5):\n"
        "        event = NewEvent(f'evt_{name}_{number}', 'probe.happened.1', '{}', None, ())\n"
        "        await database.submit(Unit('ses_one', events=(event,)))\n"
        "    database.close()\n"
        "asyncio.run(main())\n"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(path), str(start), name],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in "abc"
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    start.touch()
    ends = [(process.communicate(timeout=30)[1], process.returncode) for process in processes]
    assert ends == [("", 0)] * 3
    assert sorted(map(str, event_ids(path))) == [f"evt_{name}_{number}" for name in "abc" for number in range(5)]


def _unmoved_frames(path: Path) -> int:
    connection = raw(path)
    try:
        connection.execute("select count(*) from event").fetchall()
        frames, moved = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
    finally:
        connection.close()
    return frames - moved


def _foreign(path: Path, version: int, application: int, script: str) -> None:
    connection = raw(path)
    connection.execute(script)
    connection.execute(f"pragma user_version = {version}")
    connection.execute(f"pragma application_id = {application}")
    connection.close()
