"""Reads of trees of Sessions: few queries, however many Sessions there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec.structs import replace

from holdfast.core.database.read import Read
from holdfast.core.session.answer_outcome import TURN_INTERRUPTED
from holdfast.core.session.stored_sessions import session_time
from holdfast.core.session.stored_tasks import Task
from holdfast.schema.codec import decoder, encode
from holdfast.schema.frozen import Frozen
from holdfast.schema.model import ModelRef  # noqa: TC001 - msgspec reads the annotations of rows
from holdfast.schema.record import Record
from holdfast.schema.session import CacheTokens, Tokens
from holdfast.schema.tree import TreeAncestor, TreeTask, TreeTotal

if TYPE_CHECKING:
    from collections.abc import Collection

    from holdfast.core.database.database import Database
    from holdfast.core.database.unit import Value
    from holdfast.schema.insight import InterruptedActivity
    from holdfast.schema.session import SessionTime
    from holdfast.schema.tree import TaskStatus

LARGEST_TREE = 100_000
"""Sessions of one tree that are followed."""

T = TypeVar("T", bound=msgspec.Struct)


class Member(Frozen):
    id: str
    depth: int
    """Below the Session that was asked for."""


class TreePlace(Frozen):
    """Where a Session is in its tree."""

    id: str
    parent_id: str | None
    root_id: str
    depth: int
    """Below the root."""


class LineRow(Frozen):
    """A Session, and one that is above it or is the Session itself."""

    id: str
    above_id: str
    title: str
    agent: str | None
    directory: str


class UsageRow(Member):
    parent_id: str | None
    cost: float
    tokens_input: int
    tokens_output: int
    tokens_reasoning: int
    tokens_cache_read: int
    tokens_cache_write: int

    @property
    def tokens(self) -> Tokens:
        return Tokens(
            input=self.tokens_input,
            output=self.tokens_output,
            reasoning=self.tokens_reasoning,
            cache=CacheTokens(read=self.tokens_cache_read, write=self.tokens_cache_write),
        )


class NodeRow(Frozen):
    id: str
    parent_id: str | None
    title: str
    agent: str | None
    model: ModelRef | None
    time_created: int
    time_updated: int
    time_archived: int | None
    time_pinned: int | None
    owes: bool
    """Whether it has begun with something that has no end."""
    pending: int
    """Inputs that are not promoted."""
    asks: bool
    """Whether it has an open request to a person."""

    @property
    def busy(self) -> bool:
        return self.owes or self.pending > 0 or self.asks

    @property
    def time(self) -> SessionTime:
        return session_time(self)


class TaskRow(Frozen):
    child_id: str
    message_id: str
    call_id: str
    agent: str
    description: str
    background: bool
    time_started: int
    given: bool
    """Whether the child has its prompt."""
    ended: bool
    withdrawn: bool
    undelivered: bool
    blocked: bool
    answer: bytes | None
    """The header of the newest answer."""

    def task(self) -> TreeTask:
        return TreeTask(
            description=self.description,
            agent=self.agent,
            background=self.background,
            status=self._status(),
            started=self.time_started,
            message_id=self.message_id,
            call_id=self.call_id,
        )

    def _status(self) -> TaskStatus:
        if self.withdrawn:
            return "error" if self.blocked else "cancelled"
        if not self.given:
            return "running" if self.undelivered else "cancelled"
        if not self.ended:
            return "running"
        if self.answer is None:
            return "cancelled"
        answer: _AnswerHeader = decoder(_AnswerHeader).decode(self.answer)
        if answer.error is not None:
            return "cancelled" if answer.error.message == TURN_INTERRUPTED else "error"
        unfinished = answer.finish in (None, "tool-calls") or answer.rejected is not None
        return "cancelled" if unfinished else "completed"


M = TypeVar("M", bound=Member)


class StoredTrees:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def members(self, session_id: str) -> list[Member]:
        """The Session and its descendants, parents first; empty if it does not exist."""
        key: dict[str, Value] = {"id": session_id, "limit": LARGEST_TREE}
        rows = await self._database.fetch_large("tree.members", key, into=Member)
        return list(_once(rows).values())

    async def member_ids(self, session_id: str) -> list[str]:
        return [member.id for member in await self.members(session_id)]

    async def deepest_first(self, session_id: str) -> list[str]:
        return [member.id for member in reversed(await self.members(session_id))]

    async def usage(self, session_id: str) -> list[UsageRow]:
        """What each Session of a tree has used, parents first."""
        rows = await self._database.fetch_large("tree.usage", {"id": session_id}, into=UsageRow)
        return list(_once(rows).values())

    async def ancestors(self, session_id: str) -> list[TreeAncestor]:
        """Root first."""
        return await self._database.fetch("tree.ancestors", {"id": session_id}, into=TreeAncestor)

    async def places(self, ids: Collection[str]) -> dict[str, TreePlace]:
        """Where these Sessions are in their trees."""
        return {place.id: place for place in await self._of("tree.roots", ids, TreePlace)}

    async def lines(self, ids: Collection[str]) -> dict[str, list[LineRow]]:
        """All Sessions above each of these, root first, and the Session itself last."""
        found: dict[str, list[LineRow]] = {}
        for row in await self._of("tree.lines", ids, LineRow) if ids else ():
            found.setdefault(row.id, []).append(row)
        return found

    async def background_tasks(self, session_id: str) -> list[Task]:
        """Background tasks in a tree whose result was not delivered; those of the deepest Sessions first."""
        return await self._database.fetch("tree.background_tasks", {"id": session_id}, into=Task)

    async def placed_nodes(self, ids: Collection[str]) -> tuple[dict[str, NodeRow], dict[str, TreePlace]]:
        """These Sessions as far as they exist, and where they are in their trees. Parents before their children."""
        key: dict[str, Value] = {"ids": _json(ids)}
        rows, roots = await self._database.fetch_large_many(
            Read("tree.nodes", key, NodeRow), Read("tree.roots", key, TreePlace)
        )
        nodes: dict[str, NodeRow] = {row.id: row for row in rows}
        places = {place.id: place for place in sorted(roots, key=lambda place: place.depth) if place.id in nodes}
        return {id: nodes[id] for id in places}, places

    async def tasks(self, ids: Collection[str]) -> dict[str, TreeTask]:
        """The newest task of each child."""
        return {row.child_id: row.task() for row in await self._of("tree.tasks", ids, TaskRow)}

    async def _of(self, name: str, ids: Collection[str], kind: type[T]) -> list[T]:
        return await self._database.fetch_large(name, {"ids": _json(ids)}, into=kind)


async def by_tree(trees: StoredTrees, found: list[InterruptedActivity]) -> list[InterruptedActivity]:
    """With the place of each Session in its tree. Trees keep the order of their first Session; each begins at its
    root."""
    places = await trees.places([status.session_id for status in found]) if found else {}
    placed = [
        replace(status, root_id=place.root_id, parent_id=place.parent_id, depth=place.depth)
        for status in found
        if (place := places.get(status.session_id)) is not None
    ]
    order = {root_id: number for number, root_id in enumerate(dict.fromkeys(status.root_id for status in placed))}
    return sorted(placed, key=lambda status: (order[status.root_id], status.depth))


def totals(rows: list[UsageRow]) -> dict[str, TreeTotal]:
    """The sums of each Session and its descendants. Parents come first in `rows`."""
    sums = {
        row.id: [1, row.cost, row.tokens_input, row.tokens_output, row.tokens_reasoning, row.tokens_cache_read,
                 row.tokens_cache_write]
        for row in rows
    }  # fmt: skip
    for row in reversed(rows):
        above = sums.get(row.parent_id or "")
        if above is not None and row.depth > 0:
            sums[row.parent_id or ""] = [one + other for one, other in zip(above, sums[row.id], strict=True)]
    return {id: _total(*values) for id, values in sums.items()}


def _total(
    sessions: float, cost: float, input: float, output: float, reasoning: float, read: float, write: float
) -> TreeTotal:
    cache = CacheTokens(read=int(read), write=int(write))
    tokens = Tokens(input=int(input), output=int(output), reasoning=int(reasoning), cache=cache)
    return TreeTotal(sessions=int(sessions), cost=cost, tokens=tokens)


class _AnswerError(Record):
    message: str = ""


class _AnswerHeader(Record):
    finish: str | None = None
    error: _AnswerError | None = None
    rejected: str | None = None


def _once(rows: list[M]) -> dict[str, M]:
    """The first row of each Session: a damaged tree may be a ring."""
    found: dict[str, M] = {}
    for row in rows:
        found.setdefault(row.id, row)
    return found


def _json(ids: Collection[str]) -> str:
    return encode(list(ids)).decode()
