"""The model's to-do list of a Session."""

from holdfast.schema.record import Record


class Todo(Record):
    content: str
    status: str
    priority: str
