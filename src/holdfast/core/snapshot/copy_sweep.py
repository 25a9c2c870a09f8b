"""Removes isolated copies that nobody needs any more: incomplete ones, those of deleted Sessions, unchanged ones, and
those that were not used for long."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from holdfast.core.run_to_completion import run_to_completion
from holdfast.core.snapshot.copy_files import is_directory
from holdfast.core.snapshot.errors import CopyFailed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.core.clock import Clock
    from holdfast.core.snapshot.copy_record import CopyRecord
    from holdfast.core.snapshot.copy_sessions import CopySessions, CopyUse
    from holdfast.core.snapshot.isolated_copies import IsolatedCopies

SWEEP_SECONDS = 60 * 60
UNCLAIMED_SECONDS = 60 * 60
"""A younger copy may belong to a call that is about to record its task."""
KEPT_MILLISECONDS = 30 * 24 * 60 * 60 * 1000

log = logging.getLogger(__name__)


class CopySweep:
    def __init__(self, copies: IsolatedCopies, sessions: CopySessions, clock: Clock) -> None:
        self._copies = copies
        self._sessions = sessions
        self._clock = clock

    async def hourly(self, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        """Sweep every hour until cancelled."""
        while True:
            await self.sweep()
            await sleep(SWEEP_SECONDS)

    async def sweep(self) -> None:
        for record in await asyncio.to_thread(lambda: list(self._copies.folder.records())):
            try:
                await self._look_at(record)
            except Exception as error:  # noqa: BLE001 - one copy's trouble keeps no other one back
                log.warning("the isolated copy of %s stays: %s: %s", record.session_id, type(error).__name__, error)

    async def _look_at(self, record: CopyRecord) -> None:
        use = await self._sessions.use(record.session_id)
        if record.state == "making" or use.state == "deleted" or (use.state == "unknown" and self._unclaimed(record)):
            await self._drop(record, use)
        elif record.state == "removed":
            if not self._copies.directory(record).is_file():  # the process that removed it was killed
                await self._copies.remove(record)
        elif use.state == "idle" and self._unclaimed(record):
            await self._put_away(record, use)

    def _unclaimed(self, record: CopyRecord) -> bool:
        return self._copies.folder.age(record.session_id, time.time()) > UNCLAIMED_SECONDS

    async def _drop(self, record: CopyRecord, use: CopyUse) -> None:
        async with self._copies.removing(record):  # nobody makes one now
            current = self._copies.folder.read(record.session_id)
            if current is None or (record.state == "making" and current.state != "making"):
                return
            if current.offered and use.state != "deleted":
                return  # the database may have been replaced by an older one
            if use.state == "unknown" and current.state == "ready" and await self._changed(current):
                return
            await run_to_completion(self._copies.forget(current))

    async def _put_away(self, record: CopyRecord, use: CopyUse) -> None:
        """Of an idle Session: remove an unchanged copy, and an old one after recording its changes."""
        old = self._clock.now() - use.updated > KEPT_MILLISECONDS
        touched = self._copies.folder.touched(record.session_id)
        if not self._unclaimed(record):
            return
        if record.offered and not old:
            return
        if not is_directory(self._copies.directory(record)):
            return  # deleted by a person: what is recorded can still be applied
        tree, left_out = await self._copies.capture(record)
        record = record.replace(result=tree)
        if left_out or (record.offered and not old):
            return
        if (await self._sessions.use(record.session_id)).state == "idle":  # also after the capture
            await self._copies.remove(record, touched=touched)

    async def _changed(self, record: CopyRecord) -> bool:
        try:
            tree, left_out = await self._copies.capture(record)
        except CopyFailed:
            return is_directory(self._copies.directory(record))
        return tree != record.base or bool(left_out)
