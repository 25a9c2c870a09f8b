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
KNOWN_SECONDS = 0.5
"""How long an answer to the question whether anybody works is used."""


class Pace:
    def __init__(self, active: Callable[[], Awaitable[Sized]]) -> None:
        """`active` gives the Sessions that any process executes."""
        self._active = active
        self._busy = False
        self._asked = float("-inf")

    async def pause(self, worked: float) -> None:
        """Pause after so many seconds of work."""
        if (now := time.monotonic()) - self._asked > KNOWN_SECONDS:
            self._busy, self._asked = len(await self._active()) > 0, now
        await asyncio.sleep(worked * (BUSY_FACTOR if self._busy else IDLE_FACTOR))
