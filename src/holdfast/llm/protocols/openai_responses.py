"""OpenAI Responses: `POST {base}/responses`, typed server-sent events; the same events over a WebSocket.

`input` is the last member of the body and its items never change once another follows, so the provider's automatic
cache sees one growing prefix; `prompt_cache_key` routes requests of a Session to the same cache. Without storage at
the provider, reasoning is sent back encrypted, and items have no ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.llm.body import Draft
from holdfast.llm.limits import DEFAULT_LIMITS, AnswerLimits
from holdfast.llm.media import NO_IMAGE, PDF, cannot_hold, no_documents, readable
from holdfast.llm.model import Model, effort, options
from holdfast.llm.protocols.base import (
    CallOrder,
    check_tools,
    checked,
    compact,
    hosted_note,
    json_format,
    metadata_of,
    model_schema,
    nonempty,
    open_array,
    result_text,
    wrapped_update,
)
from holdfast.llm.request import (
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
from holdfast.llm.tool_schema import openai_schema
from holdfast.schema.codec import encode as to_json
from holdfast.schema.frozen import Frozen
from holdfast.schema.session_message import FileContent, TextContent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.llm.protocols.responses_stream import ResponsesDecoder

# The first member of the body is for HTTP only; a WebSocket frame has others in its place.
OPENING = b'{"stream":true,'
CLOSING = b"]}"
INCLUDES = (
    *("file_search_call.results", "web_search_call.results", "web_search_call.action.sources"),
    *("message.input_image.image_url", "computer_call_output.output.image_url", "code_interpreter_call.outputs"),
    *("reasoning.encrypted_content", "message.output_text.logprobs"),
)
SERVICE_TIERS = ("auto", "default", "flex", "priority")
VERBOSITIES = ("low", "medium", "high")
SUMMARIES = ("auto", "concise", "detailed")
PHASES = ("commentary", "final_answer")


class OpenAIResponses(Frozen):
    id: str = "openai-responses"
    name: str = "OpenAI Responses"
    namespace: str = "openai"
    framing: str = "sse"

    def path(self, model_id: str) -> str:
        return "/responses"

    def start(self, model: Model, request: Request) -> Draft:
        check_tools(self, request)
        body: dict[str, Any] = {
            "stream": True,
            "model": model.id,
            **self._options(request),
            **_controls(model, request),
            **((request.http and request.http.body) or {}),
        }
        if request.tools:
            body["tools"] = [_tool(model, tool) for tool in request.tools]
        if request.tool_choice is not None and request.tools:
            body["tool_choice"] = _choice(request.tool_choice)
        head = open_array(body, "input")
        draft = Draft(head, CLOSING)
        draft.state = _State(stored=self._stored(request), head=len(head))
        if system := [part.text for part in request.system if part.text]:
            _role_item(draft, "system", "\n".join(system))
        return draft

    def extend(self, draft: Draft, model: Model, messages: Sequence[Message]) -> None:
        for message in checked(self, messages):
            draft.state.order.see(self, message)
            match message.role:
                case "user":
                    _user(draft, model, message)
                case "assistant":
                    for item in self._assistant(draft.state, message):
                        _put(draft, "assistant", item)
                case "tool":
                    _results(draft, model, message)
                case "system":
                    _update(draft, model, message)

    def markers(self, draft: Draft, request: Request) -> tuple[bytes, int]:
        return b"", 0

    def input_start(self, draft: Draft) -> int:
        """Offset of the first input item in the body."""
        start: int = draft.state.head
        return start

    def replayed(self, draft: Draft, model: Model, parts: Sequence[Part]) -> bytes:
        """The input items, without brackets, that an assistant message of these parts adds to the draft."""
        scratch = Draft(b"", b"")
        scratch.state = _State(stored=draft.state.stored, head=0)
        self.extend(scratch, model, [Message(role="assistant", content=tuple(parts))])
        return b"".join(scratch.chunks())

    def _options(self, request: Request) -> dict[str, Any]:
        given = options(request, self.namespace)
        include = given.get("include")
        reasoning = compact(
            {
                "effort": effort(given.get("reasoningEffort")),
                "summary": _one_of(SUMMARIES, given.get("reasoningSummary")),
            }
        )
        verbosity = _one_of(VERBOSITIES, given.get("textVerbosity"))
        return compact(
            {
                "instructions": nonempty(given.get("instructions")),
                "store": given.get("store") if isinstance(given.get("store"), bool) else None,
                "service_tier": _one_of(SERVICE_TIERS, given.get("serviceTier")),
                "prompt_cache_key": nonempty(given.get("promptCacheKey")),
                "include": ([name for name in include if name in INCLUDES] or None)
                if isinstance(include, list | tuple)
                else None,
                "reasoning": reasoning or None,
                "text": compact({"verbosity": verbosity, "format": _format(request)}) or None,
            }
        )

    def _stored(self, request: Request) -> bool:
        """Whether the provider stores the response, which is its default."""
        overlay = (request.http and request.http.body) or {}
        return overlay.get("store", options(request, self.namespace).get("store")) is not False

    def _assistant(self, state: _State, message: Message) -> list[dict[str, Any]]:
        """In the order of the parts; consecutive texts are joined."""
        items: list[dict[str, Any]] = []
        thoughts: dict[str, dict[str, Any]] = {}
        hosted: dict[str, ToolCallPart] = {}
        for part in message.content:
            native = metadata_of(part, self.namespace)
            match part:
                case TextPart():
                    _say(items, part.text, _one_of(PHASES, native.get("phase")))
                case ReasoningPart() if isinstance(native.get("itemId"), str):
                    if state.stored:
                        state.refer(items, native["itemId"])
                    else:
                        _think(items, thoughts, part, native)
                case ToolCallPart() if part.provider_executed:
                    hosted[part.id] = part
                case ToolCallPart():
                    items.append(_call(part, native if state.stored else {}))
                case ToolResultPart() if state.stored and isinstance(native.get("itemId"), str):
                    state.refer(items, native["itemId"])
                case ToolResultPart():
                    _say(items, hosted_note(part, hosted.get(part.id)), None)
                case _:
                    pass  # the provider refuses reasoning that it cannot verify
        return [item for item in items if item.get("type") != "reasoning" or item["encrypted_content"]]

    def decoder(self, model: Model, request: Request, limits: AnswerLimits = DEFAULT_LIMITS) -> ResponsesDecoder:
        from holdfast.llm.protocols.responses_stream import ResponsesDecoder

        return ResponsesDecoder(self.namespace, stored=self._stored(request), limits=limits)


class _State:
    def __init__(self, *, stored: bool, head: int) -> None:
        self.stored = stored
        self.head = head
        self.order = CallOrder()
        self._referred: set[str] = set()

    def refer(self, items: list[dict[str, Any]], id: str) -> None:
        if id not in self._referred:
            self._referred.add(id)
            items.append({"type": "item_reference", "id": id})


def _format(request: Request) -> dict[str, Any] | None:
    if (asked := json_format(request)) is None:
        return None
    return compact({"type": "json_schema", "name": asked.name, "schema": asked.schema, "strict": asked.strict})


def _controls(model: Model, request: Request) -> dict[str, Any]:
    controls = request.generation
    if controls is None:
        return {}
    sampling = {"temperature": controls.temperature, "top_p": controls.top_p}
    return compact({"max_output_tokens": controls.max_tokens, **(sampling if model.capabilities.sampling else {})})


def _tool(model: Model, tool: ToolDefinition) -> dict[str, Any]:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": openai_schema(model_schema(model, tool)),
        "strict": False,
    }


def _choice(choice: ToolChoice) -> Any:
    return choice.type if choice.type != "tool" else {"type": "function", "name": choice.name}


def _put(draft: Draft, role: str, item: dict[str, Any]) -> None:
    draft.begin(role, to_json(item)[:-1], b"}")


def _role_item(draft: Draft, role: str, text: str) -> None:
    _put(draft, role, {"role": role, "content": text})


def _user(draft: Draft, model: Model, message: Message) -> None:
    draft.begin("user", b'{"role":"user","content":[', b"]}")
    for part in message.content:
        if isinstance(part, TextPart):
            draft.add(to_json(_input_text(part.text)))
        elif isinstance(part, MediaPart):
            draft.add(to_json(_media(part, model)))


def _update(draft: Draft, model: Model, message: Message) -> None:
    if (role := model.capabilities.chronological_system) is not None:
        _role_item(draft, role, "\n".join(part.text for part in message.content if isinstance(part, TextPart)))
        return
    if draft.role != "user":
        draft.begin("user", b'{"role":"user","content":[', b"]}")
    draft.add(to_json(_input_text(wrapped_update(message))))


def _results(draft: Draft, model: Model, message: Message) -> None:
    for part in message.content:
        if isinstance(part, ToolResultPart):
            output = _output(part.result, model)
            _put(draft, "tool", {"type": "function_call_output", "call_id": part.id, "output": output})


def _output(result: ToolResult, model: Model) -> str | list[dict[str, Any]]:
    if result.type != "content":
        return result_text(result)
    items = [
        _input_text(item.text) if isinstance(item, TextContent) else _media(item, model)
        for item in result_items(result)
        if not (isinstance(item, TextContent) and not item.text)
    ]
    return items or ""


def _input_text(text: str) -> dict[str, Any]:
    return {"type": "input_text", "text": text}


def _media(part: MediaPart | FileContent, model: Model) -> dict[str, Any]:
    media = readable(part)
    if isinstance(media, str):
        return _input_text(media)
    if media.mime == PDF and not model.capabilities.documents:
        return _input_text(no_documents(media))
    if media.mime == PDF:
        return {"type": "input_file", "filename": media.filename or "document.pdf", "file_data": media.url}
    if media.is_text:
        return _input_text(media.text)
    if not media.is_image:
        return _input_text(cannot_hold("OpenAI Responses", media))
    if not model.capabilities.images:
        return _input_text(NO_IMAGE)
    return {"type": "input_image", "image_url": media.url}


def _say(items: list[dict[str, Any]], text: str, phase: str | None) -> None:
    """Consecutive texts of one phase form one item."""
    last = items[-1] if items else {}
    if last.get("role") != "assistant" or last.get("phase") != phase:
        last = compact({"role": "assistant", "phase": phase, "content": []})
        items.append(last)
    last["content"].append({"type": "output_text", "text": text})


def _think(
    items: list[dict[str, Any]], thoughts: dict[str, dict[str, Any]], part: ReasoningPart, native: dict[str, Any]
) -> None:
    """The parts of one reasoning item form that item again; the last encrypted content counts."""
    item = thoughts.get(native["itemId"])
    if item is None:
        item = {"type": "reasoning", "summary": [], "encrypted_content": None}
        thoughts[native["itemId"]] = item
        items.append(item)
    if part.text:
        item["summary"].append({"type": "summary_text", "text": part.text})
    encrypted = native.get("reasoningEncryptedContent") or part.encrypted
    if isinstance(encrypted, str):
        item["encrypted_content"] = encrypted


def _call(part: ToolCallPart, native: dict[str, Any]) -> dict[str, Any]:
    given = part.input if isinstance(part.input, dict) else {}
    return compact(
        {
            "type": "function_call",
            "id": nonempty(native.get("itemId")),
            "call_id": part.id,
            "name": part.name,
            "arguments": to_json(given).decode(),
        }
    )


def _one_of(known: tuple[str, ...], value: Any) -> str | None:
    return value if isinstance(value, str) and value in known else None
