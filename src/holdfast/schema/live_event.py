"""Payloads of live events, which are not stored: fragments of an answer, status. They never move a durable cursor."""

from typing import Any

from holdfast.schema.form import Form, FormAnswer, FormIDField, FormOwnerField
from holdfast.schema.ids import MessageIDField, SessionIDField
from holdfast.schema.permission import PermissionRequest, Reply
from holdfast.schema.question import Answer, QuestionRequest
from holdfast.schema.record import Record
from holdfast.schema.todo import Todo


class SessionDelta(Record):
    timestamp: int
    session_id: SessionIDField


class TextDelta(SessionDelta):
    assistant_message_id: MessageIDField
    text_id: str
    delta: str


class ReasoningDelta(SessionDelta):
    assistant_message_id: MessageIDField
    reasoning_id: str
    delta: str


class ToolInputDelta(SessionDelta):
    assistant_message_id: MessageIDField
    call_id: str
    delta: str


class CompactionDelta(SessionDelta):
    message_id: MessageIDField
    text: str


class ShellDelta(SessionDelta):
    """Output of a running shell message. It is bounded; `shell.ended` has the output that is kept."""

    call_id: str
    delta: str


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


class TreeConnected(Record):
    """From here on the stream of a tree carries new events."""

    session_id: SessionIDField


class SessionError(Record):
    session_id: str | None = None
    error: ErrorInfo | None = None


# Requests to a person and their answers name the ancestors of the Session, whose streams carry them too.
class PermissionAskedLive(PermissionRequest):
    pass


class PermissionRepliedLive(Record):
    session_id: SessionIDField
    request_id: str
    reply: Reply
    ancestors: tuple[SessionIDField, ...] | None = None


class QuestionAskedLive(QuestionRequest):
    pass


class QuestionRepliedLive(Record):
    session_id: SessionIDField
    request_id: str
    answers: tuple[Answer, ...]
    ancestors: tuple[SessionIDField, ...] | None = None


class QuestionRejectedLive(Record):
    session_id: SessionIDField
    request_id: str
    ancestors: tuple[SessionIDField, ...] | None = None


class FormCreatedLive(Record):
    """`session_id` and `ancestors` are those of the form."""

    form: Form
    session_id: FormOwnerField
    ancestors: tuple[SessionIDField, ...] | None = None


class FormRepliedLive(Record):
    id: FormIDField
    session_id: FormOwnerField
    answer: FormAnswer
    ancestors: tuple[SessionIDField, ...] | None = None


class FormCancelledLive(Record):
    id: FormIDField
    session_id: FormOwnerField
    ancestors: tuple[SessionIDField, ...] | None = None


class FileEdited(Record):
    file: str


class CatalogUpdated(Record):
    pass


class IntegrationUpdated(Record):
    pass


class IntegrationConnectionUpdated(Record):
    integration_id: str


class ReferenceUpdated(Record):
    pass


class PluginAdded(Record):
    id: str


class ModelsDevRefreshed(Record):
    pass


class ServerConnected(Record):
    pass


class GlobalDisposed(Record):
    pass
