"""Removes Sessions for good: their events, rows, managed files, isolated copies and file snapshots.

Invariants
- A Session is deleted first, as `delete` does, so that followers learn of it. What is left then, its events, is marked
  and removed in small commits, oldest first. The last one removes the mark, and requires that no table has a row of the
  Session any more.
- A Session gets its mark in a commit that requires that no other one shows its messages. None can begin to: a fork is
  made of a Session that exists.
- Whatever ends in the middle leaves deleted Sessions, some of them marked. The same purge completes it: those that
  were named go last, together. So does `complete`. Checks of the log leave out marked Sessions."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from holdfast.core.database.unit import Statement, Unit
from holdfast.core.session.errors import PurgeRefused, SessionNotFound, SessionUsed
from holdfast.core.session.removal import not_shown
from holdfast.core.tool.output import MANAGED_NAME
from holdfast.schema.codec import encode_text
from holdfast.schema.frozen import Frozen
from holdfast.schema.retention import PurgeReport

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

    from holdfast.core.database.database import Database
    from holdfast.core.database.unit import Value
    from holdfast.core.event.log import EventLog
    from holdfast.core.runtime.maintenance_pace import MaintenancePace
    from holdfast.core.runtime.tree_changes import TreeChanges
    from holdfast.core.session.store import SessionStore
    from holdfast.core.session.stored_trees import StoredTrees
    from holdfast.core.snapshot.isolated_copies import IsolatedCopies
    from holdfast.core.snapshot.pruning import SnapshotPruning
    from holdfast.core.tool.output import OutputStore
    from holdfast.schema.event import SerializedEvent
    from holdfast.schema.exceptions import Conflict

    Told = Callable[[str, int, int], None]

PAGE_EVENTS = 100
PAGE_BYTES = 128 * 1024
"""Of events that one commit removes, so that a turn's commit waits for it only briefly."""
MARKED_AT_ONCE = 200
FINISHED_AT_ONCE = 5
ANNOUNCED_SECONDS = 0.5
"""How long the last event of a Session stays, so that other processes announce the deletion to their followers."""
SHOWN_FORKS = 5
REST = (
    *("control", "lease", "links", "epoch", "context_changes", "attempt", "imports", "blocked", "wakes"),
    *("work", "pause", "partial", "total", "share", "tasks", "lineage", "audit"),
)
"""What a deletion leaves beside the events, by the names of the statements that remove it."""


def _quiet(what: str, done: int, total: int) -> None:
    pass


class Purges:
    def __init__(
        self,
        log: EventLog,
        database: Database,
        store: SessionStore,
        trees: StoredTrees,
        tree_changes: TreeChanges,
        outputs: OutputStore,
        copies: IsolatedCopies,
        snapshots: SnapshotPruning,
        truncate_log: Callable[[], Awaitable[str | None]],
        pace: MaintenancePace,
    ) -> None:
        """`truncate_log` removes former contents from the write-ahead log, or says why not."""
        self._log = log
        self._database = database
        self._store = store
        self._trees = trees
        self._tree_changes = tree_changes
        self._outputs = outputs
        self._copies = copies
        self._snapshots = snapshots
        self._truncate_log = truncate_log
        self._pace = pace

    async def purge(self, session_ids: Sequence[str], told: Told = _quiet) -> PurgeReport:
        """Remove the trees of these Sessions, existing or deleted, and what was left of deleted forks of them. Raises
        SessionNotFound, and PurgeRefused for a Session below another one or with forks that are not to be removed."""
        for id in await self.chosen(session_ids):
            if id in session_ids and await self._store.find(id) is not None:
                await self._tree_changes.interrupt(id)
        chosen = await self.chosen(session_ids)  # with what was created until then
        await self._delete(chosen, told)
        removed = await self.remove(chosen, named=session_ids, told=told)
        snapshots = await self._snapshots.prune()
        notes = [note for note in (await self._truncate_log(),) if note is not None]
        if snapshots.postponed:
            notes.append(
                f"{snapshots.postponed} objects of file snapshots are younger than an hour and may be in use; the next "
                "purge, or a server with a retention policy, removes them"
            )
        return PurgeReport(
            sessions=tuple(chosen),
            events=removed.events,
            files=removed.files,
            bytes=removed.bytes,
            snapshots=snapshots.removed,
            notes=tuple(notes),
        )

    async def chosen(self, session_ids: Sequence[str]) -> list[str]:
        """All Sessions that a purge of these removes. Raises SessionNotFound and PurgeRefused."""
        found: dict[str, None] = {}
        for id in dict.fromkeys(session_ids):
            await self._check_root(id)
            found |= dict.fromkeys(await self._trees.member_ids(id) or [id])
        newest = list(found)
        while newest:
            rows = await self._database.fetch_large("deleted.related", {"ids": encode_text(newest)})
            newest = [str(id) for (id,) in rows if id not in found]
            found |= dict.fromkeys(newest)
        forks = await self._database.fetch_large("purge.forks", {"ids": encode_text(list(found))})
        if forks:
            raise PurgeRefused(_show_messages([str(id) for (id,) in forks]), resource=next(iter(found)))
        return list(found)

    async def heads(self, session_ids: Sequence[str]) -> dict[str, int]:
        """The newest sequence of each of these Sessions that exists."""
        rows = await self._database.fetch_large("purge.heads", {"ids": encode_text(session_ids)}, into=_Head)
        return {row.id: row.seq for row in rows}

    async def delete_unused(self, trees: Mapping[str, Mapping[str, int]]) -> dict[str, Conflict]:
        """Delete trees, given by their roots with the heads of their Sessions, whose Sessions still have these heads.
        Returns why others stay: SessionUsed, or PurgeRefused if a fork shows messages. Of a tree that is used during
        its deletion, what was not deleted yet stays."""
        kept: dict[str, Conflict] = {}
        for root, heads in trees.items():
            left = dict(heads)
            try:
                for id in await self._in_order(list(heads)):
                    began = time.monotonic()
                    await self._tree_changes.delete_unused(id, left)
                    del left[id]
                    await self._pace.pause(time.monotonic() - began)
            except (SessionUsed, PurgeRefused) as error:
                kept[root] = error
        if len(kept) < len(trees):
            await asyncio.sleep(ANNOUNCED_SECONDS)
        return kept

    async def remove(self, session_ids: Sequence[str], *, named: Sequence[str] = (), told: Told = _quiet) -> Removed:
        """Remove what is left of exactly these deleted Sessions. Those that are named again go last, in one commit."""
        for start in range(0, len(session_ids), MARKED_AT_ONCE):
            marked = session_ids[start : start + MARKED_AT_ONCE]
            unit = Unit(
                marked[0],
                before=tuple(not_shown(id) for id in marked),
                local=tuple(Statement("purge.mark", {"id": id}) for id in marked),
                locks=tuple(marked[1:]),
                shares_lineage=True,
            )
            await self._database.submit(unit)
        total, last, empty = Removed(), set(named), list[str]()
        for number, id in enumerate(session_ids):
            told("removing", number, len(session_ids))
            total += await self._remove_events(id)
            if id not in last:
                empty.append(id)
            if len(empty) == FINISHED_AT_ONCE:
                await self._finish(empty)
                empty = []
        for rest in (empty, list(dict.fromkeys(named))):
            if rest:
                await self._finish(rest)
        return total

    async def complete(self) -> Removed:
        """Remove what another process marked and left."""
        total = Removed()
        for (id,) in await self._database.fetch_large("purge.unfinished", {}):
            total += await self._remove_events(str(id))
            await self._finish([str(id)])
        return total

    async def _delete(self, session_ids: Sequence[str], told: Told) -> None:
        deleted = 0
        for number, id in enumerate(await self._in_order(session_ids)):
            told("deleting", number, len(session_ids))
            if await self._store.find(id) is not None:
                began = time.monotonic()
                await self._tree_changes.delete(id, purging=True)
                deleted += 1
                await self._pace.pause(time.monotonic() - began)
        if deleted:
            await asyncio.sleep(ANNOUNCED_SECONDS)

    async def _in_order(self, session_ids: Sequence[str]) -> list[str]:
        """Forks before their sources, and children before their parents."""
        before: dict[str, set[str]] = {id: set() for id in session_ids}
        for earlier, later in await self._database.fetch_large("purge.order", {"ids": encode_text(session_ids)}):
            if earlier in before:
                before[str(later)].add(str(earlier))
        try:
            return list(TopologicalSorter(before).static_order())
        except CycleError:  # only in a damaged database; the conditions of the commits decide
            return list(session_ids)

    async def _check_root(self, id: str) -> None:
        session = await self._store.find(id)
        if session is not None:
            parent = session.parent_id
        else:
            rows = await self._database.fetch("deleted.get", {"id": id}, into=_Deleted)
            if not rows:
                raise SessionNotFound(id)
            parent = rows[0].parent_id
        if parent is None or await self._store.find(parent) is None:
            return
        ancestors = await self._trees.ancestors(parent)
        root = ancestors[0].id if ancestors else parent
        raise PurgeRefused(
            f"{id} is below {root}, whose events tell of its work. Purge {root} with everything below it.", resource=id
        )

    async def _remove_events(self, id: str) -> Removed:
        await self._copies.discard(id)
        total = Removed()
        while page := _bounded(await self._log.serialized(id, limit=PAGE_EVENTS)):
            began = time.monotonic()
            names = {name.decode() for event in page for name in MANAGED_NAME.findall(event.data)}
            sizes = await asyncio.to_thread(self._outputs.remove, names)
            cut: dict[str, Value] = {"id": id, "through": page[-1].seq}
            await self._database.submit(Unit(id, local=(Statement("purge.remove_events", cut),)))
            size = sum(len(event.data) for event in page)
            total += Removed(len(page), len(sizes), size + sum(sizes))
            await self._pace.pause(time.monotonic() - began)
        return total

    async def _finish(self, ids: Sequence[str]) -> None:
        statements = tuple(statement for id in ids for statement in _removal(id))
        began = time.monotonic()
        await self._database.submit(Unit(ids[0], local=statements, locks=tuple(ids[1:]), shares_lineage=True))
        await self._pace.pause(time.monotonic() - began)


class Removed(Frozen):
    events: int = 0
    files: int = 0
    bytes: int = 0

    def __add__(self, other: Removed) -> Removed:
        return Removed(self.events + other.events, self.files + other.files, self.bytes + other.bytes)


class _Head(Frozen):
    id: str
    seq: int


class _Deleted(Frozen):
    id: str
    parent_id: str | None


def _removal(id: str) -> Iterator[Statement]:
    """What is left beside the events, and the check that nothing is left then."""
    key: dict[str, Value] = {"id": id}
    yield from (Statement(f"purge.remove_{name}", key) for name in REST)
    yield Statement("event.remove_sequence", {"aggregate_id": id})
    yield Statement("purge.remove_mark", key)
    yield Statement("purge.left", key, found=False, error=partial(_written_to, id))


def _written_to(id: str) -> PurgeRefused:
    return PurgeRefused(f"{id} was written to while it was purged. Its mark stays; purge it again.", resource=id)


def _bounded(page: list[SerializedEvent]) -> list[SerializedEvent]:
    """At least one event, and no more than fit into one commit."""
    size = 0
    for number, event in enumerate(page):
        size += len(event.data)
        if size > PAGE_BYTES:
            return page[: max(number, 1)]
    return page


def _show_messages(forks: list[str]) -> str:
    shown = ", ".join(forks[:SHOWN_FORKS]) + (
        f" and {len(forks) - SHOWN_FORKS} more" if len(forks) > SHOWN_FORKS else ""
    )
    return (
        f"{shown} {'was' if len(forks) == 1 else 'were'} forked from it and would lose messages. Name the forks too to "
        "purge them as well, or delete the session without purging it: then its messages stay as long as a fork shows "
        "them."
    )
