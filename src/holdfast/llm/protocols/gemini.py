"""Gemini generateContent: `POST {base}/models/{model}:streamGenerateContent?alt=sse`, server-sent chunks.

`contents` is the last member of the body and takes no cache markers: the provider's implicit cache sees one growing
prefix. Consecutive messages of a role share one content, because this provider expects all results of a turn in one."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from holdfast.llm.body import Draft
from holdfast.llm.limits import DEFAULT_LIMITS, AnswerLimits
from holdfast.llm.media import IMAGES, NO_IMAGE, PDF, cannot_hold, no_documents, readable
from holdfast.llm.model import Model, options
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
from holdfast.llm.request import (
    MediaPart,
    Message,
    ReasoningPart,
    Request,
    TextPart,
    ToolCallPart,
    ToolChoice,
    ToolDefinition,
    ToolResultPart,
    result_items,
)
from holdfast.llm.tool_schema import gemini_schema
from holdfast.schema.codec import encode as to_json
from holdfast.schema.frozen import Frozen
from holdfast.schema.pattern import pattern
from holdfast.schema.session_message import FileContent, TextContent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from holdfast.llm.protocols.gemini_stream import GeminiDecoder

NAMESPACE = "google"
OPTIONS = "gemini"
MODES = {"auto": "AUTO", "required": "ANY", "tool": "ANY"}
MEDIA = IMAGES | {PDF}
MEDIA |= {f"video/{kind}" for kind in ("mp4", "webm", "quicktime")}
MEDIA |= {f"audio/{kind}" for kind in ("wav", "mp3", "aiff", "aac", "ogg", "flac")}
SPELLINGS = {"audio/mpeg": "audio/mp3", "audio/x-wav": "audio/wav", "audio/wave": "audio/wav"}
# From generation 3 on, the provider refuses the first call of a turn without a signature. This value replaces the
# signature for calls of other models.
NO_SIGNATURE = "skip_thought_signature_validator"
_NEEDS_SIGNATURE = pattern(r"gemini-([3-9]|\d\d)\b")


class Gemini(Frozen):
    """`fresh` makes an id for a turn whose response has none."""

    id: str = "gemini"
    name: str = "Gemini"
    namespace: str = NAMESPACE
    framing: str = "sse"
    fresh: Callable[[], str] = lambda: uuid.uuid4().hex[:16]

    def path(self, model_id: str) -> str:
        return f"/models/{quote(model_id, safe='')}:streamGenerateContent?alt=sse"

    def start(self, model: Model, request: Request) -> Draft:
        check_tools(self, request)
        body: dict[str, Any] = {**((request.http and request.http.body) or {})}
        if config := _config(model, request):
            body["generationConfig"] = config
        if (safety := options(request, OPTIONS).get("safetySettings")) is not None:
            body["safetySettings"] = safety
        if request.tools and (request.tool_choice is None or request.tool_choice.type != "none"):
            body["tools"] = [{"functionDeclarations": [_declaration(model, tool) for tool in request.tools]}]
            if request.tool_choice is not None:
                body["toolConfig"] = _choice(request.tool_choice)
        if system := [part.text for part in request.system if part.text]:
            body["systemInstruction"] = {"parts": [{"text": "\n".join(system)}]}
        draft = Draft(open_array(body, "contents"))
        draft.state = _State(signs=_NEEDS_SIGNATURE.search(model.id) is not None)
        return draft

    def extend(self, draft: Draft, model: Model, messages: Sequence[Message]) -> None:
        state: _State = draft.state
        for message in checked(self, messages):
            state.order.see(self, message)
            match message.role:
                case "assistant":
                    _add(draft, "model", _answer(state, message))
                case "system":
                    _add(draft, "user", [{"text": wrapped_update(message)}])
                case _:
                    _add(draft, "user", _input(self, model, state, message))

    def markers(self, draft: Draft, request: Request) -> tuple[bytes, int]:
        return b"", 0

    def decoder(self, model: Model, request: Request, limits: AnswerLimits = DEFAULT_LIMITS) -> GeminiDecoder:
        from holdfast.llm.protocols.gemini_stream import GeminiDecoder

        return GeminiDecoder(self.fresh, limits)


class _State:
    def __init__(self, *, signs: bool) -> None:
        self.signs = signs
        self.order = CallOrder()
        self.native_ids: dict[str, str] = {}
        """The provider's id of a call, by our id, until its result is encoded."""


def _add(draft: Draft, role: str, parts: Iterable[dict[str, Any]]) -> None:
    for part in parts:
        if draft.role != role:
            draft.begin(role, b'{"role":"%s","parts":[' % role.encode(), b"]}")
        draft.add(to_json(part))


def _config(model: Model, request: Request) -> dict[str, Any]:
    controls = request.generation
    given = options(request, OPTIONS)
    thinking = given.get("thinkingConfig")
    config: dict[str, Any] = {}
    if controls is not None:
        config["maxOutputTokens"] = controls.max_tokens
        if model.capabilities.sampling:
            config |= {
                "temperature": controls.temperature,
                "topP": controls.top_p,
                "topK": controls.top_k,
                "frequencyPenalty": controls.frequency_penalty,
                "presencePenalty": controls.presence_penalty,
            }
        config |= {"seed": controls.seed, "stopSequences": controls.stop or None}
    if (asked := json_format(request)) is not None:
        config |= {"responseMimeType": "application/json", "responseJsonSchema": asked.schema}
    config |= {name: given.get(name) for name in ("responseModalities", "mediaResolution", "imageConfig")}
    config["thinkingConfig"] = (compact(thinking) or None) if isinstance(thinking, dict) else None
    return compact(config)


def _declaration(model: Model, tool: ToolDefinition) -> dict[str, Any]:
    parameters = gemini_schema(model_schema(model, tool))
    return compact({"name": tool.name, "description": tool.description, "parameters": parameters})


def _choice(choice: ToolChoice) -> dict[str, Any]:
    named = {"allowedFunctionNames": [choice.name]} if choice.type == "tool" else {}
    return {"functionCallingConfig": {"mode": MODES[choice.type], **named}}


def _answer(state: _State, message: Message) -> list[dict[str, Any]]:
    """Calls that another provider executed are left out; this protocol cannot hold them."""
    parts: list[dict[str, Any]] = []
    called = False
    for part in message.content:
        native = metadata_of(part, NAMESPACE)
        signature = native.get("thoughtSignature")
        match part:
            case TextPart():
                parts.append(compact({"text": part.text, "thoughtSignature": signature}))
            case ReasoningPart(text="") if signature:
                parts.append({"text": "", "thoughtSignature": signature})
            case ReasoningPart() if part.text:
                parts.append(compact({"text": part.text, "thought": True, "thoughtSignature": signature}))
            case ToolCallPart(provider_executed=False):
                if state.signs and not called:
                    signature = signature or NO_SIGNATURE
                called = True
                parts.append(_call(state, part, native.get("functionCallId"), signature))
            case _:
                pass
    return parts


def _call(state: _State, part: ToolCallPart, native_id: str | None, signature: str | None) -> dict[str, Any]:
    if native_id:
        state.native_ids[part.id] = native_id
    given = part.input if isinstance(part.input, dict) else {}
    return compact(
        {
            "functionCall": compact({"id": native_id, "name": part.name, "args": given}),
            "thoughtSignature": signature,
        }
    )


def _input(protocol: Gemini, model: Model, state: _State, message: Message) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    for part in message.content:
        match part:
            case TextPart():
                parts.append({"text": part.text})
            case MediaPart():
                form = _media(protocol, model, part)
                parts.append({"text": form} if isinstance(form, str) else form)
            case ToolResultPart():
                parts += _result(protocol, model, state, part)
            case _:
                pass
    return parts


def _result(protocol: Gemini, model: Model, state: _State, part: ToolResultPart) -> list[dict[str, Any]]:
    media: list[dict[str, Any]] = []
    if part.result.type == "content":
        forms = [
            item.text if isinstance(item, TextContent) else _media(protocol, model, item)
            for item in result_items(part.result)
        ]
        text = "\n".join(form for form in forms if isinstance(form, str))
        media = [form for form in forms if isinstance(form, dict)]
    else:
        text = result_text(part.result)
    response = {"name": part.name, "response": {"name": part.name, "content": text}}
    return [{"functionResponse": compact({"id": state.native_ids.pop(part.id, None), **response})}, *media]


def _media(protocol: Gemini, model: Model, part: MediaPart | FileContent) -> dict[str, Any] | str:
    """Media that cannot be sent becomes text."""
    media = readable(part)
    if isinstance(media, str):
        return media
    mime = SPELLINGS.get(media.mime, media.mime)
    if media.is_text:
        return media.text
    if mime not in MEDIA:
        return cannot_hold(protocol.name, media)
    if mime == PDF and not model.capabilities.documents:
        return no_documents(media)
    if media.is_image and not model.capabilities.images:
        return NO_IMAGE
    return {"inlineData": {"mimeType": mime, "data": media.data}}
