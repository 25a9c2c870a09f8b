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


class RetentionItem(Record):
    """A tree that goes, or would go."""

    id: SessionIDField
    """Its root."""
    title: str
    directory: str
    sessions: int
    updated: int
    """When anything of it changed last, in milliseconds since the epoch."""
    reason: str


class RetentionReport(Record):
    dry_run: bool
    trees: int
    """How many there are."""
    pinned: int
    busy: int
    items: tuple[RetentionItem, ...]
    """What was removed, or would be."""
    deleted: int = 0
    """Deleted trees whose remains were removed, or would be."""
    events: int = 0
    files: int = 0
    bytes: int = 0
    """Of the events and files that were removed."""
    freed: int = 0
    """Bytes that the database file is smaller now."""
    snapshots: int = 0
    exported: tuple[str, ...] = ()
    """The bundles that were written."""
    notes: tuple[str, ...] = ()
    """What stayed although the policy names it, and why; and what else is to be done."""
