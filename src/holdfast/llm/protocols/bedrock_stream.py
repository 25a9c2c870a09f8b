"""Decodes Converse streams: content blocks by index; only tool blocks have a start; usage follows the stop."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Literal

import msgspec

from holdfast.llm import event as ev
from holdfast.llm.errors import invalid_output
from holdfast.llm.lifecycle import OpenCall, StreamDecoder, truncated
from holdfast.llm.limits import DEFAULT_LIMITS, AnswerLimits
from holdfast.llm.protocols.base import compact, latest_usage, read_frame
from holdfast.llm.request import ToolResult

FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool-calls",
    "content_filtered": "content-filter",
    "guardrail_intervened": "content-filter",
}


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
    """The result of a tool that the provider executes."""

    def __init__(self, call: OpenCall, status: str | None) -> None:
        self.call = call
        self.failed = status == "error"
        self.pieces: list[dict[str, Any]] = []


class ConverseDecoder(StreamDecoder):
    def __init__(self, limits: AnswerLimits = DEFAULT_LIMITS) -> None:
        super().__init__(limits)
        self._usage: ev.Usage | None = None
        self._blocks: dict[int, OpenCall | _Text | _Thinking | _Result] = {}
        self._called: set[str] = set()
        self._hosted: dict[str, OpenCall] = {}
        self._reason: str | None = None
        self._counted = False

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
            if self._reason is not None and self._counted:
                return self.finish()  # nothing follows stop and usage, even if the connection stays open
        return self._emit.take()

    def finish(self) -> list[ev.Event]:
        """Usage follows the stop; without usage, the turn finishes at the end of the stream. Usage without a stop
        counts as a stop."""
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
        """Only tool blocks have a start; text and reasoning begin with their first delta."""
        if begun.tool_use is not None:
            self._close_before(index)
            given = begun.tool_use
            if given.tool_use_id in self._called:
                raise invalid_output(f"Bedrock began the tool call {given.tool_use_id} twice")
            self._called.add(given.tool_use_id)
            hosted = given.type == "server_tool_use"
            begun_call = self._blocks[index] = self._emit.open_call(given.tool_use_id, given.name, hosted=hosted)
            if hosted:
                self._hosted[given.tool_use_id] = begun_call
        elif begun.tool_result is not None:
            self._close_before(index)
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
            self._close_before(index)
            block = self._blocks[index] = _Text(self._emit.unused_id(f"text-{index}"))
            self._emit.open_text(block.id)
        return block

    def _reasoning(self, index: int, given: _Reasoning) -> None:
        if not (given.text or given.signature or given.redacted_content):
            return
        block = self._blocks.get(index)
        if not isinstance(block, _Thinking):
            self._close_before(index)
            block = self._blocks[index] = _Thinking(self._emit.unused_id(f"reasoning-{index}"))
            self._emit.open_reasoning(block.id)
        self._emit.reasoning(block.id, given.text or "")
        block.signature += [given.signature] if given.signature else []
        block.redacted += [given.redacted_content] if given.redacted_content else []

    def _close_before(self, index: int) -> None:
        """Before a block begins, close the block at its index and all texts."""
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
                self._emit.end_arguments(call)
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
        if raw is not None:
            self._usage = latest_usage(self._usage, _usage(raw))

    def _fail(self, frame: _Frame) -> None:
        """The payload of an exception is JSON, that of an error is plain text."""
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
    """`inputTokens` excludes cached tokens, unless the total shows that it includes them."""
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
    """Joins pieces of base64 that are padded separately."""
    if len(pieces) < 2:
        return pieces[0] if pieces else None
    try:
        return base64.b64encode(b"".join(base64.b64decode(piece, validate=True) for piece in pieces)).decode()
    except binascii.Error as error:
        raise invalid_output(f"Bedrock sent redacted content that is not base64 ({error})") from error
