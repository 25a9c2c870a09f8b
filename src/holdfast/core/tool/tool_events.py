"""Extra events that a tool emits, committed together with its result."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.schema.record import Record

_events: ContextVar[list[Record] | None] = ContextVar("tool_events", default=None)


def record_with_call(event: Record) -> bool:
    """Add an event to the settlement of the running call. False if no call is running."""
    if (events := _events.get()) is None:
        return False
    events.append(event)
    return True


@contextmanager
def collecting() -> Iterator[list[Record]]:
    """Collect the events that code inside records. Enter it in the task that executes the call."""
    events: list[Record] = []
    token = _events.set(events)
    try:
        yield events
    finally:
        _events.reset(token)
