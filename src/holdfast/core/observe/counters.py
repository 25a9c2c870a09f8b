"""What this process has done since it started. Counting is a few additions for each turn and each commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core.observe.families import Counter, Family, Histogram
from holdfast.llm.errors import LLMError
from holdfast.schema import session_event as ev
from holdfast.schema.turn_event import TurnAbandoned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from holdfast.core.observe.families import Sample
    from holdfast.core.observe.open_work import OpenWork
    from holdfast.schema.record import Record
    from holdfast.schema.session import Tokens

COMMIT_BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
TURN_BOUNDS = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0)
NO_MODEL = ("", "")


def _counter(name: str, help: str, *labels: str) -> Counter:
    return Counter(Family(name, "counter", help, labels))


class Counters:
    def __init__(self, open_work: OpenWork) -> None:
        self._open = open_work
        self._handlers = self._by_type()
        self.sessions = _counter("holdfast_sessions_created_total", "Sessions created by this process.")
        self.inputs = _counter("holdfast_inputs_admitted_total", "Inputs admitted by this process.")
        self.turns = _counter(
            "holdfast_turns_total", "Provider turns by how they ended.", "outcome", "provider", "model"
        )
        self.tokens = _counter(
            "holdfast_tokens_total",
            "Tokens by kind: input (not cached), output, reasoning, cache_read, cache_write.",
            *("kind", "purpose", "provider", "model"),
        )
        self.cost = _counter(
            "holdfast_cost_dollars_total", "Cost by the prices of the catalog.", "purpose", "provider", "model"
        )
        self.tools = _counter("holdfast_tool_calls_total", "Settled tool calls.", "tool", "outcome")
        self.errors = _counter("holdfast_errors_total", "Executions of Sessions that failed, by reason.", "reason")
        self.retries = _counter(
            "holdfast_provider_retries_total", "Attempts that were repeated, by the HTTP status or `none`.", "status"
        )
        self.waits = _counter("holdfast_waits_total", "Waits that ended, by cause.", "cause")
        self.waited = _counter("holdfast_wait_seconds_total", "How long they lasted.", "cause")
        self.compactions = _counter("holdfast_compactions_total", "Compactions.", "outcome")
        self.takeovers = _counter(
            "holdfast_takeovers_total", "Processes that ended and whose Sessions this one looked through."
        )
        self.traces = _counter("holdfast_traces_total", "Traces of ended activities: exported, dropped.", "outcome")
        self.spans = _counter("holdfast_trace_spans_total", "Their spans, as far as they were read.", "outcome")
        self.requests = _counter("holdfast_http_requests_total", "Answered HTTP requests.", "method", "route", "status")
        self.request_seconds = Histogram(
            Family("holdfast_http_request_seconds", "histogram", "Time until an answer was ready, without streams."),
            COMMIT_BOUNDS,
        )
        self.commit_seconds = Histogram(
            Family("holdfast_commit_seconds", "histogram", "Time from handing events over until they are on disk."),
            COMMIT_BOUNDS,
        )
        self.turn_seconds = Histogram(
            Family("holdfast_turn_seconds", "histogram", "Time from sending a request until its step has ended."),
            TURN_BOUNDS,
        )
        self.first_seconds = Histogram(
            Family("holdfast_first_answer_seconds", "histogram", "Time from sending a request until its answer began."),
            TURN_BOUNDS,
        )

    def read(self) -> Iterator[tuple[Family, Iterable[Sample]]]:
        for metric in vars(self).values():
            if isinstance(metric, Counter | Histogram):
                yield metric.family, metric.samples()

    def failed(self, error: Exception) -> None:
        """The execution of a Session ended with this."""
        self.errors.add(1, error.reason if isinstance(error, LLMError) else type(error).__name__)

    def count(self, event: Record) -> None:
        if (handler := self._handlers.get(type(event))) is not None:
            handler(event)

    def _by_type(self) -> Mapping[type[Record], Callable[[Any], None]]:
        return {
            ev.StepStarted: self._first,
            ev.StepEnded: lambda event: self._end(event, "ended"),
            ev.StepFailed: lambda event: self._end(event, "failed"),
            TurnAbandoned: lambda event: self._end(event, "abandoned"),
            ev.UsageRecorded: lambda event: self._use(event.purpose, NO_MODEL, event.tokens, event.cost),
            ev.ToolSuccess: lambda event: self._settle(event, "success"),
            ev.ToolFailed: lambda event: self._settle(event, "failed"),
            ev.Retried: self._retry,
            ev.PermissionReplied: lambda event: self._wait("permission", event.request_id, event.timestamp),
            ev.QuestionReplied: lambda event: self._wait("question", event.request_id, event.timestamp),
            ev.QuestionRejected: lambda event: self._wait("question", event.request_id, event.timestamp),
            ev.FormReplied: lambda event: self._wait("form", event.request_id, event.timestamp),
            ev.FormCancelled: lambda event: self._wait("form", event.request_id, event.timestamp),
            ev.CompactionEnded: lambda event: self.compactions.add(1, "ended"),
            ev.CompactionFailed: lambda event: self.compactions.add(1, "failed"),
            ev.SessionCreated: lambda event: self.sessions.add(1),
            ev.PromptAdmitted: lambda event: self.inputs.add(1),
        }

    def _first(self, event: ev.StepStarted) -> None:
        if (turn := self._open.turn(event.session_id)) is not None:
            self.first_seconds.observe(_seconds(turn.since, event.timestamp))

    def _end(self, event: ev.StepEnded | ev.StepFailed | TurnAbandoned, outcome: str) -> None:
        turn = self._open.turn(event.session_id)
        model = (turn.provider, turn.model) if turn is not None else NO_MODEL
        self.turns.add(1, outcome, *model)
        if turn is not None:
            self.turn_seconds.observe(_seconds(turn.since, event.timestamp))
        if not isinstance(event, TurnAbandoned) and event.tokens is not None:
            self._use("turn", model, event.tokens, event.cost or 0.0)

    def _use(self, purpose: str, model: tuple[str, str], tokens: Tokens, cost: float) -> None:
        self.cost.add(cost, purpose, *model)
        self.tokens.add(tokens.input, "input", purpose, *model)
        self.tokens.add(tokens.output, "output", purpose, *model)
        self.tokens.add(tokens.reasoning, "reasoning", purpose, *model)
        self.tokens.add(tokens.cache.read, "cache_read", purpose, *model)
        self.tokens.add(tokens.cache.write, "cache_write", purpose, *model)

    def _settle(self, event: ev.ToolSuccess | ev.ToolFailed, outcome: str) -> None:
        self.tools.add(1, self._open.tool(event.assistant_message_id, event.call_id) or "unknown", outcome)

    def _retry(self, event: ev.Retried) -> None:
        self.retries.add(1, str(event.error.status_code or "none"))
        until = str((event.error.metadata or {}).get("next", ""))
        if until.isdecimal():
            self.waits.add(1, "retry")
            self.waited.add(_seconds(event.timestamp, int(until[:15])), "retry")

    def _wait(self, cause: str, request_id: str, now: int) -> None:
        if (since := self._open.asked(request_id)) is not None:
            self.waits.add(1, cause)
            self.waited.add(_seconds(since, now), cause)


def _seconds(since: int, until: int) -> float:
    return max(0, until - since) / 1000
