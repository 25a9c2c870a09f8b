"""What the timeline takes from an event: the fields of all its types in one record, everything else skipped."""

from __future__ import annotations

from typing import Any

from holdfast.schema.model import ModelRef
from holdfast.schema.record import Record

PREFIX = "session.next."
TYPES = tuple(
    f"{PREFIX}{name}"
    for name in (
        *("turn.dispatched.1", "turn.answered.1", "turn.abandoned.1"),
        *("step.started.1", "step.ended.2", "step.failed.2", "retried.1"),
        *("tool.called.1", "tool.success.1", "tool.failed.1"),
        *("permission.asked.1", "permission.replied.1", "question.asked.1", "question.replied.1"),
        *("question.rejected.1", "form.asked.1", "form.replied.1", "form.cancelled.1"),
        *("prompt.admitted.1", "prompted.1", "synthetic.1", "input.withdrawn.1"),
        *("compaction.started.1", "compaction.ended.1", "compaction.ended.2", "compaction.failed.1"),
        *("shell.started.1", "shell.ended.1"),
        *("activity.suspended.1", "activity.ended.1"),
        *("context.updated.1", "revert.committed.1", "agent.switched.1", "model.switched.1"),
    )
)
BEGINNINGS = frozenset(
    f"{PREFIX}{name}.1"
    for name in (
        *("turn.dispatched", "retried", "tool.called", "permission.asked", "question.asked", "form.asked"),
        *("prompt.admitted", "compaction.started", "shell.started", "activity.suspended"),
    )
)
"""The types of events that may begin a span."""
PROMOTIONS = frozenset({f"{PREFIX}prompted.1", f"{PREFIX}synthetic.1"})
"""Events that say when their input was admitted. When it was promoted, only their id says."""
UNREADABLE = "unreadable"
"""In place of the type of an event that is not as it should be."""
SUBJECTS = ("path", "filePath", "command", "pattern", "query", "url", "description", "name", "agent")
"""Fields of a tool's input that say what it was called with, the most telling first."""
SUBJECT_CHARACTERS = 120


class Failure(Record):
    message: str = ""
    metadata: dict[str, Any] | None = None


class Caller(Record):
    """The tool call that asks."""

    message_id: str | None = None
    call_id: str | None = None


class Question(Record):
    question: str = ""


class Request(Record):
    """A permission request, a question or a form."""

    id: str
    action: str | None = None
    resources: tuple[str, ...] | None = None
    title: str | None = None
    questions: tuple[Question, ...] | None = None
    source: Caller | None = None
    tool: Caller | None = None

    @property
    def caller(self) -> Caller:
        return self.source or self.tool or Caller()

    @property
    def what(self) -> str:
        if self.action is not None:
            return one_line(" ".join((self.action, *(self.resources or ())[:1])))
        asked = self.questions[0].question if self.questions else self.title
        return one_line(asked or "an answer")


class Fact(Record):
    timestamp: int
    message_id: str | None = None
    assistant_message_id: str | None = None
    call_id: str | None = None
    request_id: str | None = None
    request: Request | None = None
    tool: str | None = None
    input: Any = None
    command: str | None = None
    agent: str | None = None
    model: ModelRef | None = None
    attempt: int | None = None
    broke: tuple[str, ...] | None = None
    reason: str | None = None
    reply: str | None = None
    cause: str | None = None
    delivery: str | None = None
    finish: str | None = None
    output: Any = None
    exit: int | None = None
    error: Failure | None = None


class StoredFact(Record):
    seq: int
    type: str
    """Without the prefix that all have, and without the version."""
    fact: Fact


def subject_of(tool: str, given: Any) -> str:
    """The tool and what it was called with, in one line."""
    fields = given if isinstance(given, dict) else {}
    found = next((fields[name] for name in SUBJECTS if isinstance(fields.get(name), str) and fields[name]), "")
    return one_line(f"{tool} {found}") if found else tool


def one_line(text: str) -> str:
    line = " ".join(text[: 4 * SUBJECT_CHARACTERS].split())
    return line if len(line) <= SUBJECT_CHARACTERS else f"{line[: SUBJECT_CHARACTERS - 1]}…"
