"""Gemini generateContent: `POST {base}/models/{model}:streamGenerateContent?alt=sse`, server-sent chunks.

`contents` is the last member of the body and takes no cache markers: the provider's implicit cache sees one growing
prefix. What follows in the same role joins the content that is still open, as this provider wants all results of a turn
in one."""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import msgspec

from holdfast.llm import event as ev
from holdfast.llm.body import Draft
from holdfast.llm.errors import invalid_output
from holdfast.llm.lifecycle import Emitter, truncated
from holdfast.llm.media import IMAGES, NO_IMAGE, PDF, read_media, unsupported
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
    read_frame,
    result_text,
    wrapped_update,
)
from holdfast.llm.request import (
    MediaPart,
    Message,
    ProviderMetadata,
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
from holdfast.schema.session_message import FileContent, TextContent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

NAMESPACE = "google"
OPTIONS = "gemini"
FINISH = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "SAFETY": "content-filter",
    "RECITATION": "content-filter",
    "BLOCKLIST": "content-filter",
    "PROHIBITED_CONTENT": "content-filter",
    "SPII": "content-filter",
    "IMAGE_SAFETY": "content-filter",
    "MALFORMED_FUNCTION_CALL": "error",
}
MODES = {"auto": "AUTO", "required": "ANY", "tool": "ANY"}
MEDIA = IMAGES | {PDF}
MEDIA |= {f"video/{kind}" for kind in ("mp4", "webm", "quicktime")}
MEDIA |= {f"audio/{kind}" for kind in ("wav", "mp3", "aiff", "aac", "ogg", "flac")}
SPELLINGS = {"audio/mpeg": "audio/mp3", "audio/x-wav": "audio/wav", "audio/wave": "audio/wav"}
# From its third generation on, the provider refuses the first call of a turn without a signature. This stands for the
# one that a call of another model never had.
NO_SIGNATURE = "skip_thought_signature_validator"
_NEEDS_SIGNATURE = re.compile(r"gemini-([3-9]|\d\d)\b")
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


class Gemini(NamedTuple):
    """`fresh` names a turn whose answer has no id of its own."""

    id: str = "gemini"
    name: str = "Gemini"
    namespace: str = NAMESPACE
    framing: str = "sse"
    fresh: Callable[[], str] = lambda: uuid.uuid4().hex[:16]

    def path(self, model_id: str) -> str:
        return f"/models/{quote(model_id, safe='')}:streamGenerateContent?alt=sse"

    # -- encoding ------------------------------------------------------------------------------------------------

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

    def markers(self, request: Request) -> tuple[bytes, int]:
        return b"", 0

    def decoder(self, model: Model, request: Request) -> GeminiDecoder:
        return GeminiDecoder(self.fresh)


class _State:
    def __init__(self, *, signs: bool) -> None:
        self.signs = signs
        self.order = CallOrder()
        self.native_ids: dict[str, str] = {}
        """What the provider itself called a call, by our id, until its result was lowered."""


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
        config |= {"responseMimeType": "application/json", "responseSchema": gemini_schema(asked[1])}
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
    """Calls that another provider executed are left out: there is no form for them here."""
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
                parts.append(_media(protocol, model, "user", part))
            case ToolResultPart():
                parts += _result(protocol, model, state, part)
            case _:
                pass
    return parts


def _result(protocol: Gemini, model: Model, state: _State, part: ToolResultPart) -> list[dict[str, Any]]:
    media: list[dict[str, Any]] = []
    if part.result.type == "content":
        items = result_items(part.result)
        text = "\n".join(item.text for item in items if isinstance(item, TextContent))
        media = [_media(protocol, model, "tool", item) for item in items if isinstance(item, FileContent)]
    else:
        text = result_text(part.result)
    response = {"name": part.name, "response": {"name": part.name, "content": text}}
    return [{"functionResponse": compact({"id": state.native_ids.pop(part.id, None), **response})}, *media]


def _media(protocol: Gemini, model: Model, role: str, part: MediaPart | FileContent) -> dict[str, Any]:
    media = read_media(part)
    mime = SPELLINGS.get(media.mime, media.mime)
    if media.is_text:
        return {"text": media.text}
    if mime not in MEDIA:
        raise unsupported(protocol.name, role, media, "images, PDF, text, video and audio")
    if media.is_image and not model.capabilities.images:
        return {"text": NO_IMAGE}
    return {"inlineData": {"mimeType": mime, "data": media.data}}


# -- decoding ----------------------------------------------------------------------------------------------------


class _Wire(msgspec.Struct, rename="camel"):
    pass


class _Call(_Wire):
    id: str | None = None
    name: str | None = None
    args: Any = None


class _Part(_Wire):
    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: _Call | None = None


class _Content(_Wire):
    parts: list[_Part] | None = None


class _Candidate(_Wire):
    content: _Content | None = None
    finish_reason: str | None = None
    finish_message: Any = None


class _Feedback(_Wire):
    block_reason: str | None = None


class _Chunk(_Wire):
    candidates: list[_Candidate] | None = None
    prompt_feedback: _Feedback | None = None
    usage_metadata: Any = None
    response_id: Any = None
    error: Any = None


_CHUNK = msgspec.json.Decoder(_Chunk)


class GeminiDecoder:
    """Every chunk has whole parts. A reason may come with any of them, so the finish waits for the end."""

    def __init__(self, fresh: Callable[[], str]) -> None:
        self._fresh = fresh
        self._emit = Emitter()
        self._text = self._reasoning = ""
        self._signature: str | None = None
        """Of the open reasoning block."""
        self._turn = ""
        self._ids: set[str] = set()
        self._reason: str | None = None
        self._native: dict[str, Any] = {}
        self._raw_usage: dict[str, Any] = {}

    @property
    def done(self) -> bool:
        return self._emit.ended

    def feed(self, frame: bytes) -> list[ev.Event]:
        if self._emit.ended or frame == b"[DONE]":
            return []
        chunk = read_frame(_CHUNK, "Gemini", frame)
        if chunk.error is not None:
            self._fail(chunk.error)
            return self._emit.take()
        self._note_usage(chunk.usage_metadata)
        if isinstance(chunk.response_id, str) and not self._turn:
            self._turn = _UNSAFE.sub("_", chunk.response_id)[:40]
        if chunk.candidates:
            self._candidate(chunk.candidates[0], frame)
        elif chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason and self._reason is None:
            self._reason = "content-filter"
            self._native = {"blockReason": chunk.prompt_feedback.block_reason}
        return self._emit.take()

    def finish(self) -> list[ev.Event]:
        if self._emit.ended:
            return []
        if self._reason is None:
            raise truncated("Gemini", self._usage())
        self._close_blocks()
        self._emit.finish(self._reason, self._usage(ended=True), {NAMESPACE: self._native})
        return self._emit.take()

    def _candidate(self, candidate: _Candidate, frame: bytes) -> None:
        for part in (candidate.content and candidate.content.parts) or ():
            if part.function_call is not None:
                self._call(part.function_call, part.thought_signature, frame)
            elif part.text is not None and part.thought:
                self._thought(part.text, part.thought_signature)
            elif part.text is not None:
                self._visible(part.text, part.thought_signature)
        if candidate.finish_reason:
            self._reason = FINISH.get(candidate.finish_reason, "unknown")
            self._native = compact(
                {"finishReason": candidate.finish_reason, "finishMessage": candidate.finish_message or None}
            )

    def _thought(self, text: str, signature: str | None) -> None:
        if not (text or signature):
            return
        self._close_text()
        if not self._reasoning:
            self._reasoning = self._emit.fresh("reasoning-0")
            self._emit.open_reasoning(self._reasoning)
        self._emit.reasoning(self._reasoning, text)
        self._signature = signature or self._signature

    def _visible(self, text: str, signature: str | None) -> None:
        """A signed part ends its block, as what follows is not covered by the signature. One that comes alone, as it
        does at the end of a stream, belongs to the text before it, or else is kept in a block of its own."""
        if text:
            self._close_reasoning()
            self._text = self._text or self._emit.fresh("text-0")
            self._emit.text(self._text, text)
        if signature and self._text:
            self._close_text(_signed(signature))
        elif signature:
            self._close_reasoning()
            self._thought("", signature)
            self._close_reasoning()

    def _call(self, call: _Call, signature: str | None, frame: bytes) -> None:
        if not call.name:
            raise invalid_output("Gemini sent a function call without a name", frame)
        self._close_blocks()
        native = compact({"thoughtSignature": signature or None, "functionCallId": call.id or None})
        metadata = {NAMESPACE: native} if native else None
        self._emit.whole_call(
            self._call_id(call.id), call.name, {} if call.args is None else call.args, metadata=metadata
        )

    def _call_id(self, given: str | None) -> str:
        """The provider's own where it has one; otherwise one that no other turn has."""
        id = given or ""
        if not id or id in self._ids:
            self._turn = self._turn or self._fresh()
            id = f"call_{self._turn}_{len(self._ids)}"
        self._ids.add(id)
        return id

    def _close_blocks(self) -> None:
        self._close_reasoning()
        self._close_text()

    def _close_reasoning(self) -> None:
        if self._reasoning:
            self._emit.close_reasoning(self._reasoning, _signed(self._signature) if self._signature else None)
            self._reasoning, self._signature = "", None

    def _close_text(self, metadata: ProviderMetadata | None = None) -> None:
        if self._text:
            self._emit.close_text(self._text, metadata)
            self._text = ""

    def _fail(self, error: Any) -> None:
        fields = error if isinstance(error, dict) else {}
        word, message, code = fields.get("status"), fields.get("message"), fields.get("code")
        said = [str(item) for item in (word, message) if item] or ([error] if isinstance(error, str) else [])
        self._close_blocks()
        self._emit.fail(
            ": ".join(said) or "Gemini stream error",
            body={"error": error},
            code=word if isinstance(word, str) else None,
            status=code if isinstance(code, int) and not isinstance(code, bool) else None,
            usage=self._usage(),
        )

    def _note_usage(self, raw: Any) -> None:
        """Counts grow from chunk to chunk, and not every chunk has all of them; a last one of zeros says nothing."""
        if isinstance(raw, dict) and (not self._raw_usage or any(_count(value) for value in raw.values())):
            self._raw_usage |= {key: value for key, value in raw.items() if value is not None}

    def _usage(self, *, ended: bool = False) -> ev.Usage | None:
        """Visible output and thoughts are counted apart. A turn that ended inside its thoughts has only those."""
        raw = self._raw_usage
        if not raw:
            return None
        visible, thoughts = _count(raw.get("candidatesTokenCount")), _count(raw.get("thoughtsTokenCount"))
        output = visible + (thoughts or 0) if visible is not None else thoughts if ended else None
        return ev.usage(
            input=_count(raw.get("promptTokenCount")),
            cache_read=_count(raw.get("cachedContentTokenCount")),
            output=output,
            reasoning=thoughts,
            total=_count(raw.get("totalTokenCount")),
            namespace=NAMESPACE,
            raw=dict(raw),
        )


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _signed(signature: str) -> ProviderMetadata:
    return {NAMESPACE: {"thoughtSignature": signature}}
