"""The lock of this node on the server, for `core/session/liveness.py`."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.core.database.postgres.listener import Listener


class NodeLock:
    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._number: int | None = None

    async def hold(self, number: int) -> None:
        if self._number != number:
            await asyncio.to_thread(self._listener.hold, number)
            self._number = number

    async def release(self) -> None:
        if self._number is not None:
            self._listener.release(self._number)
            self._number = None

    def lost(self) -> float | None:
        if not self._listener.lost:
            return None
        since = self._listener.connected_since
        if since is None or (self._number is not None and not self._listener.holds(self._number)):
            return 0.0
        return time.monotonic() - since
