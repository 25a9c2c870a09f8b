"""Entries as lines, and the conversation that they belong to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tui.samples import (
    NOW,
    answer,
    block,
    call,
    entries,
    page,
    reasoning,
    story,
    text,
    time,
    user,
)
from tests.tui.test_lines import CONTROLS, HOSTILE

from holdfast.client.call import Page
from holdfast.schema.rendered import BodySection, CallBody, Entry, MarkEntry, RenderedText, ShellEntry
from holdfast.schema.view import Gone, Reset
from holdfast.tui import style
from holdfast.tui.conversation import Conversation
from holdfast.tui.entry_lines import entry_passages
from holdfast.tui.lines import line_columns, plain_text
from holdfast.tui.passages import Target
from holdfast.tui.style import ASCII, UNICODE, Marks, marks_for, style_of, theme_of


def opened(*given: Entry, next: str | None = None, marks: Marks = UNICODE, seconds: float = 5.0) -> Conversation:
    conversation = Conversation("ses_root", marks=marks, clock=lambda: NOW / 1000 + seconds)
    conversation.add_older(page(*given, next=next))
    return conversation


def rows(conversation: Conversation, width: int = 60) -> list[str]:
    """All lines, without blank ones between entries."""
    return [
        plain_text(line).rstrip()
        for index in range(len(conversation.entries))
        for passage in conversation.passages(index)
        for line in passage.rows(width, conversation.marks)
    ]


def ids(conversation: Conversation) -> list[str]:
    return [entry.id for entry in conversation.entries]


@pytest.mark.parametrize("marks", [UNICODE, ASCII], ids=["unicode", "ascii"])
@pytest.mark.parametrize("detail", ["quiet", "normal", "full"])
@pytest.mark.parametrize("width", [1, 2, 5, 20, 40, 80, 200])
def test_every_kind_of_entry_fits_every_width(width: int, detail: str, marks: Marks) -> None:
    """TUI-002, TUI-020, TUI-051: with all signs in ASCII where the terminal has no others."""
    conversation = opened(*story(), marks=marks)
    conversation.folds.set_detail(detail)  # type: ignore[arg-type]
    conversation.set_body("msg_a3", "c3", CallBody(sections=(BodySection(kind="output", text="日本\x1b[31m" * 99),)))

    for entry in story():
        for passage in entry_passages(entry, conversation):
            for line in passage.rows(width, marks):
                assert line_columns(line) <= width
                assert marks is UNICODE or "─" not in plain_text(line)


@given(HOSTILE)
def test_hostile_text_is_safe_wherever_it_is_in_an_entry(given: str) -> None:
    """TUI-001"""
    hostile: list[Entry] = [
        user(1, given, command=given),
        answer(2, text(given), reasoning(given), call(given, given, outcome=given, peek=given), error=given),
        MarkEntry(id="m3", seq=3, time=time(), kind="retry", title=given, text=given),
        ShellEntry(id="s4", seq=4, time=time(), command=given, text=given, exit=1),
    ]
    conversation = opened(*hostile)
    conversation.folds.set_detail("full")
    conversation.set_body("msg_a2", "c1", given)

    for line in rows(conversation, 30):
        assert not CONTROLS.search(line)


def test_a_call_is_one_line() -> None:
    """TUI-021: its state, its name, what it was called with, and how it ended."""
    conversation = opened(
        answer(
            1,
            call("read", "a.py", "1", outcome="120 lines"),
            call("edit", "a.py", "2", additions=2, deletions=1, took=1_500),
            call("bash", "make", "3", status="running"),
            call("bash", "rm x", "4", status="waiting"),
            call("bash", "make test", "5", outcome="exit 1", peek="one\ntwo\nthree\nfour\n"),
            open=True,
            finish=None,
        )
    )

    assert rows(conversation, 40) == [
        "✓ read a.py                    120 lines",
        "✓ edit a.py                +2 −1 · 1.5 s",
        "● bash make                        5.0 s",
        "? bash rm x                waits for you",
        "✗ bash make test                  exit 1",
        "│ two",
        "│ three",
        "│ four",
    ]


def test_the_subject_of_a_call_is_shown_while_its_input_is_written() -> None:
    """TUI-021"""
    conversation = opened(answer(1, call("write", "", status="pending", body=False), open=True, finish=None))
    conversation.apply(block("msg_a1", "c1", kind="input", text='{"path": "src/a.py", "content": "'))
    conversation.apply(block("msg_a1", "c1", kind="input", add="x" * 1_000))

    assert rows(conversation) == ["○ write src/a.py                               writes 1.0 kB"]


def test_reasoning_is_folded_and_the_last_line_of_it_shown_while_it_comes() -> None:
    """TUI-022"""
    conversation = opened(answer(1, reasoning("", open=True), open=True, finish=None))
    conversation.apply(block("msg_a1", "r1", kind="reasoning", text="First.\n\nThen **this"))
    assert rows(conversation) == ["▸ thinking · Then **this"]

    conversation.apply(entries(2, answer(1, reasoning("First.\n\nThen **this**."))))
    assert rows(conversation)[0] == "▸ thought for 3.2 s"

    conversation.folds.toggle(Target("reasoning", "msg_a1", "r1"))
    assert rows(conversation)[:4] == ["▾ thought for 3.2 s", "│ First.", "│", "│ Then this."]


def test_a_body_is_wanted_when_its_call_is_unfolded() -> None:
    """TUI-023: again every second while the call runs, and once more when it has ended."""
    seconds = [0.0]
    conversation = Conversation(clock=lambda: NOW / 1000 + seconds[0])
    conversation.add_older(page(answer(1, call("bash", "make", status="running"), open=True, finish=None)))
    target = Target("call", "msg_a1", "c1")
    body = CallBody(sections=(BodySection(kind="output", text="building"),))

    def wanted() -> list[Target]:
        return [passage.wants for passage in conversation.passages(0) if passage.wants is not None]

    assert wanted() == []
    conversation.folds.toggle(target)
    assert wanted() == [target]
    conversation.set_body("msg_a1", "c1", body)
    assert wanted() == []
    assert rows(conversation)[1:] == ["│ building"]
    seconds[0] = 1.0
    assert wanted() == [target]
    conversation.set_body("msg_a1", "c1", body)
    conversation.apply(entries(2, answer(1, call("bash", "make"))))
    assert wanted() == [target]
    conversation.set_body("msg_a1", "c1", body)
    seconds[0] = 99.0
    assert wanted() == []


def test_a_body_that_cannot_be_loaded_says_why() -> None:
    """TUI-023"""
    conversation = opened(answer(1, call("read", "x"), finish="tool-calls"))
    conversation.folds.toggle(Target("call", "msg_a1", "c1"))

    conversation.set_body("msg_a1", "c1", "No message msg_a1")

    assert rows(conversation) == ["✓ read x", "│ No message msg_a1"]


def test_a_child_is_shown_inside_its_call() -> None:
    """TUI-024: its newest entries, with what is unfolded in them; children of it inside it."""
    conversation = opened(answer(1, call("task", "look", child_id="ses_child"), finish="tool-calls"))
    target = Target("call", "msg_a1", "c1")
    conversation.folds.toggle(target)
    assert conversation.passages(0)[-1].wants == target

    child = conversation.child_conversation("ses_child")
    asked = [user(number, f"prompt {number}") for number in range(1, 9)]
    inner = answer(9, call("task", "deeper", "c9", child_id="ses_grandchild"), finish="tool-calls")
    child.add_older(page(*asked, inner))
    child.folds.toggle(Target("call", "msg_a9", "c9"))
    child.child_conversation("ses_grandchild").add_older(page(user(50, "deep\nprompt")))

    shown = rows(conversation)
    assert shown[0] == "✓ task look"
    assert shown[1] == "│ ▌ prompt 4"
    assert shown[-3:] == ["│ ✓ task deeper", "│ │ ▌ deep", "│ │ ▌ prompt"]
    assert conversation.find("msg_u50") is child.children["ses_grandchild"]


def test_details_are_quiet_normal_or_full() -> None:
    """TUI-025"""
    conversation = opened(
        answer(
            1,
            reasoning("why"),
            call("read", "a", "1"),
            call("read", "b", "2"),
            call("edit", "c", "3"),
            call("bash", "d", "4", peek="bad"),
            text("done"),
        )
    )

    conversation.folds.set_detail("quiet")
    assert rows(conversation) == ["✓ read (2), edit", "✗ bash d", "│ bad", "", "  done"]
    conversation.folds.set_detail("full")
    assert "│ why" in rows(conversation)
    assert rows(conversation).count("│ …") == 4


def test_long_prompts_and_outputs_are_folded() -> None:
    """TUI-026: a prompt to its beginning, an output to its end."""
    long = "\n".join(str(number) for number in range(100))
    shell = ShellEntry(id="s2", seq=2, time=time(), command="seq 100", text=long, exit=0)
    conversation = opened(user(1, long), shell)

    folded = rows(conversation)
    assert folded[11:13] == ["▌ 11", "▌ … 88 more lines"]
    assert folded[13:16] == ["$ seq 100", "│ … 90 more lines", "│ 90"]

    conversation.folds.toggle(Target("prompt", "msg_u1"))
    conversation.folds.toggle(Target("shell", "s2"))
    assert len(rows(conversation)) == 201


def test_text_that_is_being_written_grows_in_its_place() -> None:
    """TUI-040: also of a part whose start has not come yet, and until the whole text is there."""
    conversation = opened(answer(1, text("", open=True), open=True, finish=None))
    conversation.apply(block("msg_a1", "t1", text="Hello **wor"))
    conversation.apply(block("msg_a1", "t1", add="ld**"))
    conversation.apply(block("msg_a1", "t2", text="another"))
    assert rows(conversation) == ["  Hello world", "", "  another"]

    conversation.apply(
        entries(2, answer(1, text("Hello **world**!"), text("", "t2", open=True), open=True, finish=None))
    )
    assert rows(conversation) == ["  Hello world!", "", "  another"]

    conversation.apply(entries(3, answer(1, text("Hello **world**!"), text("other", "t2"), finish="tool-calls")))
    assert rows(conversation) == ["  Hello world!", "", "  other"]


def test_entries_are_in_their_order_and_there_once() -> None:
    """TUI-040"""
    conversation = opened(user(5, "five"), user(7, "seven"))

    conversation.apply(entries(9, user(9, "nine"), user(6, "six"), user(5, "five again")))
    conversation.add_older(page(user(1, "one"), user(5, "old five"), next="cursor"))

    assert ids(conversation) == ["msg_u1", "msg_u5", "msg_u6", "msg_u7", "msg_u9"]
    assert rows(conversation)[1] == "▌ five again"
    assert conversation.older == "cursor"
    conversation.add_older(Page(items=[], next="cursor"))
    assert conversation.older is None


def test_a_page_does_not_replace_what_the_stream_has_sent() -> None:
    """TUI-041: it may be older; after a reset it replaces everything else."""
    conversation = Conversation()
    conversation.apply(entries(5, user(5, "new"), user(6, "newer")))
    conversation.add_older(page(user(4, "four"), user(5, "old"), next="before"))
    assert rows(conversation) == ["▌ four", "▌ new", "▌ newer"]

    conversation.apply(Reset())
    assert rows(conversation) == ["▌ four", "▌ new", "▌ newer"]
    conversation.apply(entries(7, user(7, "seven")))
    conversation.add_older(page(user(1, "one"), user(7, "stale")))
    assert rows(conversation) == ["▌ one", "▌ seven"]


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=30))
def test_the_order_holds_whatever_comes(given: list[tuple[int, int]]) -> None:
    """TUI-040"""
    conversation = opened()
    for id, seq in given:
        entry = MarkEntry(id=f"m{id}", seq=seq, time=time(), kind="moved", title=str(seq))
        conversation.apply(entries(seq, entry))

    assert [entry.seq for entry in conversation.entries] == sorted(entry.seq for entry in conversation.entries)
    assert len(set(ids(conversation))) == len(conversation.entries)
    assert all(conversation.entries[conversation.index_of(id) or 0].id == id for id in ids(conversation))


def test_a_deleted_session_is_gone() -> None:
    conversation = opened()
    conversation.apply(Gone())

    assert conversation.is_gone


@pytest.mark.parametrize(
    ("environment", "chosen", "expected"),
    [
        ({}, None, "dark"),
        ({"NO_COLOR": "1"}, None, "none"),
        ({"NO_COLOR": "1"}, "light", "light"),
        ({"COLORFGBG": "0;15"}, None, "light"),
        ({"COLORFGBG": "15;0"}, None, "dark"),
        ({"COLORFGBG": "15;default"}, "purple", "dark"),
    ],
)
def test_the_theme_is_chosen_or_found(environment: dict[str, str], chosen: str | None, expected: str) -> None:
    """TUI-050"""
    assert theme_of(environment, chosen) == expected


def test_without_colours_there_are_none() -> None:
    """TUI-050: only bold, italic, underlined and reversed."""
    for _, attributes in style_of("none").style_rules:
        assert set(attributes.split()) <= {"bold", "italic", "underline", "strike", "reverse", "noinherit"}


def test_signs_are_those_that_the_terminal_has() -> None:
    """TUI-051"""
    assert marks_for("utf-8") is UNICODE
    assert marks_for("latin-1") is ASCII
    assert marks_for(None) is ASCII
    assert "".join(ASCII).isascii()


def test_every_style_that_is_used_is_named() -> None:
    """TUI-050: so that a theme has it."""
    folder = Path(style.__file__).parent
    used = {name for file in folder.glob("*.py") for name in re.findall(r"class:([a-z0-9.]+)", file.read_text("utf-8"))}
    named = set(re.findall(r"[a-z]+(?:\.[a-z0-9]+)*", style.__doc__ or ""))

    assert {name for name in used if not any(known.startswith(name) for known in named)} == set()


def test_a_text_without_live_text_shows_what_is_kept_of_it() -> None:
    """SES-472, SES-474: until live text of it arrives, or its end. Nothing is there twice."""
    part = RenderedText(id="t1", open=True, partial="one two")
    conversation = opened(answer(1, part, open=True, finish=None))
    assert [row.strip() for row in rows(conversation)] == ["one two"]
    conversation.apply(block("msg_a1", "t1", text="one two three"))
    assert [row.strip() for row in rows(conversation)] == ["one two three"]
    conversation.apply(block("msg_a1", "t1", add=" four"))
    conversation.apply(entries(2, answer(1, part, call("bash", "make"), open=True, finish=None)))
    assert rows(conversation)[0].strip() == "one two three four"
    broken = answer(1, RenderedText(id="t1", text="one two three", broken_off=True), error="cut", finish="error")
    conversation.apply(entries(3, broken))
    assert rows(conversation)[0].strip() == "one two three"
