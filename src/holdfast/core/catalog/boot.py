"""The loading of a Location's plugins, for those who wait for what plugins add."""

from __future__ import annotations

import asyncio


class PluginBoot:
    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    def begin(self, task: asyncio.Task[None]) -> None:
        """This is what loads plugins now."""
        self._task = task

    @property
    def running(self) -> bool:
        return self._task is not None and not self._task.done()

    async def wait(self) -> None:
        """Returns when the plugins are loaded or have failed to load."""
        if self._task is not None:
            await asyncio.wait({self._task})
