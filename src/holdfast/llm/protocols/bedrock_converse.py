"""Amazon Bedrock Converse: `POST {base}/model/{id}/converse-stream`, one body for many vendors' models, binary frames.

The provider's cache sees the tools, the system text and the messages up to a cache point, a block of its own after what
it covers. Points may move: one ends the tools, one the system text, and the newest two user-role messages end in one.
The older of the two is where the previous request's stood. Which places a model takes is a capability: a point where it
is not taken is refused."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import quote

import msgspec

from holdfast.llm import event as ev
from holdfast.llm.body import Draft
from holdfast.llm.errors import invalid_output, invalid_request
from holdfast.llm.lifecycle import Emitter, OpenCall, truncated
from holdfast.llm.media import NO_IMAGE, Media, read_media, unsupported
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
    read_frame,
    result_text,
    wrapped_update,
)
from holdfast.llm.request import (
    CacheHint,
    CachePolicy,
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
from holdfast.llm.tool_schema import object_schema
from holdfast.schema.codec import encode as to_json
from holdfast.schema.session_message import FileContent, TextContent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

POINT_LIMIT = 4
HOUR = 3600
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
FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool-calls",
    "content_filtered": "content-filter",
    "guardrail_intervened": "content-filter",
}
NO_OUTPUT = "(no output)"
NO_TOOLS = "Tools cannot be called in this turn: answer in text."
ATTACHED = "See the attached document."
WITHHELD = "Not available in this turn."
_ID = re.compile(r"[^A-Za-z0-9_-]")
_NAME = re.compile(r"[^A-Za-z0-9\s()\[\]-]+", re.ASCII)


class BedrockConverse(NamedTuple):
    id: str = "bedrock-converse"
    name: str = "Bedrock Converse"
    namespace: str = "bedrock"
    framing: str = "aws-eventstream"

    def path(self, model_id: str) -> str:
        return f"/model/{quote(model_id, safe='')}/converse-stream"

    # -- encoding ------------------------------------------------------------------------------------------------

    def start(self, model: Model, request: Request) -> Draft:
        check_tools(self, request)
        if json_format(request) is not None:
            raise invalid_request(f"{self.name}: there is no JSON mode here", parameter="responseFormat")
        state = _State(model, request)
        overlay = dict((request.http and request.http.body) or {})
        body: dict[str, Any] = {
            "modelId": model.id,
            **_named("inferenceConfig", _inference(model, request)),
            **_named("additionalModelRequestFields", self._model_fields(model, request, overlay)),
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
        draft.spare = state.left
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

    def markers(self, request: Request) -> tuple[bytes, int]:
        """Longer-lived points may not follow shorter-lived ones, so one short hint makes the moving points short."""
        policy = request.cache or CachePolicy()
        long = _is_long(policy.ttl_seconds) and all(_is_long(hint.ttl_seconds) for hint in _hints(request))
        return b"," + _point(long=long), policy.messages

    def _model_fields(self, model: Model, request: Request, overlay: dict[str, Any]) -> dict[str, Any]:
        given = options(request, self.namespace)
        controls = request.generation
        top_k = controls.top_k if controls and model.capabilities.sampling else None
        return deep_merge(
            _dict(given.get("additionalModelRequestFields")),
            compact({"thinking": _thinking(given.get("thinking"), model), "top_k": top_k}),
            _dict(overlay.pop("additionalModelRequestFields", None)),
        )

    def _user(self, draft: Draft, model: Model, message: Message) -> None:
        """Results and texts that follow each other are one user message: the provider wants the roles to alternate."""
        for part in message.content:
            match part:
                case TextPart():
                    _add(draft, "user", {"text": part.text}, part.cache)
                case MediaPart():
                    _add(draft, "user", self._media(part, model, draft.state), None)
                case ToolResultPart():
                    _add(draft, "user", {"toolResult": self._result(part, model)}, part.cache)
                case _:
                    pass
        if _lacks_text(message):
            _add(draft, "user", {"text": ATTACHED}, None)

    def _result(self, part: ToolResultPart, model: Model) -> dict[str, Any]:
        return {
            "toolUseId": clean_id(part.id),
            "content": self._result_content(part.result, model) or [{"text": NO_OUTPUT}],
            "status": "error" if part.result.type == "error" else "success",
        }

    def _result_content(self, result: ToolResult, model: Model) -> list[dict[str, Any]]:
        if result.type == "content":
            items = [self._result_item(item, model) for item in result_items(result)]
            return [item for item in items if item.get("text", " -").strip()]
        text = result_text(result)
        # The provider's document type is an object, and one without AWS's own name for a type.
        if result.type == "json" and isinstance(result.value, dict) and '"__type"' not in text:
            return [{"json": result.value}]
        return [{"text": text}] if text.strip() else []

    def _result_item(self, item: TextContent | FileContent, model: Model) -> dict[str, Any]:
        if isinstance(item, TextContent):
            return {"text": item.text}
        media = read_media(item)
        if not media.mime.startswith("image/"):
            raise unsupported(self.name, "tool", media, "text and images")
        return self._image(media, "tool", model)

    def _media(self, part: MediaPart, model: Model, state: _State) -> dict[str, Any]:
        media = read_media(part)
        if media.mime.startswith("image/"):
            return self._image(media, "user", model)
        format = DOCUMENTS.get(media.mime)
        if format is None:
            raise unsupported(self.name, "user", media, f"images and documents ({', '.join(DOCUMENTS.values())})")
        name = state.document_name(media.filename or f"document.{format}")
        return {"document": {"format": format, "name": name, "source": {"bytes": media.data}}}

    def _image(self, media: Media, role: str, model: Model) -> dict[str, Any]:
        if not media.is_image:
            raise unsupported(self.name, role, media, "png, jpeg, gif and webp")
        if not model.capabilities.images:
            return {"text": NO_IMAGE}
        return {"image": {"format": media.mime.removeprefix("image/"), "source": {"bytes": media.data}}}

    def _assistant(self, draft: Draft, model: Model, message: Message) -> None:
        # Some models refuse text after a call, so calls come last; and a message of thought alone counts as a prefill.
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
                return {"toolUse": {"toolUseId": clean_id(part.id), "name": part.name, "input": given}}, None
            case _:
                return None

    def decoder(self, model: Model, request: Request) -> ConverseDecoder:
        return ConverseDecoder()


class _State:
    def __init__(self, model: Model, request: Request) -> None:
        self.policy = request.cache or CachePolicy()
        self.left = POINT_LIMIT if model.capabilities.caching else 0
        self.anywhere = model.capabilities.cache_points == "anywhere"
        self.order = CallOrder()
        self._short = False
        self._documents: set[str] = set()

    def point(self, hint: CacheHint | None, *, after_text: bool) -> bytes:
        """A point that stays where it is, within the provider's limit; empty where there is none."""
        if hint is None or self.left == 0 or not (after_text or self.anywhere):
            return b""
        self.left -= 1
        self._short = self._short or not _is_long(hint.ttl_seconds)
        return _point(long=not self._short)

    def automatic(self) -> CacheHint:
        return CacheHint(ttl_seconds=self.policy.ttl_seconds)

    def document_name(self, filename: str) -> str:
        """In the provider's alphabet, and no name twice."""
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
    if point := state.point(hint, after_text=is_text):
        draft.spare = state.left
        draft.unmark()
        draft.add(data + b"," + point)
    else:
        draft.add(data, mark=len(data) if is_text or state.anywhere else None, text=is_text)


def _inference(model: Model, request: Request) -> dict[str, Any]:
    controls = request.generation
    if controls is None:
        return {}
    sampling = {"temperature": controls.temperature, "topP": controls.top_p} if model.capabilities.sampling else {}
    return compact({"maxTokens": controls.max_tokens, **sampling, "stopSequences": controls.stop})


def _thinking(given: Any, model: Model) -> dict[str, Any] | None:
    """Claude's own field, which Converse passes on."""
    if not isinstance(given, dict) or given.get("type") not in ("enabled", "adaptive", "disabled"):
        return None
    if given["type"] == "enabled" and model.capabilities.thinking != "adaptive":
        budget = given.get("budgetTokens", given.get("budget_tokens"))
        if not isinstance(budget, int):
            raise invalid_request("Bedrock Converse: thinking needs a budget", parameter="thinking")
        return {"type": "enabled", "budget_tokens": budget}
    return {"type": "disabled"} if given["type"] == "disabled" else {"type": "adaptive"}


def _tool_config(
    model: Model, request: Request, tools: Sequence[ToolDefinition], state: _State, *, choose: bool
) -> dict[str, Any]:
    lowered: list[Any] = []
    for index, tool in enumerate(tools):
        hint = tool.cache
        if hint is None and state.policy.tools and index == len(tools) - 1:
            hint = state.automatic()
        schema = object_schema(model_schema(model, tool))
        spec = {"name": tool.name, "description": tool.description or None, "inputSchema": {"json": schema}}
        lowered.append({"toolSpec": compact(spec)})
        if point := state.point(hint, after_text=False):
            lowered.append(msgspec.Raw(point))
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
    """History that holds calls is refused without a tool list; what was called stands in for one that is withheld."""
    names = {
        part.name: None
        for message in request.messages
        for part in message.content
        if isinstance(part, ToolCallPart | ToolResultPart) and not part.provider_executed
    }
    return tuple(ToolDefinition(name=name, description=WITHHELD, input_schema={}) for name in names)


def _system(request: Request, state: _State) -> list[Any]:
    parts = [part for part in request.system if part.text.strip()]
    lowered: list[Any] = []
    for index, part in enumerate(parts):
        hint = part.cache
        if hint is None and state.policy.system and index == len(parts) - 1:
            hint = state.automatic()
        lowered.append({"text": part.text})
        if point := state.point(hint, after_text=True):
            lowered.append(msgspec.Raw(point))
    return lowered


def _thought(part: ReasoningPart, native: dict[str, Any], model: Model) -> dict[str, Any] | None:
    """Goes back as it came. What should be signed and is not would be refused, so it becomes text, or nothing."""
    if isinstance(native.get("redactedContent"), str):
        return {"reasoningContent": {"redactedContent": native["redactedContent"]}}
    if signature := part.encrypted or native.get("signature"):
        return {"reasoningContent": {"reasoningText": {"text": part.text, "signature": signature}}}
    if not part.text.strip():
        return None
    if model.capabilities.reasoning_replay:
        return {"reasoningContent": {"reasoningText": {"text": part.text}}}
    return {"text": part.text}


def _lacks_text(message: Message) -> bool:
    """A document may not come without a text beside it."""
    texts = any(isinstance(part, TextPart) for part in message.content)
    media = [part.media_type.lower() for part in message.content if isinstance(part, MediaPart)]
    return not texts and any(not kind.startswith("image/") for kind in media)


def _hints(request: Request) -> Iterator[CacheHint]:
    holders: list[Any] = [*request.tools, *request.system]
    holders += [part for message in request.messages for part in message.content]
    for holder in holders:
        if (hint := getattr(holder, "cache", None)) is not None:
            yield hint


def _is_long(ttl: int | None) -> bool:
    return ttl is not None and ttl >= HOUR


def _point(*, long: bool) -> bytes:
    return to_json({"cachePoint": {"type": "default", "ttl": "1h"} if long else {"type": "default"}})


def clean_id(id: str) -> str:
    """Ids of other providers, made acceptable here; call and result change alike."""
    clean = _ID.sub("_", id)
    if len(clean) <= ID_LIMIT:
        return clean
    return f"{clean[: ID_LIMIT - 17]}_{hashlib.sha256(id.encode()).hexdigest()[:16]}"


def _named(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {name: fields} if fields else {}


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


# -- decoding ----------------------------------------------------------------------------------------------------


class _Payload(msgspec.Struct, rename="camel"):
    pass


class _Frame(msgspec.Struct):
    kind: str
    type: str
    payload: str


class _ToolUse(_Payload):
    tool_use_id: str
    name: str
    type: str | None = None


class _HostedResult(_Payload):
    tool_use_id: str
    status: str | None = None


class _Begun(_Payload):
    tool_use: _ToolUse | None = None
    tool_result: _HostedResult | None = None


class _BlockStart(_Payload):
    content_block_index: int
    start: _Begun | None = None


class _Arguments(_Payload):
    input: str | None = None


class _Reasoning(_Payload):
    text: str | None = None
    signature: str | None = None
    redacted_content: str | None = None


class _Delta(_Payload):
    text: str | None = None
    tool_use: _Arguments | None = None
    tool_result: list[dict[str, Any]] | None = None
    reasoning_content: _Reasoning | None = None
    citation: Any = None


class _BlockDelta(_Payload):
    content_block_index: int
    delta: _Delta | None = None


class _BlockStop(_Payload):
    content_block_index: int


class _MessageStop(_Payload):
    stop_reason: str | None = None


class _Usage(_Payload):
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_write_input_tokens: int | None = None


class _Metadata(_Payload):
    usage: dict[str, Any] | None = None


_FRAME = msgspec.json.Decoder(_Frame)
_START = msgspec.json.Decoder(_BlockStart)
_DELTA = msgspec.json.Decoder(_BlockDelta)
_STOP = msgspec.json.Decoder(_BlockStop)
_MESSAGE_STOP = msgspec.json.Decoder(_MessageStop)
_METADATA = msgspec.json.Decoder(_Metadata)
_OBJECT = msgspec.json.Decoder(dict[str, Any])


class _Text:
    def __init__(self, id: str) -> None:
        self.id = id
        self.citations: list[Any] = []

    @property
    def metadata(self) -> dict[str, dict[str, Any]] | None:
        return {"bedrock": {"citations": self.citations}} if self.citations else None


class _Thinking:
    def __init__(self, id: str) -> None:
        self.id = id
        self.signature: list[str] = []
        self.redacted: list[str] = []

    @property
    def metadata(self) -> dict[str, dict[str, Any]] | None:
        found = compact({"signature": "".join(self.signature) or None, "redactedContent": _joined(self.redacted)})
        return {"bedrock": found} if found else None


class _Result:
    """What a tool of the provider's own gave."""

    def __init__(self, call: OpenCall, status: str | None) -> None:
        self.call = call
        self.failed = status == "error"
        self.pieces: list[dict[str, Any]] = []


class ConverseDecoder:
    def __init__(self) -> None:
        self._emit = Emitter()
        self._blocks: dict[int, OpenCall | _Text | _Thinking | _Result] = {}
        self._called: set[str] = set()
        self._hosted: dict[str, OpenCall] = {}
        self._reason: str | None = None
        self._counted = False
        self._usage: ev.Usage | None = None

    @property
    def done(self) -> bool:
        return self._emit.ended

    def feed(self, frame: bytes) -> list[ev.Event]:
        if self._emit.ended:
            return []
        head = read_frame(_FRAME, "Bedrock", frame)
        if head.kind in ("exception", "error"):
            self._fail(head)
        elif head.kind == "event" and (self._reason is None or head.type == "metadata"):
            try:
                self._event(head)
            except msgspec.ValidationError as error:
                raise invalid_output(f"Bedrock sent an event that cannot be read ({error})", head.payload) from error
        return self._emit.take()

    def finish(self) -> list[ev.Event]:
        """Usage follows the stop, so the end waits for the end of the stream. Usage without a stop counts as one."""
        if self._emit.ended:
            return []
        if self._reason is None and not self._counted:
            raise truncated("Bedrock", self._usage)
        reason = self._reason
        if reason is None:
            self._stop("end_turn")
        self._emit.finish(
            FINISH.get(reason, "unknown") if reason is not None else "stop",
            self._usage,
            {"bedrock": {"stopReason": reason}} if reason else None,
        )
        return self._emit.take()

    def _event(self, frame: _Frame) -> None:
        match frame.type:
            case "contentBlockStart":
                start = read_frame(_START, "Bedrock", frame.payload)
                self._block_start(start.content_block_index, start.start or _Begun())
            case "contentBlockDelta":
                delta = read_frame(_DELTA, "Bedrock", frame.payload)
                self._block_delta(delta.content_block_index, delta.delta or _Delta())
            case "contentBlockStop":
                self._block_stop(read_frame(_STOP, "Bedrock", frame.payload).content_block_index)
            case "messageStop":
                self._stop(read_frame(_MESSAGE_STOP, "Bedrock", frame.payload).stop_reason or "")
            case "metadata":
                self._counted = True
                self._note_usage(read_frame(_METADATA, "Bedrock", frame.payload).usage)
            case _:
                pass

    def _block_start(self, index: int, begun: _Begun) -> None:
        """Only tools announce themselves; text and reasoning begin with their first delta."""
        if begun.tool_use is not None:
            self._make_way(index)
            given = begun.tool_use
            if given.tool_use_id in self._called:
                raise invalid_output(f"Bedrock began the tool call {given.tool_use_id} twice")
            self._called.add(given.tool_use_id)
            hosted = given.type == "server_tool_use"
            begun_call = self._blocks[index] = self._emit.open_call(given.tool_use_id, given.name, hosted=hosted)
            if hosted:
                self._hosted[given.tool_use_id] = begun_call
        elif begun.tool_result is not None:
            self._make_way(index)
            if (call := self._hosted.pop(begun.tool_result.tool_use_id, None)) is not None:
                self._blocks[index] = _Result(call, begun.tool_result.status)

    def _block_delta(self, index: int, delta: _Delta) -> None:
        if delta.text or delta.citation is not None:
            text = self._text(index)
            self._emit.text(text.id, delta.text or "")
            text.citations += [delta.citation] if delta.citation is not None else []
        if (reasoning := delta.reasoning_content) is not None:
            self._reasoning(index, reasoning)
        if delta.tool_use is not None:
            call = self._blocks.get(index)
            if not isinstance(call, OpenCall):
                raise invalid_output("Bedrock sent arguments for an unknown tool call")
            self._emit.call_delta(call, delta.tool_use.input or "")
        if delta.tool_result is not None:
            result = self._blocks.get(index)
            if isinstance(result, _Result):
                result.pieces += delta.tool_result

    def _text(self, index: int) -> _Text:
        block = self._blocks.get(index)
        if not isinstance(block, _Text):
            self._make_way(index)
            block = self._blocks[index] = _Text(self._emit.fresh(f"text-{index}"))
            self._emit.open_text(block.id)
        return block

    def _reasoning(self, index: int, given: _Reasoning) -> None:
        if not (given.text or given.signature or given.redacted_content):
            return
        block = self._blocks.get(index)
        if not isinstance(block, _Thinking):
            self._make_way(index)
            block = self._blocks[index] = _Thinking(self._emit.fresh(f"reasoning-{index}"))
            self._emit.open_reasoning(block.id)
        self._emit.reasoning(block.id, given.text or "")
        block.signature += [given.signature] if given.signature else []
        block.redacted += [given.redacted_content] if given.redacted_content else []

    def _make_way(self, index: int) -> None:
        """A block begins: the one in its place ends, and so do texts elsewhere."""
        for other, block in list(self._blocks.items()):
            if other == index or isinstance(block, _Text):
                self._block_stop(other)

    def _block_stop(self, index: int) -> None:
        match self._blocks.pop(index, None):
            case _Text() as text:
                self._emit.close_text(text.id, text.metadata)
            case _Thinking() as thinking:
                self._emit.close_reasoning(thinking.id, thinking.metadata)
            case OpenCall() as call:
                self._emit.stop_call(call)
            case _Result() as result:
                self._hosted_result(result)
            case _:
                pass

    def _hosted_result(self, result: _Result) -> None:
        texts = [piece["text"] for piece in result.pieces if isinstance(piece.get("text"), str)]
        values = [piece["json"] for piece in result.pieces if "json" in piece]
        value = values[0] if len(values) == 1 and not texts else "".join(texts) if not values else result.pieces
        kind: Literal["error", "text", "json"] = "text" if isinstance(value, str) else "json"
        given = ToolResult(type="error" if result.failed else kind, value=value)
        self._emit.hosted_result(result.call.id, result.call.name, given)

    def _stop(self, reason: str) -> None:
        for index in list(self._blocks):
            self._block_stop(index)
        self._emit.close_calls(cut=FINISH.get(reason) == "length")
        self._reason = reason

    def _note_usage(self, raw: dict[str, Any] | None) -> None:
        if raw is None:
            return
        seen = _usage(raw)
        if self._usage is None or seen.input or seen.output:
            self._usage = seen

    def _fail(self, frame: _Frame) -> None:
        """An exception carries JSON, an error only its message."""
        try:
            body = _OBJECT.decode(frame.payload)
        except (msgspec.DecodeError, RecursionError):
            body = {}
        message = body.get("message") or body.get("Message") or body.get("originalMessage") or frame.payload
        text = ": ".join(str(item) for item in (frame.type, message) if item) or "Bedrock Converse stream error"
        for index, block in list(self._blocks.items()):
            if not isinstance(block, OpenCall):
                self._block_stop(index)
        self._emit.fail(text, body=body, code=frame.type or None, usage=self._usage)


def _usage(raw: dict[str, Any]) -> ev.Usage:
    """`inputTokens` leaves cached tokens out, except where the total says that it does not."""
    seen = msgspec.convert(raw, _Usage)
    given, cached = seen.input_tokens, (seen.cache_read_input_tokens or 0) + (seen.cache_write_input_tokens or 0)
    inclusive = (
        cached > 0 and given is not None and given >= cached and seen.total_tokens == given + (seen.output_tokens or 0)
    )
    return ev.usage(
        input=given if inclusive else None,
        non_cached=None if inclusive else given,
        cache_read=seen.cache_read_input_tokens,
        cache_write=seen.cache_write_input_tokens,
        output=seen.output_tokens,
        total=seen.total_tokens,
        namespace="bedrock",
        raw=raw,
    )


def _joined(pieces: list[str]) -> str | None:
    """Base64 that came in several pieces, each padded for itself, as one."""
    if len(pieces) < 2:
        return pieces[0] if pieces else None
    try:
        return base64.b64encode(b"".join(base64.b64decode(piece, validate=True) for piece in pieces)).decode()
    except binascii.Error as error:
        raise invalid_output(f"Bedrock sent redacted content that is not base64 ({error})") from error
