"""What uses the disk, and what could be freed and how. Reads only."""

from __future__ import annotations

import asyncio
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.database.info import store_info
from holdfast.core.database.shrinking import file_space
from holdfast.schema.disk import DiskReport, DiskUse, LargeSession
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.database.database import Database
    from holdfast.core.database.place import Place

LARGEST = 10
FOLDERS = {
    "tool-output": (
        "outputs of tools",
        "files go after 7 days, and the oldest ones beyond 1 GiB; those of a purged session at once",
    ),
    "snapshot": ("file snapshots", "`holdfast retention` removes what no session needs any more"),
    "copies": ("isolated copies", "they go with their session, or 30 days after their last use"),
    "log": ("logs", "they can be removed while no server runs"),
    "repos": ("repositories of references", "they can be removed; what is needed is fetched again"),
    "mcp": ("MCP servers", "old files go by themselves"),
}
"""Folders of the data directory, with what they are and how they get smaller."""
PURGE = "`holdfast sessions purge SESSION`, or `holdfast.retention.deleted` in your configuration"
SHRINK = "`holdfast retention` gives free pages back"
COMPACT = "`holdfast retention --compact` writes the file anew; until then free pages are only used again"
LOG = "it is folded into the file again and again, and emptied when the last process closes the database"
POSTGRESQL = "VACUUM, which PostgreSQL runs by itself, makes room for new rows; VACUUM FULL gives it back"


class DiskUses:
    def __init__(self, database: Database, place: Place, data: Path) -> None:
        """`data` is the folder with the files of this installation."""
        self._database = database
        self._place = place
        self._data = data

    async def report(self) -> DiskReport:
        """Reads the sizes of all events: some seconds for a million."""
        uses = [
            *await self._store(),
            *await self._contents(),
            *await asyncio.to_thread(lambda: [*_folders(self._data)]),
        ]
        largest = await self._database.fetch_large("disk.largest", {"limit": LARGEST}, into=_Large)
        return DiskReport(
            data=str(self._data),
            free=_free(self._data),
            uses=tuple(uses),
            largest=tuple(row.session() for row in largest),
        )

    async def _store(self) -> list[DiskUse]:
        info = await store_info(self._database, self._place)
        if not isinstance(self._place, Path):
            return [DiskUse(name="database", path=info.name, bytes=info.bytes or 0, how=POSTGRESQL)]
        space = await asyncio.to_thread(file_space, self._place)
        how = SHRINK if space.shrinks else COMPACT
        return [
            DiskUse(name="database", path=str(self._place), bytes=info.bytes or 0, free=space.free, how=how),
            DiskUse(name="write-ahead log", path=f"{self._place}-wal", bytes=info.log_bytes or 0, how=LOG),
        ]

    async def _contents(self) -> list[DiskUse]:
        """Parts of the database."""
        (found,) = await self._database.fetch_large("disk.contents", {}, into=_Contents)
        inside = "in the database"
        return [
            DiskUse(name="attachments", path=inside, bytes=found.attachments, how="they go with their session"),
            DiskUse(
                name=f"events of {found.deleted:,} deleted sessions",
                path=inside,
                bytes=found.deleted_bytes,
                free=found.deleted_bytes,
                how=PURGE,
            ),
        ]


class _Contents(Frozen):
    attachments: int
    deleted: int
    deleted_bytes: int


class _Large(Frozen):
    id: str
    title: str | None
    directory: str | None
    events: int
    bytes: int

    def session(self) -> LargeSession:
        return LargeSession(
            id=self.id, title=self.title, directory=self.directory, events=self.events, bytes=self.bytes
        )


def _folders(data: Path) -> Iterator[DiskUse]:
    for name, (called, how) in FOLDERS.items():
        if (size := _size(data / name)) is not None:
            yield DiskUse(name=called, path=str(data / name), bytes=size, how=how)


def _size(folder: Path) -> int | None:
    """Bytes of all files below it; None if it is not there."""
    if not folder.is_dir():
        return None
    total = 0
    for above, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(above, name)).st_size
    return total


def _free(folder: Path) -> int | None:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None
