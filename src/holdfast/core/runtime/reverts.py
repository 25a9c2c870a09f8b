"""Reverting: staged (files go back, messages are still there), cleared (as it was), or committed (messages leave the
conversation; events never do).

Invariants
- A commit is about what is staged when it is recorded: it is refused if anything came after the look at it, since it
  takes away whatever was admitted after the boundary.
- What touches files of one Session takes turns, so that the original is captured before any file went back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from msgspec.structs import asdict, replace

from holdfast.core.database.errors import Moved
from holdfast.core.runtime.end_work import end_work
from holdfast.core.session.errors import UnknownBoundary
from holdfast.core.session.records import ATTEMPTS, RevertDecision, unmoved
from holdfast.schema.fork_event import LineageShortened
from holdfast.schema.session import Revert, RevertFile
from holdfast.schema.session_event import RevertCleared, RevertCommitted, RevertStaged
from holdfast.schema.session_message import AssistantMessage

if TYPE_CHECKING:
    from holdfast.core.clock import Clock
    from holdfast.core.event.log import EventLog
    from holdfast.core.location.service_map import ServiceMap
    from holdfast.core.location.services import LocationServices
    from holdfast.core.runtime.execution import Execution
    from holdfast.core.session.store import SessionStore
    from holdfast.core.snapshot.snapshot import Snapshots
    from holdfast.schema.session import Session


class Reverts:
    def __init__(
        self,
        log: EventLog,
        store: SessionStore,
        execution: Execution,
        locations: ServiceMap[LocationServices],
        clock: Clock,
    ) -> None:
        self._log = log
        self._store = store
        self._execution = execution
        self._locations = locations
        self._clock = clock
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def stage(self, session_id: str, message_id: str, *, files: bool = True, before: bool = False) -> Revert:
        """Everything after the message is what would be undone; the message stays, unless `before` is set. Staging
        again moves the boundary exactly."""
        await self._store.message(session_id, message_id)
        async with self._turn(session_id):
            self._execution.placement.check_files((await self._store.get(session_id)).location)
            await self._stop(session_id)
            session = await self._store.get(session_id)
            async with self._locations.use(session.location) as services:
                revert = await self._restore(session, message_id, services.snapshots, files=files)
            if before:
                revert = replace(revert, before=True)
            staged = RevertStaged(timestamp=self._clock.now(), session_id=session_id, revert=revert)
            await self._log.publish(staged, location=session.location)
        return revert

    async def clear(self, session_id: str) -> None:
        async with self._turn(session_id):
            session = await self._store.get(session_id)
            if session.revert is None:
                return
            self._execution.placement.check_files(session.location)
            async with self._locations.use(session.location) as services:
                await _set_back(session.revert, services.snapshots)
            cleared = RevertCleared(timestamp=self._clock.now(), session_id=session_id)
            await self._log.publish(cleared, location=session.location)

    async def commit(self, session_id: str) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            session = await self._store.get(session_id)
            decision = await self.deciding(session)
            if decision is None:
                return
            try:
                await self._log.publish(
                    *decision.events, location=session.location, before=(decision.unmoved,), shares_lineage=True
                )
            except Moved:
                if attempt == ATTEMPTS:
                    raise
            else:
                return

    async def deciding(self, session: Session) -> RevertDecision | None:
        """What commits the staged revert, if there is one; nothing runs any more by then. Who writes while it is being
        staged waits for that, and decides about it."""
        if (staging := self._turns.get(session.id)) is not None:
            async with staging:
                session = await self._store.get(session.id)
        if session.revert is None:
            return None
        await self._stop(session.id)
        head = await self._log.latest(session.id)
        revert = (await self._store.get(session.id)).revert
        if revert is None:
            return None
        place = await self._store.place(session.id, revert.message_id)
        if place is None:
            raise UnknownBoundary
        now = self._clock.now()
        committed = RevertCommitted(
            timestamp=now, session_id=session.id, message_id=revert.message_id, before=revert.before
        )
        if place.shared_seq(session.id) is None and not revert.before:
            return RevertDecision((committed,), unmoved(session.id, head))
        through = place.seq - 1 if revert.before else place.seq
        shortened = LineageShortened(timestamp=now, session_id=session.id, through_seq=through)
        return RevertDecision((shortened, committed), unmoved(session.id, head))

    def _turn(self, session_id: str) -> asyncio.Lock:
        return self._turns.setdefault(session_id, asyncio.Lock())

    async def _stop(self, session_id: str) -> None:
        """Nothing runs any more, and what a dead process left open has its end: it may be about to leave."""
        await end_work(self._execution, self._store, session_id)

    async def _restore(self, session: Session, message_id: str, snapshots: Snapshots, *, files: bool) -> Revert:
        if not snapshots.possible:
            return Revert(message_id=message_id, diff="", files=())
        before = session.revert.snapshot if session.revert else None
        original = before or await snapshots.capture()
        if session.revert is not None:
            await _set_back(session.revert, snapshots)
        plan = await self._plan(session.id, message_id) if files else {}
        for tree in set(plan.values()):
            await snapshots.restore(tree, [path for path, start in plan.items() if start == tree])
        changes = await snapshots.diff(original, await snapshots.capture(), sorted(plan)) if plan else []
        return Revert(
            message_id=message_id,
            snapshot=original,
            diff="".join(change.patch for change in changes),
            files=tuple(RevertFile(**asdict(change)) for change in changes),
        )

    async def _plan(self, session_id: str, message_id: str) -> dict[str, str]:
        """For each path that was changed after the boundary: the tree before the first of those changes."""
        boundary = await self._store.message(session_id, message_id)
        plan: dict[str, str] = {}
        for row in await self._store.history_after(session_id, boundary.seq):
            message = row.decode()
            if isinstance(message, AssistantMessage) and message.snapshot is not None and message.snapshot.start:
                for path in message.snapshot.files or ():
                    plan.setdefault(path, message.snapshot.start)
        return plan


async def _set_back(revert: Revert, snapshots: Snapshots) -> None:
    """Files that a stage touched, as they were before the first one."""
    if revert.snapshot is not None and revert.files:
        await snapshots.restore(revert.snapshot, [file.path for file in revert.files])
