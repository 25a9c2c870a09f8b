"""Reads the traces of Sessions from their logs.

The trace of an activity is named after the root of its tree and the event that began it. An activity of a child that a
call began belongs to the trace of that call. The newest activity is read backwards from the end of the log, so that its
cost depends on its own length alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.core.traces.activities import Activities
from holdfast.core.traces.fact import PREFIX, TYPES, Fact, StoredFact
from holdfast.core.traces.span import trace_id
from holdfast.schema.codec import decoder, encode
from holdfast.schema.exceptions import HoldfastError
from holdfast.schema.frozen import Frozen
from holdfast.schema.ids import time_of_id

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from holdfast.core.database.database import Database
    from holdfast.core.database.unit import Value
    from holdfast.core.session.stored_trees import StoredTrees
    from holdfast.core.traces.activities import Activity
    from holdfast.core.traces.span import Span

PAGE = 500
MOST_PAGES = 200
"""So many pages are read backwards for the beginning of one activity."""
FACT_BYTES = 64 * 1024
"""Of larger events only a few fields are read."""
END = 2**53
PROMOTIONS = frozenset((f"{PREFIX}prompted.1", f"{PREFIX}synthetic.1"))
"""Events that say when their input was admitted. When it was promoted, only their id says."""

Place = tuple[bytes, bytes]
"""The id of a trace, and that of the span above; empty if there is none."""


class ActivityTooLong(HoldfastError):
    """The beginning of an activity is too far back in the log."""

    def __init__(self, session_id: str) -> None:
        super().__init__(f"an activity of {session_id} has more than {PAGE * MOST_PAGES} events")


class SessionTraces:
    def __init__(self, database: Database, trees: StoredTrees) -> None:
        self._database = database
        self._trees = trees

    async def ended_since(self, session_id: str, since: int) -> list[Span]:
        """The spans of the newest activities of a Session that were over at this time or later. Raises
        ActivityTooLong."""
        recent = await self._recent(session_id, lambda activity: activity.last < since)
        found: list[Span] = []
        for activity in recent:
            if activity.over and activity.last >= since:
                found += activity.spans(*await self._place(session_id, activity))
        return found

    async def of_tree(self, session_id: str) -> AsyncIterator[list[Span]]:
        """The spans of all activities of a Session's whole tree that are over, one activity at a time."""
        places = await self._trees.places([session_id])
        root = places[session_id].root_id if session_id in places else session_id
        calls: dict[str, Place] = {}
        for id in await self._trees.member_ids(root):  # parents come before their children
            async for activity in self._all(id):
                own = (trace_id(root, activity.event_id), b"")
                trace, above = calls.get(activity.input_id or "", own)
                calls |= {prompt: (trace, span) for prompt, span in activity.tasks.items()}
                if activity.over:
                    yield activity.spans(trace, above)

    async def _all(self, session_id: str) -> AsyncIterator[Activity]:
        activities, after = Activities(session_id), -1
        while page := await self._facts("inspect.facts_asc", session_id, after=after):
            activities.take(page)
            after = page[-1].seq
            while len(activities.found) > 1:
                yield activities.found.pop(0)
        for activity in activities.found:
            yield activity

    async def _recent(self, session_id: str, enough: Callable[[Activity], bool]) -> list[Activity]:
        """The newest activities, back to one that is enough, or all. What is read begins with a dispatch, or with the
        log, so that whether an activity was over is known; the first one in it may have begun earlier."""
        facts: list[StoredFact] = []
        for _ in range(MOST_PAGES):
            before = facts[0].seq if facts else END
            page = await self._facts("inspect.facts_desc", session_id, before=before)
            facts[:0] = reversed(page)
            whole = len(page) < PAGE
            activities = Activities(session_id)
            activities.take(facts if whole else _from_dispatch(facts))
            known = activities.found if whole else activities.found[1:]
            if whole or any(enough(activity) for activity in known):
                return known
        raise ActivityTooLong(session_id)

    async def _place(self, session_id: str, activity: Activity) -> Place:
        place = (await self._trees.places([session_id])).get(session_id)
        root = place.root_id if place is not None else session_id
        own = (trace_id(root, activity.event_id), b"")
        given = activity.input_id
        if place is None or place.parent_id is None or given is None:
            return own
        key: dict[str, Value] = {"child_id": session_id, "prompt_id": given}
        rows = await self._database.fetch("task.giver", key)
        if not rows:
            return own  # a person prompted the child
        giver = str(rows[0][0])
        recent = await self._recent(giver, lambda found: given in found.tasks)
        above = next((found for found in reversed(recent) if given in found.tasks), None)
        if above is None:
            return own
        trace, _ = await self._place(giver, above)
        return trace, above.tasks[given]

    async def _facts(self, statement: str, session_id: str, **place: Value) -> list[StoredFact]:
        key: dict[str, Value] = {"session_id": session_id, "types": encode(TYPES).decode(), "most": FACT_BYTES}
        rows = await self._database.fetch_large(statement, {**key, **place, "limit": PAGE}, into=_FactRow)
        return [row.fact() for row in rows]


def _from_dispatch(facts: list[StoredFact]) -> list[StoredFact]:
    first = next((place for place, item in enumerate(facts) if item.type == "turn.dispatched"), len(facts))
    return facts[first:]


class _FactRow(Frozen):
    seq: int
    id: str
    type: str
    data: str

    def fact(self) -> StoredFact:
        try:
            fact: Fact = decoder(Fact).decode(self.data)
        except msgspec.DecodeError:
            return StoredFact(seq=self.seq, id=self.id, type="unreadable", fact=Fact(timestamp=0))
        if self.type in PROMOTIONS:
            fact = msgspec.structs.replace(fact, timestamp=time_of_id(self.id, fact.timestamp))
        return StoredFact(seq=self.seq, id=self.id, type=self.type.removeprefix(PREFIX).rpartition(".")[0], fact=fact)
