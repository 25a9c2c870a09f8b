"""Which Sessions an export contains, and in which order.

A Session is exported with its whole tree, from the root down, and with the trees of the Sessions it was forked from,
whose messages it shows (ADR 24). So a bundle never refers to a Session that it does not have."""

from __future__ import annotations

from graphlib import TopologicalSorter
from typing import TYPE_CHECKING

from holdfast.core.session.errors import SessionNotFound
from holdfast.schema.codec import decoder, encode_text
from holdfast.schema.exceptions import Conflict
from holdfast.schema.fork_event import SessionForked
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.database.database import Database
    from holdfast.core.event.log import EventLog
    from holdfast.core.session.stored_trees import StoredTrees

FORKED = "session.next.forked.1"
CREATED = "session.created.1"
MOST_LOOKS = 20


class SelectedSession(Frozen):
    id: str
    parent_id: str | None
    sources: tuple[str, ...]
    deleted: bool
    head: int
    """The last event that is exported."""


class Selection(Frozen):
    requested: tuple[str, ...]
    sessions: tuple[SelectedSession, ...]
    """A parent before its children, and the source of a fork before the fork; otherwise by id."""


class _Row(Frozen):
    id: str
    parent_id: str | None
    forked: bool


class Selecting:
    def __init__(self, log: EventLog, database: Database, trees: StoredTrees) -> None:
        self._log = log
        self._database = database
        self._trees = trees

    async def select(self, session_ids: Sequence[str] | None) -> Selection:
        """The trees of these Sessions, or of all. Raises SessionNotFound."""
        if session_ids is None:
            requested = [str(row[0]) for row in await self._database.fetch_large("bundle.roots", {})]
        else:
            requested = [await self._root(id) for id in session_ids]
        found = await self._closure(requested)
        for _ in range(MOST_LOOKS):
            heads = {id: await self._log.latest(id) for id in found}
            # A Session that was created meanwhile may be named by the events that were counted.
            before, found = found, await self._closure(requested)
            if before.keys() == found.keys():
                break
        else:
            raise Conflict("Sessions were created all the time while they were counted; try again", resource="session")
        for id in requested:
            if found[id].deleted:
                raise SessionNotFound(id)
        return Selection(tuple(sorted(set(requested))), _ordered(found, heads))

    async def _root(self, session_id: str) -> str:
        above = await self._trees.ancestors(session_id)
        return above[0].id if above else session_id

    async def _closure(self, roots: Sequence[str]) -> dict[str, SelectedSession]:
        found: dict[str, SelectedSession] = {}
        waiting = list(dict.fromkeys(roots))
        while waiting:
            root = waiting.pop()
            if root in found:
                continue
            ids = await self._trees.member_ids(root)
            if not ids:
                found[root] = await self._deleted(root)
                waiting += found[root].sources
                continue
            rows = await self._database.fetch_large("bundle.sessions", {"ids": encode_text(ids)}, into=_Row)
            for row in rows:
                sources = await self._sources(row.id) if row.forked else ()
                found[row.id] = SelectedSession(
                    id=row.id,
                    parent_id=row.parent_id,
                    sources=sources,
                    deleted=False,
                    head=-1,
                )
                waiting += [await self._root(source) for source in sources]
        return found

    async def _deleted(self, session_id: str) -> SelectedSession:
        """A Session of which only the events are left."""
        events = await self._log.serialized(session_id, limit=1)
        if not events or events[0].type != CREATED:
            raise SessionNotFound(session_id)
        return SelectedSession(
            id=session_id,
            parent_id=None,
            sources=await self._sources(session_id),
            deleted=True,
            head=-1,
        )

    async def _sources(self, session_id: str) -> tuple[str, ...]:
        events = await self._log.serialized(session_id, limit=1, types=(FORKED,))
        segments = decoder(SessionForked).decode(events[0].data).segments if events else ()
        return tuple(sorted({segment.source_id for segment in segments}))


def _ordered(found: dict[str, SelectedSession], heads: dict[str, int]) -> tuple[SelectedSession, ...]:
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for id, session in sorted(found.items()):
        sorter.add(id, *session.sources, *((session.parent_id,) if session.parent_id in found else ()))
    return tuple(found[id].replace(head=heads[id]) for id in sorter.static_order())
