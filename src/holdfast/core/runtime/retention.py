"""Chooses the trees of Sessions that a retention policy names. Sorting many runs beside the loop."""

from __future__ import annotations

import asyncio
from pathlib import PurePath
from typing import TYPE_CHECKING

from holdfast.schema.codec import encode_text
from holdfast.schema.frozen import Frozen
from holdfast.schema.retention import RetentionItem

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.config.retention import RetentionPolicy
    from holdfast.core.config.schema import ProjectRetention
    from holdfast.core.database.database import Database

DAY = 24 * 60 * 60 * 1000
PAGE = 2000
OVERHEAD = 1.5
"""Bytes of the file for each byte of the rows: keys, indexes and pages that are not full."""


class Tree(Frozen):
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
        trees = await self.trees()
        chosen = await asyncio.to_thread(_by_age_and_count, trees, policy, now)
        if policy.general.size is not None and used is not None:
            await self._by_size(trees, chosen, used - policy.general.size * 1_000_000)
        kept = await self._without_kept_sources(trees, chosen)
        return Plan(tuple(trees), await asyncio.to_thread(_items, trees, chosen), tuple(kept))

    async def trees(self) -> list[Tree]:
        rows: list[_Row] = []
        after = ""
        while page := await self._database.fetch_large(
            "retention.sessions", {"after": after, "limit": PAGE}, into=_Row
        ):
            after = page[-1].id
            rows += page
        busy = {str(id) for (id,) in await self._database.fetch_large("retention.busy", {})}
        return await asyncio.to_thread(_grouped, rows, busy)

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
        for tree in _removal_order(trees):
            if tree.id in chosen:
                excess -= await self._bytes(tree) * OVERHEAD
        for tree in _removal_order(trees):
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


class _Row(Frozen):
    id: str
    parent_id: str | None
    title: str
    directory: str
    time_updated: int
    time_archived: int | None
    time_pinned: int | None


def _grouped(rows: list[_Row], busy: set[str]) -> list[Tree]:
    known = {row.id: row for row in rows}
    members: dict[str, list[_Row]] = {}
    for row in rows:
        members.setdefault(_root(row, known), []).append(row)
    return [_tree(known[root], found, busy) for root, found in members.items()]


def _items(trees: list[Tree], chosen: dict[str, str]) -> tuple[RetentionItem, ...]:
    return tuple(tree.item(chosen[tree.id]) for tree in _removal_order(trees) if tree.id in chosen)


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


def _removal_order(trees: Iterable[Tree]) -> list[Tree]:
    """Archived ones first, then the ones that did not change for longest."""
    oldest_first = sorted(trees, key=lambda tree: tree.id, reverse=True)  # our ids sort newest first
    return sorted(oldest_first, key=lambda tree: (not tree.archived, tree.updated))


def _by_age_and_count(trees: list[Tree], policy: RetentionPolicy, now: int) -> dict[str, str]:
    """Reasons by the ids of the trees that go."""
    chosen: dict[str, str] = {}
    groups: dict[str | None, list[Tree]] = {}
    for tree in trees:
        groups.setdefault(_project(tree, policy), []).append(tree)
    for project, group in groups.items():
        limits: ProjectRetention = policy.projects[project] if project is not None else policy.general
        for tree in group:
            if tree.removable and (reason := _too_old(tree, limits, now)) is not None:
                chosen[tree.id] = reason
        if limits.count is not None:
            excess = len(group) - len([tree for tree in group if tree.id in chosen]) - limits.count
            more = [tree for tree in _removal_order(group) if tree.removable and tree.id not in chosen]
            where = f" of {project}" if project is not None else ""
            chosen |= {tree.id: f"more than {limits.count:,} sessions{where}" for tree in more[: max(excess, 0)]}
    return chosen


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
