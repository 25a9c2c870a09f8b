"""Temporary directories for confined commands and for MCP servers. A directory is locked while in use, so that those
left by killed processes can be recognised and removed."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from holdfast.schema.frozen import Frozen

PREFIX = "holdfast-sandbox-"
SETTLED_SECONDS = 60
"""A younger directory may not be locked yet."""
MOST_REMOVED = 20


class PrivateDirectory(Frozen):
    path: Path
    lock: int


def make(parent: Path | None = None, prefix: str = PREFIX) -> PrivateDirectory:
    """Create one in `parent` (default: the system's temporary directory), and remove abandoned ones there."""
    parent = parent or Path(tempfile.gettempdir())
    path = Path(os.path.realpath(tempfile.mkdtemp(prefix=prefix, dir=parent)))
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    fcntl.flock(lock, fcntl.LOCK_SH)
    with suppress(OSError):
        _remove_abandoned(parent, prefix, os.fstat(lock).st_ctime)
    return PrivateDirectory(path, lock)


def remove(directory: PrivateDirectory) -> None:
    shutil.rmtree(directory.path, ignore_errors=True)
    os.close(directory.lock)


def _remove_abandoned(parent: Path, prefix: str, now: float) -> None:
    """`now` is in the time of the file system: this process's clock can be wrong."""
    for path in sorted(parent.glob(f"{prefix}*"))[:MOST_REMOVED]:
        status = path.lstat()
        if status.st_uid != os.geteuid() or now - status.st_ctime < SETTLED_SECONDS:
            continue
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
        except BlockingIOError:
            pass  # in use
        finally:
            os.close(lock)
