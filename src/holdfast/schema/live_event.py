"""Payloads that are announced and never stored: fragments of an answer, status. They never move a durable cursor."""

from __future__ import annotations

from typing import Any

from holdfast.schema.ids import MessageIDField, SessionIDField
from holdfast.schema.record import Record


class Delta(Record):
    timestamp: int
    session_id: SessionIDField


class TextDelta(Delta):
    assistant_message_id: MessageIDField
    text_id: str
    delta: str


class ReasoningDelta(Delta):
    assistant_message_id: MessageIDField
    reasoning_id: str
    delta: str


class ToolInputDelta(Delta):
    assistant_message_id: MessageIDField
    call_id: str
    delta: str


class CompactionDelta(Delta):
    message_id: MessageIDField
    text: str


class Todo(Record):
    content: str
    status: str
    priority: str


class TodoUpdated(Record):
    session_id: SessionIDField
    todos: tuple[Todo, ...]


class Idle(Record, tag_field="type", tag="idle"):
    pass


class Busy(Record, tag_field="type", tag="busy"):
    pass


class Retry(Record, tag_field="type", tag="retry"):
    attempt: int
    message: str
    next: int
    action: dict[str, Any] | None = None


Status = Idle | Busy | Retry


class SessionStatus(Record):
    session_id: SessionIDField
    status: Status


class SessionIdle(Record):
    session_id: SessionIDField


class SessionCompacted(Record):
    session_id: SessionIDField


class ErrorInfo(Record):
    name: str
    data: dict[str, Any]


class SessionError(Record):
    session_id: str | None = None
    error: ErrorInfo | None = None


class ServerConnected(Record):
    pass


class GlobalDisposed(Record):
    pass
