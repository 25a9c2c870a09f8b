"""OpenAI Chat Completions: `POST {base}/chat/completions`, server-sent chunks.

`messages` is the last key of the body, so that a longer conversation only adds bytes before the closing ones."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.llm import event as ev
from holdfast.llm.errors import LLMError, excerpt
from holdfast.llm.request import (
    MediaPart,
    Message,
    ReasoningPart,
    Request,
    TextPart,
    ToolCallPart,
    ToolDefinition,
    ToolResult,
    ToolResultPart,
)
from holdfast.schema.codec import encode as to_json

FINISH = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool-calls",
    "function_call": "tool-calls",
    "content_filter": "content-filter",
}


class OpenAIChat:
    id = "openai-chat"
    path = "/chat/completions"

    def encode(self, request: Request) -> bytes:
        body: dict[str, Any] = {"model": request.model, "stream": True, "stream_options": {"include_usage": True}}
        if (controls := request.generation) is not None:
            named = {
                "max_tokens": controls.max_tokens,
                "temperature": controls.temperature,
                "top_p": controls.top_p,
                "seed": controls.seed,
                "stop": controls.stop,
            }
            body |= {key: value for key, value in named.items() if value is not None}
        if request.tools:
            body["tools"] = [_tool(tool) for tool in request.tools]
        if request.tool_choice is not None:
            body["tool_choice"] = request.tool_choice
        body["messages"] = _messages(request)
        return to_json(body)

    def decoder(self) -> ChatDecoder:
        return ChatDecoder()


def _messages(request: Request) -> list[dict[str, Any]]:
    lowered: list[dict[str, Any]] = []
    if system := [part for part in request.system if part]:
        lowered.append({"role": "system", "content": "\n".join(system)})
    for message in request.messages:
        match message.role:
            case "user":
                lowered.append({"role": "user", "content": _user(message)})
            case "assistant":
                lowered.append(_assistant(message))
            case "tool":
                lowered += [
                    {"role": "tool", "tool_call_id": part.id, "content": result_text(part.result)}
                    for part in message.content
                    if isinstance(part, ToolResultPart)
                ]
            case "system":
                _append_update(lowered, message)
    return lowered


def _user(message: Message) -> str | list[dict[str, Any]]:
    if all(isinstance(part, TextPart) for part in message.content):
        return "".join(part.text for part in message.content if isinstance(part, TextPart))
    items: list[dict[str, Any]] = []
    for part in message.content:
        match part:
            case TextPart() if part.text:
                items.append({"type": "text", "text": part.text})
            case MediaPart():
                items.append({"type": "image_url", "image_url": {"url": part.data}})
            case _:
                pass
    return items


def _assistant(message: Message) -> dict[str, Any]:
    texts = [part.text for part in message.content if isinstance(part, TextPart | ReasoningPart) and part.text]
    lowered: dict[str, Any] = {"role": "assistant", "content": "\n".join(texts) if texts else None}
    calls = [
        {
            "id": part.id,
            "type": "function",
            "function": {"name": part.name, "arguments": to_json(part.input).decode()},
        }
        for part in message.content
        if isinstance(part, ToolCallPart)
    ]
    if calls:
        lowered["tool_calls"] = calls
    return lowered


def _append_update(lowered: list[dict[str, Any]], message: Message) -> None:
    """A Mid-Conversation System Message: wrapped, escaped user text at its place in the conversation."""
    text = "\n".join(part.text for part in message.content if isinstance(part, TextPart))
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    wrapped = f"<system-update>\n{escaped}\n</system-update>"
    if not lowered or lowered[-1]["role"] != "user":
        lowered.append({"role": "user", "content": wrapped})
    elif isinstance(lowered[-1]["content"], str):
        lowered[-1]["content"] += "\n" + wrapped
    else:
        lowered[-1]["content"].append({"type": "text", "text": wrapped})


def result_text(result: ToolResult) -> str:
    value = result.value
    if isinstance(value, str):
        return value
    if result.type == "content":
        return "\n".join(
            item.text if item.__struct_config__.tag == "text" else f"[{item.mime}: {item.name or item.uri[:60]}]"
            for item in value
        )
    return to_json(value).decode()


def _tool(tool: ToolDefinition) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
    return {"type": "function", "function": function}


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
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct):
    delta: _Delta | None = None
    finish_reason: str | None = None


class _PromptDetails(msgspec.Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _CompletionDetails(msgspec.Struct):
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _CompletionDetails | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None


class _OpenCall:
    def __init__(self, id: str, name: str) -> None:
        self.id = id
        self.name = name
        self.pieces: list[str] = []


class _Blocks:
    """Blocks of one kind, one open at a time; a block that opens again is another block."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._count = 0
        self._is_open = False

    @property
    def id(self) -> str:
        return f"{self._kind}-{self._count - 1}"

    def open(self) -> bool:
        if self._is_open:
            return False
        self._is_open = True
        self._count += 1
        return True

    def close(self) -> bool:
        was_open, self._is_open = self._is_open, False
        return was_open


_CHUNK = msgspec.json.Decoder(_Chunk)
_OBJECT = msgspec.json.Decoder(dict[str, Any])


class ChatDecoder:
    def __init__(self) -> None:
        self._started = False
        self._texts = _Blocks("text")
        self._reasonings = _Blocks("reasoning")
        self._calls: dict[int, _OpenCall] = {}
        self._called = False
        self._reason: str | None = None
        self._usage: ev.Usage | None = None
        self._failed = False

    def feed(self, frame: bytes) -> list[ev.Event]:
        if self._failed or frame == b"[DONE]":
            return []
        try:
            chunk = _CHUNK.decode(frame)
        except msgspec.DecodeError as error:
            shown = excerpt(frame.decode("utf-8", "replace"))
            raise LLMError(
                "InvalidProviderOutput", f"the provider sent a frame that makes no sense: {shown}"
            ) from error
        out: list[ev.Event] = []
        if chunk.error is not None:
            return self._fail(chunk.error)
        if chunk.usage is not None:
            self._note_usage(chunk.usage)
        if chunk.choices:
            choice = chunk.choices[0]
            if choice.delta is not None and self._reason is None:
                self._delta(choice.delta, out)
            if choice.finish_reason and self._reason is None:
                self._close_blocks(out)
                self._finish_calls(out, cut=choice.finish_reason == "length")
                self._reason = FINISH.get(choice.finish_reason, "unknown")
        return out

    def finish(self) -> list[ev.Event]:
        if self._failed:
            return []
        if self._reason is None:
            raise LLMError("Transport", "the provider's stream was truncated: it ended without a finish reason")
        reason = "tool-calls" if self._reason == "stop" and self._called else self._reason
        out: list[ev.Event] = []
        self._start(out)
        return [*out, ev.StepFinish(reason, self._usage), ev.Finish(reason, self._usage)]

    def _delta(self, delta: _Delta, out: list[ev.Event]) -> None:
        if thought := delta.reasoning_content or delta.reasoning:
            self._start(out)
            if self._reasonings.open():
                out.append(ev.ReasoningStart(self._reasonings.id))
            out.append(ev.ReasoningDelta(self._reasonings.id, thought))
        if text := delta.content or delta.refusal:
            self._start(out)
            self._close_reasoning(out)
            if self._texts.open():
                out.append(ev.TextStart(self._texts.id))
            out.append(ev.TextDelta(self._texts.id, text))
        for position, call in enumerate(delta.tool_calls or ()):
            self._call_delta(call, position, out)

    def _call_delta(self, call: _Call, position: int, out: list[ev.Event]) -> None:
        index = call.index if call.index is not None else position
        function = call.function or _Function()
        known = self._calls.get(index)
        if known is None:
            if not function.name:
                raise LLMError("InvalidProviderOutput", "the provider began a tool call with a missing id or name")
            self._start(out)
            self._close_blocks(out)
            known = self._calls[index] = _OpenCall(call.id or f"call_{index}", function.name)
            out.append(ev.ToolInputStart(known.id, known.name))
        arguments = function.arguments
        piece = arguments if isinstance(arguments, str) else to_json(arguments).decode() if arguments else ""
        if piece:
            known.pieces.append(piece)
            out.append(ev.ToolInputDelta(known.id, known.name, piece))

    def _finish_calls(self, out: list[ev.Event], *, cut: bool) -> None:
        for _, call in sorted(self._calls.items()):
            out.append(ev.ToolInputEnd(call.id, call.name))
            raw = "".join(call.pieces).strip()
            try:
                out.append(ev.ToolCall(call.id, call.name, _OBJECT.decode(raw) if raw else {}))
            except msgspec.DecodeError as error:
                why = "the arguments were cut off" if cut else f"the arguments are no JSON object: {error}"
                out.append(ev.ToolCall(call.id, call.name, {}, invalid=why))
            self._called = True
        self._calls.clear()

    def _start(self, out: list[ev.Event]) -> None:
        if not self._started:
            self._started = True
            out.append(ev.StepStart())

    def _close_reasoning(self, out: list[ev.Event]) -> None:
        if self._reasonings.close():
            out.append(ev.ReasoningEnd(self._reasonings.id))

    def _close_blocks(self, out: list[ev.Event]) -> None:
        self._close_reasoning(out)
        if self._texts.close():
            out.append(ev.TextEnd(self._texts.id))

    def _note_usage(self, usage: _Usage) -> None:
        prompt, completion = usage.prompt_tokens_details, usage.completion_tokens_details
        seen = ev.Usage(
            input=usage.prompt_tokens,
            output=usage.completion_tokens,
            cache_read=prompt.cached_tokens if prompt else None,
            cache_write=prompt.cache_write_tokens if prompt else None,
            reasoning=completion.reasoning_tokens if completion else None,
        )
        if self._usage is None or seen.input or seen.output:
            self._usage = seen

    def _fail(self, error: Any) -> list[ev.Event]:
        self._failed = True
        message = error.get("message") if isinstance(error, dict) else None
        return [ev.ProviderError(excerpt(str(message or error)), self._usage)]
