"""What uses the disk."""

from __future__ import annotations

from holdfast.schema.ids import SessionIDField
from holdfast.schema.record import Record


class DiskUse(Record):
    name: str
    path: str
    bytes: int
    free: int = 0
    """How many of these bytes could be freed, as far as that is known."""
    how: str
    """How it gets smaller."""


class LargeSession(Record):
    id: SessionIDField
    title: str | None = None
    """Absent if it was deleted."""
    directory: str | None = None
    events: int
    bytes: int
    """Of its events; what clients see of them takes about as much again."""


class DiskReport(Record):
    data: str
    """The folder with the files of this installation."""
    free: int | None = None
    """Bytes that are free on its disk."""
    uses: tuple[DiskUse, ...]
    largest: tuple[LargeSession, ...]
    """The Sessions with the most bytes of events."""
