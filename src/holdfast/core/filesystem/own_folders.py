"""Folders of Holdfast itself: what file tools may do in them, wherever a Location is.

Invariants
- The table decides on the real place of a path. Of the folders around a path the innermost one counts.
- A folder is recognised by its path and by its device and inode, so that neither a bind mount nor another spelling on a
  file system that ignores case leads around it.
- `closed` is refused whatever permission rules say: the password of the server, keys of providers and the database are
  there. `outside` needs approval as a directory outside of the Location does. `open` is a file like any other."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Literal

from holdfast.core.filesystem.canonical import contains
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

Use = Literal["open", "outside", "closed"]
Identity = tuple[int, int]

NO_FOLDERS: Callable[[], Sequence[Path]] = tuple
IDENTITIES_SECONDS = 1.0


class OwnFolder(Frozen):
    path: str
    """Canonical."""
    read: Use
    write: Use


class OwnFolders:
    """The folders of one installation, or none."""

    def __init__(
        self,
        folders: Iterable[OwnFolder] = (),
        *,
        skills: Callable[[], Sequence[Path]] = NO_FOLDERS,
    ) -> None:
        self._folders = {folder.path: folder for folder in folders}
        self._skills = skills
        self._remembered: tuple[float, dict[Identity, OwnFolder]] = (0.0, {})

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
        return cls(OwnFolder(os.path.realpath(path), read, write) for paths, read, write in kinds for path in paths)

    def with_skills(self, skills: Callable[[], Sequence[Path]]) -> OwnFolders:
        """The table with the directories in which skills are looked for now. In the configuration they are readable."""
        return OwnFolders(self._folders.values(), skills=skills)

    def around(self, location: str) -> OwnFolders:
        """The table for a Location with this root, which ends every search for a folder. A project that somebody keeps
        in one of the folders is open."""
        if not self._folders or self._is_own(location):
            return self
        return OwnFolders((*self._folders.values(), OwnFolder(location, "open", "open")), skills=self._skills)

    def use(self, path: str, access: Literal["read", "write"] = "read") -> Use:
        """What may be done with a canonical path, which need not exist. Costs a `stat` for each directory up to the
        root of the Location."""
        folder = self._innermost(path) if self._folders else None
        if folder is None:
            return "open"
        if folder.read == "outside":
            folder = next((one for one in self._readable_skills() if contains(one.path, path)), folder)
        return folder.read if access == "read" else folder.write

    def identities(self, access: Literal["read", "write"] = "read") -> dict[Identity, Use]:
        """What may be done in the folders that exist, for a walk that meets them."""
        found = _identities((*self._folders.values(), *self._readable_skills()))
        return {identity: folder.read if access == "read" else folder.write for identity, folder in found.items()}

    def _is_own(self, location: str) -> bool:
        return location in self._folders or _identity(location) in self._identities()

    def _readable_skills(self) -> list[OwnFolder]:
        outside = [path for path, folder in self._folders.items() if folder.read == "outside"]
        paths = (os.path.realpath(path) for path in self._skills()) if outside else ()
        return [OwnFolder(path, "open", "outside") for path in paths if any(contains(one, path) for one in outside)]

    def _innermost(self, path: str) -> OwnFolder | None:
        identities = self._identities()
        while True:
            if (folder := self._folders.get(path)) is not None:
                return folder
            identity = _identity(path)
            if identity is not None and (folder := identities.get(identity)) is not None:
                return folder
            above = os.path.dirname(path)
            if above == path:
                return None
            path = above

    def _identities(self) -> dict[Identity, OwnFolder]:
        """Read once a second: the folders rarely change, and their paths are matched anyway."""
        until, identities = self._remembered
        if time.monotonic() >= until:
            identities = _identities(self._folders.values())
            self._remembered = (time.monotonic() + IDENTITIES_SECONDS, identities)
        return identities


def _identities(folders: Iterable[OwnFolder]) -> dict[Identity, OwnFolder]:
    return {identity: folder for folder in folders if (identity := _identity(folder.path)) is not None}


def _identity(path: str) -> Identity | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
