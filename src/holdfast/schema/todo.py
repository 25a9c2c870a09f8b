"""A Session's list of things to do, as its model keeps it."""

from __future__ import annotations

from holdfast.schema.record import Record


class Todo(Record):
    content: str
    status: str
    priority: str
