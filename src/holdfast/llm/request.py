"""The provider-neutral request. Plain values; nothing here knows a wire format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from holdfast.schema.record import Record

if TYPE_CHECKING:
    from holdfast.schema.session_message import ToolContent

Role = Literal["system", "user", "assistant", "tool"]


class TextPart(Record, tag_field="type", tag="text"):
    text: str


class MediaPart(Record, tag_field="type", tag="media"):
    """`data` is a data URI."""

    media_type: str
    data: str
    filename: str | None = None


class ReasoningPart(Record, tag_field="type", tag="reasoning"):
    text: str


class ToolCallPart(Record, tag_field="type", tag="tool-call"):
    id: str
    name: str
    input: Any


class ToolResult(Record):
    """`text`, `json` and `error` hold a value; `content` holds parts."""

    type: Literal["text", "json", "error", "content"]
    value: Any


class ToolResultPart(Record, tag_field="type", tag="tool-result"):
    id: str
    name: str
    result: ToolResult


Part = TextPart | MediaPart | ReasoningPart | ToolCallPart | ToolResultPart


class Message(Record):
    role: Role
    content: tuple[Part, ...]


class ToolDefinition(Record):
    name: str
    description: str
    input_schema: dict[str, Any]


class Generation(Record):
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] | None = None


class Request(Record):
    model: str
    system: tuple[str, ...]
    messages: tuple[Message, ...]
    tools: tuple[ToolDefinition, ...]
    tool_choice: str | None = None
    generation: Generation | None = None
    headers: dict[str, str] | None = None


def project_output(structured: dict[str, Any], content: tuple[ToolContent, ...]) -> ToolResult:
    """What the model is shown of a stored output: its JSON, its one text, or its parts."""
    if not content:
        return ToolResult(type="json", value=structured)
    if len(content) == 1 and content[0].__struct_config__.tag == "text":
        return ToolResult(type="text", value=content[0].text)  # type: ignore[union-attr]
    return ToolResult(type="content", value=content)
