"""File locks between processes. The system releases a lock when its process ends."""

from __future__ import annotations

import asyncio
import fcntl
import os
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from holdfast.private_files import make_directory

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

POLL_SECONDS = 0.02


@contextmanager
def try_lock(path: Path) -> Iterator[bool]:
    """Yields whether the lock was free. For work that another process may do instead."""
    handle = _open(path)
    try:
        yield _take(handle)
    finally:
        os.close(handle)


@contextmanager
def wait_for_lock(path: Path) -> Iterator[None]:
    """Blocks until the lock is free. For short work in commands and threads, never on an event loop."""
    handle = _open(path)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@asynccontextmanager
async def file_lock(path: Path, *, patience: float = 60.0) -> AsyncIterator[None]:
    """Raises TimeoutError if another process holds the lock longer than `patience` seconds."""
    handle = _open(path)
    try:
        async with asyncio.timeout(patience):
            while not _take(handle):  # noqa: ASYNC110 - another process holds it, which no event tells
                await asyncio.sleep(POLL_SECONDS)
        yield
    finally:
        os.close(handle)


def _open(path: Path) -> int:
    make_directory(path.parent)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _take(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
