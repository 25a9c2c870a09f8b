"""Folds the events of a Session into spans of work and of waiting. Pure: no clock, no reads.

What the log cannot say
- When a process died is not recorded. The gap before the events that close what it left begins with the last event of
  the work: the process ended at some time in it. Where nothing was open there is no trace, and no gap.
- The end of an answer with tool calls is that of its last call, unless its usage was recorded earlier: the step ends
  only when its calls have.
- An interruption and the end of a process that a new prompt follows leave the same events, and count as an
  interruption."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.core.inspect.fact import UNREADABLE, one_line, subject_of
from holdfast.core.runner.interrupted_work import COMPACTION_BROKE_OFF, SHELL_BROKE_OFF
from holdfast.core.session.answer_outcome import TURN_INTERRUPTED
from holdfast.schema.frozen import Frozen
from holdfast.schema.timeline import Moment, Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from holdfast.core.inspect.fact import Fact, StoredFact
    from holdfast.schema.timeline import Lane

INBOX_MILLISECONDS = 200
"""An input that waited for less than this was taken up at once."""
OUTSIDE = frozenset(
    {
        *("prompt.admitted", "input.withdrawn", "agent.switched", "model.switched", "permission.replied"),
        *("question.replied", "question.rejected", "form.replied", "form.cancelled"),
    }
)
"""What clients record, whether or not a process works on the Session."""

Call = tuple[str | None, str | None]
"""The ids of a message and of a call in it: providers may repeat the latter in another message."""


class Waiting(Frozen):
    """A tool call that has not settled: since when it works, and how many requests to people it waits for."""

    span: Span
    asked: int = 0


class Folding:
    """Takes facts in their order. `spans` and `moments` are complete when the last one was taken; `close` adds what is
    still open. Facts with a sequence of `until` or later begin nothing."""

    def __init__(self, turns: Mapping[int, int], until: int | None = None) -> None:
        self._turns = turns
        self._until = until
        self._turn: int | None = None
        self.spans: list[Span] = []
        self.moments: list[Moment] = []
        self._provider: Span | None = None
        self._called: int | None = None
        """When the newest call of the open turn was complete."""
        self._retry: Span | None = None
        self._calls: dict[Call, Waiting] = {}
        self._people: dict[str, tuple[Span | None, Call]] = {}
        """Requests to people and the calls that wait for them. One that is asked after the page has no span."""
        self._inputs: dict[str, Span] = {}
        self._compactions: dict[str, Span] = {}
        self._shells: dict[str, Span] = {}
        self._gone: Span | None = None
        self._left = False
        """Whether a process ended, and nothing was sent since."""
        self._times = (0, 0)
        """When the work recorded something last, and when before that."""
        self._interrupted: int | None = None
        """The place of the moment of an interruption that may turn out to be the end of a process."""
        self._handlers: Mapping[str, Callable[[StoredFact], None]] = {
            "turn.dispatched": self._dispatched,
            "turn.answered": self._answered,
            "turn.abandoned": self._abandoned,
            "step.started": self._step_started,
            "step.ended": self._step_ended,
            "step.failed": self._step_failed,
            "retried": self._retried,
            "tool.called": self._tool_called,
            "tool.success": self._tool_settled,
            "tool.failed": self._tool_settled,
            "permission.asked": self._asked,
            "question.asked": self._asked,
            "form.asked": self._asked,
            "permission.replied": self._replied,
            "question.replied": self._replied,
            "question.rejected": self._replied,
            "form.replied": self._replied,
            "form.cancelled": self._replied,
            "prompt.admitted": self._admitted,
            "prompted": self._promoted,
            "synthetic": self._promoted,
            "input.withdrawn": self._withdrawn,
            "compaction.started": self._compaction_started,
            "compaction.ended": self._compaction_ended,
            "compaction.failed": self._compaction_ended,
            "shell.started": self._shell_started,
            "shell.ended": self._shell_ended,
            "activity.suspended": self._suspended,
            "activity.ended": self._ended,
            "context.updated": self._context_updated,
            "revert.committed": self._reverted,
            "agent.switched": self._switched,
            "model.switched": self._switched,
        }

    @property
    def open(self) -> bool:
        """Whether the end of something that began is not known yet."""
        waiting = (self._provider, self._retry, self._gone, *(span for span, _ in self._people.values()))
        return any(waiting) or any((self._calls, self._inputs, self._compactions, self._shells))

    def take(self, item: StoredFact) -> None:
        if item.type == UNREADABLE:
            return
        if item.type not in OUTSIDE:
            self._work_goes_on(item)
        if item.type not in ("activity.suspended", "step.failed"):
            self._interrupted = None
        self._handlers[item.type](item)

    def close(self) -> tuple[list[Span], list[Moment]]:
        """Everything, in the order of its start; what is open has no end."""
        left = [self._provider, self._retry, self._gone]
        left += [waiting.span for waiting in self._calls.values() if not waiting.asked]
        left += [span for span, _ in self._people.values()]
        left += [*self._inputs.values(), *self._compactions.values(), *self._shells.values()]
        spans = self.spans + [replace(span, why=f"{span.why}.") for span in left if span is not None]
        return sorted(spans, key=lambda span: (span.start, span.seq)), self.moments

    # -- the model -----------------------------------------------------------------------------------------------

    def _dispatched(self, item: StoredFact) -> None:
        fact = item.fact
        self._end_provider(fact.timestamp, "nothing is recorded of its end", failed=True)
        if not fact.attempt:
            return
        self._turn = self._turns.get(item.seq, self._turn)
        name = f"{fact.model.provider_id}/{fact.model.id}" if fact.model is not None else "model"
        self._provider = self._begun("provider", item, name, "The request was sent")
        if self._left:
            self._recovered(item)
        if fact.broke:
            self._moment("prefix", item, f"The request began with other bytes: {', '.join(fact.broke)}")

    def _step_started(self, item: StoredFact) -> None:
        self._end_retry(item.fact.timestamp)
        if self._provider is not None:
            self._provider = replace(self._provider, first=max(item.fact.timestamp, self._provider.start))

    def _answered(self, item: StoredFact) -> None:
        self._end_provider(item.fact.timestamp, "the answer was complete, and its calls went on")

    def _step_ended(self, item: StoredFact) -> None:
        finish = item.fact.finish or "unknown"
        self._end_provider(self._called or item.fact.timestamp, f"the answer ended with {finish}")

    def _step_failed(self, item: StoredFact) -> None:
        fact = item.fact
        message = fact.error.message if fact.error is not None else "unknown"
        self._end_provider(self._called or fact.timestamp, one_line(f"the step failed: {message}"), failed=True)
        if message == TURN_INTERRUPTED:
            place = len(self.moments)
            self._moment("interrupted", item, "The turn was interrupted")
            self._interrupted = place if len(self.moments) > place else None

    def _abandoned(self, item: StoredFact) -> None:
        reason = item.fact.reason or "unknown"
        if reason == TURN_INTERRUPTED:
            self._crashed(item)
        end = self._end_of(self._provider, item.fact.timestamp) if self._provider is not None else item.fact.timestamp
        self._end_provider(end, one_line(f"the request was abandoned: {reason}"), failed=True)

    def _retried(self, item: StoredFact) -> None:
        error = item.fact.error
        self._end_retry(item.fact.timestamp)
        message = error.message if error is not None else "unknown"
        span = self._begun("retry", item, "wait", one_line(f"The provider failed: {message}"), failed=True)
        until = str((error.metadata or {}).get("next", "")) if error is not None else ""
        if span is not None:
            self._retry = replace(span, end=max(span.start, int(until[:15]))) if until.isdecimal() else span

    # -- tools, people -------------------------------------------------------------------------------------------

    def _tool_called(self, item: StoredFact) -> None:
        fact = item.fact
        self._called = fact.timestamp
        name = subject_of(fact.tool or "tool", fact.input)
        span = self._begun("tool", item, name, "The model called it", call_id=fact.call_id)
        if span is not None:
            self._calls[_call(fact)] = Waiting(span)

    def _tool_settled(self, item: StoredFact) -> None:
        waiting = self._calls.pop(_call(item.fact), None)
        if waiting is None or waiting.asked:
            return
        failed = item.type == "tool.failed"
        message = item.fact.error.message if item.fact.error is not None else "unknown"
        how = one_line(f"it failed: {message}") if failed else "it returned"
        self._ended_span(waiting.span, item.fact.timestamp, how, failed=failed)

    def _asked(self, item: StoredFact) -> None:
        request = item.fact.request
        if request is None:
            return
        kind = item.type.partition(".")[0]
        call = (request.caller.message_id, request.caller.call_id)
        span = self._begun("person", item, request.what, f"A {kind} waited for a person", call_id=call[1])
        self._people[request.id] = span, call
        if (waiting := self._calls.get(call)) is not None:
            if not waiting.asked and item.fact.timestamp - waiting.span.start >= INBOX_MILLISECONDS:
                self._ended_span(waiting.span, item.fact.timestamp, "it asked a person")
            self._calls[call] = waiting.replace(asked=waiting.asked + 1)

    def _replied(self, item: StoredFact) -> None:
        found = self._people.pop(item.fact.request_id or "", None)
        if found is None:
            return
        span, call = found
        if span is not None:
            self._ended_span(span, item.fact.timestamp, _reply(item))
        if (waiting := self._calls.get(call)) is not None:
            resumed = replace(waiting.span, start=max(waiting.span.start, item.fact.timestamp))
            self._calls[call] = Waiting(resumed, waiting.asked - 1)

    # -- inputs, compaction, shell -------------------------------------------------------------------------------

    def _admitted(self, item: StoredFact) -> None:
        name = item.fact.delivery or "input"
        span = self._begun("inbox", item, name, "An input waited to be taken up")
        if span is not None and item.fact.message_id is not None:
            self._inputs[item.fact.message_id] = replace(span, turn=None)

    def _promoted(self, item: StoredFact) -> None:
        span = self._inputs.pop(item.fact.message_id or "", None)
        if span is not None and item.fact.timestamp - span.start > INBOX_MILLISECONDS:
            self._ended_span(span, item.fact.timestamp, "it was promoted")
        if item.type == "prompted":
            self._moment("prompt", item, "A prompt became part of the conversation")

    def _withdrawn(self, item: StoredFact) -> None:
        if (span := self._inputs.pop(item.fact.message_id or "", None)) is not None:
            self._ended_span(span, item.fact.timestamp, "it was withdrawn")

    def _compaction_started(self, item: StoredFact) -> None:
        why = "It was asked for" if item.fact.reason == "manual" else "The request was too long"
        span = self._begun("compaction", item, "summary", why)
        if span is not None and item.fact.message_id is not None:
            self._compactions[item.fact.message_id] = span

    def _compaction_ended(self, item: StoredFact) -> None:
        span = self._compactions.pop(item.fact.message_id or "", None)
        error = item.fact.error
        if error is not None and error.message == COMPACTION_BROKE_OFF:
            self._crashed(item)
        if span is not None:
            how = "the summary took the place of older messages" if error is None else f"it failed: {error.message}"
            end = self._end_of(span, item.fact.timestamp)
            self._ended_span(span, end, one_line(how), failed=error is not None)

    def _shell_started(self, item: StoredFact) -> None:
        command = one_line(item.fact.command or "command")
        span = self._begun("shell", item, command, "A person ran it", call_id=item.fact.call_id)
        if span is not None and item.fact.call_id is not None:
            self._shells[item.fact.call_id] = span

    def _shell_ended(self, item: StoredFact) -> None:
        span = self._shells.pop(item.fact.call_id or "", None)
        if item.fact.output == SHELL_BROKE_OFF:
            self._crashed(item)
        if span is not None:
            how = "it was interrupted" if item.fact.exit is None else f"it exited with {item.fact.exit}"
            end = self._end_of(span, item.fact.timestamp)
            self._ended_span(span, end, how, failed=item.fact.exit != 0)

    # -- processes -----------------------------------------------------------------------------------------------

    def _work_goes_on(self, item: StoredFact) -> None:
        now = item.fact.timestamp
        if now > self._times[0]:
            self._times = (now, self._times[0])
        if self._gone is not None and item.type != "activity.suspended":
            self._ended_span(self._gone, now, "a process went on")
            self._gone = None
            self._recovered(item)

    def _recovered(self, item: StoredFact) -> None:
        self._left = False
        self._moment("recovered", item, "A process went on with the work")

    def _crashed(self, item: StoredFact) -> None:
        """The work recorded nothing between the two last times, and a process ended there. What was open ended there
        too; its end was recorded by the process that found it."""
        now, last = self._times
        if not last or last >= now:
            return
        began = [span.seq for span in self.spans if span.lane == "owner" and span.end == now]
        if not began:
            span = self._begun("owner", item, "no process", "A process ended at some time in it")
            if span is not None:
                self._ended_span(replace(span, start=last), now, "another one found what was left")
                crash = Moment(kind="crash", time=last, seq=item.seq, what="A process ended after this, and left work")
                self.moments.append(crash)
                self._left = True
        self.spans = [
            replace(span, end=max(span.start, last)) if span.lane != "owner" and span.end == now else span
            for span in self.spans
        ]

    def _end_of(self, span: Span, recorded: int) -> int:
        """When it ended, if it is one of those that ended with their process."""
        ended = [gap.start for gap in self.spans if gap.lane == "owner" and gap.end == recorded]
        return max(span.start, ended[0]) if ended else recorded

    def _suspended(self, item: StoredFact) -> None:
        if self._interrupted is not None:  # what a dead process left is closed, and goes on at once
            del self.moments[self._interrupted]
            self._interrupted = None
            self._crashed(item)
            return
        why = "The process was shut down"
        self._gone = self._begun("owner", item, "no process", why)
        self._moment("suspended", item, why)

    def _ended(self, item: StoredFact) -> None:
        if self._gone is not None:
            self._ended_span(self._gone, item.fact.timestamp, "the work was given up")
            self._gone = None

    # -- moments -------------------------------------------------------------------------------------------------

    def _context_updated(self, item: StoredFact) -> None:
        self._moment("context", item, "The model was told about changed context")

    def _reverted(self, item: StoredFact) -> None:
        self._moment("revert", item, "Messages left the conversation")

    def _switched(self, item: StoredFact) -> None:
        if item.type == "agent.switched":
            self._moment("agent", item, f"The agent is {item.fact.agent}")
        elif item.fact.model is not None:
            self._moment("model", item, f"The model is {item.fact.model.provider_id}/{item.fact.model.id}")

    # -- details -------------------------------------------------------------------------------------------------

    def _begun(
        self, lane: Lane, item: StoredFact, name: str, why: str, *, call_id: str | None = None, failed: bool = False
    ) -> Span | None:
        if self._until is not None and item.seq >= self._until:
            return None
        start, turn = item.fact.timestamp, self._turn
        return Span(lane=lane, start=start, seq=item.seq, turn=turn, name=name, why=why, failed=failed, call_id=call_id)

    def _ended_span(self, span: Span, end: int, how: str, *, failed: bool | None = None) -> None:
        """Clocks of several machines differ, and nothing ends before it began."""
        failed = span.failed if failed is None else failed
        self.spans.append(replace(span, end=max(span.start, end), why=f"{span.why}; {how}.", failed=failed))

    def _end_provider(self, end: int, how: str, *, failed: bool = False) -> None:
        self._end_retry(end)
        if self._provider is not None:
            self._ended_span(self._provider, max(end, self._provider.first or 0), how, failed=failed)
        self._provider = self._called = None

    def _end_retry(self, now: int) -> None:
        """A wait lasts until its time, unless the turn ended before."""
        if self._retry is not None:
            until = self._retry.end if self._retry.end is not None else now
            self._ended_span(self._retry, min(until, max(now, self._retry.start)), "it was sent again after the wait")
        self._retry = None

    def _moment(self, kind: str, item: StoredFact, what: str) -> None:
        if self._until is None or item.seq < self._until:
            self.moments.append(Moment(kind=kind, time=item.fact.timestamp, seq=item.seq, what=what))  # type: ignore[arg-type]


def folded(facts: Iterable[StoredFact], turns: Mapping[int, int]) -> tuple[list[Span], list[Moment]]:
    """Of facts that reach the end of the log."""
    folding = Folding(turns)
    for item in facts:
        folding.take(item)
    return folding.close()


def _call(fact: Fact) -> Call:
    return fact.assistant_message_id, fact.call_id


def _reply(item: StoredFact) -> str:
    fact: Fact = item.fact
    if fact.cause is not None:
        return f"it was answered without a person ({fact.cause})"
    if item.type == "permission.replied":
        return f"a person replied {fact.reply}"
    return "a person did not answer it" if item.type in ("question.rejected", "form.cancelled") else "a person answered"
