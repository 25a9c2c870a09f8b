"""Applies the retention policy: exports, removes and shrinks, in steps that running turns do not notice.

Invariants
- What was pinned, changed or began to work since it was chosen stays: the heads of the logs are read before the last
  look at the Sessions, and a deletion requires them.
- A tree is removed only after its bundle is complete, where one is asked for.
- A tree that cannot be exported or removed stays, with a note: it keeps no other one."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.config.retention import configured_retention
from holdfast.core.database.errors import Refused
from holdfast.core.database.shrinking import FileSpace, compact, file_space, shrink
from holdfast.core.database.unit import Statement, Unit
from holdfast.core.runtime.purges import Removed
from holdfast.core.runtime.retention import DAY, RetentionChoice
from holdfast.core.session.errors import PurgeRefused, SessionNotFound
from holdfast.private_files import make_directory
from holdfast.schema.exceptions import Conflict, HoldfastError, InvalidRequest
from holdfast.schema.ids import name_of_id
from holdfast.schema.retention import RetentionItem, RetentionReport

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from holdfast.core.bundle.bundles import Bundles
    from holdfast.core.clock import Clock
    from holdfast.core.config.retention import RetentionPolicy
    from holdfast.core.database.database import Database
    from holdfast.core.database.place import Place
    from holdfast.core.database.unit import Value
    from holdfast.core.runtime.maintenance_pace import MaintenancePace
    from holdfast.core.runtime.purges import Purges
    from holdfast.core.runtime.retention import Plan
    from holdfast.core.snapshot.pruning import SnapshotPruning

    Told = Callable[[str, int, int], None]

BATCH = 50
"""Trees that are deleted before what they leave is removed."""
INTERVAL_SECONDS = 60 * 60
LOOK_SECONDS = 5 * 60
MOST_NOTES = 50
FREE_BYTES = 16 * 1024 * 1024
"""Free pages that are given back before more is removed: the more there are, the longer it takes to give one back."""
NO_POLICY = (
    "There is no retention policy. Write one into your own configuration, such as "
    '{"holdfast": {"retention": {"age": 90, "archived": 7}}}: it is the number of days after which sessions go.'
)

log = logging.getLogger(__name__)


class RetentionRuns:
    """One run at a time in a process."""

    def __init__(
        self,
        database: Database,
        place: Place,
        purges: Purges,
        snapshots: SnapshotPruning,
        bundles: Callable[[], Bundles],
        environment: Mapping[str, str],
        clock: Clock,
        pace: MaintenancePace,
    ) -> None:
        self._database = database
        self._place = place
        self._purges = purges
        self._snapshots = snapshots
        self._bundles = bundles
        self._environment = environment
        self._clock = clock
        self._pace = pace
        self._choice = RetentionChoice(database)
        self._running = False

    async def run(
        self, *, dry_run: bool = False, export: Path | None = None, told: Told = lambda what, done, total: None
    ) -> RetentionReport:
        """Apply the policy of the user's configuration once. Raises InvalidRequest without one, and Conflict while
        another run is under way in this process."""
        policy = configured_retention(self._environment)
        if policy is None:
            raise InvalidRequest(NO_POLICY)
        if self._running:
            raise Conflict("A retention run is under way in this process.", resource="retention")
        self._running = True
        try:
            return await self._run(policy, dry_run, export or policy.export, told)
        finally:
            self._running = False

    async def compact(self) -> int:
        """Write the database file anew; the bytes that it is smaller. All commits wait meanwhile."""
        if not isinstance(self._place, Path):
            raise InvalidRequest("PostgreSQL has its own: VACUUM FULL writes tables anew.")
        return await asyncio.to_thread(compact, self._place)

    async def regularly(self, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        """What a server does: complete purges that others left, and apply the policy every hour if it is automatic.
        Of several servers, one does at a time."""
        while True:
            try:
                await self._purges.complete()
                policy = configured_retention(self._environment)
                if policy is not None and policy.automatic and await self._claimed():
                    report = await self.run()
                    log.info("retention removed %d of %d trees of sessions", len(report.items), report.trees)
            except (HoldfastError, OSError) as error:
                log.warning("retention was not applied: %s", error)
            except Exception:
                log.exception("retention was not applied")
            await sleep(LOOK_SECONDS)

    async def _run(self, policy: RetentionPolicy, dry_run: bool, export: Path | None, told: Told) -> RetentionReport:
        told("choosing", 0, 0)
        space = await self._space()
        used = None if space is None else space.total - space.free
        plan = await self._choice.plan(policy, self._clock.now(), used)
        deleted = await self._deleted(policy)
        notes = list(plan.kept)
        if policy.general.size is not None and used is None:
            notes.append("holdfast.retention.size counts only for a file; for PostgreSQL set age and count")
        removed, exported, gone, pruned, freed = Removed(), list[str](), list(plan.items), 0, 0
        if not dry_run:
            await self._purges.complete()
            if export is not None:
                await asyncio.to_thread(make_directory, export)
            removed, gone = await self._remove(plan, export, exported, notes, told)
            removed += await self._remove_deleted(deleted, notes, told)
            pruned = (await self._snapshots.prune()).removed
            if (note := await self._shrink(told)) is not None:
                notes.append(note)
            after = await self._space()
            freed = max(space.total - after.total, 0) if space is not None and after is not None else 0
        return RetentionReport(
            dry_run=dry_run,
            trees=len(plan.trees),
            pinned=sum(tree.pinned for tree in plan.trees),
            busy=sum(tree.busy for tree in plan.trees),
            items=tuple(gone),
            deleted=len(deleted),
            events=removed.events,
            files=removed.files,
            bytes=removed.bytes,
            freed=freed,
            snapshots=pruned,
            exported=tuple(exported),
            notes=tuple(notes[:MOST_NOTES]),
        )

    async def _remove(
        self, plan: Plan, export: Path | None, exported: list[str], notes: list[str], told: Told
    ) -> tuple[Removed, list[RetentionItem]]:
        """A source waits until its forks are removed, in a later round if necessary."""
        total, gone, waiting = Removed(), list[RetentionItem](), list(plan.items)
        while waiting:
            later: list[RetentionItem] = []
            for start in range(0, len(waiting), BATCH):
                told("removing", len(gone), len(plan.items))
                members, refused = await self._members(batch := waiting[start : start + BATCH])
                later += refused
                heads = await self._purges.heads([id for ids in members.values() for id in ids])
                ready = await self._unchanged([item for item in batch if item.id in members], notes)
                if export is not None:
                    ready = [item for item in ready if await self._export(item, export, exported, notes)]
                trees = {item.id: {id: heads[id] for id in members[item.id] if id in heads} for item in ready}
                kept = await self._purges.delete_unused(trees)
                notes += [f"{id} stays: {error}" for id, error in kept.items()]
                if removed := [item for item in ready if item.id not in kept]:
                    total += await self._purges.remove([id for item in removed for id in members[item.id]])
                    gone += removed
                    await self._shrink(told, least=FREE_BYTES)
            if len(later) == len(waiting):
                notes += [f"{item.id} stays: a fork shows its messages" for item in later]
                break
            waiting = later
        return total, gone

    async def _members(self, batch: list[RetentionItem]) -> tuple[dict[str, list[str]], list[RetentionItem]]:
        """All Sessions that go with each, and those of which a fork that is still there shows messages."""
        members, refused = dict[str, list[str]](), list[RetentionItem]()
        for item in batch:
            try:
                members[item.id] = await self._purges.chosen([item.id])
            except PurgeRefused:
                refused.append(item)
            except SessionNotFound:
                continue  # somebody else purged it
        return members, refused

    async def _export(self, item: RetentionItem, folder: Path, exported: list[str], notes: list[str]) -> bool:
        """Whether the bundle of a tree is complete. A tree without one stays; the others do not wait for it."""
        path = folder / f"{name_of_id(item.id)}.holdfast"
        try:
            await self._bundles().export([item.id], path)
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one tree, the others are looked at
            log.warning("retention keeps %s: its bundle was not written: %s", ascii(item.id), error)
            notes.append(f"{item.id} stays: its bundle was not written: {str(error) or type(error).__name__}")
            return False
        exported.append(str(path))
        return True

    async def _unchanged(self, items: Sequence[RetentionItem], notes: list[str]) -> list[RetentionItem]:
        same = await self._choice.unchanged(items)
        notes += [f"{item.id} stays: it was used or pinned meanwhile" for item in items if item.id not in same]
        return [item for item in items if item.id in same]

    async def _deleted(self, policy: RetentionPolicy) -> list[str]:
        if policy.general.deleted is None:
            return []
        before = self._clock.now() - policy.general.deleted * DAY
        rows = await self._database.fetch_large("deleted.roots", {})
        return [str(id) for id, updated in rows if isinstance(updated, int) and updated <= before]

    async def _remove_deleted(self, ids: Sequence[str], notes: list[str], told: Told) -> Removed:
        total = Removed()
        for number, id in enumerate(ids):
            told("removing deleted", number, len(ids))
            try:
                total += await self._purges.remove(await self._purges.chosen([id]))
            except PurgeRefused as error:
                notes.append(f"what is left of {id} stays: {error}")
            except SessionNotFound:
                continue  # it went with another one
        return total

    async def _shrink(self, told: Told, *, least: int = 1) -> str | None:
        """Give free pages back if there are so many bytes of them. Returns why that is not done, if it is not."""
        space = await self._space()
        if space is None or space.free < least:
            return None
        return await shrink(self._place, self._pace.pause, lambda done, total: told("shrinking", done, total))

    async def _space(self) -> FileSpace | None:
        return await asyncio.to_thread(file_space, self._place) if isinstance(self._place, Path) else None

    async def _claimed(self) -> bool:
        key: dict[str, Value] = {"now": self._clock.now(), "interval": INTERVAL_SECONDS * 1000}
        try:
            await self._database.submit(Unit("retention", local=(Statement("retention.claim", key, changes=1),)))
        except Refused:
            return False
        return True
