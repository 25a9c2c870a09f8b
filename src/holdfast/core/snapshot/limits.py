"""Which files belong to a snapshot, decided before git reads any of them.

Invariants
- A file above the limit is neither read nor stored, nor touched by a revert: what was left out of a tree is recorded
  beside it, and counts as unchanged.
- The number of files that git is given is bounded."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from holdfast.core.atomic_write import atomic_write
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

LEFT_OUT = 1_000
"""Files that may be left out of one tree: git compares every path with each of them."""
SETTINGS = "holdfast.snapshot"
ENTRY_COUNT = slice(8, 12)
"""Of an index file: how many entries it has, after the signature and the version."""


class SnapshotLimits(Frozen):
    file_bytes: int = 16 * 1024 * 1024
    """Larger files are left out."""
    files: int = 100_000
    """A project with more files has no snapshots."""


class TooMuch(Exception):
    """The project is too large for snapshots; the text says in what way, and which setting changes it."""


def left_out(worktree: Path, changed: Iterable[str], limits: SnapshotLimits) -> list[str]:
    """Of paths that are new or changed, those that are too large. Sparse files count with their full size, which is
    what git would read. Raises TooMuch."""
    paths = sorted(set(changed))
    if len(paths) > limits.files:
        raise TooMuch(f"more than {limits.files} of its files are new or changed ({SETTINGS}.files)")
    found = [path for path in paths if _size(worktree / path) > limits.file_bytes]
    if len(found) > LEFT_OUT:
        raise TooMuch(f"more than {LEFT_OUT} files are larger than {limits.file_bytes} bytes ({SETTINGS}.file_bytes)")
    return found


def check_entries(index: Path, limits: SnapshotLimits) -> None:
    """Raises TooMuch when the index has more entries than a snapshot may have files."""
    try:
        with open(index, "rb") as file:
            count = int.from_bytes(file.read(ENTRY_COUNT.stop)[ENTRY_COUNT], "big")
    except FileNotFoundError:
        return
    if count > limits.files:
        raise TooMuch(f"it has {count} files, more than {limits.files} ({SETTINGS}.files)")


class LeftOut:
    """What was left out of each tree, one file per tree. The same tree may be taken several times: all count."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def note(self, tree: str, paths: Iterable[str]) -> None:
        known = self.of(tree)
        if known >= (together := known | set(paths)):
            return
        self._folder.mkdir(exist_ok=True, mode=0o700)
        atomic_write(self._folder / tree, b"\0".join(map(os.fsencode, sorted(together))))

    def of(self, *trees: str) -> set[str]:
        found: set[str] = set()
        for tree in trees:
            try:
                names = (self._folder / tree).read_bytes()
            except FileNotFoundError:
                continue
            found.update(os.fsdecode(name) for name in names.split(b"\0") if name)
        return found


def _size(path: Path) -> int:
    try:
        status = path.lstat()
    except OSError:
        return 0  # gone, or nobody may look: git says so itself
    return status.st_size if stat.S_ISREG(status.st_mode) else 0
