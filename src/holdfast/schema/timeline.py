"""Where the time of a Session went: spans of work and of waiting, and moments that matter."""

from typing import Literal

from holdfast.schema.record import Record

Lane = Literal["provider", "tool", "person", "inbox", "compaction", "retry", "shell", "owner"]
"""`person`: a permission, a question, a form or a decision was waited for. `owner`: no process executed begun work."""


class Span(Record):
    lane: Lane
    start: int
    """In milliseconds since the epoch."""
    end: int | None = None
    """Absent while it lasts."""
    seq: int
    """Of the event that began it."""
    turn: int | None = None
    name: str
    """What it was: the tool with its subject, the model, the request."""
    why: str
    """Why it is there and what ended it, in a sentence."""
    failed: bool = False
    first: int | None = None
    """Of a provider: when the answer began."""
    call_id: str | None = None


class Moment(Record):
    kind: Literal[
        "prompt", "context", "prefix", "crash", "recovered", "suspended", "interrupted", "revert", "agent", "model"
    ]
    time: int
    seq: int
    what: str


class Timeline(Record):
    """The newest spans, in the order of their start."""

    start: int
    end: int
    """When it was read."""
    spans: tuple[Span, ...]
    moments: tuple[Moment, ...]
    more: bool
    """Whether there are older spans."""
