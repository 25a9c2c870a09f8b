"""Remembers the state in which a Session last read or wrote a file, to detect changes by others."""

from __future__ import annotations

import os
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

CAPACITY = 4096

Fingerprint = tuple[int, int, int]


class ReadFingerprints:
    """In memory, bounded, oldest removed first. A file without a fingerprint is never stale."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, Path], Fingerprint] = OrderedDict()

    def note(self, session_id: str, path: Path, found: os.stat_result | None = None) -> None:
        """Record that the Session read or wrote the file, in the given state or the current one."""
        fingerprint = _fingerprint(found) if found is not None else _current(path)
        if fingerprint is None:
            self._known.pop((session_id, path), None)
            return
        self._known[session_id, path] = fingerprint
        self._known.move_to_end((session_id, path))
        if len(self._known) > CAPACITY:
            self._known.popitem(last=False)

    def is_stale(self, session_id: str, path: Path) -> bool:
        """Whether the file changed since the Session last read or wrote it."""
        known = self._known.get((session_id, path))
        return known is not None and known != _current(path)


def _current(path: Path) -> Fingerprint | None:
    try:
        return _fingerprint(os.lstat(path))
    except OSError:
        return None


def _fingerprint(found: os.stat_result) -> Fingerprint:
    return found.st_ino, found.st_size, found.st_mtime_ns
