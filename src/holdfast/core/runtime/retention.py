"""Chooses the trees of Sessions that a retention policy names, of any number of them.

What takes long is done in slices with pauses. Without these, here or in a thread, each of the many changes between
threads that a turn needs would wait up to 5 ms for the interpreter."""

from __future__ import annotations

import asyncio
import heapq
from pathlib import PurePath
from typing import TYPE_CHECKING, TypeVar

from holdfast.schema.codec import encode_text
from holdfast.schema.frozen import Frozen
from holdfast.schema.retention import RetentionItem

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from holdfast.core.config.holdfast_schema import ProjectRetention
    from holdfast.core.config.retention import RetentionPolicy
    from holdfast.core.database.database import Database

DAY = 24 * 60 * 60 * 1000
PAGE = 500
SLICE = 200
"""Items that are worked on at once, in less than a millisecond."""
PAUSE_SECONDS = 0.001
OVERHEAD = 1.5
"""Bytes of the file for each byte of the rows: keys, indexes and pages that are not full."""

NEWER_FIRST = {code: 127 - code for code in range(128)}
"""Reverses the order of ids, in which newer ones come first."""

T = TypeVar("T")


class Tree(Frozen, gc=False):
    id: str
    title: str
    directory: str
    members: tuple[str, ...]
    updated: int
    archived: bool
    pinned: bool
    busy: bool

    @property
    def removable(self) -> bool:
        return not (self.pinned or self.busy)

    def item(self, reason: str) -> RetentionItem:
        return RetentionItem(
            id=self.id,
            title=self.title,
            directory=self.directory,
            sessions=len(self.members),
            updated=self.updated,
            reason=reason,
        )


class Plan(Frozen):
    trees: tuple[Tree, ...]
    items: tuple[RetentionItem, ...]
    kept: tuple[str, ...]
    """What the policy names and a fork keeps, in words."""


class RetentionChoice:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def plan(self, policy: RetentionPolicy, now: int, used: int | None) -> Plan:
        """`used` is how many bytes of the database are in use, if a limit for them counts."""
        trees = await _in_removal_order(await self.trees())
        chosen = await _by_age_and_count(trees, policy, now)
        if policy.general.size is not None and used is not None:
            await self._by_size(trees, chosen, used - policy.general.size * 1_000_000)
        kept = await self._without_kept_sources(trees, chosen)
        items = [tree.item(chosen[tree.id]) async for tree in _in_slices(trees) if tree.id in chosen]
        return Plan(tuple(trees), tuple(items), tuple(kept))

    async def trees(self) -> list[Tree]:
        rows: list[_Row] = []
        after = ""
        while page := await self._database.fetch_large(
            "retention.sessions", {"after": after, "limit": PAGE}, into=_Row
        ):
            after = page[-1].id
            rows += page
        busy = {str(id) for (id,) in await self._database.fetch_large("retention.busy", {})}
        return await _grouped(rows, busy)

    async def unchanged(self, items: Sequence[RetentionItem]) -> set[str]:
        """The ids of those that were neither used nor pinned since they were chosen."""
        ids = encode_text([item.id for item in items])
        now = {state.id: state for state in await self._database.fetch_large("retention.state", {"ids": ids}, _State)}
        return {
            item.id
            for item in items
            if (state := now.get(item.id)) is not None
            and state.updated == item.updated
            and not (state.pinned or state.busy)
        }

    async def _by_size(self, trees: list[Tree], chosen: dict[str, str], excess: float) -> None:
        for tree in trees:
            if tree.id in chosen:
                excess -= await self._bytes(tree) * OVERHEAD
        for tree in trees:
            if excess <= 0:
                return
            if tree.id not in chosen and tree.removable:
                excess -= await self._bytes(tree) * OVERHEAD
                chosen[tree.id] = "the database is larger than the limit"

    async def _bytes(self, tree: Tree) -> int:
        ids = encode_text(tree.members)
        ((size,),) = await self._database.fetch_large("retention.bytes", {"ids": ids})
        return int(size or 0)

    async def _without_kept_sources(self, trees: list[Tree], chosen: dict[str, str]) -> list[str]:
        """A tree stays as long as a Session outside of the chosen trees shows its messages."""
        of = {member: tree.id for tree in trees for member in tree.members}
        pairs = await self._database.fetch_large("retention.forks", {})
        forks = [(of.get(str(source)), of.get(str(fork))) for source, fork in pairs]
        kept = []
        changed = True
        while changed:
            changed = False
            for source, fork in forks:
                if source in chosen and fork not in chosen:
                    assert source is not None
                    kept.append(f"{source} stays: {fork} was forked from it and shows its messages")
                    del chosen[source]
                    changed = True
        return kept


class _State(Frozen):
    id: str
    updated: int
    pinned: bool
    busy: bool


class _Row(Frozen, gc=False):
    id: str
    parent_id: str | None
    title: str
    directory: str
    time_updated: int
    time_archived: int | None
    time_pinned: int | None


async def _in_slices(items: Iterable[T]) -> AsyncIterator[T]:
    """Lets others run after every few items."""
    for number, item in enumerate(items, 1):
        yield item
        if number % SLICE == 0:
            await asyncio.sleep(PAUSE_SECONDS)


async def _grouped(rows: list[_Row], busy: set[str]) -> list[Tree]:
    known = {row.id: row for row in rows}
    members: dict[str, list[_Row]] = {}
    async for row in _in_slices(rows):
        members.setdefault(_root(row, known), []).append(row)
    return [_tree(known[root], found, busy) async for root, found in _in_slices(members.items())]


def _root(row: _Row, rows: dict[str, _Row]) -> str:
    for _ in range(100):  # a damaged tree may be a ring
        if row.parent_id is None or row.parent_id not in rows:
            break
        row = rows[row.parent_id]
    return row.id


def _tree(root: _Row, members: list[_Row], busy: set[str]) -> Tree:
    return Tree(
        id=root.id,
        title=root.title,
        directory=root.directory,
        members=tuple(row.id for row in members),
        updated=max(row.time_updated for row in members),
        archived=root.time_archived is not None,
        pinned=any(row.time_pinned is not None for row in members),
        busy=any(row.id in busy for row in members),
    )


async def _in_removal_order(trees: list[Tree]) -> list[Tree]:
    """Archived ones first, then the ones that did not change for longest."""
    parts = []
    for start in range(0, len(trees), SLICE):
        parts.append(sorted(trees[start : start + SLICE], key=_removal_place))
        await asyncio.sleep(PAUSE_SECONDS)
    return [tree async for tree in _in_slices(heapq.merge(*parts, key=_removal_place))]


def _removal_place(tree: Tree) -> tuple[bool, int, str]:
    return not tree.archived, tree.updated, tree.id.translate(NEWER_FIRST)


async def _by_age_and_count(trees: Iterable[Tree], policy: RetentionPolicy, now: int) -> dict[str, str]:
    """Reasons by the ids of the trees that go. The trees are in the order in which they go."""
    chosen: dict[str, str] = {}
    groups: dict[str | None, list[Tree]] = {}
    async for tree in _in_slices(trees):
        project = _project(tree, policy)
        groups.setdefault(project, []).append(tree)
        if tree.removable and (reason := _too_old(tree, _limits(project, policy), now)) is not None:
            chosen[tree.id] = reason
    for project, group in groups.items():
        if (count := _limits(project, policy).count) is None:
            continue
        left = [tree for tree in group if tree.id not in chosen]
        removable = [tree for tree in left if tree.removable]
        where = f" of {project}" if project is not None else ""
        reason = f"more than {count:,} sessions{where}"
        chosen |= dict.fromkeys((tree.id for tree in removable[: max(len(left) - count, 0)]), reason)
    return chosen


def _limits(project: str | None, policy: RetentionPolicy) -> ProjectRetention:
    return policy.projects[project] if project is not None else policy.general


def _project(tree: Tree, policy: RetentionPolicy) -> str | None:
    """The innermost directory with limits of its own that the tree is in."""
    here = PurePath(tree.directory)
    inside = [path for path in policy.projects if here.is_relative_to(path)]
    return max(inside, key=lambda path: len(PurePath(path).parts), default=None)


def _too_old(tree: Tree, limits: ProjectRetention, now: int) -> str | None:
    days = (now - tree.updated) / DAY
    if tree.archived and limits.archived is not None and days >= limits.archived:
        return f"archived, and not changed for {days:.0f} days"
    if limits.age is not None and days >= limits.age:
        return f"not changed for {days:.0f} days"
    return None
