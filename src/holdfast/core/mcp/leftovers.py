"""Removes what is left of MCP servers that nobody has had for a while: what they offered, and their logs. Nothing is
looked for where no server ever ran."""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.core.database.errors import StorageError
from holdfast.core.database.unit import Statement, Unit, Value

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from holdfast.core.clock import Clock
    from holdfast.core.database.database import Database

SWEEP_SECONDS = 3600.0
DAY_MILLIS = 24 * 3600 * 1000
MANIFEST_MILLIS = 7 * DAY_MILLIS
"""How long a manifest is kept that is neither a server's newest nor offered by an epoch."""
SERVER_MILLIS = 30 * DAY_MILLIS
"""How long a server is known that no open Location has, and a log is kept that nothing is added to. What is known is
removed a day later, when nobody can have begun to use it."""

log = logging.getLogger(__name__)


class McpLeftovers:
    def __init__(self, database: Database, clock: Clock, logs: Path) -> None:
        self._database = database
        self._clock = clock
        self._logs = logs

    async def hourly(self, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        """Sweep every hour until cancelled."""
        while True:
            try:
                await self.sweep()
            except StorageError as error:
                log.warning("what is left of MCP servers stays: %s", error)
            await sleep(SWEEP_SECONDS)

    async def sweep(self) -> None:
        if await asyncio.to_thread(self._sweep_logs):
            await self._sweep_manifests()

    async def _sweep_manifests(self) -> None:
        """Writes only if there is something to remove."""
        now = self._clock.now()
        ages: dict[str, Value] = {"unused": now - MANIFEST_MILLIS, "unknown": now - SERVER_MILLIS - DAY_MILLIS}
        if await self._database.fetch("mcp.leftovers", ages):
            await self._database.submit(
                Unit(
                    "mcp",
                    local=(
                        Statement("mcp.forget_servers", {"before": ages["unknown"]}),
                        Statement("mcp.forget", {"before": ages["unused"]}),
                    ),
                )
            )

    def _sweep_logs(self) -> bool:
        """Whether a server ever ran."""
        oldest = (self._clock.now() - SERVER_MILLIS) / 1000
        try:
            with os.scandir(self._logs) as files:
                for file in files:
                    with suppress(OSError):
                        if file.stat(follow_symlinks=False).st_mtime < oldest:
                            os.unlink(file)
        except OSError:
            return False
        return True
