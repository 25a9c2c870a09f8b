"""Which file a Session saw in which state, so that it does not overwrite what it never read."""

from __future__ import annotations

import os
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

CAPACITY = 4096

Fingerprint = tuple[int, int, int]


class ReadMarks:
    """Kept in memory, the oldest forgotten first: a forgotten mark guards nothing and hinders nothing."""

    def __init__(self) -> None:
        self._marks: OrderedDict[tuple[str, Path], Fingerprint] = OrderedDict()

    def note(self, session_id: str, path: Path, found: os.stat_result | None = None) -> None:
        """The Session has just read or written the file, in the state given or else the present one."""
        fingerprint = _fingerprint(found) if found is not None else _present(path)
        if fingerprint is None:
            self._marks.pop((session_id, path), None)
            return
        self._marks[session_id, path] = fingerprint
        self._marks.move_to_end((session_id, path))
        if len(self._marks) > CAPACITY:
            self._marks.popitem(last=False)

    def is_stale(self, session_id: str, path: Path) -> bool:
        """Whether the Session read the file and it has changed since. What it never read is not stale."""
        mark = self._marks.get((session_id, path))
        return mark is not None and mark != _present(path)


def _present(path: Path) -> Fingerprint | None:
    try:
        return _fingerprint(os.lstat(path))
    except OSError:
        return None


def _fingerprint(found: os.stat_result) -> Fingerprint:
    return found.st_ino, found.st_size, found.st_mtime_ns
