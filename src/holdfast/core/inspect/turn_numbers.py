"""The numbers of turns: how the dispatches of a Session are counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterable

DISPATCHED = "session.next.turn.dispatched.1"
ABANDONED = "session.next.turn.abandoned.1"


class TurnMark(Frozen):
    """A dispatch, the end of one that led to no answer, or the promotion of an input."""

    seq: int
    type: str
    attempt: int | None


def turn_numbers(marks: Iterable[TurnMark]) -> dict[int, int]:
    """The number of the turn of each dispatch, by its sequence, from 1. A dispatch after one that was abandoned is
    another attempt at the same turn, unless an input was promoted between them. One that sends nothing is none."""
    numbers: dict[int, int] = {}
    number, again = 0, False
    for mark in marks:
        if mark.type == DISPATCHED and mark.attempt:
            number += not again
            numbers[mark.seq], again = number, False
        elif mark.type == ABANDONED:
            again = number > 0
        elif mark.type != DISPATCHED:
            again = False
    return numbers
