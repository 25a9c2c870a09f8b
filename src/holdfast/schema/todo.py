"""A Session's list of things to do, as its model keeps it."""

from holdfast.schema.record import Record


class Todo(Record):
    content: str
    status: str
    priority: str
