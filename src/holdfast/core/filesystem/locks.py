"""One lock per file that is being changed, for the whole process.

Invariants
- Locks are taken in one order: names sorted, then the identities behind them sorted. So two holders cannot wait for
  each other, and two hard links of one file exclude each other.
- An entry lives as long as somebody holds it or waits for it.
"""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from holdfast.core.filesystem.descriptor import identity

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator
    from pathlib import Path


class FileLocks:
    """Blocking locks, to be held in a worker thread and only for the time of one change."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._entries: dict[Hashable, _Entry] = {}

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
            entry = self._entries.setdefault(key, _Entry())
            entry.users += 1
        try:
            with entry.lock:
                yield
        finally:
            with self._guard:
                entry.users -= 1
                if not entry.users:
                    del self._entries[key]


class _Entry:
    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0


def _identity(path: str) -> tuple[int, int] | None:
    try:
        return identity(os.lstat(path))
    except OSError:
        return None


PROCESS_LOCKS = FileLocks()
"""Shared by all Locations, since two of them may overlap."""
