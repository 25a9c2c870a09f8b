"""A disk that fails when told to: a real file system below, faults on the way."""

from __future__ import annotations

from collections.abc import Iterator

import apsw
import pytest

from holdfast.core.database import sqlite


@pytest.fixture(autouse=True)
def _new_databases_are_migrated(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty file goes through all migrations here, as in the product."""
    monkeypatch.setattr("holdfast.core.database.database.prepare", sqlite.prepare)


@pytest.fixture(autouse=True)
def _commits_are_synced(synced_commits: None) -> None:
    """As in the product."""


class FaultyDisk(apsw.VFS):
    """SQLite's default file system while a test holds it. `wal_room` is how far a write-ahead log may grow."""

    def __init__(self) -> None:
        super().__init__("holdfast-test-disk", "unix", makedefault=True)
        self.wal_syncs = 0
        self.bytes_read = 0
        self.heal()

    def heal(self) -> None:
        self.wal_room: int | None = None
        self.sync_fails = False
        self.read_fails = False
        self.read_only = False

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> _File:
        return _File(self, name, flags)


class _File(apsw.VFSFile):
    def __init__(self, disk: FaultyDisk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._disk = disk
        self._wal = bool(flags[0] & apsw.SQLITE_OPEN_WAL)
        super().__init__("unix", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        if self._disk.read_only:
            raise apsw.ReadOnlyError("read-only file system")
        if self._wal and self._disk.wal_room is not None and offset + len(data) > self._disk.wal_room:
            raise apsw.FullError("no space left on device")
        super().xWrite(data, offset)

    def xRead(self, amount: int, offset: int) -> bytes:
        if self._disk.read_fails:
            raise apsw.IOError("input/output error")
        self._disk.bytes_read += amount
        return super().xRead(amount, offset)

    def xSync(self, flags: int) -> None:
        if self._wal and self._disk.sync_fails:
            raise apsw.IOError("input/output error")
        super().xSync(flags)
        self._disk.wal_syncs += self._wal

    def xLock(self, level: int) -> None:
        # A read-only handle cannot take the write lock, which SQLite tries on closing; apsw would make that an error.
        try:
            super().xLock(level)
        except apsw.IOError:
            raise apsw.BusyError from None


@pytest.fixture
def disk() -> Iterator[FaultyDisk]:
    disk = FaultyDisk()
    yield disk
    disk.heal()
    disk.unregister()
