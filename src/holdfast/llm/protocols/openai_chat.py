"""OpenAI Chat Completions, and everyone who speaks it: `POST {base}/chat/completions`, server-sent chunks.

`messages` is the last member of the body and each is sealed when the next begins, so the provider's automatic cache
sees one growing prefix. A chronological update joins the user message before it, which is still open then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from holdfast.llm import event as ev
from holdfast.llm.body import Draft
from holdfast.llm.errors import invalid_output
from holdfast.llm.lifecycle import Emitter, OpenCall, truncated
from holdfast.llm.media import NO_IMAGE, Media, read_media, unsupported
from holdfast.llm.model import Model, effort, options
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
    ReasoningPart,
    Request,
    TextPart,
    ToolCallPart,
    ToolChoice,
    ToolResultPart,
    result_items,
)
from holdfast.llm.tool_schema import openai_schema
from holdfast.schema.codec import encode as to_json
from holdfast.schema.session_message import TextContent

if TYPE_CHECKING:
    from collections.abc import Sequence

FINISH = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool-calls",
    "function_call": "tool-calls",
    "content_filter": "content-filter",
}
MARKER_LIMIT = 4
MARKER = b',"cache_control":{"type":"ephemeral"}'


class OpenAIChat(NamedTuple):
    """`passthrough` names options of the namespace that go into the body as they are."""

    id: str = "openai-chat"
    name: str = "OpenAI Chat"
    namespace: str = "openai"
    framing: str = "sse"
    passthrough: tuple[str, ...] = ()

    def path(self, model_id: str) -> str:
        return "/chat/completions"

    # -- encoding ------------------------------------------------------------------------------------------------

    def start(self, model: Model, request: Request) -> Draft:
        check_tools(self, request)
        body: dict[str, Any] = {
            "model": model.id,
            "stream": True,
            "stream_options": {"include_usage": True},
            **self._options(request),
            **_controls(model, request),
            **_format(request),
            **((request.http and request.http.body) or {}),
        }
        if request.tools:
            body["tools"] = [_tool(model, tool) for tool in request.tools]
        if request.tool_choice is not None and request.tools:
            body["tool_choice"] = _choice(request.tool_choice)
        draft = Draft(open_array(body, "messages"))
        draft.state = _State(lists=model.capabilities.inline_cache)
        draft.spare = MARKER_LIMIT
        if system := [part.text for part in request.system if part.text]:
            _text_message(draft, "system", b'{"role":"system","content":', ["\n".join(system)])
        return draft

    def extend(self, draft: Draft, model: Model, messages: Sequence[Message]) -> None:
        state: _State = draft.state
        for message in checked(self, messages):
            state.order.see(self, message)
            if message.role != "tool":
                _flush_images(draft, model, state)
            match message.role:
                case "user":
                    _user(draft, model, message)
                case "assistant":
                    self._assistant(draft, model, message)
                case "tool":
                    _results(draft, model, state, message)
                case "system":
                    _update(draft, model, message)
            if not state.order.waiting:
                _flush_images(draft, model, state)

    def markers(self, request: Request) -> tuple[bytes, int]:
        return MARKER, request.cache.messages if request.cache else 2

    def _assistant(self, draft: Draft, model: Model, message: Message) -> None:
        texts = [part.text for part in message.content if isinstance(part, TextPart)]
        lowered: dict[str, Any] = {"role": "assistant", "content": "\n".join(texts) if texts else None}
        if model.capabilities.reasoning_replay:
            thoughts = [part for part in message.content if isinstance(part, ReasoningPart)]
            if text := "".join(part.text for part in thoughts):
                lowered["reasoning_content"] = text
            if details := [
                item for part in thoughts for item in metadata_of(part, self.namespace).get("reasoningDetails", ())
            ]:
                lowered["reasoning_details"] = details
        calls = [part for part in message.content if isinstance(part, ToolCallPart) and not part.provider_executed]
        if calls:
            lowered["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": to_json(_object(call.input)).decode()},
                }
                for call in calls
            ]
        if texts or calls:
            draft.begin("assistant", to_json(lowered)[:-1], b"}")

    def _options(self, request: Request) -> dict[str, Any]:
        given = options(request, self.namespace)
        return {
            **compact(
                {
                    "store": given.get("store") if isinstance(given.get("store"), bool) else None,
                    "reasoning_effort": effort(given.get("reasoningEffort")),
                }
            ),
            **{name: given[name] for name in self.passthrough if name in given},
            **_openrouter(given if self.namespace == "openrouter" else {}),
        }

    def decoder(self, model: Model, request: Request) -> ChatDecoder:
        return ChatDecoder(self.namespace)


def _object(given: Any) -> dict[str, Any]:
    return given if isinstance(given, dict) else {}


class _State:
    def __init__(self, *, lists: bool) -> None:
        self.lists = lists
        self.order = CallOrder()
        self.images: list[Media] = []
        self.user_is_list = False


def _controls(model: Model, request: Request) -> dict[str, Any]:
    controls = request.generation
    if controls is None:
        return {}
    limit = "max_completion_tokens" if model.capabilities.completion_tokens_field else "max_tokens"
    sampling = {
        "temperature": controls.temperature,
        "top_p": controls.top_p,
        "frequency_penalty": controls.frequency_penalty,
        "presence_penalty": controls.presence_penalty,
    }
    return compact(
        {
            limit: controls.max_tokens,
            **(sampling if model.capabilities.sampling else {}),
            "seed": controls.seed,
            "stop": controls.stop,
        }
    )


def _format(request: Request) -> dict[str, Any]:
    if (asked := json_format(request)) is None:
        return {}
    name, schema = asked
    return {"response_format": {"type": "json_schema", "json_schema": {"name": name, "schema": schema}}}


def _openrouter(given: dict[str, Any]) -> dict[str, Any]:
    usage = given.get("usage")
    return compact(
        {
            "usage": {"include": True} if usage is True else usage if isinstance(usage, dict) else None,
            "reasoning": given.get("reasoning") if isinstance(given.get("reasoning"), dict) else None,
            "prompt_cache_key": given.get("promptCacheKey"),
        }
    )


def _text_message(draft: Draft, role: str, opening: bytes, texts: Sequence[str]) -> None:
    """String content stays open at its end; as a list, each text is an item that can carry a marker."""
    if draft.state.lists:
        draft.begin(role, opening + b"[", b"]}")
        for text in texts:
            _text_item(draft, text)
        return
    draft.begin(role, opening + b'"', b'"}')
    for text in texts:
        draft.add(_inside(text), separator=b"")


def _text_item(draft: Draft, text: str) -> None:
    _item(draft, {"type": "text", "text": text})


def _item(draft: Draft, item: dict[str, Any]) -> None:
    block = to_json(item)
    draft.add(block, mark=len(block) - 1 if draft.state.lists else None, text=item["type"] == "text")


def _user(draft: Draft, model: Model, message: Message) -> None:
    opening = b'{"role":"user","content":'
    if all(isinstance(part, TextPart) for part in message.content):
        draft.state.user_is_list = draft.state.lists
        _text_message(draft, "user", opening, [part.text for part in message.content if isinstance(part, TextPart)])
        return
    draft.state.user_is_list = True
    draft.begin("user", opening + b"[", b"]}")
    for part in message.content:
        if isinstance(part, TextPart):
            _text_item(draft, part.text)
        elif isinstance(part, MediaPart):
            _media_item(draft, model, read_media(part))


def _media_item(draft: Draft, model: Model, media: Media) -> None:
    if media.is_text:
        _text_item(draft, media.text)
    elif not media.is_image:
        raise unsupported("OpenAI Chat", "user", media, "images and text files")
    elif not model.capabilities.images:
        _text_item(draft, NO_IMAGE)
    else:
        _item(draft, {"type": "image_url", "image_url": {"url": media.url}})


def _results(draft: Draft, model: Model, state: _State, message: Message) -> None:
    for part in message.content:
        if not isinstance(part, ToolResultPart):
            continue
        opening = b'{"role":"tool","tool_call_id":%s,"content":' % to_json(part.id)
        if part.result.type != "content":
            _text_message(draft, "tool", opening, [result_text(part.result)])
            continue
        items = result_items(part.result)
        texts = [item.text for item in items if isinstance(item, TextContent)]
        _text_message(draft, "tool", opening, ["\n".join(texts)])
        state.images += [read_media(item) for item in items if not isinstance(item, TextContent)]


def _flush_images(draft: Draft, model: Model, state: _State) -> None:
    """Tool messages cannot carry images: they follow the whole run of results in one user message."""
    if not state.images:
        return
    images, state.images = state.images, []
    state.user_is_list = True
    draft.begin("user", b'{"role":"user","content":[', b"]}")
    for image in images:
        _media_item(draft, model, image)


def _update(draft: Draft, model: Model, message: Message) -> None:
    if (role := model.capabilities.chronological_system) is not None:
        text = "\n".join(part.text for part in message.content if isinstance(part, TextPart))
        _text_message(draft, role, b'{"role":"%s","content":' % role.encode(), [text])
        return
    wrapped = wrapped_update(message)
    if draft.role != "user":
        draft.state.user_is_list = draft.state.lists
        _text_message(draft, "user", b'{"role":"user","content":', [wrapped])
    elif draft.state.user_is_list:
        _text_item(draft, wrapped)
    else:
        draft.add(_inside(wrapped), separator=b"\\n")


def _inside(text: str) -> bytes:
    """A JSON string without its quotes."""
    return to_json(text)[1:-1]


def _tool(model: Model, tool: Any) -> dict[str, Any]:
    parameters = openai_schema(model_schema(model, tool))
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": parameters},
    }


def _choice(choice: ToolChoice) -> Any:
    return choice.type if choice.type != "tool" else {"type": "function", "function": {"name": choice.name}}


# -- decoding ----------------------------------------------------------------------------------------------------


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: Any = None


class _Call(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Delta(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[Any] | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    finish_reason: str | None = None
    native_finish_reason: Any = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: Any = None
    error: Any = None
    x_groq: Any = None


_CHUNK = msgspec.json.Decoder(_Chunk)


class ChatDecoder:
    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._emit = Emitter()
        self._text = self._reasoning = ""
        self._details: list[Any] = []
        self._calls: dict[int, OpenCall] = {}
        self._ids: dict[int, str] = {}
        """What the vendor calls the call at an index."""
        self._made = 0
        self._reason: str | None = None
        self._native: Any = None
        self._refused = False
        self._usage: ev.Usage | None = None

    @property
    def done(self) -> bool:
        return self._emit.ended

    def feed(self, frame: bytes) -> list[ev.Event]:
        if self._emit.ended or frame == b"[DONE]":
            return []
        chunk = read_frame(_CHUNK, "Chat", frame)
        if chunk.error is not None:
            self._fail(chunk.error)
            return self._emit.take()
        try:
            self._note_usage(chunk)
        except (TypeError, AttributeError) as error:
            raise invalid_output(f"Chat sent usage of the wrong shape ({error})", frame) from error
        if chunk.choices:
            choice = chunk.choices[0]
            if choice.delta is not None and self._reason is None:
                self._delta(choice.delta)
            if choice.finish_reason and self._reason is None:
                self._finish_reason(choice.finish_reason, choice.native_finish_reason)
        return self._emit.take()

    def finish(self) -> list[ev.Event]:
        if self._emit.ended:
            return []
        if self._reason is None:
            raise truncated("Chat", self._usage)
        reason = "content-filter" if self._refused else FINISH.get(self._reason, "unknown")
        self._emit.finish(
            reason, self._usage, {self._namespace: compact({"finishReason": self._reason, "native": self._native})}
        )
        return self._emit.take()

    def _delta(self, delta: _Delta) -> None:
        emit = self._emit
        if delta.reasoning_details:
            self._details += delta.reasoning_details
        if thought := delta.reasoning_content or delta.reasoning:
            self._reasoning = self._reasoning or emit.fresh("reasoning-0")
            emit.reasoning(self._reasoning, thought)
        if text := delta.content or delta.refusal:
            self._refused = self._refused or not delta.content
            self._close_reasoning()
            self._text = self._text or emit.fresh("text-0")
            emit.text(self._text, text)
        for position, call in enumerate(delta.tool_calls or ()):
            self._call_delta(call, position)

    def _call_delta(self, given: _Call, position: int) -> None:
        index = given.index if given.index is not None else position
        function = given.function or _Function()
        call = self._calls.get(index)
        # Some vendors count every call as the first: another id with a name is another call.
        if call is not None and function.name and given.id and self._ids[index] not in ("", given.id):
            self._emit.close_call(call)
            call = None
        if call is None:
            if not function.name:
                raise invalid_output("Chat began a tool call with a missing id or name")
            self._close_blocks()
            self._made += 1
            call = self._calls[index] = self._emit.open_call(given.id or f"call_{self._made}", function.name)
            self._ids[index] = given.id or ""
        arguments = function.arguments
        if arguments is not None and not isinstance(arguments, str):
            arguments = to_json(arguments).decode()
        self._emit.call_delta(call, arguments or "")

    def _finish_reason(self, reason: str, native: Any) -> None:
        if reason == "error":
            self._emit.fail("the provider ended the turn with an error", usage=self._usage)
            return
        self._close_blocks()
        for _, call in sorted(self._calls.items()):
            self._emit.close_call(call, cut=reason == "length")
        self._calls.clear()
        self._reason, self._native = reason, native

    def _close_reasoning(self) -> None:
        if self._reasoning or self._details:
            details = {self._namespace: {"reasoningDetails": self._details}} if self._details else None
            block = self._reasoning or self._emit.fresh("reasoning-0")
            self._emit.open_reasoning(block)  # details may come without any text
            self._emit.close_reasoning(block, details)
            self._reasoning, self._details = "", []

    def _close_blocks(self) -> None:
        self._close_reasoning()
        if self._text:
            self._emit.close_text(self._text)
            self._text = ""

    def _note_usage(self, chunk: _Chunk) -> None:
        raw = chunk.usage
        if raw is None and self._usage is None and isinstance(chunk.x_groq, dict):
            raw = chunk.x_groq.get("usage")
        if not isinstance(raw, dict):
            return
        seen = _usage(raw, self._namespace)
        if self._usage is None or seen.input or seen.output:
            self._usage = seen

    def _fail(self, error: Any) -> None:
        fields = error if isinstance(error, dict) else {}
        message = fields.get("message") or (error if isinstance(error, str) else to_json(error).decode())
        code = fields.get("code")
        self._emit.fail(
            str(message),
            body={"error": error},
            code=str(code) if code is not None else None,
            status=code if isinstance(code, int) and code >= 400 else None,
            usage=self._usage,
        )


def _usage(raw: dict[str, Any], namespace: str) -> ev.Usage:
    prompt = raw.get("prompt_tokens_details") or {}
    completion = raw.get("completion_tokens_details") or {}
    read = prompt.get("cached_tokens")
    if read is None:
        read = raw.get("prompt_cache_hit_tokens", raw.get("cached_tokens"))
    return ev.usage(
        input=raw.get("prompt_tokens"),
        cache_read=read,
        cache_write=prompt.get("cache_write_tokens"),
        output=raw.get("completion_tokens"),
        reasoning=completion.get("reasoning_tokens"),
        total=raw.get("total_tokens"),
        namespace=namespace,
        raw=raw,
    )
