"""The payloads of a Session's durable events. Their versions are in manifest.py."""

from typing import Any, Literal

import msgspec

from holdfast.schema.form import Form, FormAnswer
from holdfast.schema.ids import MessageIDField, SessionIDField
from holdfast.schema.location import Location
from holdfast.schema.model import ModelRef
from holdfast.schema.permission import PermissionRequest, Reply
from holdfast.schema.prompt import Delivery, Prompt
from holdfast.schema.question import Answer, QuestionRequest
from holdfast.schema.record import Record
from holdfast.schema.session import Revert, SessionRecord, Tokens
from holdfast.schema.session_message import ProviderMetadata, ToolContent, UnknownError
from holdfast.schema.todo import Todo


class SessionPayload(Record):
    """Fields of all payloads."""

    timestamp: int
    session_id: SessionIDField


class AgentSwitched(SessionPayload):
    message_id: MessageIDField
    agent: str


class ModelSwitched(SessionPayload):
    message_id: MessageIDField
    model: ModelRef


class Moved(SessionPayload):
    location: Location
    subdirectory: str | None = None


class PromptAdmitted(SessionPayload):
    message_id: MessageIDField
    prompt: Prompt
    delivery: Delivery
    type: Literal["synthetic"] | None = None
    """Absent for a prompt of a user."""


class Prompted(SessionPayload):
    message_id: MessageIDField
    prompt: Prompt
    delivery: Delivery


class ContextUpdated(SessionPayload):
    message_id: MessageIDField
    text: str


class Synthetic(SessionPayload):
    message_id: MessageIDField
    text: str
    description: str | None = None
    metadata: dict[str, Any] | None = None
    delivery: Delivery | None = None
    """Set for an input that was admitted; absent for text that the runtime adds by itself."""


class ShellStarted(SessionPayload):
    message_id: MessageIDField
    call_id: str
    command: str


class ShellEnded(SessionPayload):
    call_id: str
    output: str
    exit: int | None = None
    """The exit status; absent if the command was interrupted."""


class StepPayload(SessionPayload):
    assistant_message_id: MessageIDField


class StepStarted(StepPayload):
    agent: str
    model: ModelRef
    snapshot: str | None = None


class StepEnded(StepPayload):
    finish: str
    cost: float
    tokens: Tokens
    snapshot: str | None = None
    files: tuple[str, ...] | None = None
    structured: Any = msgspec.UNSET
    """The validated answer to a prompt with a format; it ends the activity."""
    rejected: str | None = None
    """Why the answer does not match the prompt's format; the model is asked again."""
    saved: float | None = None
    """What the tokens in the provider's cache would have cost more as other input. Absent without such tokens, or if
    the price is not known."""


class StepFailed(StepPayload):
    error: UnknownError
    cost: float | None = None
    """This and `tokens` are set if the provider answered completely, and the answer was not usable or the process ended
    while its calls ran."""
    tokens: Tokens | None = None


class TextStarted(StepPayload):
    text_id: str


class TextEnded(StepPayload):
    text_id: str
    text: str
    broken_off: bool | None = None
    """Whether the process ended before the model did. The text is what had been kept of it."""


class ReasoningStarted(StepPayload):
    reasoning_id: str
    provider_metadata: ProviderMetadata | None = None


class ReasoningEnded(StepPayload):
    reasoning_id: str
    text: str
    provider_metadata: ProviderMetadata | None = None
    broken_off: bool | None = None
    """As in `TextEnded`."""


class ToolInputStarted(StepPayload):
    call_id: str
    name: str


class ToolInputEnded(StepPayload):
    call_id: str
    text: str


class Provider(Record):
    """Who executed a call, and metadata that the provider expects back."""

    executed: bool
    metadata: ProviderMetadata | None = None


class ToolCalled(StepPayload):
    call_id: str
    tool: str
    input: dict[str, Any]
    provider: Provider


class ToolProgress(StepPayload):
    call_id: str
    structured: dict[str, Any]
    content: tuple[ToolContent, ...]


class ToolSuccess(StepPayload):
    call_id: str
    structured: dict[str, Any]
    content: tuple[ToolContent, ...]
    output_paths: tuple[str, ...] | None = None
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    provider: Provider


class ToolFailed(StepPayload):
    call_id: str
    error: UnknownError
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    provider: Provider


class RetryError(Record):
    message: str
    status_code: int | None = None
    is_retryable: bool
    response_headers: dict[str, str] | None = None
    response_body: str | None = None
    metadata: dict[str, Any] | None = None


class Retried(SessionPayload):
    attempt: int
    error: RetryError


class CompactionStarted(SessionPayload):
    message_id: MessageIDField
    reason: Literal["auto", "manual"]


class CompactionEnded(SessionPayload):
    message_id: MessageIDField
    reason: Literal["auto", "manual"]
    text: str
    recent: str


class CompactionFailed(SessionPayload):
    message_id: MessageIDField
    error: UnknownError


class RevertStaged(SessionPayload):
    revert: Revert


class RevertCleared(SessionPayload):
    pass


class RevertCommitted(SessionPayload):
    message_id: MessageIDField
    before: bool | None = None
    """As in what was staged. Then `LineageShortened`, in the same commit, has taken the message away."""


# Private events: stored, replayed and projected, but never in the public stream.


class InputWithdrawn(SessionPayload):
    message_id: MessageIDField


class InputDeliveryChanged(SessionPayload):
    """A pending input was moved between steer and queue."""

    message_id: MessageIDField
    delivery: Delivery


class AttachmentStored(SessionPayload):
    """The content of a prompt's file at admission: text, media as base64, or a note why there is none."""

    message_id: MessageIDField
    index: int
    mime: str
    text: str | None = None
    data: str | None = None
    note: str | None = None


class InstructionDiscovered(SessionPayload):
    location: Location
    paths: tuple[str, ...]


class InstructionEntryPut(SessionPayload):
    """A fact for the model of one Session; it enters as a Context Source."""

    key: str
    value: msgspec.Raw


class InstructionEntryRemoved(SessionPayload):
    key: str


class ActivityEnded(SessionPayload):
    """The activity is over, although the last step called tools or was never dispatched."""

    reason: str


class ActivitySuspended(SessionPayload):
    """A shutdown stopped the activity; the next process continues it."""


class SnapshotCaptured(StepPayload):
    """The file tree after a step; the step does not wait for it."""

    snapshot: str
    files: tuple[str, ...]


class CompactionUndone(SessionPayload):
    message_id: MessageIDField
    message_seq: int | None = None
    """The sequence of a checkpoint that the Session shares with the one it was forked from."""


class UsageRecorded(SessionPayload):
    """Usage of the runtime's own model calls, outside of steps."""

    purpose: Literal["compaction", "title", "generate", "sampling"]
    cost: float
    tokens: Tokens
    model: ModelRef | None = None
    """Not recorded by earlier versions."""
    saved: float | None = None
    """As in StepEnded."""


class TodosReplaced(SessionPayload):
    todos: tuple[Todo, ...]


class PermissionAsked(SessionPayload):
    request: PermissionRequest
    agent: str
    """The agent whose rules apply, even if the Session's agent changes."""
    resumable: bool | None = None
    """Whether the call has not started anything: after a restart it keeps waiting, and an answer executes it."""
    owner: str | None = None
    """The process whose caller waits, where no tool call does. When it ends, no answer has an effect."""


class PermissionReplied(SessionPayload):
    request_id: str
    reply: Reply
    message: str | None = None
    cause: Literal["interrupted", "sibling", "saved", "policy"] | None = None
    """Why it was answered without a person."""


class RequestTaken(SessionPayload):
    """The waiting call has received the answer: from then on it may have acted."""

    request_id: str


class QuestionAsked(SessionPayload):
    request: QuestionRequest
    resumable: bool | None = None


class QuestionReplied(SessionPayload):
    request_id: str
    answers: tuple[Answer, ...]


class QuestionRejected(SessionPayload):
    request_id: str
    cause: Literal["interrupted"] | None = None
    """Why it was rejected without a person."""


class FormAsked(SessionPayload):
    request: Form
    resumable: bool | None = None
    held: dict[str, Any] | None = None
    """What the call needs to go on in another process. It is not part of the public form."""


class FormReplied(SessionPayload):
    request_id: str
    answer: FormAnswer


class FormCancelled(SessionPayload):
    request_id: str
    declined: bool | None = None
    """Whether the person said no, and not only dismissed the form."""
    cause: Literal["interrupted"] | None = None
    """Why it was cancelled without a person."""


class SessionInfoPayload(Record):
    session_id: SessionIDField
    info: SessionRecord


class SessionCreated(SessionInfoPayload):
    pass


class SessionUpdated(SessionInfoPayload):
    pass


class SessionDeleted(SessionInfoPayload):
    pass
