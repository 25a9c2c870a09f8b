"""Events that belong to a call's settlement: what a tool brings to light beside its result is recorded in the same
commit, or not at all."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.schema.record import Record

_events: ContextVar[list[Record] | None] = ContextVar("beside", default=None)


def record_with_call(event: Record) -> bool:
    """Have it recorded with the settlement of the call that is running. False when there is none."""
    if (events := _events.get()) is None:
        return False
    events.append(event)
    return True


@contextmanager
def collecting() -> Iterator[list[Record]]:
    """What is called inside may add to the list. Enter it in the task that executes the call."""
    events: list[Record] = []
    token = _events.set(events)
    try:
        yield events
    finally:
        _events.reset(token)
