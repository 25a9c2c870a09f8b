"""Placeholders for protected names that do not exist yet. A mount can only protect an existing path, so an empty
directory is created for each missing name while a command runs; git ignores it, and nothing can replace it.

Invariants
- A placeholder in use has a shared lock; only a process that gets the exclusive lock removes it.
- Names for which git does not accept a directory get no placeholder: `leftovers.py` sets them aside afterwards."""

from __future__ import annotations

import fcntl
import os
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from holdfast.core.process.sandbox.place_names import CONFIGURATION

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

FILES = frozenset(name for name in CONFIGURATION if name != ".opencode")
"""Names that are normally files: an empty directory of this name was left by a killed process."""
TRIES = 10


@contextmanager
def placeholders(protected: Sequence[Path]) -> Iterator[None]:
    with ExitStack() as stack:
        parents = {folder: _open(folder) for folder in dict.fromkeys(path.parent for path in protected)}
        for handle in parents.values():
            if handle is not None:
                stack.callback(os.close, handle)
        for path in protected:
            parent = parents[path.parent]
            if parent is not None:
                _hold(path.name, parent, stack)
        yield


def _hold(name: str, parent: int, stack: ExitStack) -> None:
    """Create and lock a placeholder, unless the name exists."""
    made = False
    for _ in range(TRIES):
        try:
            os.mkdir(name, 0o755, dir_fd=parent)
            made = True
        except OSError:
            pass
        handle = _open(name, parent)
        if handle is None and not made:
            return
        if handle is None:
            continue
        fcntl.flock(handle, fcntl.LOCK_SH)
        with suppress(OSError):
            same = os.path.samestat(os.fstat(handle), os.stat(name, dir_fd=parent, follow_symlinks=False))
            if same and (made or not os.listdir(handle)):
                stack.callback(_release, name, parent, handle, made)
                return
            if same:
                os.close(handle)
                return
        os.close(handle)  # removed by another process in the meantime


def _release(name: str, parent: int, handle: int, made: bool) -> None:
    try:
        with suppress(OSError):
            if made or name in FILES:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.rmdir(name, dir_fd=parent)
    finally:
        os.close(handle)


def _open(path: str | Path, parent: int | None = None) -> int | None:
    """A descriptor of a directory; None if there is none. Later steps use it, even if the name is replaced."""
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    except OSError:
        return None
