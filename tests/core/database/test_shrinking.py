"""Files that give their free pages back, and files of earlier versions."""

from __future__ import annotations

import asyncio
import gzip
import shutil
import threading
from pathlib import Path

import apsw
import pytest
from tests.core.database.test_upgrade import OLD

from holdfast.core.database import shrinking, sqlite
from holdfast.core.database.database import SqliteDatabase
from holdfast.core.database.errors import StorageError
from holdfast.core.database.shrinking import (
    HOLD_SECONDS,
    MOST_PAGES,
    NOT_SHRUNK,
    _adapted,
    compact,
    file_space,
    shrink,
)

pytestmark = [pytest.mark.anyio, pytest.mark.store("sqlite", reason="the size of a file")]


async def at_once(worked: float) -> None:
    pass


def with_free_pages(path: Path) -> int:
    """Its size, with pages in it that nothing uses."""
    connection = apsw.Connection(str(path))
    connection.execute("create table filler (content blob)").fetchall()
    connection.execute("insert into filler values (zeroblob(2000000)); delete from filler").fetchall()
    connection.execute("pragma wal_checkpoint(truncate)").fetchall()
    connection.close()
    return path.stat().st_size


async def test_a_new_file_shrinks_while_others_use_it(tmp_path: Path) -> None:
    """OPS-116: in steps."""
    path, steps = tmp_path / "holdfast.db", list[int]()
    database = SqliteDatabase(path)
    before = with_free_pages(path)
    assert await shrink(path, at_once, lambda done, total: steps.append(done)) is None
    assert file_space(path).free == 0
    assert len(steps) > 5
    database.close()
    assert path.stat().st_size < before - 1_900_000


async def test_a_step_ends_before_its_connection_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """OPS-116: also if whoever asked for it is cancelled meanwhile."""
    path, began, goes_on, results = tmp_path / "holdfast.db", threading.Event(), threading.Event(), list[int]()
    database = SqliteDatabase(path)
    with_free_pages(path)
    step = shrinking._step

    def waits(connection: apsw.Connection, pages: int) -> tuple[int, float]:
        began.set()
        goes_on.wait()
        result = step(connection, pages)
        results.append(result[0])
        return result

    monkeypatch.setattr(shrinking, "_step", waits)
    running = asyncio.create_task(shrink(path, at_once))
    await asyncio.to_thread(began.wait)
    running.cancel()
    asyncio.get_running_loop().call_later(0.05, goes_on.set)
    with pytest.raises(asyncio.CancelledError):
        await running
    assert len(results) == 1
    database.close()


def test_a_step_is_as_large_as_fits_into_its_time() -> None:
    """OPS-116: it grows slowly, has a limit, and never becomes nothing."""
    assert [_adapted(16, held) for held in (0.0, HOLD_SECONDS / 3, HOLD_SECONDS, HOLD_SECONDS * 4, 10.0)] == [
        *(32, 32, 16, 4, 1)
    ]
    assert _adapted(MOST_PAGES, 0.0) == MOST_PAGES


async def test_a_small_file_of_an_earlier_version_shrinks_after_its_upgrade(tmp_path: Path) -> None:
    """OPS-116."""
    path = tmp_path / "holdfast.db"
    path.write_bytes(gzip.decompress(OLD.read_bytes()))
    SqliteDatabase(path).close()
    assert file_space(path).shrinks


async def test_a_large_one_shrinks_after_it_was_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """OPS-116: until then it says so, and keeps its size."""
    path = tmp_path / "holdfast.db"
    path.write_bytes(gzip.decompress(OLD.read_bytes()))
    monkeypatch.setattr(sqlite, "UPGRADE_BYTES", 10)
    database = SqliteDatabase(path)
    before = with_free_pages(path)
    assert await shrink(path, at_once) == NOT_SHRUNK
    assert path.stat().st_size == before
    assert compact(path) > 1_900_000
    assert file_space(path).shrinks
    database.close()


def test_a_file_is_not_written_anew_without_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """OPS-116: it needs twice its size."""
    path = tmp_path / "holdfast.db"
    SqliteDatabase(path).close()

    class Disk:
        free = 10

    monkeypatch.setattr(shutil, "disk_usage", lambda folder: Disk)
    with pytest.raises(StorageError, match="needs twice as much free space; 10 bytes are free"):
        compact(path)
