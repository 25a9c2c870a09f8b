"""Prompts, their delivery, and the receipt of an admitted prompt."""

from typing import Literal

from msgspec import UNSET, UnsetType

from holdfast.schema.ids import MessageIDField, SessionIDField
from holdfast.schema.record import Record

Delivery = Literal["steer", "queue"]


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


class Prompt(Record):
    text: str
    files: tuple[FileAttachment, ...] | None = None
    agents: tuple[AgentAttachment, ...] | None = None


class FileInput(Record):
    """A file named by a caller; its media type is determined at admission."""

    uri: str
    name: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    source: Source | UnsetType = UNSET


class AgentInput(Record):
    name: str
    source: Source | UnsetType = UNSET


class PromptInput(Record):
    """A prompt from a caller. `null` is invalid, unlike a missing field."""

    text: str
    files: tuple[FileInput, ...] | UnsetType = UNSET
    agents: tuple[AgentInput, ...] | UnsetType = UNSET


class Admission(Record):
    """The receipt of an admitted prompt. The prompt is durable when the caller has it."""

    admitted_seq: int
    id: MessageIDField
    session_id: SessionIDField
    prompt: Prompt
    delivery: Delivery
    time_created: int
    promoted_seq: int | None = None
