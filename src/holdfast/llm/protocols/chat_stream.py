"""Decodes Chat streams of OpenAI and compatible vendors: one choice with text, reasoning and calls by index."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.llm import event as ev
from holdfast.llm.errors import invalid_output
from holdfast.llm.lifecycle import OpenCall, StreamDecoder, truncated
from holdfast.llm.limits import DEFAULT_LIMITS, AnswerLimits
from holdfast.llm.protocols.base import compact, latest_usage, read_frame
from holdfast.llm.protocols.openai_chat import join_details
from holdfast.schema.codec import encode as to_json

FINISH = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool-calls",
    "function_call": "tool-calls",
    "content_filter": "content-filter",
}


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


class ChatDecoder(StreamDecoder):
    def __init__(self, namespace: str, limits: AnswerLimits = DEFAULT_LIMITS) -> None:
        self._namespace = namespace
        super().__init__(limits)
        self._usage: ev.Usage | None = None
        self._text = self._reasoning = ""
        self._details: list[Any] = []
        self._calls: dict[int, OpenCall] = {}
        self._ids: dict[int, str] = {}
        """The vendor's id of the call at an index."""
        self._newest: OpenCall | None = None
        self._made = 0
        self._reason: str | None = None
        self._native: Any = None
        self._refused = False

    def feed(self, frame: bytes) -> list[ev.Event]:
        if self._emit.ended:
            return []
        if frame == b"[DONE]":
            return self.finish()  # the vendor may keep the connection open
        chunk = read_frame(_CHUNK, "Chat", frame)
        if chunk.error is not None:
            self._fail(chunk.error)
            return self._emit.take()
        if chunk.usage is not None or chunk.x_groq is not None:
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
            self._reasoning = self._reasoning or emit.unused_id("reasoning-0")
            emit.reasoning(self._reasoning, thought)
        if text := delta.content or delta.refusal:
            self._refused = self._refused or not delta.content
            if self._reasoning or self._details:
                self._close_reasoning()
            self._text = self._text or emit.unused_id("text-0")
            emit.text(self._text, text)
        if delta.tool_calls:
            for position, call in enumerate(delta.tool_calls):
                self._call_delta(call, position)

    def _call_delta(self, given: _Call, position: int) -> None:
        index = given.index if given.index is not None else position
        function = given.function or _Function()
        call = self._calls.get(index)
        # Some vendors give every call index 0: another id with a name is another call.
        if call is not None and function.name and given.id and self._ids[index] not in ("", given.id):
            self._emit.close_call(call)
            call = None
        if call is None:
            if not function.name:
                raise invalid_output("Chat began a tool call with a missing id or name")
            self._close_blocks()
            if self._newest is not None:
                self._emit.close_if_complete(self._newest)
            self._made += 1
            call = self._emit.open_call(given.id or f"call_{self._made}", function.name)
            self._calls[index] = self._newest = call
            self._ids[index] = given.id or ""
        arguments = function.arguments
        if arguments is not None and not isinstance(arguments, str):
            arguments = to_json(arguments).decode()
        if self._emit.is_open(call):
            self._emit.call_delta(call, arguments or "")
        elif arguments and arguments.strip():
            raise invalid_output(f"Chat went on with the arguments of {call.name}, which were complete", arguments)

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
            details = {self._namespace: {"reasoningDetails": join_details(self._details)}} if self._details else None
            block = self._reasoning or self._emit.unused_id("reasoning-0")
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
        self._usage = latest_usage(self._usage, _usage(raw, self._namespace))

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
