"""From the model's events to the Session's: durable boundaries are staged and committed in order, deltas are live.

Invariants
- The assistant message starts with the first content or with a failure, and ends with exactly one terminal event.
- What one network read completed, or one slice of a large read, is one commit.
- A delta is announced only after the start of its block has been, and never after its end. While anyone observes from
  the start, the deltas of a block add up to its text: what is left at the end is announced with the end."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.catalog.prices import cache_savings
from holdfast.core.database.unit import Statement
from holdfast.core.observe.log_context import note_turn
from holdfast.core.runner.answer import Answer
from holdfast.core.runner.open_answers import OpenText
from holdfast.core.runner.open_blocks import OpenBlocks
from holdfast.core.runner.partial_texts import PartialTexts
from holdfast.core.work_time import WorkTime, measuring
from holdfast.llm import event as llm
from holdfast.llm.errors import excerpt
from holdfast.schema import session_event as ev
from holdfast.schema.codec import encode
from holdfast.schema.frozen import Frozen
from holdfast.schema.live_event import ErrorInfo, ReasoningDelta, SessionError, TextDelta, ToolInputDelta
from holdfast.schema.session import NO_TOKENS, CacheTokens, Tokens
from holdfast.schema.session_message import UnknownError
from holdfast.schema.turn_event import TurnAnswered

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from holdfast.core.clock import Clock, Ids
    from holdfast.core.event.log import EventLog
    from holdfast.core.runner.open_answers import BlockKind
    from holdfast.core.runner.open_blocks import OpenBlock
    from holdfast.core.runner.outbox import Outbox
    from holdfast.core.session.activity import Used
    from holdfast.core.tool.tool import CallOutput
    from holdfast.llm.request import ProviderMetadata
    from holdfast.schema.ids import MessageID
    from holdfast.schema.location import Location
    from holdfast.schema.model import ModelRef
    from holdfast.schema.record import Record
    from holdfast.schema.session_message import ToolContent

FLUSH_SECONDS = 0.016
TOOL_INTERRUPTED = "Tool execution interrupted"
NO_RESULT = "Provider did not return a tool result"
HERE = ev.Provider(executed=False)
DELTAS: dict[BlockKind, tuple[type[Record], str]] = {
    "text": (TextDelta, "text_id"),
    "reasoning": (ReasoningDelta, "reasoning_id"),
    "input": (ToolInputDelta, "call_id"),
}
"""The live events of each kind of block, and the field that names the block."""


class TurnOf(Frozen):
    """What a turn was sampled with."""

    session_id: str
    location: Location
    agent: str
    model: ModelRef


class TurnPublisher:
    def __init__(
        self,
        log: EventLog,
        outbox: Outbox,
        turn: TurnOf,
        ids: Ids,
        clock: Clock,
        price: Callable[[Tokens], float],
    ) -> None:
        self._log = log
        self._outbox = outbox
        self.of = turn
        self._ids = ids
        self._clock = clock
        self.price = price
        self._blocks = OpenBlocks()
        self._partials = PartialTexts(outbox, self._blocks, turn.session_id)
        self._flush: asyncio.TimerHandle | None = None
        self._names: dict[str, str] = {}
        self._calls: set[str] = set()
        self._begun = WorkTime(clock)
        self._worked = 0
        self.answer = Answer()
        self._adopted = False
        self._answer_recorded = False
        self.snapshot: str | None = None
        """The tree before the step; known, if ever, before the first event is handled."""
        self.message_id: MessageID | None = None
        self.finish: llm.StepFinish | None = None
        self.used = NO_TOKENS
        self.ended = False
        self.unsettled: dict[str, llm.ToolCall] = {}
        self.fresh: list[llm.ToolCall] = []
        """Calls that were staged and not yet handed out for execution."""
        self.called = False
        self.told = False
        """Whether a message for the model follows the answer."""

    def adopt(self, message_id: MessageID, calls: Iterable[llm.ToolCall], used: Used | None) -> None:
        """Go on with a step of an earlier process, whose calls waited for a person or a child. `used` is what its
        answer used, if that was recorded."""
        self.message_id = message_id
        if used is not None:
            self.used, self.price = used.tokens, lambda tokens: used.cost
            self._answer_recorded = True
        self.finish = llm.StepFinish(reason="tool-calls")
        self.called = self._adopted = True
        for call in calls:
            self._calls.add(call.id)
            self._names[call.id] = call.name
            self.unsettled[call.id] = call
            self.fresh.append(call)

    def handle(self, event: llm.Event) -> None:
        if self.ended:
            return
        match event:
            case llm.TextDelta(id, text):
                self._received("text", id, text)
            case llm.ReasoningDelta(id, text):
                self._received("reasoning", id, text)
            case llm.ToolInputDelta(id, name, text):
                self._check_name(id, name)
                self._received("input", id, text)
            case llm.TextStart(id):
                self._blocks.begin("text", id)
                self._stage(ev.TextStarted, text_id=id)
            case llm.TextEnd(id):
                self._end_text(id)
            case llm.ReasoningStart(id, metadata):
                self._blocks.begin("reasoning", id)
                self._stage(ev.ReasoningStarted, reasoning_id=id, provider_metadata=metadata)
            case llm.ReasoningEnd(id, metadata):
                self._end_reasoning(id, metadata)
            case llm.ToolInputStart(id, name):
                if id in self._names:
                    raise ValueError(f"the provider started the input of call {id} twice")
                self._blocks.begin("input", id)
                self._names[id] = name
                self._stage(ev.ToolInputStarted, call_id=id, name=name)
            case llm.ToolInputEnd(id):
                self._end_input(id)
            case llm.ToolCall():
                self._call(event)
            case llm.StepFinish():
                if self.finish is not None:
                    raise ValueError("the provider finished its step twice")
                self.finish, self.used = event, stored_tokens(event.usage)
            case llm.ProviderError(message):
                self.close_fragments()
                self.fail_reported(message)
            case llm.ToolResultEvent():
                self._hosted_result(event)
            case _:
                pass

    def streamed(self) -> None:
        """The stream has ended: so much for the answer."""
        self._worked += self._begun.worked

    @contextmanager
    def working(self) -> Iterator[None]:
        """Count the time of a call."""
        with measuring(self._clock) as time:
            try:
                yield
            finally:
                self._worked += time.worked

    def open_blocks(self) -> list[OpenText]:
        """Blocks that have begun and not ended, with what of them was announced. What came while nobody observed is
        announced soon, also if the provider sends nothing more for a while."""
        self._schedule_flush()
        message_id = self.message_id or ""
        return [OpenText(block.kind, message_id, block.id, block.text.taken()) for block in self._blocks]

    def close_fragments(self) -> None:
        """However the stream ended, what was received so far is kept."""
        for block in list(self._blocks):
            match block.kind:
                case "text":
                    self._end_text(block.id)
                case "reasoning":
                    self._end_reasoning(block.id, None)
                case "input":
                    self._end_input(block.id)

    def succeed(self, call_id: str, output: CallOutput) -> None:
        if self.unsettled.pop(call_id, None) is not None:
            self._stage(
                ev.ToolSuccess,
                call_id=call_id,
                structured=output.structured,
                content=output.content,
                output_paths=output.output_paths or None,
                provider=HERE,
            )

    def progress(self, call_id: str, structured: dict[str, Any], content: tuple[ToolContent, ...]) -> None:
        """A durable checkpoint of a running call; a later failure keeps it."""
        if call_id in self.unsettled:
            self._stage(ev.ToolProgress, call_id=call_id, structured=structured, content=content)
            self._outbox.submit()

    def fail_call(self, call_id: str, message: str) -> None:
        call = self.unsettled.pop(call_id, None)
        if call is not None:
            provider = ev.Provider(executed=call.provider_executed)
            self._stage(ev.ToolFailed, call_id=call_id, error=UnknownError(message=message), provider=provider)

    def fail_open_calls(self, *, interrupted: bool, keep: Collection[str] = ()) -> None:
        """Whatever has no settlement at the end of a turn. A hosted call may just not have been answered."""
        for call in [call for call in self.unsettled.values() if call.id not in keep]:
            unanswered = call.provider_executed and not interrupted
            self.fail_call(call.id, NO_RESULT if unanswered else TOOL_INTERRUPTED)

    @property
    def tools(self) -> set[str]:
        """Of which the model has made calls."""
        return set(self._names.values())

    def fail_open_inputs(self) -> None:
        """Inputs that never became a call."""
        for id in self._names.keys() - self._calls:
            self._calls.add(id)
            self._stage(ev.ToolFailed, call_id=id, error=UnknownError(message=TOOL_INTERRUPTED), provider=HERE)

    def fail(self, message: str) -> None:
        """The step's one terminal event, if it has none yet."""
        if not self.ended:
            self._stage(ev.StepFailed, error=UnknownError(message=message))
            self.ended = True

    def answered(self) -> TurnAnswered | None:
        """What to record when the answer is complete and its calls take long, once."""
        if self.finish is None or self._answer_recorded:
            return None
        self._answer_recorded = True
        now, session_id = self._clock.now(), self.of.session_id
        return TurnAnswered(timestamp=now, session_id=session_id, cost=self.price(self.used), tokens=self.used)

    def fail_answer(self, message: str, code: str | None) -> None:
        """The answer is complete and not usable. What it used is recorded."""
        if not self.ended and self.finish is not None:
            tokens = stored_tokens(self.finish.usage)
            error = UnknownError(message=message, code=code)
            self._stage(ev.StepFailed, error=error, cost=self.price(tokens), tokens=tokens)
            self.ended = True

    def tell(self, text: str) -> None:
        """Add a message for the model after the answer."""
        now, session_id = self._clock.now(), self.of.session_id
        self._outbox.stage(
            ev.Synthetic(timestamp=now, session_id=session_id, message_id=self._ids.message(), text=text)
        )
        self.told = True

    def fail_reported(self, message: str) -> None:
        """The provider itself reported the failure. No exception follows that would announce it, so this does."""
        if not self.ended:
            self.fail(message)
            info = ErrorInfo(name="UnknownError", data={"message": message})
            self._outbox.stage(SessionError(session_id=self.of.session_id, error=info))

    def end(self, *, unchanged: bool = False, structured: Any = msgspec.UNSET, rejected: str | None = None) -> None:
        """`unchanged` says that no tool of this step can have changed a file: then the tree after it is known.
        `structured` is the answer in the form that the prompt asked for; `rejected` is why it does not have it."""
        if not self.ended and self.finish is not None:
            used, cost = self.used, self.price(self.used)
            tree = {"snapshot": self.snapshot, "files": ()} if unchanged and self.snapshot is not None else {}
            finish = self.finish.reason if structured is msgspec.UNSET else "stop"
            answer = {"structured": structured, "rejected": rejected, "saved": self._savings()}
            worked = Statement("work.add", {"session_id": self.of.session_id, "time": self._worked})
            self._stage(ev.StepEnded, worked, finish=finish, cost=cost, tokens=used, **tree, **answer)
            self.ended = True

    def suspend_activity(self) -> None:
        """The next process goes on with what is owed."""
        self._outbox.stage(ev.ActivitySuspended(timestamp=self._clock.now(), session_id=self.of.session_id))

    def end_activity(self, reason: str) -> None:
        """Nothing more is owed, although tools were called."""
        self._outbox.stage(ev.ActivityEnded(timestamp=self._clock.now(), session_id=self.of.session_id, reason=reason))

    def _savings(self) -> float | None:
        """Of an adopted step only the cost is known, and not the prices."""
        return cache_savings(self.price, self.used) if not self._adopted else None

    # -- details -------------------------------------------------------------------------------------------------

    def _stage(self, kind: type[Record], *local: Statement, **fields: object) -> None:
        message_id = self._start()
        self._put(
            kind(
                timestamp=self._clock.now(),
                session_id=self.of.session_id,
                assistant_message_id=message_id,
                **fields,
            ),
            *local,
        )

    def _put(self, event: Record, *local: Statement) -> None:
        if not self._adopted:
            self.answer.apply(event)
        self._outbox.stage(event, *local)

    def _start(self) -> MessageID:
        if self.message_id is None:
            self.message_id = self._ids.message()
            self._partials.begin(self.message_id)
            note_turn(self.message_id)
            started = ev.StepStarted(
                timestamp=self._clock.now(),
                session_id=self.of.session_id,
                assistant_message_id=self.message_id,
                agent=self.of.agent,
                model=self.of.model,
                snapshot=self.snapshot,
            )
            self._put(started)
        return self.message_id

    def _received(self, kind: BlockKind, id: str, text: str) -> None:
        """Runs for each delta: what is due already is not called again."""
        self._blocks.add(kind, id, text)
        if self._flush is None and self._log.bus.observed:
            self._schedule_flush()
        if self._partials.due is None:
            self._partials.keep_soon()

    def _end_text(self, id: str) -> None:
        text, removal = self._end_block("text", id)
        self._stage(ev.TextEnded, *removal, text_id=id, text=text)

    def _end_reasoning(self, id: str, metadata: ProviderMetadata | None) -> None:
        text, removal = self._end_block("reasoning", id)
        self._stage(ev.ReasoningEnded, *removal, reasoning_id=id, text=text, provider_metadata=metadata)

    def _end_input(self, id: str) -> None:
        text, removal = self._end_block("input", id)
        self._stage(ev.ToolInputEnded, *removal, call_id=id, text=text)

    def _end_block(self, kind: BlockKind, id: str) -> tuple[str, Sequence[Statement]]:
        """The whole text of a block that ends, and what removes its partial text. What was not announced of it travels
        with its end, since even its start may still be on its way."""
        block = self._blocks.end(kind, id)
        if self._log.bus.observed and (delta := block.text.take_new()):
            self._outbox.stage(self._delta(block, delta))
        return block.text.whole(), self._partials.removal(block)

    def _check_name(self, id: str, name: str) -> None:
        if self._names.get(id, name) != name:
            raise ValueError(f"the provider changed the name of call {id}")

    def _call(self, call: llm.ToolCall) -> None:
        if call.id in self._calls:
            raise ValueError(f"the provider made call {call.id} twice")
        self._check_name(call.id, call.name)
        self._calls.add(call.id)
        if call.id not in self._names:  # it came whole
            self._names[call.id] = call.name
            self._stage(ev.ToolInputStarted, call_id=call.id, name=call.name)
            self._stage(ev.ToolInputEnded, call_id=call.id, text="")
        self.called = self.called or not call.provider_executed
        self.unsettled[call.id] = call
        if call.invalid is not None and not call.provider_executed:
            self.fail_call(call.id, f"Invalid tool input: {call.invalid}")
            return
        provider = ev.Provider(executed=call.provider_executed, metadata=call.metadata)
        self._stage(ev.ToolCalled, call_id=call.id, tool=call.name, input=call.input, provider=provider)
        if not call.provider_executed:
            self.fresh.append(call)

    def _hosted_result(self, event: llm.ToolResultEvent) -> None:
        """Kept exactly as the provider gave it: some want it back that way."""
        if self.unsettled.pop(event.id, None) is None:
            if event.result.type == "error" and event.id in self._calls:
                return  # it was settled already, and an error adds nothing
            raise ValueError(f"the provider gave a result for call {event.id}, which waits for none")
        provider = ev.Provider(executed=True, metadata=event.metadata)
        raw = msgspec.Raw(encode(event.result))
        if event.result.type == "error":
            error = UnknownError(message=excerpt(encode(event.result.value).decode()))
            self._stage(ev.ToolFailed, call_id=event.id, error=error, result=raw, provider=provider)
            return
        value = event.result.value
        structured = value if isinstance(value, dict) else {"value": value}
        self._stage(ev.ToolSuccess, call_id=event.id, structured=structured, content=(), result=raw, provider=provider)

    def _schedule_flush(self) -> None:
        if self._flush is None and self._log.bus.observed:
            self._flush = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self._flush_due)

    def _flush_due(self) -> None:
        self._flush = None
        if self._outbox.idle:
            self._announce_deltas()
        else:
            self._schedule_flush()  # the block's start is still on its way

    def _announce_deltas(self) -> None:
        if not self._log.bus.observed:
            return
        for block in self._blocks:
            if delta := block.text.take_new():
                self._log.announce(self._delta(block, delta), location=self.of.location)

    def _delta(self, block: OpenBlock, delta: str) -> Record:
        kind, field = DELTAS[block.kind]
        return kind(
            timestamp=self._clock.now(),
            session_id=self.of.session_id,
            assistant_message_id=self.message_id or "",
            delta=delta,
            **{field: block.id},
        )

    def close(self) -> None:
        self._partials.close()
        if self._flush is not None:
            self._flush.cancel()
            self._flush = None


def stored_tokens(usage: llm.Usage | None) -> Tokens:
    """Stored tokens do not overlap: input without cache, output without reasoning."""
    if usage is None:
        usage = llm.Usage()
    read, write, reasoning = (max(0, value or 0) for value in (usage.cache_read, usage.cache_write, usage.reasoning))
    return Tokens(
        input=max(0, (usage.input or 0) - read - write),
        output=max(0, (usage.output or 0) - reasoning),
        reasoning=reasoning,
        cache=CacheTokens(read=read, write=write),
    )
