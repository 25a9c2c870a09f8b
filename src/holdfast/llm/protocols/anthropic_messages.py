"""Anthropic Messages: `POST {base}/messages`, server-sent events with content blocks.

The cache key of this provider leaves `cache_control` out, so markers may move: the last tool, the last system part and
the newest two user-role messages carry one. The older of the two is where the previous request's marker stood, which is
what makes it hit."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from holdfast.llm import event as ev
from holdfast.llm.body import Draft
from holdfast.llm.errors import invalid_output, invalid_request
from holdfast.llm.lifecycle import Emitter, OpenCall, truncated
from holdfast.llm.media import NO_IMAGE, PDF, read_media, unsupported
from holdfast.llm.model import Model, effort, options, output_limit
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
    ToolResult,
    ToolResultPart,
    result_items,
)
from holdfast.llm.tool_schema import closed, object_schema
from holdfast.schema.codec import encode as to_json
from holdfast.schema.session_message import FileContent, TextContent

if TYPE_CHECKING:
    from collections.abc import Sequence

VERSION = "2023-06-01"
HEADERS = (("anthropic-version", VERSION),)
MARKER_LIMIT = 4
HOUR = 3600
SERVER_TOOL = "server_tool_use"
HOSTED_RESULTS = {
    "web_search": "web_search_tool_result",
    "code_execution": "code_execution_tool_result",
    "web_fetch": "web_fetch_tool_result",
}
FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool-calls",
    "refusal": "content-filter",
}
EFFORTS = ("low", "medium", "high", "xhigh", "max")
_ID = re.compile(r"[^A-Za-z0-9_-]")


class AnthropicMessages(NamedTuple):
    id: str = "anthropic-messages"
    name: str = "Anthropic Messages"
    namespace: str = "anthropic"
    framing: str = "sse"

    def path(self, model_id: str) -> str:
        return "/messages"

    # -- encoding ------------------------------------------------------------------------------------------------

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
            body["tools"] = self._tools(model, request, state)
            if request.tool_choice is not None:
                body["tool_choice"] = _choice(request.tool_choice)
        if system := self._system(request, state):
            body["system"] = system
        draft = Draft(open_array(body, "messages"))
        draft.state = state
        draft.spare = state.left
        return draft

    def extend(self, draft: Draft, model: Model, messages: Sequence[Message]) -> None:
        state: _State = draft.state
        for message in checked(self, messages, visible=True):
            state.order.see(self, message)
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

    def markers(self, request: Request) -> tuple[bytes, int]:
        """Longer-lived markers may not follow shorter-lived ones, so one short hint makes the moving ones short."""
        policy = request.cache or CachePolicy()
        long = _is_long(policy.ttl_seconds) and all(_is_long(hint.ttl_seconds) for hint in _hints(request))
        return b',"cache_control":' + to_json(_control(long=long)), policy.messages

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
                "stop_sequences": controls.stop if controls else None,
                "thinking": _thinking(given.get("thinking"), model),
                "output_config": compact(
                    {"effort": strength, "format": _format(request), "task_budget": given.get("taskBudget")}
                )
                or None,
                "metadata": _metadata(given.get("metadata")),
            }
        )

    def _tools(self, model: Model, request: Request, state: _State) -> list[dict[str, Any]]:
        lowered = []
        for index, tool in enumerate(request.tools):
            hint = tool.cache
            if hint is None and state.policy_tools and index == len(request.tools) - 1:
                hint = CacheHint(ttl_seconds=state.ttl)
            schema = object_schema(model_schema(model, tool))
            fields = {"name": tool.name, "description": tool.description, "input_schema": schema}
            lowered.append({**fields, **state.marker(hint)})
        return lowered

    def _system(self, request: Request, state: _State) -> list[dict[str, Any]]:
        parts = [part for part in request.system if part.text.strip()]
        lowered = []
        for index, part in enumerate(parts):
            hint = part.cache
            if hint is None and state.policy_system and index == len(parts) - 1:
                hint = CacheHint(ttl_seconds=state.ttl)
            lowered.append({"type": "text", "text": part.text, **state.marker(hint)})
        return lowered

    def _assistant(self, draft: Draft, message: Message) -> None:
        # The provider refuses text after a tool_use block, so calls come last.
        content = sorted(
            message.content, key=lambda part: isinstance(part, ToolCallPart) and not part.provider_executed
        )
        blocks = [block for part in content if (block := self._assistant_block(part)) is not None]
        if not blocks:
            return
        if draft.role != "assistant":
            draft.begin("assistant", b'{"role":"assistant","content":[', b"]}")
        for block in blocks:
            draft.add(to_json(block))

    def _assistant_block(self, part: Part) -> dict[str, Any] | None:
        native = metadata_of(part, self.namespace)
        match part:
            case TextPart():
                return {"type": "text", "text": part.text}
            case ReasoningPart():
                return _thought(part, native)
            case ToolCallPart() if part.provider_executed:
                kind = native.get("blockType", SERVER_TOOL)
                server = {"server_name": native["serverName"]} if "serverName" in native else {}
                return {"type": kind, "id": part.id, "name": part.name, **server, "input": part.input}
            case ToolCallPart():
                given = part.input if isinstance(part.input, dict) else {}
                return {"type": "tool_use", "id": clean_id(part.id), "name": part.name, "input": given}
            case ToolResultPart():
                kind = native.get("blockType") or HOSTED_RESULTS.get(part.name)
                if kind is None:
                    raise invalid_request(f"{self.name}: results of the hosted tool {part.name} cannot be replayed")
                return {"type": kind, "tool_use_id": part.id, "content": part.result.value}
            case _:
                return None

    def decoder(self, model: Model, request: Request) -> MessagesDecoder:
        return MessagesDecoder()


class _State:
    def __init__(self, model: Model, request: Request) -> None:
        policy = request.cache
        caching = model.capabilities.caching
        self.policy_tools = caching and (policy is None or policy.tools)
        self.policy_system = caching and (policy is None or policy.system)
        self.ttl = policy.ttl_seconds if policy else None
        self.short = False
        self.left = MARKER_LIMIT if caching else 0
        self.order = CallOrder()
        self.previous: Message | None = None
        self.native_update: Message | None = None

    def marker(self, hint: CacheHint | None) -> dict[str, Any]:
        """A marker that stays where it is, within the provider's limit."""
        if hint is None or self.left == 0:
            return {}
        self.left -= 1
        self.short = self.short or not _is_long(hint.ttl_seconds)
        return {"cache_control": _control(long=not self.short)}


def _control(*, long: bool) -> dict[str, str]:
    return {"type": "ephemeral", "ttl": "1h"} if long else {"type": "ephemeral"}


def _is_long(ttl: int | None) -> bool:
    return ttl is not None and ttl >= HOUR


def _hints(request: Request) -> list[CacheHint]:
    given = [tool.cache for tool in request.tools] + [part.cache for part in request.system]
    for message in request.messages:
        given += [part.cache for part in message.content if isinstance(part, TextPart | ToolResultPart)]
    return [hint for hint in given if hint is not None]


def _add(draft: Draft, block: dict[str, Any], hint: CacheHint | None) -> None:
    own = draft.state.marker(hint)
    data = to_json({**block, **own})
    if own:
        draft.spare = draft.state.left
        draft.unmark()
        draft.add(data)
    else:
        draft.add(data, mark=len(data) - 1, text=block["type"] == "text")


def _update(draft: Draft, state: _State, model: Model, message: Message) -> None:
    """Natively where the model has a role for it and the place allows it, else wrapped."""
    if model.capabilities.chronological_system == "system" and _may_follow(state.previous):
        draft.begin("system", b'{"role":"system","content":[', b"]}")
        for part in message.content:
            if isinstance(part, TextPart):
                draft.add(to_json({"type": "text", "text": part.text}))
        state.native_update = message
    else:
        _wrapped(draft, message)


def _take_back(draft: Draft, state: _State, message: Message) -> None:
    """A native system message may only be followed by the assistant. Where something else came, because the turn gave
    no output, it is wrapped after all: the one place where adding a message changes bytes that were sent."""
    draft.drop()
    draft.begin("user", b'{"role":"user","content":[', b"]}")
    _wrapped(draft, message)


def _wrapped(draft: Draft, message: Message) -> None:
    if draft.role != "user":
        draft.begin("user", b'{"role":"user","content":[', b"]}")
    hint = next((part.cache for part in reversed(message.content) if isinstance(part, TextPart)), None)
    _add(draft, {"type": "text", "text": wrapped_update(message)}, hint)


def _user_blocks(draft: Draft, model: Model, message: Message) -> None:
    """Tool results and user text that follow each other are one user message, results first."""
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
    media = read_media(part)
    source = {"type": "base64", "media_type": media.mime, "data": media.data}
    if media.mime == PDF:
        return {"type": "document", "source": source}
    if media.is_text:
        return {"type": "text", "text": media.text}
    if not media.is_image:
        raise unsupported("Anthropic Messages", "user", media, "images, PDF and text files")
    if not model.capabilities.images:
        return {"type": "text", "text": NO_IMAGE}
    return {"type": "image", "source": source}


def _result(result: ToolResult, model: Model) -> str | list[dict[str, Any]]:
    if result.type != "content":
        return result_text(result)
    return [
        {"type": "text", "text": item.text} if isinstance(item, TextContent) else _media(item, model)
        for item in result_items(result)
        if not (isinstance(item, TextContent) and not item.text.strip())
    ]


def _thought(part: ReasoningPart, native: dict[str, Any]) -> dict[str, Any] | None:
    """Signed thinking goes back as it came. Unsigned it would be refused, so it becomes text, or nothing."""
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
    """The provider wants every object to say that it takes no other properties."""
    asked = json_format(request)
    return {"type": "json_schema", "schema": closed(asked[1])} if asked else None


def _thinking(given: Any, model: Model) -> dict[str, Any] | None:
    if not isinstance(given, dict):
        return None
    match given.get("type"):
        case "disabled":
            return {"type": "disabled"}
        case "adaptive":
            return compact({"type": "adaptive", "display": given.get("display")})
        case "enabled":
            if model.capabilities.thinking == "adaptive":
                return compact({"type": "adaptive", "display": given.get("display")})
            budget = given.get("budgetTokens", given.get("budget_tokens"))
            if not isinstance(budget, int):
                raise invalid_request("Anthropic Messages: thinking needs a budget", parameter="thinking")
            return {"type": "enabled", "budget_tokens": budget}
        case _:
            return None


def _may_follow(previous: Message | None) -> bool:
    """Where the provider takes a native system message: after input, or after a hosted call that is still open."""
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


def clean_id(id: str) -> str:
    """Ids of other providers, made acceptable here; call and result change alike."""
    return _ID.sub("_", id)


# -- decoding ----------------------------------------------------------------------------------------------------

_EVENT = msgspec.json.Decoder(dict[str, Any])
_COUNTS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")


class _Thinking:
    def __init__(self, id: str) -> None:
        self.id = id
        self.signature: list[str] = []
        self.redacted: str | None = None

    @property
    def metadata(self) -> dict[str, dict[str, Any]] | None:
        found = compact({"signature": "".join(self.signature) or None, "redactedData": self.redacted})
        return {"anthropic": found} if found else None


class MessagesDecoder:
    def __init__(self) -> None:
        self._emit = Emitter()
        self._blocks: dict[int, OpenCall | _Thinking | str | None] = {}
        self._citations: dict[str, list[Any]] = {}
        self._hosted: dict[str, OpenCall] = {}
        self._raw_usage: dict[str, Any] = {}
        self._begun = False

    @property
    def done(self) -> bool:
        return self._emit.ended

    def feed(self, frame: bytes) -> list[ev.Event]:
        if self._emit.ended or frame == b"[DONE]":
            return []
        event = read_frame(_EVENT, "Anthropic", frame)
        try:
            self._handle(event)
        except (KeyError, TypeError, AttributeError) as error:
            raise invalid_output(f"Anthropic sent an event of the wrong shape ({error!r})", frame) from error
        return self._emit.take()

    def finish(self) -> list[ev.Event]:
        if not self._emit.ended:
            raise truncated("Anthropic", self._usage())
        return []

    def _handle(self, event: dict[str, Any]) -> None:
        match event.get("type"):
            case "message_start":
                self._note_usage((event.get("message") or {}).get("usage"))
            case "content_block_start":
                self._block_start(event["index"], event["content_block"])
            case "content_block_delta":
                self._block_delta(event["index"], event.get("delta") or {})
            case "content_block_stop":
                self._block_stop(event["index"])
            case "message_delta":
                self._message_delta(event)
            case "error":
                self._error(event.get("error"))
            case _:
                pass

    def _block_start(self, index: int, block: dict[str, Any]) -> None:
        kind = block.get("type", "")
        if isinstance(self._blocks.get(index), OpenCall):
            raise invalid_output(f"Anthropic began another block inside the tool call of block {index}")
        self._block_stop(index)
        match kind:
            case "text":
                id = f"text-{index}"
                self._blocks[index] = id
                self._emit.open_text(id)
                self._emit.text(id, _string(block.get("text")))
            case "thinking" | "redacted_thinking":
                thinking = _Thinking(f"reasoning-{index}")
                thinking.redacted = _string(block.get("data")) or None
                thinking.signature.append(_string(block.get("signature")))
                self._blocks[index] = thinking
                self._emit.open_reasoning(thinking.id)
                self._emit.reasoning(thinking.id, _string(block.get("thinking")))
            case _ if kind.endswith("tool_use"):
                self._blocks[index] = self._call(kind, block)
            case _ if kind.endswith("_tool_result"):
                self._hosted_result(block)
            case _:
                self._blocks[index] = None

    def _call(self, kind: str, block: dict[str, Any]) -> OpenCall:
        """`tool_use` is for us; every other kind the provider executes itself."""
        id, hosted = _string(block["id"]), kind != "tool_use"
        call = self._emit.open_call(id, _string(block["name"]), hosted=hosted)
        if hosted:
            self._hosted[id] = call
        if hosted and kind != SERVER_TOOL:
            native = compact({"blockType": kind, "serverName": _string(block.get("server_name")) or None})
            call.metadata = {"anthropic": native}
        if block.get("input"):
            self._emit.call_delta(call, to_json(block["input"]).decode())
        return call

    def _block_delta(self, index: int, delta: dict[str, Any]) -> None:
        block = self._blocks.get(index)
        match delta.get("type"):
            case "text_delta":
                if isinstance(block, str):
                    self._emit.text(block, _string(delta["text"]))
            case "thinking_delta":
                if isinstance(block, _Thinking):
                    self._emit.reasoning(block.id, _string(delta["thinking"]))
            case "signature_delta":
                if isinstance(block, _Thinking):
                    block.signature.append(_string(delta["signature"]))
            case "input_json_delta":
                if isinstance(block, OpenCall):
                    self._emit.call_delta(block, _string(delta.get("partial_json")))
                elif block is not None or index not in self._blocks:
                    raise invalid_output("Anthropic sent arguments for an unknown tool call")
            case "citations_delta":
                if isinstance(block, str):
                    self._citations.setdefault(block, []).append(delta.get("citation"))
            case _:
                pass

    def _block_stop(self, index: int) -> None:
        match self._blocks.pop(index, None):
            case str(id):
                cited = self._citations.pop(id, None)
                self._emit.close_text(id, {"anthropic": {"citations": cited}} if cited else None)
            case _Thinking() as thinking:
                self._emit.close_reasoning(thinking.id, thinking.metadata)
            case OpenCall() as call:
                self._emit.stop_call(call)
            case _:
                pass

    def _hosted_result(self, block: dict[str, Any]) -> None:
        content = block.get("content")
        failed = isinstance(content, dict) and str(content.get("type", "")).endswith("_tool_result_error")
        result = ToolResult(type="error" if failed else "json", value=content)
        if (call := self._hosted.pop(_string(block["tool_use_id"]), None)) is not None:
            self._emit.hosted_result(call.id, call.name, result, {"anthropic": {"blockType": block["type"]}})

    def _message_delta(self, event: dict[str, Any]) -> None:
        self._note_usage(event.get("usage"))
        delta = event.get("delta") or {}
        reason = _string(delta.get("stop_reason"))
        if not reason:
            return
        for index in list(self._blocks):
            self._block_stop(index)
        finish = FINISH.get(reason, "unknown")
        self._emit.close_calls(cut=finish == "length")
        native = compact({"stopReason": reason, "stopSequence": delta.get("stop_sequence")})
        self._emit.finish(finish, self._usage(), {"anthropic": native})

    def _error(self, error: Any) -> None:
        fields = error if isinstance(error, dict) else {"message": error}
        kind, message = fields.get("type"), fields.get("message")
        text = ": ".join(str(item) for item in (kind, message) if item) or "Anthropic Messages stream error"
        code = kind if isinstance(kind, str) else None
        self._emit.fail(text, body={"error": fields}, code=code, usage=self._usage())

    def _note_usage(self, usage: Any) -> None:
        if not isinstance(usage, dict):
            return
        given = {key: value for key, value in usage.items() if value is not None}
        for key in _COUNTS:
            ev.count(given.get(key))
        self._raw_usage |= given

    def _usage(self) -> ev.Usage | None:
        raw = self._raw_usage
        if not raw:
            return None
        return ev.usage(
            non_cached=raw.get("input_tokens"),
            cache_read=raw.get("cache_read_input_tokens"),
            cache_write=raw.get("cache_creation_input_tokens"),
            output=raw.get("output_tokens"),
            namespace="anthropic",
            raw=dict(raw),
        )


def _string(value: Any) -> str:
    """Absent is empty."""
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} where text belongs")
    return value or ""
