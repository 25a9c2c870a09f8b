"""A conversation as lines that only follow each other."""

from __future__ import annotations

from hypothesis import given
from tests.tui.samples import answer, block, call, entries, page, reasoning, story, text, user
from tests.tui.test_conversation import opened
from tests.tui.test_lines import CONTROLS, HOSTILE

from holdfast.tui.conversation import Conversation
from holdfast.tui.linear_text import LinearText


def test_every_entry_is_told_once() -> None:
    """TUI-060: and nothing that a screen reader would spell out: no boxes, no signs."""
    told = LinearText(opened(*story()[:9]))

    lines = told.lines()
    assert lines[:6] == [
        "You: The last argument is lost when a line ends with a space.",
        "Find out why and fix it.",
        "Attached: trace.log",
        "Thought for 3.2 s",
        "I'll look at the parser and its tests first.",
        "Done: read src/parser.py: 120 lines",
    ]
    assert "Done: edit src/parser.py: 2 lines added, 1 removed" in lines
    assert "Failed: bash python -m pytest tests/test_parser.py -x: exit 1, after 2.3 s" in lines
    assert "Command: git status -s" in lines
    assert lines[-1] == "Answer complete, $0.0231."
    assert not set("│─✓✗●▸▌·") & set("".join(lines))
    assert told.lines() == []


def test_text_is_told_line_by_line_while_it_is_written() -> None:
    """TUI-060"""
    conversation = opened(answer(1, text("", open=True), open=True, finish=None))
    told = LinearText(conversation)
    heard = told.lines()
    for piece in ("One\nTw", "o\n", "Thr", "ee"):
        conversation.apply(block("msg_a1", "t1", add=piece))
        heard += told.lines()
    assert heard == ["One", "Two"]

    conversation.apply(entries(2, answer(1, text("One\nTwo\nThree."))))
    assert told.lines() == ["Three.", "Answer complete."]


def test_a_call_is_told_when_it_begins_and_when_it_has_ended() -> None:
    """TUI-060"""
    conversation = opened(answer(1, call("bash", "make", status="running"), open=True, finish=None))
    told = LinearText(conversation)
    assert told.lines() == ["Running: bash make"]

    conversation.apply(entries(2, answer(1, call("bash", "make", outcome="exit 0"), finish="tool-calls")))
    assert told.lines() == ["Done: bash make: exit 0"]


def test_only_the_newest_entries_of_a_long_conversation_are_told() -> None:
    """TUI-060: and older ones that are loaded are not."""
    conversation = opened(*(user(number, f"prompt {number}") for number in range(100, 150)), next="older")
    told = LinearText(conversation)
    told.own.add("msg_u149")

    assert told.lines() == [f"You: prompt {number}" for number in range(140, 149)]
    conversation.add_older(page(user(1, "old")))
    assert told.lines() == []
    assert LinearText(Conversation()).lines() == []


@given(HOSTILE)
def test_hostile_text_is_safe(given: str) -> None:
    """TUI-001"""
    conversation = opened(
        user(1, given),
        answer(2, text(given), reasoning(given), call(given, given, peek=given, outcome=given), error=given),
    )

    for line in LinearText(conversation).lines():
        assert not CONTROLS.search(line)
