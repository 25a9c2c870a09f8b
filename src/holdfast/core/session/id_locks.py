"""Locks by message id: a request that is sent twice at the same time is resolved once.

Invariant: a lock object exists only while it is held or waited for."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class IdLocks:
    """Of one process."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def hold(self, id: str | None) -> AsyncIterator[None]:
        """Wait until nobody else holds the lock of this id. Without an id there is nothing to wait for."""
        if id is None:
            yield
            return
        lock, users = self._held.get(id) or (asyncio.Lock(), 0)
        self._held[id] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            lock, users = self._held.pop(id)
            if users > 1:
                self._held[id] = (lock, users - 1)

    def __len__(self) -> int:
        return len(self._held)
