"""Removing Sessions for good: what a purge removed, and what retention would remove or has removed."""

from __future__ import annotations

from holdfast.schema.ids import SessionIDField
from holdfast.schema.record import Record


class PurgeReport(Record):
    """What was removed. Afterwards no table has a row of these Sessions."""

    sessions: tuple[SessionIDField, ...]
    """With those below them, and with deleted forks of them."""
    events: int
    files: int
    """Managed files, isolated copies not counted."""
    bytes: int
    """Of the events and the managed files."""
    snapshots: int
    """Objects of file snapshots that no other Session needs."""
    notes: tuple[str, ...] = ()
    """What is still to be done, and by whom."""
