"""Calls of this process that wait for a child."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from holdfast.core.event.signal import Flag

TOGETHER_SECONDS = 0.01
"""So long after a commit of a child the call looks, once for all that come together."""
HERE_SECONDS = 1.0
"""While this process executes the child, which tells when it ends, the call looks so often by itself."""


class Waiter:
    """A call that waits for its child, or for its turn."""

    def __init__(self) -> None:
        self.commits: Flag | None = None
        """Set after each commit of the child, while the call waits for it."""
        self._told = asyncio.Event()
        self.moved = False

    def move(self) -> None:
        self.moved = True
        self.tell()

    def tell(self) -> None:
        """Let the call look at once."""
        self._told.set()
        if self.commits is not None:
            self.commits.set()

    def clear(self) -> None:
        """The call looks now."""
        self._told.clear()
        if self.commits is not None:
            self.commits.clear()

    async def news(self, here: Callable[[], bool]) -> None:
        """Wait until the call is to look again. `here` says whether this process executes the child."""
        if self.commits is not None:
            await self.commits.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(HERE_SECONDS if here() else TOGETHER_SECONDS):
                await self._told.wait()


class Place:
    """One of the tasks of a tree that calls of this process wait for."""

    def __init__(self, taken: Counter[str], root_id: str) -> None:
        self._taken = taken
        self._root_id = root_id
        self._held = False

    def take(self, most: int | None = None) -> bool:
        """Whether there are fewer than `most`, this one left out."""
        if most is not None and self._taken[self._root_id] >= most:
            return False
        self._held = True
        self._taken[self._root_id] += 1
        return True

    def free(self) -> None:
        if self._held:
            self._held = False
            self._taken[self._root_id] -= 1
            if not self._taken[self._root_id]:
                del self._taken[self._root_id]
