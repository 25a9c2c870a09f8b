"""Process-wide locks for files that are being changed.

Invariants
- Locks are taken in a fixed order, sorted names first and then sorted inodes, so holders cannot deadlock and two hard
  links of one file exclude each other.
- A lock object exists only while it is held or waited for."""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from holdfast.core.filesystem.descriptor import file_identity

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator
    from pathlib import Path


class FileLocks:
    """Blocking locks; hold them in a worker thread and only for one change."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._entries: dict[Hashable, _CountedLock] = {}

    @contextmanager
    def hold(self, paths: Iterable[Path]) -> Iterator[None]:
        names = sorted({str(path) for path in paths})
        with ExitStack() as held:
            for name in names:
                held.enter_context(self._hold(name))
            for identity in sorted({found for name in names if (found := _identity(name)) is not None}):
                held.enter_context(self._hold(identity))
            yield

    def __len__(self) -> int:
        return len(self._entries)

    @contextmanager
    def _hold(self, key: Hashable) -> Iterator[None]:
        with self._guard:
            entry = self._entries.setdefault(key, _CountedLock())
            entry.users += 1
        try:
            with entry.lock:
                yield
        finally:
            with self._guard:
                entry.users -= 1
                if not entry.users:
                    del self._entries[key]


class _CountedLock:
    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0


def _identity(path: str) -> tuple[int, int] | None:
    try:
        return file_identity(os.lstat(path))
    except OSError:
        return None


PROCESS_LOCKS = FileLocks()
"""Shared by all Locations, because their directories may overlap."""
