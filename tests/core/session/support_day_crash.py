"""A disk that keeps a picture of the database at every commit, or fails at a chosen one."""

from __future__ import annotations

import shutil
from pathlib import Path

import apsw

TORN = 40
"""Bytes of the last frame that did not reach the disk."""


class Camera(apsw.VFS):
    """SQLite's default file system while held. Each sync of a write-ahead log is one commit point."""

    def __init__(self, folder: Path) -> None:
        super().__init__("holdfast-camera", "unix", makedefault=True)
        self._folder = folder
        self.on = False
        self.commits = 0
        self.fail_at: int | None = None
        self.failed = False
        self.pictures: list[Path] = []

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> _File:
        return _File(self, name, flags)

    def synced(self, wal: str) -> None:
        """After the sync: what a crash from here on would leave."""
        if self.on:
            if self.fail_at is None:
                self._take(wal, torn=False)
            self.commits += 1

    def syncing(self, wal: str) -> None:
        """Before the sync: it may fail, or be cut off by a crash."""
        if not self.on:
            return
        if self.fail_at is None:
            self._take(wal, torn=True)
        elif self.fail_at == self.commits and not self.failed:
            self.failed = True
            raise apsw.IOError("input/output error")

    def _take(self, wal: str, *, torn: bool) -> None:
        picture = self._folder / f"{self.commits:03}-{'torn' if torn else 'whole'}"
        if picture.exists():
            return  # the second sync of one commit
        picture.mkdir(parents=True)
        for name in (wal.removesuffix("-wal"), wal):
            shutil.copy(name, picture)
        if torn:
            copy = picture / Path(wal).name
            copy.write_bytes(copy.read_bytes()[:-TORN])
        self.pictures.append(picture)


class _File(apsw.VFSFile):
    def __init__(self, camera: Camera, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._camera = camera
        self._path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        self._wal = bool(flags[0] & apsw.SQLITE_OPEN_WAL)
        super().__init__("unix", name, flags)

    def xSync(self, flags: int) -> None:
        """Nothing waits for the real disk: a picture is a copy."""
        if self._wal:
            self._camera.syncing(self._path)
            self._camera.synced(self._path)
