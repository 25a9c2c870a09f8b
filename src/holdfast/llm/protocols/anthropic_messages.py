"""Anthropic Messages: `POST {base}/messages`, server-sent events with content blocks.

The cache key of this provider leaves `cache_control` out, so markers may move: the last tool, the last system part and
the newest two user-role messages carry one. The older of the two is where the previous request's marker stood, so
the cache hits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.llm.body import Draft
from holdfast.llm.errors import invalid_request
from holdfast.llm.limits import DEFAULT_LIMITS, AnswerLimits
from holdfast.llm.media import NO_IMAGE, PDF, cannot_hold, no_documents, readable
from holdfast.llm.model import Model, effort, options, output_limit
from holdfast.llm.protocols.base import (
    CallOrder,
    check_tools,
    checked,
    compact,
    hosted_note,
    json_format,
    metadata_of,
    model_schema,
    open_array,
    result_text,
    wrapped_update,
)
from holdfast.llm.protocols.claude import Lifetime, Markers, clean_id, thinking
from holdfast.llm.request import (
    CacheHint,
    MediaPart,
    Message,
    Part,
    ReasoningPart,
    Request,
    TextPart,
    ToolCallPart,
    ToolChoice,
    ToolDefinition,
    ToolResult,
    ToolResultPart,
    result_items,
)
from holdfast.llm.tool_schema import closed, object_schema
from holdfast.schema.codec import encode as to_json
from holdfast.schema.frozen import Frozen
from holdfast.schema.session_message import FileContent, TextContent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.llm.protocols.anthropic_stream import MessagesDecoder

VERSION = "2023-06-01"
HEADERS = (("anthropic-version", VERSION),)
SERVER_TOOL = "server_tool_use"
HOSTED_RESULTS = {
    "web_search": "web_search_tool_result",
    "code_execution": "code_execution_tool_result",
    "web_fetch": "web_fetch_tool_result",
}
LISTED_RESULTS = ("web_search",)
"""Tools whose result is a list of blocks; that of the others is one block."""
EFFORTS = ("low", "medium", "high", "xhigh", "max")


class AnthropicMessages(Frozen):
    id: str = "anthropic-messages"
    name: str = "Anthropic Messages"
    namespace: str = "anthropic"
    framing: str = "sse"

    def path(self, model_id: str) -> str:
        return "/messages"

    def start(self, model: Model, request: Request) -> Draft:
        check_tools(self, request)
        state = _State(model, request)
        body: dict[str, Any] = {
            "model": model.id,
            "stream": True,
            "max_tokens": output_limit(model, request),
            **self._controls(model, request),
            **((request.http and request.http.body) or {}),
        }
        if request.tools and (request.tool_choice is None or request.tool_choice.type != "none" or _has_calls(request)):
            body["tools"] = [
                _tool(model, tool, state.markers.take(hint)) for tool, hint in state.markers.of_tools(request.tools)
            ]
            if request.tool_choice is not None:
                body["tool_choice"] = _choice(request.tool_choice)
        if system := [
            {"type": "text", "text": part.text, **_control(state.markers.take(hint))}
            for part, hint in state.markers.of_system(request)
        ]:
            body["system"] = system
        draft = Draft(open_array(body, "messages"))
        draft.state = state
        draft.spare = state.markers.left
        return draft

    def extend(self, draft: Draft, model: Model, messages: Sequence[Message]) -> None:
        state: _State = draft.state
        for message in checked(self, messages, visible=True):
            state.order.see(self, message)
            if draft.closing and state.native_update is not None:
                _continue_update(draft, state, message)
                continue
            if state.native_update is not None and message.role != "assistant":
                _take_back(draft, state, state.native_update)
            state.native_update = None
            match message.role:
                case "assistant":
                    self._assistant(draft, message)
                case "system":
                    _update(draft, state, model, message)
                case _:
                    _user_blocks(draft, model, message)
            state.previous = message

    def markers(self, draft: Draft, request: Request) -> tuple[bytes, int]:
        markers: Markers = draft.state.markers
        return b"," + to_json(_control(markers.moving))[1:-1], markers.newest

    def _controls(self, model: Model, request: Request) -> dict[str, Any]:
        controls = request.generation
        given = options(request, self.namespace)
        sampling = (
            {"temperature": controls.temperature, "top_p": controls.top_p, "top_k": controls.top_k}
            if controls is not None and model.capabilities.sampling
            else {}
        )
        strength = effort(given.get("effort"))
        if strength is not None and strength not in EFFORTS:
            raise invalid_request(f"{self.name}: the effort {strength} cannot be expressed", parameter="effort")
        return compact(
            {
                **sampling,
                "stop_sequences": (controls.stop or None) if controls else None,
                "thinking": _thinking(given.get("thinking"), model, self.name),
                "output_config": compact(
                    {"effort": strength, "format": _format(request), "task_budget": given.get("taskBudget")}
                )
                or None,
                "metadata": _metadata(given.get("metadata")),
            }
        )

    def _assistant(self, draft: Draft, message: Message) -> None:
        # The provider refuses text after a tool_use block, so calls come last.
        content = sorted(
            message.content, key=lambda part: isinstance(part, ToolCallPart) and not part.provider_executed
        )
        calls = {part.id: part for part in content if isinstance(part, ToolCallPart)}
        told = {part.id for part in content if isinstance(part, ToolResultPart) and self._result_type(part) is None}
        content = [part for part in content if not (isinstance(part, ToolCallPart) and part.id in told)]
        blocks = [block for part in content if (block := self._assistant_block(part, calls)) is not None]
        if not blocks:
            return
        if draft.role != "assistant":
            draft.begin("assistant", b'{"role":"assistant","content":[', b"]}")
        for block in blocks:
            draft.add(to_json(block))

    def _assistant_block(self, part: Part, calls: dict[str, ToolCallPart]) -> dict[str, Any] | None:
        native = metadata_of(part, self.namespace)
        match part:
            case TextPart():
                return {"type": "text", "text": part.text}
            case ReasoningPart():
                return _thought(part, native)
            case ToolCallPart() if part.provider_executed:
                kind = native.get("blockType", SERVER_TOOL)
                server = {"server_name": native["serverName"]} if "serverName" in native else {}
                given = part.input if isinstance(part.input, dict) else {}
                return {"type": kind, "id": part.id, "name": part.name, **server, "input": given}
            case ToolCallPart():
                given = part.input if isinstance(part.input, dict) else {}
                return {"type": "tool_use", "id": clean_id(part.id), "name": part.name, "input": given}
            case ToolResultPart():
                kind = self._result_type(part)
                if kind is None:
                    return _text(hosted_note(part, calls.get(part.id)))
                return {"type": kind, "tool_use_id": part.id, "content": part.result.value}
            case _:
                return None

    def _result_type(self, part: ToolResultPart) -> str | None:
        """The block type of a hosted result; None if another provider executed it, or if it is incomplete."""
        if (native := metadata_of(part, self.namespace).get("blockType")) is not None:
            return str(native)
        kind, value = HOSTED_RESULTS.get(part.name), part.result.value
        if kind is None or (isinstance(value, list) and part.name not in LISTED_RESULTS):
            return None
        items = value if isinstance(value, list) else [value]
        own = kind.removesuffix("_tool_result")
        return kind if all(isinstance(item, dict) and str(item.get("type")).startswith(own) for item in items) else None

    def decoder(self, model: Model, request: Request, limits: AnswerLimits = DEFAULT_LIMITS) -> MessagesDecoder:
        from holdfast.llm.protocols.anthropic_stream import MessagesDecoder

        return MessagesDecoder(limits)


class _State:
    def __init__(self, model: Model, request: Request) -> None:
        self.markers = Markers(model, request)
        self.order = CallOrder()
        self.previous: Message | None = None
        self.native_update: Message | None = None


def _control(lifetime: Lifetime | None) -> dict[str, Any]:
    if lifetime is None:
        return {}
    return {"cache_control": {"type": "ephemeral", "ttl": "1h"} if lifetime == "1h" else {"type": "ephemeral"}}


def _tool(model: Model, tool: ToolDefinition, lifetime: Lifetime | None) -> dict[str, Any]:
    schema = object_schema(model_schema(model, tool))
    return {"name": tool.name, "description": tool.description, "input_schema": schema, **_control(lifetime)}


def _add(draft: Draft, block: dict[str, Any], hint: CacheHint | None) -> None:
    markers: Markers = draft.state.markers
    lifetime = markers.take(hint)
    data = to_json({**block, **_control(lifetime)})
    if lifetime is not None:
        markers.place(draft, lifetime)
        draft.add(data)
    else:
        draft.add(data, mark=len(data) - 1, text=block["type"] == "text")


def _update(draft: Draft, state: _State, model: Model, message: Message) -> None:
    """As a system message if the model and the position allow it, otherwise as wrapped text."""
    if model.capabilities.chronological_system == "system" and _may_follow(state.previous):
        draft.begin("system", b'{"role":"system","content":[', b"]}")
        _add_texts(draft, message)
        state.native_update = message
    else:
        _wrapped(draft, message)


def _continue_update(draft: Draft, state: _State, message: Message) -> None:
    """What one request alone says after a native update is part of that system message: the update stays as it is."""
    _add_texts(draft, message)
    known = state.native_update.content if state.native_update is not None else ()
    state.native_update = state.previous = Message(role="system", content=(*known, *message.content))


def _add_texts(draft: Draft, message: Message) -> None:
    for part in message.content:
        if isinstance(part, TextPart):
            draft.add(to_json({"type": "text", "text": part.text}))


def _take_back(draft: Draft, state: _State, message: Message) -> None:
    """Only an assistant message may follow a native system message. If another message follows, because the turn gave
    no output, the update is wrapped instead. This is the only case in which adding a message changes earlier bytes."""
    draft.drop()
    draft.begin("user", b'{"role":"user","content":[', b"]}")
    _wrapped(draft, message)


def _wrapped(draft: Draft, message: Message) -> None:
    if draft.role != "user":
        draft.begin("user", b'{"role":"user","content":[', b"]}")
    hint = next((part.cache for part in reversed(message.content) if isinstance(part, TextPart)), None)
    _add(draft, {"type": "text", "text": wrapped_update(message)}, hint)


def _user_blocks(draft: Draft, model: Model, message: Message) -> None:
    """Consecutive tool results and user texts form one user message, results first."""
    if draft.role != "user":
        draft.begin("user", b'{"role":"user","content":[', b"]}")
    for part in message.content:
        match part:
            case TextPart():
                _add(draft, {"type": "text", "text": part.text}, part.cache)
            case MediaPart():
                _add(draft, _media(part, model), None)
            case ToolResultPart():
                error = {"is_error": True} if part.result.type == "error" else {}
                content = _result(part.result, model)
                block = {"type": "tool_result", "tool_use_id": clean_id(part.id), "content": content, **error}
                _add(draft, block, part.cache)
            case _:
                pass


def _media(part: MediaPart | FileContent, model: Model) -> dict[str, Any]:
    media = readable(part)
    if isinstance(media, str):
        return _text(media)
    source = {"type": "base64", "media_type": media.mime, "data": media.data}
    if media.mime == PDF:
        return {"type": "document", "source": source} if model.capabilities.documents else _text(no_documents(media))
    if media.is_text:
        return _text(media.text)
    if not media.is_image:
        return _text(cannot_hold("Anthropic Messages", media))
    return {"type": "image", "source": source} if model.capabilities.images else _text(NO_IMAGE)


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _result(result: ToolResult, model: Model) -> str | list[dict[str, Any]]:
    if result.type != "content":
        return result_text(result)
    return [
        {"type": "text", "text": item.text} if isinstance(item, TextContent) else _media(item, model)
        for item in result_items(result)
        if not (isinstance(item, TextContent) and not item.text.strip())
    ]


def _thought(part: ReasoningPart, native: dict[str, Any]) -> dict[str, Any] | None:
    """Signed thinking is sent unchanged. Unsigned thinking would be refused, so it becomes text or is dropped."""
    if isinstance(native.get("redactedData"), str):
        return {"type": "redacted_thinking", "data": native["redactedData"]}
    signature = part.encrypted or native.get("signature")
    if signature:
        return {"type": "thinking", "thinking": part.text, "signature": signature}
    return {"type": "text", "text": part.text} if part.text.strip() else None


def _metadata(given: Any) -> dict[str, Any] | None:
    user = given.get("userId") if isinstance(given, dict) else None
    return {"user_id": user} if isinstance(user, str) else None


def _format(request: Request) -> dict[str, Any] | None:
    """The provider requires `additionalProperties: false` on every object."""
    asked = json_format(request)
    return {"type": "json_schema", "schema": closed(asked.schema)} if asked else None


def _thinking(given: Any, model: Model, who: str) -> dict[str, Any] | None:
    control = thinking(given, model, who)
    if control is None or control["type"] != "adaptive":
        return control
    return compact({**control, "display": given.get("display")})


def _may_follow(previous: Message | None) -> bool:
    """Whether a native system message is allowed here: after input, or after an open hosted call."""
    if previous is None:
        return False
    if previous.role in ("user", "tool"):
        return True
    last = previous.content[-1]
    return previous.role == "assistant" and isinstance(last, ToolCallPart) and last.provider_executed


def _has_calls(request: Request) -> bool:
    return any(isinstance(part, ToolCallPart) for message in request.messages for part in message.content)


def _choice(choice: ToolChoice) -> dict[str, Any]:
    match choice.type:
        case "required":
            return {"type": "any"}
        case "tool":
            return {"type": "tool", "name": choice.name}
        case _:
            return {"type": choice.type}
