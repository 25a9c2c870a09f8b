"""Prompts, their delivery, and the receipt of an admitted prompt."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from holdfast.schema.ids import MessageIDField, SessionIDField
from holdfast.schema.model import ModelRef
from holdfast.schema.record import Record

Delivery = Literal["steer", "queue"]
InputKind = Literal["user", "synthetic"]
RetryCount = Annotated[int, Meta(ge=0, le=10)]


class Source(Record):
    """The span of the prompt's text that mentions an attachment."""

    start: int
    end: int
    text: str


class FileAttachment(Record):
    uri: str
    mime: str
    name: str | None = None
    description: str | None = None
    source: Source | None = None


class AgentAttachment(Record):
    name: str
    source: Source | None = None


class SkillAttachment(Record):
    """A skill with its text as it was at admission."""

    id: str
    name: str
    text: str
    source: Source | None = None


class CommandCall(Record):
    """The command from whose template a prompt was made."""

    command: str
    arguments: str


class PromptTask(Record):
    """The task that a command gives to a subagent."""

    agent: str
    description: str
    model: ModelRef | None = None


class OutputFormat(Record):
    """The form of the final answer: JSON that matches a schema."""

    type: Literal["json_schema"]
    schema: dict[str, Any]
    retry_count: RetryCount | None = None
    """How often the model is asked again after an answer that does not match; 2 by default."""


class PromptOptions(Record):
    """What a prompt sets for the turns it causes: from its promotion to that of the next prompt."""

    system: str | None = None
    """Instructions at the end of each request."""
    tools: dict[str, bool] | None = None
    """Which of the offered tools are left, by name or `*`. It never adds one."""
    format: OutputFormat | None = None
    agent: str | None = None
    model: ModelRef | None = None
    variant: str | None = None
    """The variant of the Session's model, where `model` is not set."""
    no_reply: bool | None = None
    """Whether it only becomes part of the conversation and causes no turn."""


class Prompt(Record):
    text: str
    files: tuple[FileAttachment, ...] | None = None
    agents: tuple[AgentAttachment, ...] | None = None
    skills: tuple[SkillAttachment, ...] | None = None
    metadata: dict[str, Any] | None = None
    """For clients; the model does not see it."""
    options: PromptOptions | None = None
    command: CommandCall | None = None
    task: PromptTask | None = None
    """Its text is given to a subagent before the model answers."""
    notes: tuple[str, ...] | None = None
    """Text for the model that resolving the prompt added; each becomes a synthetic message at promotion."""
    description: str | None = None
    """Of a synthetic input: what clients show in place of its text."""
    sent: str | None = None
    """Digest of what the caller sent, if resolving has changed it. A retry is recognised by it."""


class FileInput(Record):
    """A file named by a caller; its media type is determined at admission."""

    uri: str
    name: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    source: Source | UnsetType = UNSET
    mention: Source | UnsetType = UNSET
    """Another name of `source`."""


class AgentInput(Record):
    name: str
    source: Source | UnsetType = UNSET
    mention: Source | UnsetType = UNSET


class SkillInput(Record):
    id: str
    source: Source | UnsetType = UNSET
    mention: Source | UnsetType = UNSET


class ModelInput(Record):
    id: str
    provider_id: str
    variant: str | UnsetType = UNSET


def named_model(given: ModelInput) -> ModelRef:
    """The model that a caller names."""
    variant = None if isinstance(given.variant, UnsetType) else given.variant
    return ModelRef(id=given.id, provider_id=given.provider_id, variant=variant)


class TextFormat(Record, tag_field="type", tag="text"):
    """The answer has no prescribed form."""


class JsonFormat(Record, tag_field="type", tag="json_schema"):
    schema: dict[str, Any]
    retry_count: RetryCount | UnsetType = UNSET


class PromptInput(Record):
    """A prompt from a caller. `null` is invalid, unlike a missing field."""

    text: str
    files: tuple[FileInput, ...] | UnsetType = UNSET
    agents: tuple[AgentInput, ...] | UnsetType = UNSET
    skills: tuple[SkillInput, ...] | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET
    system: str | UnsetType = UNSET
    tools: dict[str, bool] | UnsetType = UNSET
    format: TextFormat | JsonFormat | UnsetType = UNSET
    agent: str | UnsetType = UNSET
    model: ModelInput | UnsetType = UNSET
    variant: str | UnsetType = UNSET
    no_reply: bool | UnsetType = UNSET


def prompt_input(given: PromptInput | str) -> PromptInput:
    """A text is a prompt with nothing else."""
    return PromptInput(text=given) if isinstance(given, str) else given


class SyntheticInput(Record):
    """Text that a program adds to the conversation. The model reads it as a message of the user."""

    text: str
    description: str | None = None
    """This and `metadata` are for clients; the model does not see them."""
    metadata: dict[str, Any] | None = None


class Admission(Record):
    """The receipt of an admitted input. The input is durable when the caller has it."""

    admitted_seq: int
    id: MessageIDField
    session_id: SessionIDField
    prompt: Prompt
    delivery: Delivery
    time_created: int
    promoted_seq: int | None = None
    type: Literal["synthetic"] | None = None
    """Absent for a prompt of a user. Of a synthetic input, `prompt` has the text, the description and the metadata."""
