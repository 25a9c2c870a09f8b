"""Gives free pages of a database file back to the file system, in small commits beside the writer's.

Invariants
- A step holds the write lock for a few milliseconds. The longer the list of free pages, the fewer pages a step moves:
  SQLite searches the list for each of them.
- A file without a map of its pages (`auto_vacuum`) keeps its size; only `compact` gives it one, by writing it anew.
- A step ends before its connection is closed, also if the caller is cancelled."""

from __future__ import annotations

import asyncio
import shutil
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from holdfast.core.database.errors import StorageError
from holdfast.core.database.sqlite import BusyWait, connect, translate
from holdfast.core.run_to_completion import run_to_completion
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.core.database.place import Place

FIRST_PAGES = 16
MOST_PAGES = 128
HOLD_SECONDS = 0.002
"""The steps are made as large as fits into this time."""
CHECKPOINT_PAGES = 1_000
"""After so many pages the log is folded into the file, so that it does not grow."""
INCREMENTAL = 2
NOT_SHRUNK = (
    "the database file keeps its size: it is of an earlier version, and its free pages are only used again. "
    "`holdfast retention --compact` writes it anew once; afterwards it shrinks by itself"
)
POSTGRESQL = (
    "PostgreSQL reuses the space of removed rows after VACUUM, which it runs by itself; VACUUM FULL shrinks tables"
)


class FileSpace(Frozen):
    """Of a database file, in bytes."""

    total: int
    free: int
    shrinks: bool
    """Whether free pages can be given back without writing the file anew."""


def file_space(path: Path) -> FileSpace:
    """Blocks for a moment."""
    with closing(connect(str(path), BusyWait(), readonly=True)) as connection:
        page = int(connection.pragma("page_size"))
        return FileSpace(
            total=int(connection.pragma("page_count")) * page,
            free=int(connection.pragma("freelist_count")) * page,
            shrinks=int(connection.pragma("auto_vacuum")) == INCREMENTAL,
        )


async def shrink(
    place: Place,
    pause: Callable[[float], Awaitable[None]],
    told: Callable[[int, int], None] = lambda done, total: None,
) -> str | None:
    """Give all free pages back. `pause` gets how long a step took; `told` how many pages are done, and how many there
    were. Returns why that is not done, if it is not."""
    if not isinstance(place, Path):
        return POSTGRESQL
    space = await asyncio.to_thread(file_space, place)
    if not space.free:
        return None
    if not space.shrinks:
        return NOT_SHRUNK
    try:
        await _shrink(place, pause, told)
    except apsw.Error as error:
        raise translate(error, str(place)) from error
    return None


async def _shrink(path: Path, pause: Callable[[float], Awaitable[None]], told: Callable[[int, int], None]) -> None:
    with closing(await asyncio.to_thread(connect, str(path), BusyWait())) as connection:
        # Not synced while others wait for the lock: a step that is lost with the power is done again.
        connection.execute("pragma synchronous=normal").fetchall()
        left = total = int(connection.pragma("freelist_count"))
        pages, unfolded = FIRST_PAGES, 0
        while left:
            began = time.monotonic()
            left, held = await run_to_completion(asyncio.to_thread(_step, connection, pages))
            unfolded += pages
            if not left or unfolded >= CHECKPOINT_PAGES:
                await run_to_completion(asyncio.to_thread(_checkpoint, connection))
                unfolded = 0
            told(total - left, total)
            await pause(time.monotonic() - began)
            pages = _adapted(pages, held)


def _adapted(pages: int, held: float) -> int:
    """How many pages the next step moves, if so many took so long."""
    if held < HOLD_SECONDS / 2:
        return min(MOST_PAGES, pages * 2)
    return max(1, min(MOST_PAGES, round(pages * HOLD_SECONDS / held)))


def compact(path: Path) -> int:
    """Write the file anew, without free pages and so that it shrinks by itself from now on; the bytes that it is
    smaller. Commits of all processes wait meanwhile. Raises StorageError. Blocks."""
    before = path.stat().st_size
    free = shutil.disk_usage(path.parent).free
    if free < 2 * before:
        raise StorageError(
            f"{path} has {before:,} bytes, and writing it anew needs twice as much free space; {free:,} bytes are free"
        )
    try:
        with closing(connect(str(path), BusyWait())) as connection:
            connection.execute("pragma temp_store=file").fetchall()
            connection.execute("pragma auto_vacuum=incremental").fetchall()
            connection.execute("vacuum").fetchall()
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    except apsw.Error as error:
        raise translate(error, str(path)) from error
    return before - path.stat().st_size


def _step(connection: apsw.Connection, pages: int) -> tuple[int, float]:
    """The number of free pages afterwards, and for how long the step kept others from writing."""
    connection.execute("begin immediate")  # waits for others; a read that becomes a write would fail at once
    began = time.monotonic()
    try:
        connection.execute(f"pragma incremental_vacuum({pages})").fetchall()
    except BaseException:
        connection.execute("rollback")
        raise
    connection.execute("commit")
    return int(connection.pragma("freelist_count")), time.monotonic() - began


def _checkpoint(connection: apsw.Connection) -> None:
    with suppress(apsw.BusyError):  # another process does it
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
