"""Limits of snapshots: which files are excluded, decided before git reads them.

Invariants
- A file above the limit is not read, stored or reverted: files excluded from a tree are recorded next to it and count
  as unchanged.
- The number of files passed to git is bounded."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from holdfast.core.atomic_write import atomic_write
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

MOST_EXCLUDED = 1_000
"""The maximum number of excluded files per tree: git compares every path with each of them."""
SETTINGS = "holdfast.snapshot"
ENTRY_COUNT = slice(8, 12)
"""The bytes of an index file with its number of entries."""


class SnapshotLimits(Frozen):
    file_bytes: int = 16 * 1024 * 1024
    """Larger files are excluded."""
    files: int = 100_000
    """A project with more files has no snapshots."""


class TooMuch(Exception):
    """The project exceeds a limit for snapshots; the message names the limit and its setting."""


def files_too_large(worktree: Path, changed: Iterable[str], limits: SnapshotLimits) -> list[str]:
    """The paths in `changed` that are too large. Sparse files count with their full size, which git would read. Raises
    TooMuch."""
    paths = sorted(set(changed))
    if len(paths) > limits.files:
        raise TooMuch(f"more than {limits.files} of its files are new or changed ({SETTINGS}.files)")
    found = [path for path in paths if _size(worktree / path) > limits.file_bytes]
    if len(found) > MOST_EXCLUDED:
        raise TooMuch(
            f"more than {MOST_EXCLUDED} files are larger than {limits.file_bytes} bytes ({SETTINGS}.file_bytes)"
        )
    return found


def check_entries(index: Path, limits: SnapshotLimits) -> None:
    """Raises TooMuch if the index has more entries than the limit."""
    try:
        with open(index, "rb") as file:
            count = int.from_bytes(file.read(ENTRY_COUNT.stop)[ENTRY_COUNT], "big")
    except FileNotFoundError:
        return
    if count > limits.files:
        raise TooMuch(f"it has {count} files, more than {limits.files} ({SETTINGS}.files)")


class ExcludedFiles:
    """The files excluded from each tree, stored in one file per tree. Repeated captures of a tree add up."""

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
        return 0  # missing or inaccessible: git reports it
    return status.st_size if stat.S_ISREG(status.st_mode) else 0
