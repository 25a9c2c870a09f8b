"""The provider-neutral request: plain values that can be encoded as JSON and decoded again. No wire format here.

Three groups of options: `generation` (sampling and output controls), `provider_options` (options of one provider, by
namespace) and `http` (raw fields for a compatible endpoint)."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from holdfast.schema.codec import encode
from holdfast.schema.record import Record
from holdfast.schema.session_message import FileContent, TextContent, ToolContent

if TYPE_CHECKING:
    MediaData = str | bytes
else:
    MediaData = str  # a msgspec union may have one string-like type only

Role = Literal["system", "user", "assistant", "tool"]
ProviderMetadata = dict[str, dict[str, Any]]
"""By namespace: `anthropic`, `openai`, `google`, `bedrock`. A namespace is sent to its own protocol only."""


class CacheHint(Record):
    type: Literal["ephemeral", "persistent"] = "ephemeral"
    ttl_seconds: int | None = None


class TextPart(Record, tag_field="type", tag="text"):
    text: str
    cache: CacheHint | None = None
    provider_metadata: ProviderMetadata | None = None
    metadata: dict[str, Any] | None = None


class MediaPart(Record, tag_field="type", tag="media"):
    """`data` is given as raw bytes, base64, or a data URI of the same type, and kept as text."""

    media_type: str
    data: MediaData
    filename: str | None = None
    metadata: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.data, bytes):
            msgspec.structs.force_setattr(self, "data", base64.b64encode(self.data).decode())


class ReasoningPart(Record, tag_field="type", tag="reasoning"):
    text: str
    encrypted: str | None = None
    provider_metadata: ProviderMetadata | None = None
    metadata: dict[str, Any] | None = None


class ToolCallPart(Record, tag_field="type", tag="tool-call"):
    id: str
    name: str
    input: Any
    provider_executed: bool = False
    provider_metadata: ProviderMetadata | None = None
    metadata: dict[str, Any] | None = None


class ToolResult(Record):
    """`text`, `json` and `error` hold a value; `content` holds text and file items."""

    type: Literal["text", "json", "error", "content"]
    value: Any


class ToolResultPart(Record, tag_field="type", tag="tool-result"):
    id: str
    name: str
    result: ToolResult
    provider_executed: bool = False
    cache: CacheHint | None = None
    provider_metadata: ProviderMetadata | None = None
    metadata: dict[str, Any] | None = None


Part = TextPart | MediaPart | ReasoningPart | ToolCallPart | ToolResultPart


class Message(Record):
    """A `system` message here is a chronological update, not the request's own system text."""

    role: Role
    content: tuple[Part, ...]
    metadata: dict[str, Any] | None = None


class SystemPart(Record):
    text: str
    cache: CacheHint | None = None


class ToolDefinition(Record):
    name: str
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any] | None = None
    cache: CacheHint | None = None


class ToolChoice(Record):
    type: Literal["auto", "none", "required", "tool"]
    name: str | None = None


class Generation(Record):
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] | None = None


class HttpOverlay(Record):
    body: dict[str, Any] | None = None
    headers: dict[str, str] | None = None
    query: dict[str, str] | None = None


class CachePolicy(Record):
    """Default places of cache markers. `messages` is how many of the newest user-role messages get one."""

    tools: bool = True
    system: bool = True
    messages: int = 2
    ttl_seconds: int | None = None


NO_CACHE = CachePolicy(tools=False, system=False, messages=0)


class Request(Record):
    system: tuple[SystemPart, ...]
    messages: tuple[Message, ...]
    tools: tuple[ToolDefinition, ...]
    id: str | None = None
    tool_choice: ToolChoice | None = None
    generation: Generation | None = None
    provider_options: dict[str, dict[str, Any]] | None = None
    http: HttpOverlay | None = None
    response_format: dict[str, Any] | None = None
    cache: CachePolicy | None = None
    metadata: dict[str, Any] | None = None


def make_request(
    *,
    system: str | Iterable[str | SystemPart] = (),
    messages: Iterable[Message] = (),
    prompt: str | None = None,
    tools: Iterable[ToolDefinition] = (),
    tool_choice: str | ToolChoice | None = None,
    **more: Any,
) -> Request:
    """A request from convenient values: strings for system text and prompt, a tool's name for the tool choice."""
    given = (system,) if isinstance(system, str) else system
    parts = tuple(SystemPart(text=part) if isinstance(part, str) else part for part in given)
    asked = (user(prompt),) if prompt is not None else ()
    return Request(
        system=parts,
        messages=(*messages, *asked),
        tools=tuple(tools),
        tool_choice=choice(tool_choice) if isinstance(tool_choice, str) else tool_choice,
        **more,
    )


def choice(word: str) -> ToolChoice:
    """`auto`, `none` and `required`; any other word is the name of a tool."""
    if word in ("auto", "none", "required"):
        return ToolChoice(type=word)  # type: ignore[arg-type]
    return ToolChoice(type="tool", name=word)


def user(*parts: str | Part) -> Message:
    return Message(role="user", content=_parts(parts))


def assistant(*parts: str | Part) -> Message:
    return Message(role="assistant", content=_parts(parts))


def update(text: str) -> Message:
    """A chronological system message."""
    return Message(role="system", content=(TextPart(text=text),))


def tool_result(id: str, name: str, value: Any) -> Message:
    return Message(role="tool", content=(ToolResultPart(id=id, name=name, result=as_result(value)),))


def as_result(value: Any) -> ToolResult:
    """A value as a `json` result; a value with the shape of a result is converted to one."""
    if isinstance(value, ToolResult):
        return value
    if isinstance(value, Mapping) and value.get("type") in ("text", "json", "error", "content") and "value" in value:
        return ToolResult(type=value["type"], value=value["value"])
    return ToolResult(type="json", value=value)


def project_output(structured: Any, content: tuple[ToolContent, ...]) -> ToolResult:
    """A stored output as the model sees it: its JSON, its only text, or its items."""
    if not content:
        return ToolResult(type="json", value=structured)
    if len(content) == 1 and isinstance(content[0], TextContent):
        return ToolResult(type="text", value=content[0].text)
    return ToolResult(type="content", value=content)


def result_items(result: ToolResult) -> list[TextContent | FileContent]:
    """The items of a `content` result, also after JSON decoding. Other values become JSON text."""
    given = result.value if isinstance(result.value, list | tuple) else (result.value,)
    return [_item(item) for item in given]


def _item(item: Any) -> TextContent | FileContent:
    match item:
        case TextContent() | FileContent():
            return item
        case {"type": "text", "text": str(text)}:
            return TextContent(text=text)
        case {"type": "file", "uri": str(uri), "mime": str(mime)}:
            name = item.get("name")
            return FileContent(uri=uri, mime=mime, name=name if isinstance(name, str) else None)
        case _:
            return TextContent(text=encode(item).decode())


def _parts(parts: Iterable[str | Part]) -> tuple[Part, ...]:
    return tuple(TextPart(text=part) if isinstance(part, str) else part for part in parts)
