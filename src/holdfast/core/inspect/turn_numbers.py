"""The numbers of turns: how the dispatches of a Session are counted."""

from __future__ import annotations

from bisect import bisect
from typing import TYPE_CHECKING

from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.database.database import Database
    from holdfast.core.database.unit import Value

DISPATCHED = "session.next.turn.dispatched.1"
ABANDONED = "session.next.turn.abandoned.1"
COUNTED_SESSIONS = 32
"""So many Sessions are not counted again from their beginning: a log only grows."""


class TurnMark(Frozen):
    """A dispatch, the end of one that led to no answer, or the promotion of an input."""

    seq: int
    type: str
    attempt: int | None


class TurnCount:
    """`numbers` has the number of the turn of each dispatch, by its sequence, from 1. A dispatch after one that was
    abandoned is another attempt at the same turn, unless an input was promoted between them. One that sends nothing is
    none."""

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}
        self._dispatches: list[int] = []
        self.reached = -1
        self._number = 0
        self._again = False

    def add(self, marks: Iterable[TurnMark]) -> None:
        """In their order; those that were counted before are left out."""
        for mark in marks:
            if mark.seq <= self.reached:
                continue
            self.reached = mark.seq
            if mark.type == DISPATCHED:
                self._dispatches.append(mark.seq)
            if mark.type == DISPATCHED and mark.attempt:
                self._number += not self._again
                self.numbers[mark.seq], self._again = self._number, False
            elif mark.type == ABANDONED:
                self._again = self._number > 0
            elif mark.type != DISPATCHED:
                self._again = False

    def at(self, seq: int) -> int | None:
        """The number of the turn that was dispatched last before a sequence, unless that one sent nothing."""
        place = bisect(self._dispatches, seq)
        return self.numbers.get(self._dispatches[place - 1]) if place else None


class TurnNumbers:
    """Of Sessions that are looked at."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._counts: dict[str, TurnCount] = {}

    async def of(self, session_id: str, through: int) -> TurnCount:
        """Of at least the dispatches up to a sequence."""
        count = self._counts.pop(session_id, None) or TurnCount()
        self._counts[session_id] = count  # the newest is the last
        if len(self._counts) > COUNTED_SESSIONS:
            del self._counts[next(iter(self._counts))]
        key: dict[str, Value] = {"session_id": session_id, "after": count.reached, "through": through}
        if through > count.reached:
            count.add(await self._database.fetch_large("inspect.turn_marks", key, into=TurnMark))
        return count
