"""The projected messages of a Session: unions over `type`; a tool's state is a union over `status`.

Every message has `type` and `text`, so that both can be read without looking at its class first."""

from typing import Any, ClassVar, Literal

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
    code: str | None = None
    """The name of the failure, if it has one, such as `Session.StructuredOutputError`."""


class Message(Record, tag_field="type"):
    id: MessageIDField
    time: Time
    metadata: Metadata | None = None


class UserMessage(Message, tag="user"):
    type: ClassVar[Literal["user"]] = "user"
    text: str
    files: tuple[FileAttachment, ...] | None = None
    agents: tuple[AgentAttachment, ...] | None = None
    skills: tuple[SkillAttachment, ...] | None = None
    options: PromptOptions | None = None
    command: CommandCall | None = None


class SyntheticMessage(Message, tag="synthetic"):
    type: ClassVar[Literal["synthetic"]] = "synthetic"
    session_id: str
    text: str
    description: str | None = None
    """What clients show in place of the text."""


class SystemMessage(Message, tag="system"):
    type: ClassVar[Literal["system"]] = "system"
    text: str


class ShellMessage(Message, tag="shell"):
    type: ClassVar[Literal["shell"]] = "shell"
    call_id: str
    command: str
    output: str
    """What the command wrote, bounded, and how it ended if it failed. Empty while it runs."""
    exit: int | None = None
    """The exit status; absent while it runs, and if it was interrupted."""

    @property
    def text(self) -> str:
        """What the command wrote."""
        return self.output


class AgentSwitchedMessage(Message, tag="agent-switched"):
    type: ClassVar[Literal["agent-switched"]] = "agent-switched"
    agent: str

    @property
    def text(self) -> str:
        """Empty: this message is not a text."""
        return ""


class ModelSwitchedMessage(Message, tag="model-switched"):
    type: ClassVar[Literal["model-switched"]] = "model-switched"
    model: ModelRef

    @property
    def text(self) -> str:
        """Empty: this message is not a text."""
        return ""


class CompactionMessage(Message, tag="compaction"):
    type: ClassVar[Literal["compaction"]] = "compaction"
    reason: Literal["auto", "manual"]
    summary: str
    recent: str

    @property
    def text(self) -> str:
        """The summary."""
        return self.summary


class TextContent(Record, tag_field="type", tag="text"):
    """Text in a tool's model-visible output."""

    type: ClassVar[Literal["text"]] = "text"
    text: str


class FileContent(Record, tag_field="type", tag="file"):
    type: ClassVar[Literal["file"]] = "file"
    uri: str
    mime: str
    name: str | None = None


ToolContent = TextContent | FileContent


class ToolPending(Record, tag_field="status", tag="pending"):
    status: ClassVar[Literal["pending"]] = "pending"
    input: str
    partial: str | None = None
    """The input so far, while the model writes it; at most a second old."""


class ToolRunning(Record, tag_field="status", tag="running"):
    status: ClassVar[Literal["running"]] = "running"
    input: dict[str, Any]
    structured: dict[str, Any]
    content: tuple[ToolContent, ...]


class ToolCompleted(Record, tag_field="status", tag="completed"):
    status: ClassVar[Literal["completed"]] = "completed"
    input: dict[str, Any]
    structured: dict[str, Any]
    content: tuple[ToolContent, ...]
    output_paths: tuple[str, ...] | None = None
    attachments: tuple[FileAttachment, ...] | None = None
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class ToolError(Record, tag_field="status", tag="error"):
    status: ClassVar[Literal["error"]] = "error"
    input: dict[str, Any]
    structured: dict[str, Any]
    content: tuple[ToolContent, ...]
    error: UnknownError
    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


ToolState = ToolPending | ToolRunning | ToolCompleted | ToolError


class TextPart(Record, tag_field="type", tag="text"):
    type: ClassVar[Literal["text"]] = "text"
    id: str
    text: str
    partial: str | None = None
    """The text so far, while the model writes it; at most a second old. `text` is empty then."""
    broken_off: bool | None = None
    """Whether the process ended before the model did. The model is not sent the text."""


class ReasoningPart(Record, tag_field="type", tag="reasoning"):
    type: ClassVar[Literal["reasoning"]] = "reasoning"
    id: str
    text: str
    partial: str | None = None
    """As in `TextPart`, and so is `broken_off`."""
    broken_off: bool | None = None
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
    type: ClassVar[Literal["tool"]] = "tool"
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
    type: ClassVar[Literal["assistant"]] = "assistant"
    agent: str
    model: ModelRef
    content: tuple[Part, ...]
    snapshot: StepSnapshot | None = None
    finish: str | None = None
    cost: float | None = None
    tokens: Tokens | None = None
    error: UnknownError | None = None
    structured: Any = msgspec.UNSET
    """The validated answer to a prompt with a format; absent otherwise."""
    rejected: str | None = None
    """Why the answer does not match the prompt's format; the model was asked again."""

    @property
    def text(self) -> str:
        """The text of the answer, without reasoning and tool calls."""
        return "".join(part.text for part in self.content if isinstance(part, TextPart))


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
