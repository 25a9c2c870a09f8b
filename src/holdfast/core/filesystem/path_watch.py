"""Whether a path led to the same place all the time while another program used it by its name.

An editor opens files by their paths, so nothing that Holdfast holds open protects it. But an exchange of a component,
also one that was taken back, changes the directory that the component is in, and a directory does not forget that: its
change time cannot be set. Directories outside of the Location are compared by identity only: strangers work in them."""

from __future__ import annotations

import os
import stat
import time
from typing import TYPE_CHECKING

from holdfast.core.filesystem.canonical import contains
from holdfast.core.filesystem.errors import PathError
from holdfast.core.filesystem.open_tree import DIRECTORY

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.core.filesystem.location_path import Target

SETTLED_NANOSECONDS = 20_000_000
"""File systems count change times in steps of some milliseconds. A younger one may hide a further change."""

Step = tuple[int, int, int]
"""Device, inode and change time of a directory; the time is 0 where it does not count."""


class PathWatch:
    """The state of the directories on the way to a target. Blocks."""

    def __init__(self, target: Target, location: Path) -> None:
        """Raises PathError if the path has a link by now, and OSError."""
        self._target = target
        self._location = str(location)
        self._steps, self._entry = self._walk()

    def settled(self, *, written: bool = False) -> bool:
        """Whether the last changes are long enough ago to tell a further one. A file is written only into a directory
        that is there: whoever makes one changes what is around it."""
        if written and len(self._steps) < len(self._target.path.parts) - 2:
            return False
        newest = max((changed for _, _, changed in self._counting(self._steps, written)), default=0)
        return time.time_ns() - newest >= SETTLED_NANOSECONDS

    def unchanged(self, *, written: bool = False) -> bool:
        """Whether the path leads where it led, and did in between. With `written`, the file may be another one,
        and its directory counts by its identity."""
        try:
            steps, entry = self._walk()
        except (PathError, OSError):
            return False
        before = self._counting(self._steps, written)
        return self._counting(steps[: len(self._steps)], written) == before and (written or entry == self._entry)

    def _walk(self) -> tuple[list[Step], tuple[int, int] | None]:
        """The directories as far as they exist, and the identity of the file."""
        steps: list[Step] = []
        *folders, name = self._target.path.parts[1:] or (".",)
        handle, path = os.open("/", DIRECTORY), ""
        try:
            for folder in folders:
                found = _status(folder, handle)
                if found is None:
                    return steps, None
                if not stat.S_ISDIR(found.st_mode):
                    raise PathError(self._target.resource, "location_escape")
                below = os.open(folder, DIRECTORY, dir_fd=handle)
                os.close(handle)
                handle, path = below, f"{path}/{folder}"
                found = os.fstat(handle)
                inside = contains(self._location, path)
                steps.append((found.st_dev, found.st_ino, found.st_ctime_ns if inside else 0))
            found = _status(name, handle)
            if found is not None and stat.S_ISLNK(found.st_mode):
                raise PathError(self._target.resource, "location_escape")
            return steps, None if found is None else (found.st_dev, found.st_ino)
        finally:
            os.close(handle)

    @staticmethod
    def _counting(steps: list[Step], written: bool) -> list[Step]:
        if not (written and steps):
            return steps
        device, inode, _ = steps[-1]
        return [*steps[:-1], (device, inode, 0)]


def _status(name: str, directory: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
