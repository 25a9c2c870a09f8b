"""Lets other parts wait until a Location's plugins are loaded."""

from __future__ import annotations

import asyncio


class PluginBoot:
    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    def begin(self, task: asyncio.Task[None]) -> None:
        """Set the task that loads the plugins."""
        self._task = task

    @property
    def running(self) -> bool:
        return self._task is not None and not self._task.done()

    async def wait(self) -> None:
        """Wait until the plugins are loaded or have failed to load."""
        if self._task is not None:
            await asyncio.wait({self._task})
