"""Responses as they stream: items, their parts and their deltas, each event named by its type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.llm import event as ev
from holdfast.llm.errors import LLMError, invalid_output
from holdfast.llm.lifecycle import OpenCall, truncated
from holdfast.llm.limits import DEFAULT_LIMITS, AnswerLimits
from holdfast.llm.protocols import responses_wire as wire
from holdfast.llm.protocols.base import StreamDecoder, compact, nonempty, repaired
from holdfast.llm.request import ToolResult
from holdfast.schema.codec import encode as to_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.llm.request import ProviderMetadata

INCOMPLETE = {"max_output_tokens": "length", "content_filter": "content-filter"}


class _Message:
    """What is known of a message item. `block` is the text block that is open for it."""

    def __init__(self) -> None:
        self.block: str | None = None
        self.spoke = False
        self.phase: str | None = None
        self.annotations: list[Any] = []


class _Thought:
    """A reasoning item. Each of its summary parts is a block; `block` is the one that is open."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.index = 0
        self.block: str | None = None
        self.spoke = False


class ResponsesDecoder(StreamDecoder):
    def __init__(
        self, namespace: str = "openai", *, stored: bool = False, limits: AnswerLimits = DEFAULT_LIMITS
    ) -> None:
        self._namespace = namespace
        self._stored = stored
        super().__init__(limits)
        self._frame = b""
        self._messages: dict[str, _Message] = {}
        self._speaking: _Message | None = None
        self._thoughts: dict[str, _Thought] = {}
        self._bare: dict[str, str] = {}
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
            raise self._broken(f"an event that cannot be read ({error})") from error
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
        self._say(event.item_id, event.delta)

    def _refusal(self, event: wire.TextDelta) -> None:
        self._refused = True
        self._say(event.item_id, event.delta)

    def _refusal_done(self, event: wire.RefusalDone) -> None:
        self._refused = True
        if not self._message(event.item_id).spoke:
            self._say(event.item_id, event.refusal)

    def _annotation(self, event: wire.AnnotationAdded) -> None:
        self._message(event.item_id).annotations.append(event.annotation)

    def _message_done(self, item: wire.MessageItem) -> None:
        message = self._message(item.id)
        message.phase = item.phase or message.phase
        if cited := [note for part in item.content or () for note in part.annotations or ()]:
            message.annotations = cited
        if not message.spoke:
            for part in item.content or ():
                self._refused = self._refused or bool(part.refusal)
                self._say(item.id, part.text or part.refusal or "")
        if message is self._speaking:
            self._hush()

    def _say(self, item_id: str, text: str) -> None:
        if not text:
            return
        message = self._message(item_id)
        if message.block is None:
            self._hush()
            message.block = self._emit.fresh(item_id)
            self._speaking = message
        message.spoke = True
        self._emit.text(message.block, text)

    def _hush(self) -> None:
        """Close the open text: its item ended, or something else begins."""
        message, self._speaking = self._speaking, None
        if message is not None and message.block is not None:
            known = compact({"phase": message.phase, "annotations": message.annotations or None})
            self._emit.close_text(message.block, self._native(known) if known else None)
            message.block = None

    def _message(self, item_id: str) -> _Message:
        return self._messages.setdefault(item_id, _Message())

    # -- reasoning -----------------------------------------------------------------------------------------------

    def _reasoning_added(self, item: wire.ReasoningItem) -> None:
        if item.id not in self._thoughts and item.id not in self._done:
            self._thoughts[item.id] = thought = _Thought(item.id)
            self._open_thought(thought, 0, item.encrypted_content)

    def _summary_added(self, event: wire.SummaryPart) -> None:
        thought = self._thoughts.get(event.item_id)
        if thought is not None and event.summary_index > thought.index:
            self._open_thought(thought, event.summary_index)

    def _summary(self, event: wire.SummaryDelta) -> None:
        text = event.delta if isinstance(event.delta, str) else event.delta.text
        if (thought := self._thoughts.get(event.item_id)) is not None:
            self._think(thought, event.summary_index, text)
        elif text and event.item_id not in self._done:
            block = self._bare.get(event.item_id) or self._emit.fresh(event.item_id)
            self._bare[event.item_id] = block
            self._emit.reasoning(block, text)

    def _summary_done(self, event: wire.SummaryPart) -> None:
        # Unstored, the part stays open: the last one has to carry what only the end of the item tells.
        if self._stored and (thought := self._thoughts.get(event.item_id)) is not None:
            self._close_thought(thought, None)

    def _reasoning_done(self, item: wire.ReasoningItem) -> None:
        if item.id in self._done:
            return
        self._done.add(item.id)
        if (bare := self._bare.pop(item.id, None)) is not None:
            self._emit.close_reasoning(bare, self._thought_metadata(item.id, item.encrypted_content))
            return
        thought = self._thoughts.pop(item.id, None)
        if thought is None:
            thought = _Thought(item.id)
            self._open_thought(thought, 0, item.encrypted_content)
        if not thought.spoke:
            for index, part in enumerate(item.summary or ()):
                self._think(thought, index, part.text)
        self._close_thought(thought, item.encrypted_content)

    def _think(self, thought: _Thought, index: int | None, text: str) -> None:
        if not text:
            return
        index = thought.index if index is None else index
        if thought.block is None or index != thought.index:
            self._open_thought(thought, index)
        thought.spoke = True
        assert thought.block is not None
        self._emit.reasoning(thought.block, text)

    def _open_thought(self, thought: _Thought, index: int, encrypted: str | None = None) -> None:
        self._close_thought(thought, None)
        thought.index = index
        thought.block = self._emit.fresh(f"{thought.id}:{index}")
        self._emit.open_reasoning(thought.block, self._thought_metadata(thought.id, encrypted))

    def _close_thought(self, thought: _Thought, encrypted: str | None) -> None:
        if thought.block is not None:
            self._emit.close_reasoning(thought.block, self._thought_metadata(thought.id, encrypted))
            thought.block = None

    def _thought_metadata(self, id: str, encrypted: str | None) -> ProviderMetadata:
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
            raise self._broken("arguments for a tool call that was not started")

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
            raise self._broken("a tool call with a missing id or name")
        self._hush()
        call = self._emit.open_call(id, item.name)
        call.metadata = self._native({"itemId": item.id}) if item.id else None
        return call

    def _close_call(self, call: OpenCall, arguments: str | None, *, cut: bool) -> None:
        """What the end says of the arguments counts; what the deltas left out of it is made up for."""
        heard = "".join(call.pieces)
        if arguments is not None and arguments.startswith(heard):
            self._emit.call_delta(call, arguments[len(heard) :])
        self._emit.close_call(call, arguments=arguments, cut=cut)

    def _hosted(self, kind: str, item: dict[str, Any]) -> None:
        item_id = item.get("id")
        if not isinstance(item_id, str):
            raise self._broken("a hosted tool call without an id")
        if item_id in self._done:
            return
        self._done.add(item_id)
        self._hush()
        id, name = self._emit.fresh(item_id), kind.removesuffix("_call")
        given = wire.HOSTED_TOOLS[kind](item)
        metadata = self._native({"itemId": item_id})
        self._emit.whole_call(id, name, given if isinstance(given, dict) else {}, hosted=True, metadata=metadata)
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
        # An item that never ended has no final encrypted content: what came with its beginning is not it.
        for thought in self._thoughts.values():
            self._close_thought(thought, None)
        self._emit.close_reasonings()
        self._hush()

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

    def _broken(self, what: str) -> LLMError:
        return invalid_output(f"OpenAI Responses sent {what}", self._frame)


def _on(kind: Any, handle: Any) -> tuple[msgspec.json.Decoder[Any], Callable[[ResponsesDecoder, Any], None]]:
    return msgspec.json.Decoder(kind), handle


_SUMMARY = _on(wire.SummaryDelta, ResponsesDecoder._summary)
# Each with the fields it needs and no others: the rest of a frame may be of any shape.
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
