"""Decodes Responses streams: items, their parts and deltas; each event has a type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.llm import event as ev
from holdfast.llm.errors import LLMError, invalid_output
from holdfast.llm.lifecycle import OpenCall, StreamDecoder, truncated
from holdfast.llm.limits import DEFAULT_LIMITS, AnswerLimits
from holdfast.llm.protocols import responses_wire as wire
from holdfast.llm.protocols.base import compact, nonempty, repaired
from holdfast.llm.request import ToolResult
from holdfast.schema.codec import encode as to_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.llm.request import ProviderMetadata

INCOMPLETE = {"max_output_tokens": "length", "content_filter": "content-filter"}


class _Message:
    """State of a message item. `block` is its open text block."""

    def __init__(self) -> None:
        self.block: str | None = None
        self.has_text = False
        self.phase: str | None = None
        self.annotations: list[Any] = []


class _Reasoning:
    """State of a reasoning item. Each summary part is a block; `block` is the open one."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.index = 0
        self.block: str | None = None
        self.has_text = False


class ResponsesDecoder(StreamDecoder):
    def __init__(
        self, namespace: str = "openai", *, stored: bool = False, limits: AnswerLimits = DEFAULT_LIMITS
    ) -> None:
        self._namespace = namespace
        self._stored = stored
        super().__init__(limits)
        self._frame = b""
        self._messages: dict[str, _Message] = {}
        self._open_message: _Message | None = None
        self._reasonings: dict[str, _Reasoning] = {}
        self._unannounced: dict[str, str] = {}
        self._calls: dict[str, OpenCall] = {}
        self._arguments: dict[str, str] = {}
        self._done: set[str] = set()
        self._refused = False

    def feed(self, frame: bytes) -> list[ev.Event]:
        if self._emit.ended or frame == b"[DONE]":
            return []
        try:
            try:
                self._dispatch(frame)
            except (UnicodeDecodeError, msgspec.DecodeError) as error:
                if isinstance(error, msgspec.ValidationError):
                    raise
                self._dispatch(repaired(frame).encode())
        except (msgspec.DecodeError, RecursionError) as error:
            raise self._invalid(f"an event that cannot be read ({error})") from error
        return self._emit.take()

    def finish(self) -> list[ev.Event]:
        if not self._emit.ended:
            raise truncated("OpenAI Responses")
        return []

    def _dispatch(self, frame: bytes) -> None:
        self._frame = frame
        known = _EVENTS.get(wire.KIND.decode(frame).type)
        if known is not None:
            decoder, handle = known
            handle(self, decoder.decode(frame))

    # -- text ----------------------------------------------------------------------------------------------------

    def _text(self, event: wire.TextDelta) -> None:
        self._add_text(event.item_id, event.delta)

    def _refusal(self, event: wire.TextDelta) -> None:
        self._refused = True
        self._add_text(event.item_id, event.delta)

    def _refusal_done(self, event: wire.RefusalDone) -> None:
        self._refused = True
        if not self._message(event.item_id).has_text:
            self._add_text(event.item_id, event.refusal)

    def _annotation(self, event: wire.AnnotationAdded) -> None:
        self._message(event.item_id).annotations.append(event.annotation)

    def _message_done(self, item: wire.MessageItem) -> None:
        message = self._message(item.id)
        message.phase = item.phase or message.phase
        if cited := [note for part in item.content or () for note in part.annotations or ()]:
            message.annotations = cited
        if not message.has_text:
            for part in item.content or ():
                self._refused = self._refused or bool(part.refusal)
                self._add_text(item.id, part.text or part.refusal or "")
        if message is self._open_message:
            self._close_text()

    def _add_text(self, item_id: str, text: str) -> None:
        if not text:
            return
        message = self._message(item_id)
        if message.block is None:
            self._close_text()
            message.block = self._emit.unused_id(item_id)
            self._open_message = message
        message.has_text = True
        self._emit.text(message.block, text)

    def _close_text(self) -> None:
        """Close the open text, because its item ended or another block begins."""
        message, self._open_message = self._open_message, None
        if message is not None and message.block is not None:
            known = compact({"phase": message.phase, "annotations": message.annotations or None})
            self._emit.close_text(message.block, self._native(known) if known else None)
            message.block = None

    def _message(self, item_id: str) -> _Message:
        return self._messages.setdefault(item_id, _Message())

    # -- reasoning -----------------------------------------------------------------------------------------------

    def _reasoning_added(self, item: wire.ReasoningItem) -> None:
        if item.id not in self._reasonings and item.id not in self._done:
            self._reasonings[item.id] = reasoning = _Reasoning(item.id)
            self._open_reasoning(reasoning, 0, item.encrypted_content)

    def _summary_added(self, event: wire.SummaryPart) -> None:
        reasoning = self._reasonings.get(event.item_id)
        if reasoning is not None and event.summary_index > reasoning.index:
            self._open_reasoning(reasoning, event.summary_index)

    def _summary(self, event: wire.SummaryDelta) -> None:
        text = event.delta if isinstance(event.delta, str) else event.delta.text
        if (reasoning := self._reasonings.get(event.item_id)) is not None:
            self._add_reasoning(reasoning, event.summary_index, text)
        elif text and event.item_id not in self._done:
            block = self._unannounced.get(event.item_id) or self._emit.unused_id(event.item_id)
            self._unannounced[event.item_id] = block
            self._emit.reasoning(block, text)

    def _summary_done(self, event: wire.SummaryPart) -> None:
        # Without storage the part stays open: the last part carries the encrypted content, which comes at the end.
        if self._stored and (reasoning := self._reasonings.get(event.item_id)) is not None:
            self._close_reasoning(reasoning, None)

    def _reasoning_done(self, item: wire.ReasoningItem) -> None:
        if item.id in self._done:
            return
        self._done.add(item.id)
        if (bare := self._unannounced.pop(item.id, None)) is not None:
            self._emit.close_reasoning(bare, self._reasoning_metadata(item.id, item.encrypted_content))
            return
        reasoning = self._reasonings.pop(item.id, None)
        if reasoning is None:
            reasoning = _Reasoning(item.id)
            self._open_reasoning(reasoning, 0, item.encrypted_content)
        if not reasoning.has_text:
            for index, part in enumerate(item.summary or ()):
                self._add_reasoning(reasoning, index, part.text)
        self._close_reasoning(reasoning, item.encrypted_content)

    def _add_reasoning(self, reasoning: _Reasoning, index: int | None, text: str) -> None:
        if not text:
            return
        index = reasoning.index if index is None else index
        if reasoning.block is None or index != reasoning.index:
            self._open_reasoning(reasoning, index)
        reasoning.has_text = True
        assert reasoning.block is not None
        self._emit.reasoning(reasoning.block, text)

    def _open_reasoning(self, reasoning: _Reasoning, index: int, encrypted: str | None = None) -> None:
        self._close_reasoning(reasoning, None)
        reasoning.index = index
        reasoning.block = self._emit.unused_id(f"{reasoning.id}:{index}")
        self._emit.open_reasoning(reasoning.block, self._reasoning_metadata(reasoning.id, encrypted))

    def _close_reasoning(self, reasoning: _Reasoning, encrypted: str | None) -> None:
        if reasoning.block is not None:
            self._emit.close_reasoning(reasoning.block, self._reasoning_metadata(reasoning.id, encrypted))
            reasoning.block = None

    def _reasoning_metadata(self, id: str, encrypted: str | None) -> ProviderMetadata:
        return self._native({"itemId": id, "reasoningEncryptedContent": encrypted})

    # -- calls ---------------------------------------------------------------------------------------------------

    def _call_added(self, item: wire.CallItem) -> None:
        if item.key not in self._calls and item.key not in self._done:
            self._calls[item.key] = self._open_call(item)

    def _arguments_delta(self, event: wire.ArgumentsDelta) -> None:
        call = self._calls.get(event.item_id)
        if call is not None:
            self._emit.call_delta(call, event.delta)
        elif event.item_id not in self._done:
            raise self._invalid("arguments for a tool call that was not started")

    def _arguments_done(self, event: wire.ArgumentsDone) -> None:
        if event.arguments is not None:
            self._arguments[event.item_id] = event.arguments

    def _call_done(self, item: wire.CallItem) -> None:
        if item.key in self._done:
            return
        call = self._calls.pop(item.key, None) or self._open_call(item)
        self._done.add(item.key)
        arguments = item.arguments
        if isinstance(arguments, dict):
            arguments = to_json(arguments).decode()
        if arguments is None:
            arguments = self._arguments.pop(item.key, None)
        self._close_call(call, arguments, cut=item.status == "incomplete")

    def _open_call(self, item: wire.CallItem) -> OpenCall:
        id = item.call_id or item.id
        if not id or not item.name:
            raise self._invalid("a tool call with a missing id or name")
        self._close_text()
        call = self._emit.open_call(id, item.name)
        call.metadata = self._native({"itemId": item.id}) if item.id else None
        return call

    def _close_call(self, call: OpenCall, arguments: str | None, *, cut: bool) -> None:
        """`arguments` replaces the deltas; a missing rest is emitted as one more delta."""
        heard = "".join(call.pieces)
        if arguments is not None and arguments.startswith(heard):
            self._emit.call_delta(call, arguments[len(heard) :])
        self._emit.close_call(call, arguments=arguments, cut=cut)

    def _hosted(self, kind: str, item: dict[str, Any]) -> None:
        item_id = item.get("id")
        if not isinstance(item_id, str):
            raise self._invalid("a hosted tool call without an id")
        if item_id in self._done:
            return
        self._done.add(item_id)
        self._close_text()
        id, name = self._emit.unused_id(item_id), kind.removesuffix("_call")
        given = wire.HOSTED_TOOLS[kind](item)
        metadata = self._native({"itemId": item_id})
        self._emit.add_call(id, name, given if isinstance(given, dict) else {}, hosted=True, metadata=metadata)
        error = item.get("error")
        result = ToolResult(type="json", value=item) if error is None else ToolResult(type="error", value=error)
        self._emit.hosted_result(id, name, result, metadata)

    # -- items and the end ---------------------------------------------------------------------------------------

    def _item_added(self, event: wire.ItemEvent) -> None:
        match wire.KIND.decode(event.item).type:
            case "function_call":
                self._call_added(wire.CALL_ITEM.decode(event.item))
            case "reasoning":
                self._reasoning_added(wire.REASONING_ITEM.decode(event.item))
            case "message":
                item = wire.MESSAGE_ITEM.decode(event.item)
                self._message(item.id).phase = item.phase

    def _item_done(self, event: wire.ItemEvent) -> None:
        kind = wire.KIND.decode(event.item).type
        match kind:
            case "function_call":
                self._call_done(wire.CALL_ITEM.decode(event.item))
            case "reasoning":
                self._reasoning_done(wire.REASONING_ITEM.decode(event.item))
            case "message":
                self._message_done(wire.MESSAGE_ITEM.decode(event.item))
            case _ if kind in wire.HOSTED_TOOLS:
                self._hosted(kind, wire.OBJECT.decode(event.item))

    def _completed(self, event: wire.ResponseEvent) -> None:
        response = event.response or wire.ResponseRecord()
        self._close_blocks()
        self._close_calls(cut=False)
        self._end("content-filter" if self._refused else "stop", "completed", response)

    def _incomplete(self, event: wire.ResponseEvent) -> None:
        response = event.response or wire.ResponseRecord()
        native = (response.incomplete_details or wire.IncompleteDetails()).reason or "incomplete"
        self._close_blocks()
        self._close_calls(cut=True)
        reason = INCOMPLETE.get(native) or ("tool-calls" if self._emit.called else "unknown")
        self._end(reason, native, response)

    def _close_blocks(self) -> None:
        # An unfinished item has no final encrypted content; that of its start is not valid.
        for reasoning in self._reasonings.values():
            self._close_reasoning(reasoning, None)
        self._emit.close_reasonings()
        self._close_text()

    def _close_calls(self, *, cut: bool) -> None:
        for key, call in self._calls.items():
            self._close_call(call, self._arguments.get(key), cut=cut)
        self._calls.clear()

    def _end(self, reason: str, native: str, response: wire.ResponseRecord) -> None:
        metadata = compact(
            {"finishReason": native, "responseId": response.id, "serviceTier": response.service_tier or None}
        )
        self._emit.finish(reason, self._usage(response), self._native(metadata))

    def _failed(self, event: wire.ResponseEvent) -> None:
        response = event.response or wire.ResponseRecord()
        self._fail(response.error, "OpenAI Responses response failed", usage=self._usage(response))

    def _error(self, event: dict[str, Any]) -> None:
        response = event.get("response")
        nested = response.get("error") if isinstance(response, dict) else None
        status = event.get("status")
        self._fail(
            event.get("error") or nested or event,
            "OpenAI Responses stream error",
            status=status if isinstance(status, int) else None,
        )

    def _fail(self, error: Any, otherwise: str, *, usage: ev.Usage | None = None, status: int | None = None) -> None:
        fields = error if isinstance(error, dict) else {"message": error}
        code, message = nonempty(fields.get("code")), nonempty(fields.get("message"))
        text = ": ".join(word for word in (code, message) if word) or otherwise
        self._close_blocks()
        self._emit.fail(text, body={"error": fields}, code=code, status=status, usage=usage)

    def _usage(self, response: wire.ResponseRecord) -> ev.Usage | None:
        if response.usage is None:
            return None
        usage = msgspec.convert(response.usage, wire.UsageRecord)
        given = usage.input_tokens_details or wire.InputDetails()
        made = usage.output_tokens_details or wire.OutputDetails()
        return ev.usage(
            input=usage.input_tokens,
            cache_read=given.cached_tokens,
            cache_write=given.cache_write_tokens,
            output=usage.output_tokens,
            reasoning=made.reasoning_tokens,
            total=usage.total_tokens,
            namespace=self._namespace,
            raw=response.usage,
        )

    def _native(self, fields: dict[str, Any]) -> ProviderMetadata:
        return {self._namespace: fields}

    def _invalid(self, what: str) -> LLMError:
        return invalid_output(f"OpenAI Responses sent {what}", self._frame)


def _on(kind: Any, handle: Any) -> tuple[msgspec.json.Decoder[Any], Callable[[ResponsesDecoder, Any], None]]:
    return msgspec.json.Decoder(kind), handle


_SUMMARY = _on(wire.SummaryDelta, ResponsesDecoder._summary)
# Each event is decoded with the fields that are needed; other fields may have any shape.
_EVENTS: dict[str, tuple[msgspec.json.Decoder[Any], Callable[[ResponsesDecoder, Any], None]]] = {
    "response.output_text.delta": _on(wire.TextDelta, ResponsesDecoder._text),
    "response.output_text.annotation.added": _on(wire.AnnotationAdded, ResponsesDecoder._annotation),
    "response.refusal.delta": _on(wire.TextDelta, ResponsesDecoder._refusal),
    "response.refusal.done": _on(wire.RefusalDone, ResponsesDecoder._refusal_done),
    "response.reasoning_summary_part.added": _on(wire.SummaryPart, ResponsesDecoder._summary_added),
    "response.reasoning_summary_part.done": _on(wire.SummaryPart, ResponsesDecoder._summary_done),
    "response.reasoning_summary_text.delta": _SUMMARY,
    "response.reasoning_summary.delta": _SUMMARY,
    "response.reasoning_text.delta": _SUMMARY,
    "response.function_call_arguments.delta": _on(wire.ArgumentsDelta, ResponsesDecoder._arguments_delta),
    "response.function_call_arguments.done": _on(wire.ArgumentsDone, ResponsesDecoder._arguments_done),
    "response.output_item.added": _on(wire.ItemEvent, ResponsesDecoder._item_added),
    "response.output_item.done": _on(wire.ItemEvent, ResponsesDecoder._item_done),
    "response.completed": _on(wire.ResponseEvent, ResponsesDecoder._completed),
    "response.incomplete": _on(wire.ResponseEvent, ResponsesDecoder._incomplete),
    "response.failed": _on(wire.ResponseEvent, ResponsesDecoder._failed),
    "error": _on(dict[str, Any], ResponsesDecoder._error),
}
