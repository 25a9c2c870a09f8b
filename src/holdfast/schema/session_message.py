"""The projected messages of a Session: unions over `type`; a tool's state is a union over `status`."""

from typing import Any, Literal

import msgspec

from holdfast.schema.ids import MessageIDField
from holdfast.schema.model import ModelRef
from holdfast.schema.prompt import AgentAttachment, CommandCall, FileAttachment, PromptOptions, SkillAttachment
from holdfast.schema.record import Record
from holdfast.schema.session import Tokens

Metadata = dict[str, Any]
ProviderMetadata = dict[str, dict[str, Any]]


class Time(Record):
    created: int
    completed: int | None = None


class UnknownError(Record, tag_field="type", tag="unknown"):
    """The error of durable steps and tool calls."""

    message: str


class Message(Record, tag_field="type"):
    id: MessageIDField
    time: Time
    metadata: Metadata | None = None


class UserMessage(Message, tag="user"):
    text: str
    files: tuple[FileAttachment, ...] | None = None
    agents: tuple[AgentAttachment, ...] | None = None
    skills: tuple[SkillAttachment, ...] | None = None
    options: PromptOptions | None = None
    command: CommandCall | None = None


class SyntheticMessage(Message, tag="synthetic"):
    session_id: str
    text: str
    description: str | None = None
    """What clients show in place of the text."""


class SystemMessage(Message, tag="system"):
    text: str


class ShellMessage(Message, tag="shell"):
    call_id: str
    command: str
    output: str
    """What the command wrote, bounded, and how it ended if it failed. Empty while it runs."""
    exit: int | None = None
    """The exit status; absent while it runs, and if it was interrupted."""


class AgentSwitchedMessage(Message, tag="agent-switched"):
    agent: str


class ModelSwitchedMessage(Message, tag="model-switched"):
    model: ModelRef


class CompactionMessage(Message, tag="compaction"):
    reason: Literal["auto", "manual"]
    summary: str
    recent: str


class TextContent(Record, tag_field="type", tag="text"):
    """Text in a tool's model-visible output."""

    text: str


class FileContent(Record, tag_field="type", tag="file"):
    uri: str
    mime: str
    name: str | None = None


ToolContent = TextContent | FileContent


class ToolPending(Record, tag_field="status", tag="pending"):
    input: str


class ToolRunning(Record, tag_field="status", tag="running"):
    input: dict[str, Any]
    structured: dict[str, Any]
    content: tuple[ToolContent, ...]


class ToolCompleted(Record, tag_field="status", tag="completed"):
    input: dict[str, Any]
    structured: dict[str, Any]
    content: tuple[ToolContent, ...]
    output_paths: tuple[str, ...] | None = None
    attachments: tuple[FileAttachment, ...] | None = None
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class ToolError(Record, tag_field="status", tag="error"):
    input: dict[str, Any]
    structured: dict[str, Any]
    content: tuple[ToolContent, ...]
    error: UnknownError
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


ToolState = ToolPending | ToolRunning | ToolCompleted | ToolError


class TextPart(Record, tag_field="type", tag="text"):
    id: str
    text: str


class ReasoningPart(Record, tag_field="type", tag="reasoning"):
    id: str
    text: str
    provider_metadata: ProviderMetadata | None = None
    time: Time | None = None


class ToolProvider(Record):
    executed: bool
    metadata: ProviderMetadata | None = None
    result_metadata: ProviderMetadata | None = None


class ToolTime(Record):
    created: int
    ran: int | None = None
    completed: int | None = None
    pruned: int | None = None


class ToolPart(Record, tag_field="type", tag="tool"):
    id: str
    name: str
    provider: ToolProvider | None = None
    state: ToolState
    time: ToolTime


Part = TextPart | ReasoningPart | ToolPart


class StepSnapshot(Record):
    start: str | None = None
    end: str | None = None
    files: tuple[str, ...] | None = None


class AssistantMessage(Message, tag="assistant"):
    agent: str
    model: ModelRef
    content: tuple[Part, ...]
    snapshot: StepSnapshot | None = None
    finish: str | None = None
    cost: float | None = None
    tokens: Tokens | None = None
    error: UnknownError | None = None


SessionMessage = (
    UserMessage
    | SyntheticMessage
    | SystemMessage
    | ShellMessage
    | AgentSwitchedMessage
    | ModelSwitchedMessage
    | CompactionMessage
    | AssistantMessage
)
