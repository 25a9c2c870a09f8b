"""Decodes Anthropic Messages streams: content blocks by index, each with a start, deltas and a stop."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.llm import event as ev
from holdfast.llm.errors import invalid_output
from holdfast.llm.lifecycle import OpenCall, StreamDecoder, truncated
from holdfast.llm.limits import DEFAULT_LIMITS, AnswerLimits
from holdfast.llm.protocols.anthropic_messages import SERVER_TOOL
from holdfast.llm.protocols.base import compact, read_frame
from holdfast.llm.request import ToolResult
from holdfast.schema.codec import encode as to_json

FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool-calls",
    "refusal": "content-filter",
}
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


class MessagesDecoder(StreamDecoder):
    def __init__(self, limits: AnswerLimits = DEFAULT_LIMITS) -> None:
        super().__init__(limits)
        self._blocks: dict[int, OpenCall | _Thinking | str | None] = {}
        self._citations: dict[str, list[Any]] = {}
        self._hosted: dict[str, OpenCall] = {}
        self._raw_usage: dict[str, Any] = {}

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
        """`tool_use` is a local call; the provider executes every other kind."""
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
                self._emit.end_arguments(call)
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
    """The text, empty if absent. Raises TypeError."""
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} where text belongs")
    return value or ""
