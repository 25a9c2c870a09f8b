"""Atomic file replacement: a reader sees the old or the new content, also after a crash."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def atomic_write(path: Path, data: bytes) -> None:
    """Replace the file; only its owner can read it. Durable on return. Raises OSError and then leaves no file
    behind."""
    import tempfile

    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=path.name)  # mode 0600
    try:
        with open(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except OSError:
        with suppress(OSError):
            os.unlink(draft)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
