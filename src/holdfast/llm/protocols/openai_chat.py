"""OpenAI Chat Completions, also of compatible vendors: `POST {base}/chat/completions`, server-sent chunks.

`messages` is the last member of the body, and a message never changes after the next begins, so the provider's
automatic cache sees one growing prefix. A system update is appended to the user message before it, which is still
open."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from holdfast.llm.body import Draft
from holdfast.llm.limits import DEFAULT_LIMITS, AnswerLimits
from holdfast.llm.media import NO_IMAGE, cannot_hold, readable
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
from holdfast.schema.frozen import Frozen
from holdfast.schema.session_message import FileContent, TextContent

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.llm.protocols.chat_stream import ChatDecoder

DETAIL_TEXTS = {"reasoning.text": "text", "reasoning.summary": "summary"}
MARKER_LIMIT = 4
MARKER = b',"cache_control":{"type":"ephemeral"}'


class OpenAIChat(Frozen):
    """`passthrough` names options of the namespace that are copied into the body."""

    id: str = "openai-chat"
    name: str = "OpenAI Chat"
    namespace: str = "openai"
    framing: str = "sse"
    passthrough: tuple[str, ...] = ()

    def path(self, model_id: str) -> str:
        return "/chat/completions"

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
                _flush_images(draft, state)
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
                _flush_images(draft, state)

    def markers(self, draft: Draft, request: Request) -> tuple[bytes, int]:
        return MARKER, request.cache.messages if request.cache else 2

    def _assistant(self, draft: Draft, model: Model, message: Message) -> None:
        texts = [part.text for part in message.content if isinstance(part, TextPart)]
        lowered: dict[str, Any] = {"role": "assistant", "content": "\n".join(texts) if texts else None}
        if model.capabilities.reasoning_replay:
            thoughts = [part for part in message.content if isinstance(part, ReasoningPart)]
            if text := "".join(part.text for part in thoughts):
                lowered["reasoning_content"] = text
            details = [metadata_of(part, self.namespace).get("reasoningDetails", ()) for part in thoughts]
            if joined := join_details(item for items in details for item in items):
                lowered["reasoning_details"] = joined
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

    def decoder(self, model: Model, request: Request, limits: AnswerLimits = DEFAULT_LIMITS) -> ChatDecoder:
        from holdfast.llm.protocols.chat_stream import ChatDecoder

        return ChatDecoder(self.namespace, limits)


def join_details(fragments: Iterable[Any]) -> list[Any]:
    """Joins streamed reasoning details: pieces with one index become one item. The signature covers the whole text, so
    separate pieces would be refused."""
    joined: list[Any] = []
    for place, run in groupby(fragments, key=_place):
        items = list(run)
        if place is None or len(items) == 1:
            joined += items
            continue
        name = DETAIL_TEXTS[place[0]]
        text = "".join(item[name] for item in items if isinstance(item.get(name), str))
        known = {key: value for item in items for key, value in item.items() if value is not None}
        joined.append({**known, name: text})
    return joined


def _place(item: Any) -> tuple[str, int] | None:
    """The key of the item to which a piece belongs; None for a complete item."""
    if not isinstance(item, dict):
        return None
    match item.get("type"), item.get("index"):
        case str(kind), int(index) if kind in DETAIL_TEXTS:
            return kind, index
        case _:
            return None


def _object(given: Any) -> dict[str, Any]:
    return given if isinstance(given, dict) else {}


class _State:
    def __init__(self, *, lists: bool) -> None:
        self.lists = lists
        self.order = CallOrder()
        self.images: list[dict[str, Any]] = []
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
            "stop": controls.stop or None,
        }
    )


def _format(request: Request) -> dict[str, Any]:
    if (asked := json_format(request)) is None:
        return {}
    schema = compact({"name": asked.name, "schema": asked.schema, "strict": asked.strict})
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


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
    """String content can be appended to; in list content each text is an item that can carry a marker."""
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
    """One string if all parts are text, because some vendors accept nothing else."""
    opening = b'{"role":"user","content":'
    forms: list[str | dict[str, Any]] = []
    for part in message.content:
        if isinstance(part, TextPart):
            forms.append(part.text)
        elif isinstance(part, MediaPart):
            form = _media(part, model)
            forms.append(f"\n{form}" if isinstance(form, str) and forms else form)
    texts = [form for form in forms if isinstance(form, str)]
    if len(texts) == len(forms):
        draft.state.user_is_list = draft.state.lists
        _text_message(draft, "user", opening, texts)
        return
    draft.state.user_is_list = True
    draft.begin("user", opening + b"[", b"]}")
    for form in forms:
        if isinstance(form, str):
            _text_item(draft, form)
        else:
            _item(draft, form)


def _media(part: MediaPart | FileContent, model: Model) -> dict[str, Any] | str:
    """Media that cannot be sent becomes text."""
    media = readable(part)
    if isinstance(media, str):
        return media
    if media.is_text:
        return media.text
    if not media.is_image:
        return cannot_hold("OpenAI Chat", media)
    return {"type": "image_url", "image_url": {"url": media.url}} if model.capabilities.images else NO_IMAGE


def _results(draft: Draft, model: Model, state: _State, message: Message) -> None:
    for part in message.content:
        if not isinstance(part, ToolResultPart):
            continue
        opening = b'{"role":"tool","tool_call_id":%s,"content":' % to_json(part.id)
        if part.result.type != "content":
            _text_message(draft, "tool", opening, [result_text(part.result)])
            continue
        forms = [
            item.text if isinstance(item, TextContent) else _media(item, model) for item in result_items(part.result)
        ]
        texts = [form for form in forms if isinstance(form, str)]
        _text_message(draft, "tool", opening, ["\n".join(texts)])
        state.images += [form for form in forms if isinstance(form, dict)]


def _flush_images(draft: Draft, state: _State) -> None:
    """Tool messages cannot carry images, so these follow the results in one user message."""
    if not state.images:
        return
    images, state.images = state.images, []
    state.user_is_list = True
    draft.begin("user", b'{"role":"user","content":[', b"]}")
    for image in images:
        _item(draft, image)


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
