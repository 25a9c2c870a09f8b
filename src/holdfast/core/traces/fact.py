"""What a trace takes from an event: ids, names, times and numbers, no text."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.schema.model import ModelRef
from holdfast.schema.record import Record
from holdfast.schema.session import Tokens

PREFIX = "session.next."
TYPES = tuple(
    f"{PREFIX}{name}"
    for name in (
        *("prompted.1", "synthetic.1", "turn.dispatched.1", "turn.answered.1", "turn.abandoned.1", "retried.1"),
        *("step.started.1", "step.ended.2", "step.failed.2", "tool.called.1", "tool.success.1", "tool.failed.1"),
        *("permission.asked.1", "permission.replied.1", "question.asked.1", "question.replied.1"),
        *("question.rejected.1", "form.asked.1", "form.replied.1", "form.cancelled.1"),
        *("compaction.started.1", "compaction.ended.1", "compaction.ended.2", "compaction.failed.1"),
        *("activity.suspended.1", "activity.ended.1", "task.started.1"),
    )
)


class Caller(Record):
    message_id: str | None = None
    call_id: str | None = None


class Request(Record):
    id: str
    source: Caller | None = None
    tool: Caller | None = None

    @property
    def call(self) -> tuple[str | None, str | None]:
        caller = self.source or self.tool or Caller()
        return caller.message_id, caller.call_id


class Failure(Record):
    message: str = ""


class Fact(Record):
    """The fields of all types."""

    timestamp: int
    message_id: str | None = None
    assistant_message_id: str | None = None
    call_id: str | None = None
    request_id: str | None = None
    request: Request | None = None
    tool: str | None = None
    agent: str | None = None
    model: ModelRef | None = None
    attempt: int | None = None
    delivery: str | None = None
    finish: str | None = None
    rejected: str | None = None
    structured: Any = msgspec.UNSET
    error: Failure | None = None
    cost: float | None = None
    tokens: Tokens | None = None
    prompt_id: str | None = None


class StoredFact(Record):
    seq: int
    id: str
    type: str
    """Without the prefix that all have, and without the version."""
    fact: Fact
