"""The free space of the data directory's disk, and the least with which new input is accepted.

Invariants
- The disk is asked at most once a second, whoever wants to know.
- Falling below the floor, and being above it again, is one line of the log each."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from typing import TYPE_CHECKING

from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SECONDS = 1.0
SETTING = "holdfast.limits.disk_floor_bytes"

log = logging.getLogger(__name__)


class DiskSpace(Frozen):
    free: int
    floor: int
    """0 where nothing is refused."""

    @property
    def is_low(self) -> bool:
        return self.free < self.floor

    def __str__(self) -> str:
        return f"{self.free:,} bytes free, and nothing new is accepted below {self.floor:,} bytes (`{SETTING}`)"


class DiskFloor:
    def __init__(self, folder: Path, floor: int, *, now: Callable[[], float] = time.monotonic) -> None:
        self._folder = folder
        self._floor = floor
        self._now = now
        self._space: DiskSpace | None = None
        self._looked = 0.0
        self._was_low = False

    async def space(self) -> DiskSpace:
        known = self._known()
        return known if known is not None else self._store(await asyncio.to_thread(_free_bytes, self._folder))

    def space_now(self) -> DiskSpace:
        """The same for callers that cannot wait. Blocks as long as the file system does."""
        known = self._known()
        return known if known is not None else self._store(_free_bytes(self._folder))

    def _known(self) -> DiskSpace | None:
        return self._space if self._now() - self._looked < SECONDS else None

    def _store(self, free: int) -> DiskSpace:
        self._looked, self._space = self._now(), DiskSpace(free, self._floor)
        self._report(self._space)
        return self._space

    def _report(self, space: DiskSpace) -> None:
        if space.is_low == self._was_low:
            return
        self._was_low = space.is_low
        if space.is_low:
            log.warning("the disk of %s is full: %s; what runs continues", self._folder, space)
        else:
            log.warning("the disk of %s has room again: %s", self._folder, space)


def _free_bytes(folder: Path) -> int:
    """For a user who is not root, on the disk of the folder, which may not exist yet where Sessions are elsewhere."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize
