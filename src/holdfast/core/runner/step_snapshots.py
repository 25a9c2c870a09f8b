"""Snapshots around steps, off the critical path: a step's end does not wait for its tree, the next step's start does.

Invariants
- No step starts, and so no tool runs, while the tree before it is still being taken, except after a bound.
- A tree that could not be taken is missing, and fails nothing."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from holdfast.core.snapshot.errors import SnapshotError
from holdfast.schema.session_event import SnapshotCaptured

if TYPE_CHECKING:
    from holdfast.core.clock import Clock
    from holdfast.core.runner.outbox import Outbox
    from holdfast.core.snapshot.snapshot import Snapshots

WAIT_SECONDS = 10.0

log = logging.getLogger(__name__)


class StepSnapshots:
    """Of one drain. The tree after a step is the tree before the next one."""

    def __init__(self, snapshots: Snapshots, outbox: Outbox, session_id: str, clock: Clock) -> None:
        self._snapshots = snapshots
        self._outbox = outbox
        self._session_id = session_id
        self._clock = clock
        self._taking: asyncio.Task[str | None] | None = None
        self._fresh = False

    def begin(self) -> None:
        """Take the tree before a step, while the provider has not answered yet; unless one was just taken."""
        if self._fresh or not self._snapshots.possible:
            self._fresh = False
        elif self._taking is None or self._taking.done():
            self._taking = asyncio.get_running_loop().create_task(self._capture(), name="snapshot")

    async def before_step(self) -> str | None:
        if self._taking is None:
            return None
        done, _ = await asyncio.wait({self._taking}, timeout=WAIT_SECONDS)
        return self._taking.result() if done else None

    def after_step(self, message_id: str, *, looked_only: bool) -> None:
        """Tools ran: take the tree they left and record it beside the step. Those that only look leave it as it was."""
        if looked_only:
            self._fresh = self._taking is not None
        elif self._taking is not None:
            before = self._taking.result() if self._taking.done() else None
            work = self._record(message_id, before)
            self._taking = asyncio.get_running_loop().create_task(work, name="snapshot")
            self._fresh = True

    async def finish(self) -> None:
        """The last tree still belongs to this drain; one that takes too long is given up."""
        await self.before_step()
        if self._taking is not None and not self._taking.done():
            self._taking.cancel()
            await asyncio.wait({self._taking})

    async def _capture(self) -> str | None:
        try:
            return await self._snapshots.capture()
        except SnapshotError as error:
            log.warning("no snapshot of this step: %s", error)
            return None

    async def _record(self, message_id: str, before: str | None) -> str | None:
        after = await self._capture()
        if before is None or after is None:
            return after
        try:
            files = await self._snapshots.files(before, after) if before != after else ()
        except SnapshotError as error:
            log.warning("which files this step changed is unknown: %s", error)
            return after
        captured = SnapshotCaptured(
            timestamp=self._clock.now(),
            session_id=self._session_id,
            assistant_message_id=message_id,
            snapshot=after,
            files=tuple(filter(_is_text, files)),
        )
        self._outbox.submit(captured)
        return after


def _is_text(name: str) -> bool:
    """A name in no encoding cannot be recorded; such a file is in the tree, and is not among those that go back."""
    return not any("\ud800" <= character <= "\udfff" for character in name)
