"""How long maintenance pauses between two steps: briefly while nobody works, else so that it takes a fifth of the time
at most."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sized

BUSY_FACTOR = 4.0
IDLE_FACTOR = 0.25
LOOK_SECONDS = 0.25
"""Between two looks whether anybody works."""
BUSY_SECONDS = 10.0
"""How long work counts after it was seen. Between two short turns nothing is executed, but more is to be expected."""


class MaintenancePace:
    def __init__(self, active: Callable[[], Awaitable[Sized]]) -> None:
        """`active` gives the Sessions that any process executes."""
        self._active = active
        self._looked = float("-inf")
        self._seen = float("-inf")
        """When somebody was seen working."""

    async def pause(self, worked: float) -> None:
        """Pause after so many seconds of work."""
        if (now := time.monotonic()) - self._looked > LOOK_SECONDS:
            self._looked = now
            if await self._active():
                self._seen = now
        busy = now - self._seen < BUSY_SECONDS
        await asyncio.sleep(worked * (BUSY_FACTOR if busy else IDLE_FACTOR))
