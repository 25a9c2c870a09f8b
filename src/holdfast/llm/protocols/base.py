"""The interface of a protocol, and helpers that the protocols share."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from holdfast.llm.errors import invalid_output, invalid_request
from holdfast.llm.limits import DEFAULT_LIMITS, AnswerLimits
from holdfast.llm.request import (
    MediaPart,
    Message,
    Part,
    ReasoningPart,
    Request,
    TextPart,
    ToolCallPart,
    ToolDefinition,
    ToolResult,
    ToolResultPart,
)
from holdfast.llm.tool_schema import gemini_sanitise, inline_refs, moonshot_schema
from holdfast.schema.codec import encode as to_json
from holdfast.schema.frozen import Frozen
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.llm.body import Draft
    from holdfast.llm.event import Event, Usage
    from holdfast.llm.model import Model

T = TypeVar("T")

TOOL_NAME = pattern(r"[A-Za-z0-9_-]{1,64}")
# Matches every escape in order, so that an escaped backslash does not begin another.
_ESCAPE = r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\."
_KINDS: dict[type, str] = {
    TextPart: "text",
    MediaPart: "media",
    ReasoningPart: "reasoning",
    ToolCallPart: "tool-call",
    ToolResultPart: "tool-result",
}
ALLOWED: dict[str, tuple[type, ...]] = {
    "system": (TextPart,),
    "user": (TextPart, MediaPart),
    "assistant": (TextPart, ReasoningPart, ToolCallPart, ToolResultPart),
    "tool": (ToolResultPart,),
}


class Decoder(Protocol):
    """A pure state machine over frames."""

    def feed(self, frame: bytes) -> list[Event]:
        """The events that this frame completes."""

    def finish(self) -> list[Event]:
        """The last events, after the last frame. Raises LLMError if the stream was cut."""

    @property
    def done(self) -> bool:
        """The answer is complete, even if the connection stays open."""


class WireProtocol(Protocol):
    @property
    def id(self) -> str: ...

    @property
    def name(self) -> str:
        """For error messages."""

    @property
    def namespace(self) -> str:
        """Namespace of provider options and metadata."""

    @property
    def framing(self) -> str:
        """`sse` or `aws-eventstream`."""

    def path(self, model_id: str) -> str: ...

    def start(self, model: Model, request: Request) -> Draft:
        """The body up to the conversation."""

    def extend(self, draft: Draft, model: Model, messages: Sequence[Message]) -> None:
        """Encode further messages into the draft. The bytes do not depend on how messages are batched."""

    def markers(self, draft: Draft, request: Request) -> tuple[bytes, int]:
        """The cache marker of this protocol and how many of the newest messages get one."""

    def decoder(self, model: Model, request: Request, limits: AnswerLimits = DEFAULT_LIMITS) -> Decoder: ...


def checked(protocol: WireProtocol, messages: Iterable[Message], *, visible: bool = False) -> list[Message]:
    """The messages without empty texts. Raises LLMError for content that a role cannot hold. `visible` also drops text
    of white space only."""
    kept: list[Message] = []
    for message in messages:
        for part in message.content:
            if not isinstance(part, ALLOWED[message.role]):
                supported = ", ".join(_KINDS[kind] for kind in ALLOWED[message.role])
                raise invalid_request(
                    f"{protocol.name}: a {message.role} message cannot hold {_KINDS[type(part)]}, only {supported}"
                )
            if isinstance(part, ToolResultPart) and message.role == "assistant" and not part.provider_executed:
                raise invalid_request(f"{protocol.name}: a local tool result belongs into a tool message")
        content = tuple(part for part in message.content if not _blank(part, visible=visible))
        if content:
            kept.append(
                message if len(content) == len(message.content) else Message(role=message.role, content=content)
            )
    return kept


class CallOrder:
    """Checks that no system update stands between a call and its result."""

    def __init__(self) -> None:
        self._open: set[str] = set()

    def see(self, protocol: WireProtocol, message: Message) -> None:
        if message.role == "system" and self._open:
            raise invalid_request(f"{protocol.name}: a system update stands between a tool call and its result")
        for part in message.content:
            if isinstance(part, ToolCallPart) and not part.provider_executed:
                self._open.add(part.id)
            elif isinstance(part, ToolResultPart):
                self._open.discard(part.id)
        if message.role == "user":
            self._open.clear()

    @property
    def waiting(self) -> bool:
        """Some calls have no result yet."""
        return bool(self._open)


def check_tools(protocol: WireProtocol, request: Request) -> None:
    for tool in request.tools:
        if TOOL_NAME.fullmatch(tool.name) is None:
            raise invalid_request(f"{protocol.name}: the tool name {tool.name!r} is not allowed", parameter="tools")
    if request.tool_choice is not None and request.tool_choice.type == "tool" and not request.tool_choice.name:
        raise invalid_request("a tool choice of type `tool` needs a name", parameter="toolChoice")


class JsonFormat(Frozen):
    name: str
    schema: dict[str, Any]
    strict: bool | None
    """Whether the provider is to enforce the schema, where that can be chosen."""


def json_format(request: Request) -> JsonFormat | None:
    """The requested JSON: `{"type": "json", "schema": {...}, "name": ..., "strict": ...}`. The schema is sent as it is;
    `native_schema` makes one that the protocol accepts."""
    given = request.response_format
    if given is None:
        return None
    schema = given.get("schema")
    if given.get("type") != "json" or not isinstance(schema, dict):
        raise invalid_request("a response format is of type `json` and has a schema", parameter="responseFormat")
    strict = given.get("strict")
    return JsonFormat(str(given.get("name") or "answer"), schema, strict if isinstance(strict, bool) else None)


def model_schema(model: Model, tool: ToolDefinition) -> dict[str, Any]:
    """The tool's schema in the model's dialect."""
    match model.compatibility:
        case "gemini":
            sanitised: dict[str, Any] = gemini_sanitise(inline_refs(tool.input_schema))
            return sanitised
        case "moonshot":
            projected: dict[str, Any] = moonshot_schema(tool.input_schema)
            return projected
        case _:
            return tool.input_schema


def wrapped_update(message: Message) -> str:
    """A Mid-Conversation System Message as escaped text, for protocols without a role for it."""
    text = "\n".join(part.text for part in message.content if isinstance(part, TextPart))
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return f"<system-update>\n{escaped}\n</system-update>"


def result_text(result: ToolResult) -> str:
    """A result as text: strings unchanged unless the result is JSON, everything else as compact JSON."""
    value = result.value
    if isinstance(value, str) and result.type != "json":
        return value
    if isinstance(value, BaseException):
        return f"{type(value).__name__}: {value}"
    return to_json(value).decode()


def hosted_note(result: ToolResultPart, call: ToolCallPart | None) -> str:
    """The note that replaces a provider-executed call that cannot be sent back."""
    given = f" with {to_json(call.input).decode()}" if call is not None and call.input else ""
    outcome = "it failed" if result.result.type == "error" else "its result is not repeated here"
    return f"[The provider's tool {result.name} was used{given}; {outcome}.]"


def metadata_of(part: Part, namespace: str) -> dict[str, Any]:
    """The part's metadata of one namespace."""
    if isinstance(part, MediaPart):
        return {}
    return (part.provider_metadata or {}).get(namespace, {})


def compact(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value is not None}


def latest_usage(known: Usage | None, seen: Usage) -> Usage:
    """The last report counts, except that zeros do not replace an earlier one."""
    return seen if known is None or seen.input or seen.output else known


def nonempty(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def open_array(body: dict[str, Any], key: str) -> bytes:
    """The encoded body up to the opening bracket of its last member, an array."""
    return to_json({**body, key: []})[:-2]


def read_frame(decoder: msgspec.json.Decoder[T], who: str, frame: bytes | str) -> T:
    """Decode one frame. Bytes that are not UTF-8 and half surrogates are replaced; other errors raise LLMError."""
    try:
        try:
            return decoder.decode(frame)
        except (UnicodeDecodeError, msgspec.DecodeError) as error:
            if isinstance(error, msgspec.ValidationError):
                raise
            return decoder.decode(repaired(frame))
    except (msgspec.DecodeError, RecursionError) as error:
        raise invalid_output(f"{who} sent a frame that cannot be read ({error})", frame) from error


def repaired(frame: bytes | str) -> str:
    """The frame with invalid bytes and half surrogates replaced. Some gateways cut between the two escapes of a
    character."""
    text = frame.decode("utf-8", "replace") if isinstance(frame, bytes) else frame
    return re.sub(_ESCAPE, lambda found: r"\ufffd" if found["half"] else found[0], text)


def _blank(part: Part, *, visible: bool) -> bool:
    if not isinstance(part, TextPart | ReasoningPart):
        return False
    text = part.text.strip() if visible else part.text
    if isinstance(part, ReasoningPart):
        return not text and not part.encrypted and not any((part.provider_metadata or {}).values())
    return not text
