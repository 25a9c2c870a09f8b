"""Folders of Holdfast itself: what file tools may do in them, wherever a Location is.

Invariants
- The table decides on the real place of a path. Of the folders around a path the innermost one counts.
- A folder is recognised by its path and by its device and inode, so that neither a bind mount nor another spelling on a
  file system that ignores case leads around it.
- `closed` is refused whatever permission rules say: the password of the server, keys of providers and the database are
  there. `outside` needs approval as a directory outside of the Location does. `open` is a file like any other."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

from holdfast.core.filesystem.canonical import contains
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

Use = Literal["open", "outside", "closed"]
Identity = tuple[int, int]

NO_FOLDERS: Callable[[], Sequence[Path]] = tuple


class OwnFolder(Frozen):
    path: str
    """Canonical."""
    read: Use
    write: Use


class OwnFolders:
    """The folders of one installation, or none."""

    def __init__(self, folders: Iterable[OwnFolder] = (), *, skills: Callable[[], Sequence[Path]] = NO_FOLDERS) -> None:
        self._folders = {folder.path: folder for folder in folders}
        self._skills = skills

    @classmethod
    def of(
        cls,
        *,
        closed: Iterable[Path],
        outside: Iterable[Path] = (),
        readable: Iterable[Path] = (),
        writable: Iterable[Path] = (),
    ) -> OwnFolders:
        """`readable` and `writable` are folders in the closed ones."""
        kinds: tuple[tuple[Iterable[Path], Use, Use], ...] = (
            (outside, "outside", "outside"),
            (closed, "closed", "closed"),
            (readable, "open", "closed"),
            (writable, "open", "open"),
        )
        folders = (OwnFolder(os.path.realpath(path), read, write) for paths, read, write in kinds for path in paths)
        return cls(folders)

    def with_skills(self, skills: Callable[[], Sequence[Path]]) -> OwnFolders:
        """The table with the directories in which skills are looked for now. In the configuration they are readable."""
        return OwnFolders(self._folders.values(), skills=skills)

    def around(self, location: str) -> OwnFolders:
        """The table for a Location with this root. A project that somebody keeps in one of the folders is open."""
        folder = self._innermost(location, self._table())
        if folder is None or folder.path == location:
            return self
        return OwnFolders((*self._folders.values(), OwnFolder(location, "open", "open")), skills=self._skills)

    def use(self, path: str, access: Literal["read", "write"] = "read") -> Use:
        """What may be done with a canonical path, which need not exist. Costs a `stat` for each directory above it."""
        folder = self._innermost(path, self._table()) if self._folders else None
        return "open" if folder is None else folder.read if access == "read" else folder.write

    def identities(self, access: Literal["read", "write"] = "read") -> dict[Identity, Use]:
        """What may be done in the folders that exist, for a walk that meets them."""
        table = self._table()
        identities = ((_identity(key), folder) for key, folder in table.items())
        return {
            identity: folder.read if access == "read" else folder.write
            for identity, folder in identities
            if identity is not None
        }

    def _table(self) -> dict[str, OwnFolder]:
        table = dict(self._folders)
        for skills in self._skills():
            path = os.path.realpath(skills)
            around = [folder for folder in self._folders.values() if contains(folder.path, path)]
            if around and path not in table and max(around, key=lambda folder: len(folder.path)).read == "outside":
                table[path] = OwnFolder(path, "open", "outside")
        return table

    @staticmethod
    def _innermost(path: str, table: dict[str, OwnFolder]) -> OwnFolder | None:
        identities = {_identity(key): folder for key, folder in table.items()}
        identities.pop(None, None)
        while True:
            if (folder := table.get(path)) is not None:
                return folder
            if (folder := identities.get(_identity(path))) is not None:
                return folder
            above = os.path.dirname(path)
            if above == path:
                return None
            path = above


def _identity(path: str) -> Identity | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
