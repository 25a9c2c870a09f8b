"""Waits for several things at once. Each is waited for by one task, until it happens."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping


class Sources:
    def __init__(self, waits: Mapping[str, Callable[[], Coroutine[Any, Any, Any]]]) -> None:
        self._waits = waits
        self._tasks: dict[str, asyncio.Task[Any]] = {}

    def arm(self, *names: str) -> None:
        """Begin to wait for these, unless that has begun."""
        for name in names:
            if name not in self._tasks:
                self._tasks[name] = asyncio.ensure_future(self._waits[name]())

    async def wait(self, timeout: float | None) -> dict[str, Any]:
        """What has happened, with its result. Empty after the time. What has happened is not waited for again before
        it is armed. Raises what a wait raised."""
        await asyncio.wait(self._tasks.values(), timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        done = [name for name, task in self._tasks.items() if task.done()]
        return {name: self._tasks.pop(name).result() for name in done}

    async def close(self) -> None:
        tasks = [*self._tasks.values()]
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled():
                task.exception()  # marks a failure that nobody asks for as retrieved
