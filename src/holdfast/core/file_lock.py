"""A lock between processes that is tried once, for work that another process may just as well do."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def try_lock(path: Path) -> Iterator[bool]:
    """Whether nobody else holds it. Freed with the block, or with the process."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        mine = False
    else:
        mine = True
    try:
        yield mine
    finally:
        os.close(handle)
