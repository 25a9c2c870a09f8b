"""Limits how many MCP servers of a process start at the same moment without being asked for: many servers in a
configuration do not start many processes at once. A start that somebody waits for goes ahead."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MOST_STARTS = 8


class BackgroundStarts:
    """One per process."""

    def __init__(self, most: int = MOST_STARTS) -> None:
        self._most = most
        self._running = 0
        self._waiting: dict[asyncio.Event, None] = {}
        """In the order of arrival."""

    @asynccontextmanager
    async def turn(self, wanted: asyncio.Event) -> AsyncIterator[None]:
        """Waits while as many starts are under way, until it is this one's turn or `wanted` is set. What is wanted
        counts, too, but never waits."""
        if not wanted.is_set() and self._running >= self._most:
            await self._wait(wanted)
        else:
            self._running += 1
        try:
            yield
        finally:
            self._end()

    async def _wait(self, wanted: asyncio.Event) -> None:
        self._waiting[wanted] = None
        try:
            await wanted.wait()
        except asyncio.CancelledError:
            if wanted not in self._waiting:  # its turn has just come
                self._end()
            raise
        else:
            if wanted in self._waiting:  # somebody wants the server
                self._running += 1
        finally:
            self._waiting.pop(wanted, None)

    def _end(self) -> None:
        self._running -= 1
        while self._waiting and self._running < self._most:
            first = next(iter(self._waiting))
            del self._waiting[first]
            self._running += 1
            first.set()
