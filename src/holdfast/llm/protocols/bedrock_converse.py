"""Amazon Bedrock Converse: `POST {base}/model/{id}/converse-stream`, one body for many vendors' models, binary frames.

A cache point is a block that ends the cached prefix of tools, system text and messages. Points may move: one ends the
tools, one the system text, and one each of the newest two user-role messages. The older of the two is where the
previous request's point stood. Allowed positions are a capability of the model: a point elsewhere is refused."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from holdfast.llm.body import Draft
from holdfast.llm.limits import DEFAULT_LIMITS, AnswerLimits
from holdfast.llm.media import NO_IMAGE, PDF, Media, cannot_hold, no_documents, readable
from holdfast.llm.model import Model, deep_merge, options
from holdfast.llm.protocols.base import (
    CallOrder,
    check_tools,
    checked,
    compact,
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
from holdfast.schema.pattern import pattern
from holdfast.schema.session_message import FileContent, TextContent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.llm.protocols.bedrock_stream import ConverseDecoder

ID_LIMIT = 64
NAME_LIMIT = 180
DOCUMENTS = {
    "application/pdf": "pdf",
    "text/csv": "csv",
    "application/msword": "doc",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "text/html": "html",
    "text/plain": "txt",
    "text/markdown": "md",
}
NO_OUTPUT = "(no output)"
NO_TOOLS = "Tools cannot be called in this turn: answer in text."
ATTACHED = "See the attached document."
WITHHELD = "Not available in this turn."
_NAME = pattern(r"[^A-Za-z0-9\s()\[\]-]+", re.ASCII)


class BedrockConverse(Frozen):
    id: str = "bedrock-converse"
    name: str = "Bedrock Converse"
    namespace: str = "bedrock"
    framing: str = "aws-eventstream"

    def path(self, model_id: str) -> str:
        return f"/model/{quote(model_id, safe='')}/converse-stream"

    def start(self, model: Model, request: Request) -> Draft:
        check_tools(self, request)
        state = _State(model, request)
        overlay = dict((request.http and request.http.body) or {})
        body: dict[str, Any] = {
            "modelId": model.id,
            **_named("inferenceConfig", _inference(model, request)),
            **_named("additionalModelRequestFields", self._model_fields(model, request, overlay)),
            **_named("outputConfig", _output_config(request)),
            **overlay,
        }
        withheld = not request.tools or (request.tool_choice is not None and request.tool_choice.type == "none")
        called = _called(request)
        tools = (request.tools or called) if called or not withheld else ()
        if tools:
            body["toolConfig"] = _tool_config(model, request, tools, state, choose=not withheld)
        if system := _system(request, state):
            body["system"] = system
        draft = Draft(open_array(body, "messages"))
        draft.state = state
        draft.spare = state.markers.left
        if tools and withheld:
            draft.trailer = b"," + to_json({"text": NO_TOOLS})
        return draft

    def extend(self, draft: Draft, model: Model, messages: Sequence[Message]) -> None:
        for message in checked(self, messages, visible=True):
            draft.state.order.see(self, message)
            match message.role:
                case "assistant":
                    self._assistant(draft, model, message)
                case "system":
                    hint = next((part.cache for part in reversed(message.content) if isinstance(part, TextPart)), None)
                    _add(draft, "user", {"text": wrapped_update(message)}, hint)
                case _:
                    self._user(draft, model, message)

    def markers(self, draft: Draft, request: Request) -> tuple[bytes, int]:
        markers: Markers = draft.state.markers
        return b"," + _point(markers.moving), markers.newest

    def _model_fields(self, model: Model, request: Request, overlay: dict[str, Any]) -> dict[str, Any]:
        given = options(request, self.namespace)
        controls = request.generation
        top_k = controls.top_k if controls and model.capabilities.sampling else None
        return deep_merge(
            _dict(given.get("additionalModelRequestFields")),
            compact({"thinking": thinking(given.get("thinking"), model, self.name), "top_k": top_k}),
            _dict(overlay.pop("additionalModelRequestFields", None)),
        )

    def _user(self, draft: Draft, model: Model, message: Message) -> None:
        """Consecutive results and texts form one user message: the provider requires alternating roles."""
        texts = documents = False
        block: dict[str, Any]
        for part in message.content:
            match part:
                case TextPart():
                    block, hint = {"text": part.text}, part.cache
                case MediaPart():
                    block, hint = self._media(part, model, draft.state), None
                case ToolResultPart():
                    block, hint = {"toolResult": self._result(part, model)}, part.cache
                case _:
                    continue
            _add(draft, "user", block, hint)
            texts, documents = texts or "text" in block, documents or "document" in block
        if documents and not texts:  # a document requires a text beside it
            _add(draft, "user", {"text": ATTACHED}, None)

    def _result(self, part: ToolResultPart, model: Model) -> dict[str, Any]:
        return {
            "toolUseId": short_id(part.id),
            "content": self._result_content(part.result, model) or [{"text": NO_OUTPUT}],
            "status": "error" if part.result.type == "error" else "success",
        }

    def _result_content(self, result: ToolResult, model: Model) -> list[dict[str, Any]]:
        if result.type == "content":
            items = [self._result_item(item, model) for item in result_items(result)]
            return [item for item in items if item.get("text", " -").strip()]
        text = result_text(result)
        # The result must be an object without the keys that AWS reserves for types.
        if result.type == "json" and isinstance(result.value, dict) and '"__type"' not in text:
            return [{"json": result.value}]
        return [{"text": text}] if text.strip() else []

    def _result_item(self, item: TextContent | FileContent, model: Model) -> dict[str, Any]:
        if isinstance(item, TextContent):
            return {"text": item.text}
        media = readable(item)
        if isinstance(media, str):
            return {"text": media}
        return {"text": media.text} if media.is_text else self._image(media, model)

    def _media(self, part: MediaPart, model: Model, state: _State) -> dict[str, Any]:
        media = readable(part)
        if isinstance(media, str):
            return {"text": media}
        format = DOCUMENTS.get(media.mime)
        if format is None:
            return {"text": media.text} if media.is_text else self._image(media, model)
        if media.mime == PDF and not model.capabilities.documents:
            return {"text": no_documents(media)}
        name = state.document_name(media.filename or f"document.{format}")
        return {"document": {"format": format, "name": name, "source": {"bytes": media.data}}}

    def _image(self, media: Media, model: Model) -> dict[str, Any]:
        if not media.is_image:
            return {"text": cannot_hold(self.name, media)}
        if not model.capabilities.images:
            return {"text": NO_IMAGE}
        return {"image": {"format": media.mime.removeprefix("image/"), "source": {"bytes": media.data}}}

    def _assistant(self, draft: Draft, model: Model, message: Message) -> None:
        # Some models refuse text after a call, so calls come last; a message of only reasoning counts as a prefill.
        content = sorted(message.content, key=lambda part: isinstance(part, ToolCallPart))
        blocks = [found for part in content if (found := self._assistant_block(part, model)) is not None]
        if all("reasoningContent" in block for block, _ in blocks):
            return
        for block, hint in blocks:
            _add(draft, "assistant", block, hint)

    def _assistant_block(self, part: Part, model: Model) -> tuple[dict[str, Any], CacheHint | None] | None:
        match part:
            case TextPart():
                return {"text": part.text}, part.cache
            case ReasoningPart():
                thought = _thought(part, metadata_of(part, self.namespace), model)
                return (thought, None) if thought else None
            case ToolCallPart() if not part.provider_executed:
                given = part.input if isinstance(part.input, dict) else {}
                return {"toolUse": {"toolUseId": short_id(part.id), "name": part.name, "input": given}}, None
            case _:
                return None

    def decoder(self, model: Model, request: Request, limits: AnswerLimits = DEFAULT_LIMITS) -> ConverseDecoder:
        from holdfast.llm.protocols.bedrock_stream import ConverseDecoder

        return ConverseDecoder(limits)


class _State:
    def __init__(self, model: Model, request: Request) -> None:
        self.markers = Markers(model, request)
        self.anywhere = model.capabilities.cache_points == "anywhere"
        self.order = CallOrder()
        self._documents: set[str] = set()

    def point(self, hint: CacheHint | None, *, after_text: bool) -> Lifetime | None:
        return self.markers.take(hint) if after_text or self.anywhere else None

    def document_name(self, filename: str) -> str:
        """A unique name in the provider's alphabet."""
        name = unique = " ".join(_NAME.sub("-", filename).split())[:NAME_LIMIT].strip() or "document"
        count = 1
        while unique in self._documents:
            count += 1
            unique = f"{name} ({count})"
        self._documents.add(unique)
        return unique


def _add(draft: Draft, role: str, block: dict[str, Any], hint: CacheHint | None) -> None:
    if draft.role != role:
        draft.begin(role, b'{"role":"%s","content":[' % role.encode(), b"]}")
    state: _State = draft.state
    data, is_text = to_json(block), "text" in block
    if (lifetime := state.point(hint, after_text=is_text)) is not None:
        state.markers.place(draft, lifetime)
        draft.add(data + b"," + _point(lifetime))
    else:
        draft.add(data, mark=len(data) if is_text or state.anywhere else None, text=is_text)


def _inference(model: Model, request: Request) -> dict[str, Any]:
    controls = request.generation
    if controls is None:
        return {}
    sampling = {"temperature": controls.temperature, "topP": controls.top_p} if model.capabilities.sampling else {}
    return compact({"maxTokens": controls.max_tokens, **sampling, "stopSequences": controls.stop or None})


def _output_config(request: Request) -> dict[str, Any]:
    """The schema is JSON in a string. The provider requires `additionalProperties: false` on every object."""
    if (asked := json_format(request)) is None:
        return {}
    schema = {"name": asked.name, "schema": to_json(closed(asked.schema)).decode()}
    return {"textFormat": {"type": "json_schema", "structure": {"jsonSchema": schema}}}


def _tool_config(
    model: Model, request: Request, tools: Sequence[ToolDefinition], state: _State, *, choose: bool
) -> dict[str, Any]:
    lowered: list[Any] = []
    for tool, hint in state.markers.of_tools(tools):
        schema = object_schema(model_schema(model, tool))
        spec = {"name": tool.name, "description": tool.description or None, "inputSchema": {"json": schema}}
        lowered.append({"toolSpec": compact(spec)})
        if (lifetime := state.point(hint, after_text=False)) is not None:
            lowered.append(msgspec.Raw(_point(lifetime)))
    chosen = {"toolChoice": _choice(request.tool_choice)} if choose and request.tool_choice is not None else {}
    return {"tools": lowered, **chosen}


def _choice(choice: ToolChoice) -> dict[str, Any]:
    match choice.type:
        case "required":
            return {"any": {}}
        case "tool":
            return {"tool": {"name": choice.name}}
        case _:
            return {"auto": {}}


def _called(request: Request) -> tuple[ToolDefinition, ...]:
    """The provider refuses history with calls but without tools, so called tools are listed when tools are withheld."""
    names = {
        part.name: None
        for message in request.messages
        for part in message.content
        if isinstance(part, ToolCallPart | ToolResultPart) and not part.provider_executed
    }
    return tuple(ToolDefinition(name=name, description=WITHHELD, input_schema={}) for name in names)


def _system(request: Request, state: _State) -> list[Any]:
    lowered: list[Any] = []
    for part, hint in state.markers.of_system(request):
        lowered.append({"text": part.text})
        if (lifetime := state.point(hint, after_text=True)) is not None:
            lowered.append(msgspec.Raw(_point(lifetime)))
    return lowered


def _thought(part: ReasoningPart, native: dict[str, Any], model: Model) -> dict[str, Any] | None:
    """Reasoning as it came. If a required signature is missing, it would be refused, so it becomes text or is
    dropped."""
    if isinstance(native.get("redactedContent"), str):
        return {"reasoningContent": {"redactedContent": native["redactedContent"]}}
    if signature := part.encrypted or native.get("signature"):
        return {"reasoningContent": {"reasoningText": {"text": part.text, "signature": signature}}}
    if not part.text.strip():
        return None
    if model.capabilities.reasoning_replay:
        return {"reasoningContent": {"reasoningText": {"text": part.text}}}
    return {"text": part.text}


def _point(lifetime: Lifetime) -> bytes:
    return to_json({"cachePoint": {"type": "default", "ttl": "1h"} if lifetime == "1h" else {"type": "default"}})


def short_id(id: str) -> str:
    """A unique id that is not longer than the provider accepts."""
    clean = clean_id(id)
    if len(clean) <= ID_LIMIT:
        return clean
    return f"{clean[: ID_LIMIT - 17]}_{hashlib.sha256(id.encode()).hexdigest()[:16]}"


def _named(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {name: fields} if fields else {}


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
