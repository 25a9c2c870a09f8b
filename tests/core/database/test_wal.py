"""Room in the log: made when there is time, harmless to whoever reads, writes, crashes or has a full disk."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from pathlib import Path

import apsw
import pytest
from tests.core.database.units import event_ids, unit

from holdfast.core.database import wal, writer
from holdfast.core.database.database import SqliteDatabase
from holdfast.core.database.sqlite import BusyWait, connect

pytestmark = [pytest.mark.anyio, pytest.mark.store("sqlite", reason="the write-ahead log of a file")]


def log_of(database: SqliteDatabase) -> Path:
    return Path(f"{database.path}-wal")


async def roomy(database: SqliteDatabase) -> None:
    async with asyncio.timeout(30):
        while log_of(database).stat().st_size < writer.PREALLOCATED_PAGES * wal.FRAME:  # noqa: ASYNC110 - only the file tells
            await asyncio.sleep(0.02)


async def test_an_idle_writer_makes_room_and_nothing_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """EVT-017: before and after; a copy of the files, as a crash would leave them, has every commit."""
    monkeypatch.setattr(writer, "IDLE_SECONDS", 0.01)
    database = SqliteDatabase(tmp_path / "h.db")
    await database.submit(unit("evt_1"))
    await roomy(database)
    size = log_of(database).stat().st_size
    for number in range(2, 12):
        await database.submit(unit(f"evt_{number}"))
    assert log_of(database).stat().st_size == size, "the log did not have to grow"
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    for name in ("h.db", "h.db-wal"):
        shutil.copy(tmp_path / name, crashed / name)
    expected = [f"evt_{number}" for number in range(1, 12)]
    assert event_ids(crashed / "h.db") == expected
    database.close()
    assert event_ids(database.path) == expected


async def test_room_before_the_first_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """EVT-017: a log of zeros alone is an empty one."""
    monkeypatch.setattr(writer, "IDLE_SECONDS", 0.01)
    database = SqliteDatabase(tmp_path / "h.db")
    await roomy(database)
    other = SqliteDatabase(tmp_path / "h.db")
    await other.submit(unit("evt_1"))
    await database.submit(unit("evt_2"))
    other.close()
    database.close()
    assert event_ids(database.path) == ["evt_1", "evt_2"]


def test_room_is_made_only_where_nobody_writes(tmp_path: Path) -> None:
    """EVT-062: another process in the middle of a commit keeps its frames, and is not waited for."""
    SqliteDatabase(tmp_path / "h.db").close()
    path = str(tmp_path / "h.db")
    mine, theirs = connect(path, BusyWait(0)), connect(path, BusyWait(0))
    theirs.execute("begin immediate")
    before = os.stat(f"{path}-wal").st_size
    wal.preallocate(mine, path, 100)
    assert os.stat(f"{path}-wal").st_size == before
    theirs.execute("commit")
    wal.preallocate(mine, path, 100)
    assert os.stat(f"{path}-wal").st_size == 100 * wal.FRAME
    for connection in (mine, theirs):
        connection.close()


def test_a_full_disk_gets_its_room_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """EVT-017: room that could not be had in full is given back, and commits go on."""
    SqliteDatabase(tmp_path / "h.db").close()
    path = str(tmp_path / "h.db")
    connection = connect(path, BusyWait(0))
    connection.execute("create table note (text)")
    before = os.stat(f"{path}-wal").st_size
    write, written = os.pwrite, 0

    def full(handle: int, data: bytes, offset: int) -> int:
        nonlocal written
        written += len(data)
        if written > 3 * wal.BLOCK:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(handle, data, offset)

    monkeypatch.setattr(os, "pwrite", full)
    wal.preallocate(connection, path, 1_000)
    assert os.stat(f"{path}-wal").st_size == before
    connection.execute("insert into note values ('still here')")
    connection.close()
    reopened = apsw.Connection(path)
    assert reopened.execute("select text from note").fetchall() == [("still here",)]
    reopened.close()
