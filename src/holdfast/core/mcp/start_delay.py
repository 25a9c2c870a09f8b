"""How long the next start of a server waits after failures."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

FIRST_DELAY = 0.25
LONGEST_DELAY = 300.0
LONGEST_CALL_DELAY = 2.0
"""A call waits no longer than this after the last failure."""


class StartDelay:
    """Doubled with each failure, with jitter."""

    def __init__(self) -> None:
        self.failures = 0
        """In a row."""
        self._failed_at = 0.0
        self._not_before = 0.0
        self._hurried = asyncio.Event()

    def failed(self) -> None:
        self.failures += 1
        longest = min(FIRST_DELAY * 2 ** (self.failures - 1), LONGEST_DELAY)
        self._failed_at = asyncio.get_running_loop().time()
        self._not_before = self._failed_at + longest * random.uniform(0.5, 1.0)

    def reset(self) -> None:
        """As if nothing had failed."""
        self.failures, self._not_before = 0, 0.0

    def hurry(self) -> None:
        """Somebody waits: the delay becomes short, also one that is under way."""
        self._not_before = min(self._not_before, self._failed_at + LONGEST_CALL_DELAY)
        self._hurried.set()

    async def wait(self) -> None:
        while (delay := self._not_before - asyncio.get_running_loop().time()) > 0:
            self._hurried.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await self._hurried.wait()
