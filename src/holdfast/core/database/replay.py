"""What becomes of an event from another log: it is the next one, is stored already, or is refused."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from holdfast.core.database.errors import InvalidDurableEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.database.unit import NewEvent, Replay, Unit


class Verdict(Enum):
    NEXT = "next"
    STORED = "stored"
    FOREIGN = "foreign"
    """Another owner replays into this aggregate."""


def judge_replay(
    unit: Unit, replay: Replay, latest: int, owner: str | None, stored: Callable[[], Sequence[Sequence[object]]]
) -> Verdict:
    """`latest` and `owner` are those of the aggregate; `stored` reads id, type and data at the event's sequence."""
    event = unit.events[0]
    if owner is not None and owner != replay.owner_id:
        if replay.strict:
            raise invalid_event(event, f"Replay owner mismatch: {unit.aggregate_id} belongs to {owner}")
        return Verdict.FOREIGN
    if replay.seq <= latest:
        rows = stored()
        if rows and tuple(rows[0]) == (event.id, event.type, event.data):
            return Verdict.STORED
        raise invalid_event(event, f"Replay diverged at {unit.aggregate_id}:{replay.seq}")
    if replay.seq != latest + 1:
        raise invalid_event(event, f"Sequence mismatch: expected {latest + 1}, got {replay.seq}")
    return Verdict.NEXT


def invalid_event(event: NewEvent, message: str) -> InvalidDurableEvent:
    return InvalidDurableEvent(event.type.rpartition(".")[0], message)
