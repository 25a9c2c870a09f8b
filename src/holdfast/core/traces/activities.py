"""Divides the events of a Session into activities, and each into spans. Pure: no clock, no reads.

An activity begins with the promotion of an input, or with a turn that is taken without one, while none is open. It is
over with a step that calls no tool, with a failed one, or when the log says so; a shutdown that suspends it does not
end it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from holdfast.core.session.answer_outcome import TURN_INTERRUPTED
from holdfast.core.traces.attributes import agent_attributes, chat_attributes, tool_attributes, wait_attributes
from holdfast.core.traces.span import CLIENT, INTERNAL, Span, activity_span_id, span_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from holdfast.core.traces.fact import Fact, StoredFact
    from holdfast.core.traces.span import Value
    from holdfast.schema.model import ModelRef
    from holdfast.schema.session import Tokens

INTERRUPTED = "interrupted"
OTHER = "_OTHER"
"""The convention's word for an error without a class of its own."""
MOST_SPANS = 20_000

Call = tuple[str | None, str | None]


class Draft(NamedTuple):
    """A span of an activity whose trace is not known yet."""

    event_id: str
    parent: bytes | None
    """None: the activity itself."""
    name: str
    kind: Literal[1, 3]
    start: int
    end: int
    attributes: tuple[tuple[str, Value], ...]
    error: str | None


class OpenSpan(NamedTuple):
    event_id: str
    start: int
    name: str
    parent: bytes | None = None
    call_id: str | None = None


class Chat:
    """A request to a model, until its step has ended."""

    def __init__(self, item: StoredFact) -> None:
        self.event_id = item.id
        self.start = item.fact.timestamp
        self.first: int | None = None
        self.end: int | None = None
        self.model = item.fact.model
        self.attempts = 1
        self.tokens: Tokens | None = None
        self.cost: float | None = None
        self.finish: str | None = None


class Activity:
    def __init__(self, session_id: str, item: StoredFact) -> None:
        self.session_id = session_id
        self.event_id = item.id
        """Of the event that began it."""
        self.input_id = item.fact.message_id
        """The input that it began with, if it did with one."""
        self.start = self.last = item.fact.timestamp
        self.over = False
        self.agent: str | None = None
        self.model: ModelRef | None = None
        self.error: str | None = None
        self.tasks: dict[str, bytes] = {}
        """Inputs of children, with the spans of the calls that made them."""
        self.drafts: list[Draft] = []
        self.left_out = 0
        """Spans beyond the limit."""
        self.chat: Chat | None = None
        self.calls: dict[Call, OpenSpan] = {}
        self.waits: dict[str, OpenSpan] = {}
        self.compactions: dict[str, OpenSpan] = {}
        self.called = False
        """Whether the open step called a tool."""

    def spans(self, trace: bytes, parent: bytes) -> list[Span]:
        """All spans, the activity first. What had not ended when the activity was over was interrupted."""
        own = activity_span_id(self.event_id)
        attributes = agent_attributes(self)
        name = f"invoke_agent {self.agent}" if self.agent is not None else "invoke_agent"
        failed = self.error is not None
        found = [Span(trace, own, parent, name, INTERNAL, self.start, self.last, attributes, failed)]
        for draft in sorted(self.drafts, key=lambda draft: (draft.start, draft.event_id)):
            error: tuple[tuple[str, Value], ...] = (("error.type", draft.error),) if draft.error is not None else ()
            attributes = (*draft.attributes, *error)
            above = draft.parent if draft.parent is not None else own
            id, start, end = span_id(draft.event_id), draft.start, max(draft.start, draft.end)
            found.append(Span(trace, id, above, draft.name, draft.kind, start, end, attributes, bool(error)))
        return found

    def add(self, draft: Draft) -> None:
        if len(self.drafts) < MOST_SPANS:
            self.drafts.append(draft)
        else:
            self.left_out += 1

    def close(self, now: int) -> None:
        """End everything that is still open."""
        self.end_chat(now, INTERRUPTED)
        for call in tuple(self.calls):
            self.end_call(call, now, INTERRUPTED)
        for open_spans in (self.waits, self.compactions):
            for key in tuple(open_spans):
                self.end_wait(open_spans, key, now, INTERRUPTED)

    def end_chat(self, now: int, error: str | None) -> None:
        if (chat := self.chat) is None:
            return
        self.chat = None
        name = f"chat {chat.model.id}" if chat.model is not None else "chat"
        end = chat.end if chat.end is not None else now
        self.add(Draft(chat.event_id, None, name, CLIENT, chat.start, end, chat_attributes(self, chat), error))

    def end_call(self, call: Call, now: int, error: str | None) -> None:
        if (found := self.calls.pop(call, None)) is not None:
            attributes = tool_attributes(self, found.name, found.call_id)
            name = f"execute_tool {found.name}"
            self.add(Draft(found.event_id, None, name, INTERNAL, found.start, now, attributes, error))

    def end_wait(self, held: dict[str, OpenSpan], key: str, now: int, error: str | None) -> None:
        if (found := held.pop(key, None)) is not None:
            attributes = wait_attributes(self, found.name)
            self.add(Draft(found.event_id, found.parent, found.name, INTERNAL, found.start, now, attributes, error))


class Activities:
    """Takes facts in their order."""

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self.found: list[Activity] = []
        self._handlers: Mapping[str, Callable[[Activity, StoredFact], None]] = {
            "turn.dispatched": _dispatched,
            "turn.answered": _answered,
            "turn.abandoned": _abandoned,
            "step.started": _started,
            "step.ended": _step_ended,
            "step.failed": _step_failed,
            "retried": _retried,
            "tool.called": _called,
            "tool.success": _settled,
            "tool.failed": _settled,
            "permission.asked": _asked,
            "question.asked": _asked,
            "form.asked": _asked,
            "permission.replied": _replied,
            "question.replied": _replied,
            "question.rejected": _replied,
            "form.replied": _replied,
            "form.cancelled": _replied,
            "compaction.started": _compaction_started,
            "compaction.ended": _compaction_ended,
            "compaction.failed": _compaction_ended,
            "activity.ended": _over,
            "task.started": _task_started,
        }

    def take(self, items: Iterable[StoredFact]) -> None:
        for item in items:
            activity = self._activity(item)
            if activity is None:
                continue
            activity.last = max(activity.last, item.fact.timestamp)
            if (handler := self._handlers.get(item.type)) is not None:
                handler(activity, item)
            if activity.over:
                activity.close(activity.last)

    def _activity(self, item: StoredFact) -> Activity | None:
        """The one that the event belongs to, which may begin with it."""
        current = self.found[-1] if self.found else None
        if current is not None and item.type == "activity.suspended":
            current.over, current.error = False, None
            return current
        if current is not None and not current.over:
            return current
        begins = item.type in ("prompted", "turn.dispatched") or (
            item.type == "synthetic" and item.fact.delivery is not None
        )
        if not begins:
            return None
        self.found.append(Activity(self._session_id, item))
        return self.found[-1]


def _dispatched(activity: Activity, item: StoredFact) -> None:
    fact = item.fact
    activity.end_chat(fact.timestamp, INTERRUPTED)
    activity.called = False
    if activity.agent is None:
        activity.agent, activity.model = fact.agent, fact.model
    if fact.attempt:
        activity.chat = Chat(item)


def _started(activity: Activity, item: StoredFact) -> None:
    if activity.chat is not None:
        activity.chat.first = item.fact.timestamp


def _answered(activity: Activity, item: StoredFact) -> None:
    if (chat := activity.chat) is not None:
        chat.end, chat.tokens, chat.cost = item.fact.timestamp, item.fact.tokens, item.fact.cost


def _retried(activity: Activity, item: StoredFact) -> None:
    if activity.chat is not None:
        activity.chat.attempts += 1


def _abandoned(activity: Activity, item: StoredFact) -> None:
    activity.end_chat(item.fact.timestamp, INTERRUPTED)


def _step_ended(activity: Activity, item: StoredFact) -> None:
    fact = item.fact
    _use(activity.chat, fact)
    activity.end_chat(fact.timestamp, None)
    answered = fact.structured is not msgspec.UNSET
    activity.over = answered or (not activity.called and fact.rejected is None)


def _step_failed(activity: Activity, item: StoredFact) -> None:
    fact = item.fact
    _use(activity.chat, fact)
    message = fact.error.message if fact.error is not None else ""
    activity.error = INTERRUPTED if message == TURN_INTERRUPTED else OTHER
    activity.end_chat(fact.timestamp, activity.error)
    activity.over = True


def _use(chat: Chat | None, fact: Fact) -> None:
    if chat is not None:
        chat.finish = fact.finish
        if fact.tokens is not None:
            chat.tokens, chat.cost = fact.tokens, fact.cost


def _called(activity: Activity, item: StoredFact) -> None:
    fact = item.fact
    activity.called = True
    if activity.chat is not None:
        activity.chat.end = fact.timestamp
    call = (fact.assistant_message_id, fact.call_id)
    activity.calls[call] = OpenSpan(item.id, fact.timestamp, fact.tool or "unknown", call_id=fact.call_id)


def _settled(activity: Activity, item: StoredFact) -> None:
    error = OTHER if item.type == "tool.failed" else None
    activity.end_call((item.fact.assistant_message_id, item.fact.call_id), item.fact.timestamp, error)


def _asked(activity: Activity, item: StoredFact) -> None:
    if (request := item.fact.request) is not None:
        call = activity.calls.get(request.call)
        parent = span_id(call.event_id) if call is not None else None
        name = f"wait {item.type.partition('.')[0]}"
        activity.waits[request.id] = OpenSpan(item.id, item.fact.timestamp, name, parent)


def _replied(activity: Activity, item: StoredFact) -> None:
    activity.end_wait(activity.waits, item.fact.request_id or "", item.fact.timestamp, None)


def _compaction_started(activity: Activity, item: StoredFact) -> None:
    activity.compactions[item.fact.message_id or ""] = OpenSpan(item.id, item.fact.timestamp, "compact")


def _compaction_ended(activity: Activity, item: StoredFact) -> None:
    error = OTHER if item.type == "compaction.failed" else None
    activity.end_wait(activity.compactions, item.fact.message_id or "", item.fact.timestamp, error)


def _over(activity: Activity, item: StoredFact) -> None:
    activity.over = True


def _task_started(activity: Activity, item: StoredFact) -> None:
    call = activity.calls.get((item.fact.assistant_message_id, item.fact.call_id))
    if call is not None and item.fact.prompt_id is not None:
        activity.tasks[item.fact.prompt_id] = span_id(call.event_id)
