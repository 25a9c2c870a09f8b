"""Folding events into spans: what each lane shows, and what the log says about processes that ended."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.inspect.fact import PREFIX, TYPES, Fact, StoredFact, one_line, subject_of
from holdfast.core.inspect.timeline import Folding, folded
from holdfast.core.runner.interrupted_work import COMPACTION_BROKE_OFF, SHELL_BROKE_OFF
from holdfast.core.session.answer_outcome import TURN_INTERRUPTED, TURN_SUSPENDED
from holdfast.schema.codec import decoder, encode
from holdfast.schema.timeline import Moment, Span

Given = tuple[str, int, dict[str, Any]]
MODEL = {"id": "m", "providerID": "p"}
NAMES = sorted({type.removeprefix(PREFIX).rpartition(".")[0] for type in TYPES})


def facts(*given: Given) -> list[StoredFact]:
    return [
        StoredFact(seq=seq, type=type, fact=decoder(Fact).decode(encode({"timestamp": time, **fields})))
        for seq, (type, time, fields) in enumerate(given)
    ]


def shown(*given: Given) -> tuple[list[Span], list[Moment]]:
    return folded(facts(*given), {0: 1})


def bare(spans: list[Span]) -> list[tuple[str, int, int | None]]:
    return [(span.lane, span.start, span.end) for span in spans]


def sent(time: int) -> Given:
    return "turn.dispatched", time, {"attempt": 1, "model": MODEL}


def started(time: int) -> Given:
    return "step.started", time, {"assistantMessageID": "msg_1"}


def called(time: int, call: str = "c") -> Given:
    return "tool.called", time, {"assistantMessageID": "msg_1", "callID": call, "tool": "read", "input": {"path": "a"}}


def settled(time: int, call: str = "c", name: str = "tool.success") -> Given:
    return name, time, {"assistantMessageID": "msg_1", "callID": call}


def ended(time: int) -> Given:
    return "step.ended", time, {"assistantMessageID": "msg_1", "finish": "stop"}


def failed(time: int, message: str) -> Given:
    return "step.failed", time, {"assistantMessageID": "msg_1", "error": {"type": "unknown", "message": message}}


def asked(time: int, id: str = "per_1", call: str = "c") -> Given:
    source = {"type": "tool", "messageID": "msg_1", "callID": call}
    return "permission.asked", time, {"request": {"id": id, "action": "edit", "resources": ["a"], "source": source}}


def replied(time: int, id: str = "per_1") -> Given:
    return "permission.replied", time, {"requestID": id, "reply": "once"}


def test_the_answer_ends_with_its_last_call_and_the_tools_follow() -> None:
    """WEB-206: the step ends only when its calls have, and the provider was done before."""
    spans, _ = shown(sent(0), started(10), called(20), called(30, "d"), settled(500), settled(700, "d"), ended(701))
    assert bare(spans) == [("provider", 0, 30), ("tool", 20, 500), ("tool", 30, 700)]
    assert (spans[0].first, spans[0].turn, spans[0].name, spans[1].name) == (10, 1, "p/m", "read a")


def test_a_recorded_answer_ends_the_request() -> None:
    """WEB-206."""
    spans, _ = shown(sent(0), started(10), called(20), ("turn.answered", 40, {}), settled(500), ended(501))
    assert bare(spans) == [("provider", 0, 40), ("tool", 20, 500)]


def test_the_wait_for_a_person_is_not_work_of_the_tool() -> None:
    """WEB-207: before it and after it the tool works; a call may ask twice."""
    spans, _ = shown(
        *(sent(0), started(1), called(2), asked(3), asked(4, "per_2"), replied(1000), replied(2000, "per_2")),
        *(settled(2500), ended(2501)),
    )
    assert bare(spans) == [("provider", 0, 2), ("person", 3, 1000), ("person", 4, 2000), ("tool", 2000, 2500)]
    late, _ = shown(sent(0), started(1), called(2), asked(500), replied(1000), settled(1500), ended(1501))
    assert bare(late) == [("provider", 0, 2), ("tool", 2, 500), ("person", 500, 1000), ("tool", 1000, 1500)]


def test_a_call_that_was_settled_while_it_waited_did_not_work() -> None:
    """WEB-207."""
    spans, _ = shown(sent(0), started(1), called(2), asked(3), settled(50, name="tool.failed"), replied(60), ended(61))
    assert bare(spans) == [("provider", 0, 2), ("person", 3, 60)]


def test_call_ids_of_other_messages_are_others() -> None:
    """WEB-206."""
    other: Given = ("tool.success", 90, {"assistantMessageID": "msg_2", "callID": "c"})
    spans, _ = shown(sent(0), started(1), called(2), other, settled(100), ended(101))
    assert ("tool", 2, 100) in bare(spans)


def test_a_wait_before_another_attempt_ends_with_its_time_or_with_the_turn() -> None:
    """WEB-206."""
    error = {"message": "busy", "isRetryable": True, "metadata": {"next": "400"}}
    spans, _ = shown(sent(0), ("retried", 100, {"error": error}), started(450), ended(460))
    assert bare(spans) == [("provider", 0, 460), ("retry", 100, 400)]
    cut, _ = shown(sent(0), ("retried", 100, {"error": error}), failed(200, "gone"))
    assert bare(cut) == [("provider", 0, 200), ("retry", 100, 200)]


def test_only_input_that_waited_is_shown() -> None:
    """WEB-206: what is pending has no end."""
    admitted: list[Given] = [("prompt.admitted", 0, {"messageID": f"msg_{n}", "delivery": "queue"}) for n in range(4)]
    spans, _ = shown(
        *admitted,
        ("prompted", 200, {"messageID": "msg_0"}),
        ("synthetic", 201, {"messageID": "msg_1"}),
        ("input.withdrawn", 10, {"messageID": "msg_2"}),
    )
    assert sorted(bare(spans), key=str) == [("inbox", 0, 10), ("inbox", 0, 201), ("inbox", 0, None)]


def test_a_crash_ends_what_was_open_and_leaves_a_gap() -> None:
    """WEB-208: the next process recorded the ends, hours later."""
    hours = 9_000_000
    spans, moments = shown(
        *(sent(0), started(10), called(20)),
        ("prompt.admitted", 50, {"messageID": "msg_9", "delivery": "queue"}),
        settled(hours, name="tool.failed"),
        failed(hours, TURN_INTERRUPTED),
        ("activity.suspended", hours, {}),
        sent(hours + 5),
    )
    assert [item for item in bare(spans) if item[0] != "inbox"] == [
        ("provider", 0, 20),
        ("tool", 20, 20),
        ("owner", 20, hours),
        ("provider", hours + 5, None),
    ]
    assert [(moment.kind, moment.time) for moment in moments] == [("crash", 20), ("recovered", hours + 5)]


def test_a_request_that_a_dead_process_sent_ends_with_it() -> None:
    """WEB-208."""
    abandoned: Given = ("turn.abandoned", 900, {"reason": TURN_INTERRUPTED})
    spans, moments = shown(("prompted", 1, {"messageID": "msg_1"}), sent(5), abandoned, sent(910), started(920))
    assert bare(spans) == [("provider", 5, 5), ("owner", 5, 900), ("provider", 910, None)]
    assert [moment.kind for moment in moments] == ["prompt", "crash", "recovered"]


def test_a_summary_and_a_command_that_broke_off_end_with_their_process() -> None:
    """WEB-208."""
    error = {"type": "unknown", "message": COMPACTION_BROKE_OFF}
    spans, _ = shown(
        ("compaction.started", 0, {"messageID": "msg_1", "reason": "auto"}),
        ("shell.started", 5, {"messageID": "msg_2", "callID": "s", "command": "make"}),
        ("compaction.failed", 900, {"messageID": "msg_1", "error": error}),
        ("shell.ended", 900, {"callID": "s", "output": SHELL_BROKE_OFF}),
    )
    assert bare(spans) == [("compaction", 0, 5), ("shell", 5, 5), ("owner", 5, 900)]


def test_a_shutdown_lasts_until_the_work_goes_on() -> None:
    """WEB-208: what clients record meanwhile does not end it."""
    admitted: Given = ("prompt.admitted", 50, {"messageID": "msg_9", "delivery": "steer"})
    suspended: tuple[Given, ...] = (sent(0), failed(10, TURN_SUSPENDED), ("activity.suspended", 11, {}), admitted)
    spans, moments = shown(*suspended)
    assert ("owner", 11, None) in bare(spans)
    assert [moment.kind for moment in moments] == ["suspended"]
    after, moments = shown(*suspended, sent(80))
    assert ("owner", 11, 80) in bare(after)
    assert [moment.kind for moment in moments] == ["suspended", "recovered"]
    given_up, moments = shown(*suspended, ("activity.ended", 90, {"reason": "abandoned"}))
    assert ("owner", 11, 90) in bare(given_up)


def test_an_interruption_is_no_crash() -> None:
    """WEB-208."""
    spans, moments = shown(sent(0), started(10), failed(20, TURN_INTERRUPTED), ("activity.ended", 21, {"reason": "x"}))
    assert bare(spans) == [("provider", 0, 20)]
    assert [moment.kind for moment in moments] == ["interrupted"]


def test_facts_of_a_later_page_end_spans_and_begin_none() -> None:
    """WEB-209."""
    folding = Folding({}, until=3)
    for fact in facts(sent(0), started(1), called(2), settled(10), ended(11), sent(12), called(13)):
        folding.take(fact)
    spans, moments = folding.close()
    assert bare(spans) == [("provider", 0, 2), ("tool", 2, 10)]
    assert moments == []
    assert not folding.open


def test_a_request_that_is_asked_on_the_next_page_is_not_work_of_the_tool() -> None:
    """WEB-207, WEB-209."""
    given = (sent(0), started(1), called(2), asked(3), replied(500), settled(600), ended(601))
    folding = Folding({}, until=3)
    for fact in facts(*given):
        folding.take(fact)
    assert bare(folding.close()[0]) == [("provider", 0, 2), ("tool", 500, 600)]


def test_a_subject_is_one_short_line() -> None:
    """WEB-206: whatever the model wrote."""
    assert subject_of("bash", {"command": "a\n\tb  c", "description": "d"}) == "bash a b c"
    assert subject_of("x", {"path": 5}) == "x"
    assert subject_of("x", "text") == "x"
    assert len(one_line("word " * 10_000)) <= 120


def any_fact(draw: st.DrawFn) -> Given:
    ids = st.sampled_from(["a", "b"])
    messages = st.sampled_from([TURN_INTERRUPTED, TURN_SUSPENDED, COMPACTION_BROKE_OFF, "other"])
    source = {"type": "tool", "messageID": draw(ids), "callID": draw(ids)}
    fields: dict[str, Any] = {
        "messageID": draw(ids),
        "assistantMessageID": draw(ids),
        "callID": draw(ids),
        "requestID": draw(ids),
        "attempt": draw(st.integers(0, 1)),
        "model": MODEL,
        "reason": draw(messages),
        "request": {"id": draw(ids), "action": "edit", "resources": ["a"], "source": source},
        "error": {"message": draw(messages), "metadata": {"next": draw(st.sampled_from(["70", "x", ""]))}},
        "output": draw(st.sampled_from([SHELL_BROKE_OFF, "fine"])),
        "exit": draw(st.sampled_from([None, 0, 1])),
    }
    return draw(st.sampled_from(NAMES)), draw(st.integers(0, 100)), fields


@settings(max_examples=300, deadline=None)
@given(st.lists(st.composite(any_fact)(), max_size=40), st.booleans())
def test_whatever_the_log_says_spans_are_within_its_time(given_facts: list[Given], ordered: bool) -> None:
    """WEB-206: also with clocks that disagree; each event begins at most one span of a lane."""
    if ordered:
        given_facts = sorted(given_facts, key=lambda fact: fact[1])
    spans, moments = shown(*given_facts)
    assert [span.start for span in spans] == sorted(span.start for span in spans)
    for span in spans:
        assert 0 <= span.start <= 100
        assert span.end is None or span.start <= span.end <= 100
        assert span.first is None or span.start <= span.first
        assert span.name
        assert span.why.endswith(".")
    assert all(0 <= moment.time <= 100 for moment in moments)
