"""The payloads of a Session's durable events, one record each. Their stored versions are in manifest.py."""

from typing import Any, Literal

import msgspec

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
    """What every payload has."""

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


class ShellStarted(SessionPayload):
    message_id: MessageIDField
    call_id: str
    command: str


class ShellEnded(SessionPayload):
    call_id: str
    output: str


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


class StepFailed(StepPayload):
    error: UnknownError


class TextStarted(StepPayload):
    text_id: str


class TextEnded(StepPayload):
    text_id: str
    text: str


class ReasoningStarted(StepPayload):
    reasoning_id: str
    provider_metadata: ProviderMetadata | None = None


class ReasoningEnded(StepPayload):
    reasoning_id: str
    text: str
    provider_metadata: ProviderMetadata | None = None


class ToolInputStarted(StepPayload):
    call_id: str
    name: str


class ToolInputEnded(StepPayload):
    call_id: str
    text: str


class Provider(Record):
    """Who executed a call, and what the provider wants back with it."""

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


# Private from here on: stored, replayed and projected, never in the public stream.


class InputWithdrawn(SessionPayload):
    message_id: MessageIDField


class AttachmentStored(SessionPayload):
    """What was behind a file of a prompt when it was admitted: text, media as base64, or why there is nothing."""

    message_id: MessageIDField
    index: int
    mime: str
    text: str | None = None
    data: str | None = None
    note: str | None = None


class InstructionDiscovered(SessionPayload):
    location: Location
    paths: tuple[str, ...]


PrefixBreak = Literal[
    "new epoch",
    "compaction",
    "agent switch",
    "model switch",
    "tool change",
    "last step",
    "pruning",
    "revert",
    "hook",
    "configuration",
    "media refused",
]


class LearnedLimit(Record):
    """How many tokens a model takes, as a refusal of its provider told."""

    tokens: int
    stated: bool
    """Whether the provider named the number; else it is the estimate of the request that it refused."""
    time: int


class TurnDispatched(SessionPayload):
    """Written before the provider is called: whatever happens then, it may have happened."""

    agent: str
    model: ModelRef
    attempt: int
    baseline_seq: int
    checkpoint_seq: int
    pruned_seq: int
    tools: str
    """This and the next two are fingerprints: what the request was made of, apart from its conversation."""
    system: str
    controls: str
    last_step: bool
    media_refused: bool | None = None
    """Whether notes stand for media, because the provider refused a request with them."""
    learned: LearnedLimit | None = None
    """What was known of the model's window beyond its configuration."""
    broke: tuple[PrefixBreak, ...] | None = None
    """Why this request does not begin with the bytes of the one before, if it does not."""


class TurnAbandoned(SessionPayload):
    """A dispatched turn that nobody will finish and that left no step behind."""

    reason: str


class ActivityEnded(SessionPayload):
    """Nothing more is owed, although the last step called tools or was never dispatched."""

    reason: str


class ActivitySuspended(SessionPayload):
    """The process was shut down in the middle; the next one goes on by itself."""


class SnapshotCaptured(StepPayload):
    """The tree after a step, which did not wait for it."""

    snapshot: str
    files: tuple[str, ...]


class CompactionUndone(SessionPayload):
    message_id: MessageIDField


class UsageRecorded(SessionPayload):
    """What a call of the runtime's own cost, outside any step."""

    purpose: Literal["compaction", "title"]
    cost: float
    tokens: Tokens


class TodosReplaced(SessionPayload):
    todos: tuple[Todo, ...]


class PermissionAsked(SessionPayload):
    request: PermissionRequest
    agent: str
    """Whose rules judge it, however the Session's agent changes meanwhile."""
    resumable: bool | None = None
    """The call that asks has started nothing: after a restart it waits on, and an answer executes it."""


class PermissionReplied(SessionPayload):
    request_id: str
    reply: Reply
    message: str | None = None
    cause: Literal["interrupted", "sibling", "saved", "policy"] | None = None
    """Who answered, when it was no person."""


class RequestTaken(SessionPayload):
    """Whoever waited has the answer, and acts on it from here on: it may have happened."""

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
    """Who dismissed it, when it was no person."""


class SessionInfoPayload(Record):
    session_id: SessionIDField
    info: SessionRecord


class SessionCreated(SessionInfoPayload):
    pass


class SessionUpdated(SessionInfoPayload):
    pass


class SessionDeleted(SessionInfoPayload):
    pass
