"""Dividing a log into activities and spans."""

from __future__ import annotations

from typing import Any

from holdfast.core.session.answer_outcome import TURN_INTERRUPTED
from holdfast.core.traces.activities import MOST_SPANS, Activities, Activity
from holdfast.core.traces.fact import Caller, Fact, Failure, Request, StoredFact
from holdfast.core.traces.span import activity_span_id, span_id
from holdfast.schema.model import ModelRef

MODEL = ModelRef(id="m", provider_id="google")


class Log:
    def __init__(self) -> None:
        self.facts: list[StoredFact] = []

    def add(self, type: str, **fields: Any) -> str:
        """The id of a new event; each is 10 ms after the one before it."""
        seq = len(self.facts)
        fact = Fact(timestamp=1000 + 10 * seq, **fields)
        self.facts.append(StoredFact(seq=seq, id=f"evt_{seq}", type=type, fact=fact))
        return f"evt_{seq}"

    def prompt(self, id: str = "msg_in") -> str:
        return self.add("prompted", message_id=id)

    def dispatch(self) -> str:
        return self.add("turn.dispatched", agent="build", model=MODEL, attempt=1)

    def call(self, id: str = "c1") -> str:
        return self.add("tool.called", assistant_message_id="msg_1", call_id=id, tool="bash")

    def settle(self, id: str = "c1") -> None:
        self.add("tool.success", assistant_message_id="msg_1", call_id=id)

    def end(self) -> None:
        self.add("step.ended", assistant_message_id="msg_1", finish="stop")

    def activities(self) -> list[Activity]:
        found = Activities("ses_1")
        found.take(self.facts)
        return found.found


def spans(activity: Activity) -> dict[str, tuple[int, int, str | None]]:
    """Start, end and error by name."""
    return {
        span.name: (span.start, span.end, str(dict(span.attributes).get("error.type")) if span.failed else None)
        for span in activity.spans(b"t" * 16, b"")
    }


def test_a_step_that_calls_a_tool_does_not_end_the_activity() -> None:
    log = Log()
    log.prompt()
    log.dispatch()
    log.call()
    log.settle()
    log.end()
    assert [activity.over for activity in log.activities()] == [False]
    log.dispatch()
    log.end()
    (activity,) = log.activities()
    assert activity.over
    assert spans(activity)["invoke_agent build"] == (1000, 1060, None)
    assert spans(activity)["execute_tool bash"] == (1020, 1030, None)


def test_the_provider_has_the_name_of_the_convention() -> None:
    log = Log()
    log.dispatch()
    log.end()
    (activity,) = log.activities()
    assert dict(activity.spans(b"t" * 16, b"")[1].attributes)["gen_ai.provider.name"] == "gcp.gemini"


def test_a_chat_ends_with_its_last_call_although_its_step_goes_on() -> None:
    log = Log()
    log.prompt()
    log.dispatch()
    log.call()
    log.settle()
    log.end()
    log.add("activity.ended")
    assert spans(log.activities()[0])["chat m"] == (1010, 1020, None)


def test_a_suspended_activity_goes_on_in_the_next_process() -> None:
    log = Log()
    log.prompt()
    log.dispatch()
    log.add("step.failed", assistant_message_id="msg_1", error=Failure(message="suspended"))
    log.add("activity.suspended")
    log.dispatch()
    log.end()
    (activity,) = log.activities()
    assert activity.over
    assert activity.error is None
    assert spans(activity)["invoke_agent build"] == (1000, 1050, None)


def test_what_is_open_at_the_end_was_interrupted() -> None:
    log = Log()
    log.prompt()
    log.dispatch()
    called = log.call()
    log.add("permission.asked", request=Request(id="per_1", source=Caller(message_id="msg_1", call_id="c1")))
    log.add("step.failed", assistant_message_id="msg_1", error=Failure(message=TURN_INTERRUPTED))
    (activity,) = log.activities()
    found = spans(activity)
    assert found["execute_tool bash"] == (1020, 1040, "interrupted")
    assert found["wait permission"] == (1030, 1040, "interrupted")
    assert found["invoke_agent build"] == (1000, 1040, "interrupted")
    wait = next(span for span in activity.spans(b"t" * 16, b"") if span.name == "wait permission")
    assert wait.parent_id == span_id(called)


def test_an_input_after_the_end_begins_another_activity_and_one_before_it_does_not() -> None:
    log = Log()
    first = log.prompt("msg_a")
    log.dispatch()
    log.call()
    log.prompt("msg_b")  # a steer
    log.settle()
    log.end()
    log.dispatch()
    log.end()
    second = log.prompt("msg_c")
    found = log.activities()
    assert [activity.event_id for activity in found] == [first, second]
    assert [activity.input_id for activity in found] == ["msg_a", "msg_c"]


def test_an_answer_that_is_rejected_is_asked_for_again() -> None:
    log = Log()
    log.prompt()
    log.dispatch()
    log.add("step.ended", assistant_message_id="msg_1", rejected="no JSON")
    assert not log.activities()[0].over
    log.dispatch()
    log.add("tool.called", assistant_message_id="msg_2", call_id="c", tool="answer")
    log.add("step.ended", assistant_message_id="msg_2", structured={"ok": True})
    assert log.activities()[0].over


def test_a_task_is_known_by_the_input_of_its_child() -> None:
    log = Log()
    log.prompt()
    log.dispatch()
    called = log.call()
    log.add("task.started", assistant_message_id="msg_1", call_id="c1", prompt_id="msg_child")
    assert log.activities()[0].tasks == {"msg_child": span_id(called)}


def test_the_spans_of_an_activity_are_bounded() -> None:
    log = Log()
    begun = log.prompt()
    log.dispatch()
    for number in range(MOST_SPANS + 5):
        log.call(f"c{number}")
        log.settle(f"c{number}")
    log.add("activity.ended")
    (activity,) = log.activities()
    found = activity.spans(b"t" * 16, b"")
    assert len(found) == MOST_SPANS + 1
    assert found[0].id == activity_span_id(begun)
    assert dict(found[0].attributes)["holdfast.spans_left_out"] == 6
