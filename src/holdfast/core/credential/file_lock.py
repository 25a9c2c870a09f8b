"""One process at a time. The lock ends with the process that holds it, however that ends."""

from __future__ import annotations

import asyncio
import fcntl
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

POLL_SECONDS = 0.02


@asynccontextmanager
async def file_lock(path: Path, *, patience: float = 60.0) -> AsyncIterator[None]:
    """Raises TimeoutError when another process keeps it longer than `patience` seconds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        async with asyncio.timeout(patience):
            while not _taken(handle):  # noqa: ASYNC110 - another process holds it, which no event tells
                await asyncio.sleep(POLL_SECONDS)
        yield
    finally:
        os.close(handle)


def _taken(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
