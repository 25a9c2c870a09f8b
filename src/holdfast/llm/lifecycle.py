"""Emits canonical events in the required order: every block opens and closes once. Counts their content against the
limits of an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from holdfast.llm import event as ev
from holdfast.llm.errors import BODY_LIMIT, LLMError, classify, excerpt, invalid_output, retry_info
from holdfast.llm.limits import DEFAULT_LIMITS, AnswerLimits, AnswerTooLarge, byte_length, cut
from holdfast.schema.codec import encode
from holdfast.schema.nesting import LEVELS, is_nested_deeper

if TYPE_CHECKING:
    from holdfast.llm.request import ProviderMetadata, ToolResult

CODE_LIMIT = 100
NAME_LIMIT = 100
_OBJECT = msgspec.json.Decoder(dict[str, Any])


class OpenCall:
    """A call whose arguments are still arriving."""

    def __init__(self, id: str, name: str, *, hosted: bool = False) -> None:
        self.id = id
        self.name = name
        self.hosted = hosted
        self.pieces: list[str] = []
        self.size = 0
        """Bytes of arguments so far."""
        self.metadata: ProviderMetadata | None = None


class Emitter:
    """Raises AnswerTooLarge, with the events that were not taken yet, when the answer exceeds a limit."""

    def __init__(self, limits: AnswerLimits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._room = limits.turn_bytes
        """Bytes that the answer may still grow by."""
        self._out: list[ev.Event] = []
        self._started = False
        self._texts: dict[str, int] = {}
        self._reasonings: dict[str, int] = {}
        """Open blocks, with how many bytes each may still grow by."""
        self._calls: dict[str, OpenCall] = {}
        self._undecided: list[OpenCall] = []
        self._awaited: set[str] = set()
        """Hosted calls without a result."""
        self._used: set[str] = set()
        self._variants: dict[str, int] = {}
        self.called = False
        """A local call was made."""
        self.ended = False

    def take(self) -> list[ev.Event]:
        out, self._out = self._out, []
        return out

    # -- blocks --------------------------------------------------------------------------------------------------

    def unused_id(self, id: str) -> str:
        """`id`, or a variant of it if an earlier block has this id."""
        if id not in self._used:
            return id
        # Continues at the last variant: starting at the first each time would be quadratic.
        count = self._variants.get(id, 1)
        while f"{id}~{count}" in self._used:
            count += 1
        self._variants[id] = count
        return f"{id}~{count}"

    def open_text(self, id: str, metadata: ProviderMetadata | None = None) -> None:
        if id not in self._texts:
            self._begin(id, metadata)
            self._texts[id] = self._limits.part_bytes
            self._out.append(ev.TextStart(id, metadata))

    def text(self, id: str, text: str) -> None:
        if text:
            size = len(text) if text.isascii() else byte_length(text)
            left = self._texts.get(id, 0) - size
            room = self._room - size
            if left < 0 or room < 0:
                self.open_text(id)
                left, room = self._check_room("a text", ev.TextDelta, id, text, size, self._texts[id])
            self._texts[id] = left
            self._room = room
            self._out.append(ev.TextDelta(id, text))

    def close_text(self, id: str, metadata: ProviderMetadata | None = None) -> None:
        if id in self._texts:
            del self._texts[id]
            self._count(metadata)
            self._out.append(ev.TextEnd(id, metadata))

    def open_reasoning(self, id: str, metadata: ProviderMetadata | None = None) -> None:
        if id not in self._reasonings:
            self._begin(id, metadata)
            self._reasonings[id] = self._limits.part_bytes
            self._out.append(ev.ReasoningStart(id, metadata))

    def reasoning(self, id: str, text: str) -> None:
        if text:
            size = len(text) if text.isascii() else byte_length(text)
            left = self._reasonings.get(id, 0) - size
            room = self._room - size
            if left < 0 or room < 0:
                self.open_reasoning(id)
                left, room = self._check_room(
                    "a reasoning part", ev.ReasoningDelta, id, text, size, self._reasonings[id]
                )
            self._reasonings[id] = left
            self._room = room
            self._out.append(ev.ReasoningDelta(id, text))

    def close_reasoning(self, id: str, metadata: ProviderMetadata | None = None) -> None:
        if id in self._reasonings:
            del self._reasonings[id]
            self._count(metadata)
            self._out.append(ev.ReasoningEnd(id, metadata))

    def close_reasonings(self) -> None:
        for id in list(self._reasonings):
            self.close_reasoning(id)

    def close_all(self) -> None:
        self.close_reasonings()
        for id in list(self._texts):
            self.close_text(id)

    # -- calls ---------------------------------------------------------------------------------------------------

    def open_call(self, id: str, name: str, *, hosted: bool = False) -> OpenCall:
        """Begin a call under its id, or under a variant if another call of the turn has this id."""
        call = OpenCall(self.unused_id(id), name, hosted=hosted)
        self._begin(call.id, name)
        self._calls[call.id] = call
        self._out.append(ev.ToolInputStart(call.id, name))
        return call

    def call_delta(self, call: OpenCall, text: str) -> None:
        if text:
            size = byte_length(text)
            call.size += size
            if call.size > self._limits.argument_bytes or size > self._room:
                room = size - call.size + self._limits.argument_bytes
                if kept := cut(text, min(room, self._room)):
                    self._out.append(ev.ToolInputDelta(call.id, call.name, kept))
                self._too_large(_arguments_of(call), "argument_bytes", size)
            self._room -= size
            call.pieces.append(text)
            self._out.append(ev.ToolInputDelta(call.id, call.name, text))

    def end_arguments(self, call: OpenCall) -> None:
        """The provider ended the arguments, which also happens when the output limit cuts them. If they are not a JSON
        object, the call stays undecided until the next block or the finish reason shows whether they were cut."""
        if _is_object("".join(call.pieces)):
            self.close_call(call)
        else:
            self._undecided.append(call)

    def close_if_complete(self, call: OpenCall) -> None:
        """Another call begins. If the arguments so far are a JSON object, the call is emitted; otherwise it stays open,
        because some vendors interleave the arguments of several calls."""
        if call.id in self._calls and _is_object("".join(call.pieces)):
            self.close_call(call)

    def is_open(self, call: OpenCall) -> bool:
        return call.id in self._calls

    def close_call(self, call: OpenCall, *, arguments: str | None = None, cut: bool = False) -> None:
        """Emit a call with its complete arguments. `arguments` replaces the deltas. With `cut`, the output limit ended
        them: arguments that are not a JSON object are dropped."""
        if call.id not in self._calls:
            return
        raw = "".join(call.pieces) if arguments is None else arguments
        if arguments is not None and byte_length(arguments) > self._limits.argument_bytes:
            self._too_large(_arguments_of(call), "argument_bytes", 0)
        self._count(call.metadata)
        self.drop_call(call)
        if cut and not raw.strip():
            return  # cut before the first argument; not a call without arguments
        try:
            given = _OBJECT.decode(raw) if raw.strip() else {}
            invalid = None
        except (msgspec.DecodeError, RecursionError) as error:
            if cut:
                return
            given, invalid = {}, f"the arguments are not a JSON object ({error})"
        if is_nested_deeper(given):
            given, invalid = {}, f"the arguments are nested more than {LEVELS} levels deep"
        if call.hosted:
            self._awaited.add(call.id)
        else:
            self.called = True
        self._out.append(
            ev.ToolCall(
                call.id,
                call.name,
                given,
                invalid=invalid,
                raw=raw if invalid else None,
                provider_executed=call.hosted,
                metadata=call.metadata,
            )
        )

    def close_calls(self, *, cut: bool) -> None:
        """Close all open calls in the order in which they began."""
        self._undecided.clear()
        for call in list(self._calls.values()):
            self.close_call(call, cut=cut)

    def drop_call(self, call: OpenCall) -> None:
        """End the input of a call without emitting the call."""
        if self._calls.pop(call.id, None) is not None:
            self._out.append(ev.ToolInputEnd(call.id, call.name))

    def add_call(
        self, id: str, name: str, given: Any, *, hosted: bool = False, metadata: ProviderMetadata | None = None
    ) -> None:
        """Emit all events of a call that arrived in one piece."""
        call = self.open_call(id, name, hosted=hosted)
        call.metadata = metadata
        self.call_delta(call, given if isinstance(given, str) else encode(given).decode())
        self.close_call(call)

    def hosted_result(self, id: str, name: str, result: ToolResult, metadata: ProviderMetadata | None = None) -> None:
        """Emit the result of a hosted call. A result without such a call is ignored."""
        self._close_undecided()
        if id in self._awaited:
            self._awaited.discard(id)
            self._count((result, metadata))
            self._out.append(ev.ToolResultEvent(id, name, result, metadata=metadata))

    # -- the end -------------------------------------------------------------------------------------------------

    def finish(self, reason: str, usage: ev.Usage | None, metadata: ProviderMetadata | None = None) -> None:
        """End the turn. Later calls change nothing, since some providers repeat their last chunk."""
        if self.ended:
            return
        self._start()
        self.close_all()
        self._drop_calls()
        if reason == "stop" and self.called:
            reason = "tool-calls"
        self._count((usage, metadata))
        self.ended = True
        self._out.append(ev.StepFinish(reason, usage, metadata=metadata))
        self._out.append(ev.Finish(reason, usage, metadata))

    def fail(
        self,
        message: str,
        *,
        body: Any = None,
        code: str | None = None,
        status: int | None = None,
        usage: ev.Usage | None = None,
        retryable: bool | None = None,
    ) -> None:
        """End the turn with an error that the provider reported. `status` is an HTTP status that it names."""
        if self.ended:
            return
        self.close_all()
        self._drop_calls()
        self.ended = True
        message = message[:BODY_LIMIT]
        verdict = classify(status, body, message, code)
        self._out.append(
            ev.ProviderError(
                excerpt(message),
                reason=verdict.reason,
                classification=verdict.classification,
                retryable=verdict.retryable if retryable is None else retryable,
                retry_after_ms=retry_info(body),
                code=excerpt(code, limit=CODE_LIMIT) if code else None,
                usage=usage,
            )
        )

    def _begin(self, id: str, beside: object) -> None:
        if id in self._used:
            raise invalid_output(f"block {id} was opened twice")
        if len(self._used) >= self._limits.blocks:
            raise AnswerTooLarge("the number of texts and calls", self._limits.blocks, "blocks", self.take())
        self._count((id, beside))
        self._used.add(id)
        self._start()
        self._close_undecided()

    def _count(self, value: object) -> None:
        """Count other stored values: ids, names, metadata, results of hosted calls."""
        if value is None:
            return
        size = len(encode(value))
        if size > self._room:
            self._too_large("the answer", "turn_bytes", size)
        self._room -= size

    def _check_room(
        self, what: str, delta: type[ev.TextDelta | ev.ReasoningDelta], id: str, text: str, size: int, left: int
    ) -> tuple[int, int]:
        """Bytes left in the block and in the answer after this text. If it does not fit, its beginning is kept."""
        if size <= left and size <= self._room:
            return left - size, self._room - size
        if kept := cut(text, min(left, self._room)):
            self._out.append(delta(id, kept))
        self._too_large(what, "part_bytes", size)

    def _too_large(self, what: str, setting: str, size: int) -> NoReturn:
        if size > self._room:
            raise AnswerTooLarge("the answer", self._limits.turn_bytes, "turn_bytes", self.take())
        raise AnswerTooLarge(what, getattr(self._limits, setting), setting, self.take())

    def _close_undecided(self) -> None:
        """Another block began, so these calls were not cut by the output limit."""
        if self._undecided:
            calls, self._undecided = self._undecided, []
            for call in calls:
                self.close_call(call)

    def _drop_calls(self) -> None:
        """End calls whose arguments are incomplete."""
        for call in list(self._calls.values()):
            self.drop_call(call)

    def _start(self) -> None:
        if not self._started:
            self._started = True
            self._out.append(ev.StepStart())


class StreamDecoder:
    """Base of the decoders: events go through an Emitter, which knows the order and the limits."""

    def __init__(self, limits: AnswerLimits) -> None:
        self._emit = Emitter(limits)

    @property
    def done(self) -> bool:
        return self._emit.ended


def _arguments_of(call: OpenCall) -> str:
    return f"the arguments of a call of {excerpt(call.name, limit=NAME_LIMIT)}"


def _is_object(text: str) -> bool:
    try:
        _OBJECT.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def truncated(what: str, usage: ev.Usage | None = None) -> LLMError:
    return LLMError(
        "Transport", f"the {what} stream was truncated: it ended without a finish", kind="truncated", usage=usage
    )
