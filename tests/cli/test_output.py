"""What is printed, and what a terminal must not be told."""

from __future__ import annotations

import io
import sys

import msgspec
import pytest

from holdfast.cli.output import brief, heading, one_line, print_json, print_table, printable, visible
from holdfast.cli.screen import Screen
from holdfast.schema.codec import encode
from holdfast.schema.model import ModelRef
from holdfast.schema.typed_event import LiveEvent


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ünïcode 日本 🦀\n\tindented", "plain ünïcode 日本 🦀\n\tindented"),
        ("\x1b[31mred", "\\u001b[31mred"),
        ("over\rwritten", "over\\u000dwritten"),
        ("bell\x07 del\x7f c1\x9b", "bell\\u0007 del\\u007f c1\\u009b"),
        ("turned\u202earound\u2066", "turned\\u202earound\\u2066"),
    ],
)
def test_control_characters_are_escaped_in_output(text: str, shown: str) -> None:
    """Everything that a terminal would obey, and nothing else."""
    assert printable(text) == shown


@pytest.mark.parametrize("code", [0xAD, 0x200B, 0x200D, 0x200F, 0x2028, 0x2060, 0x3164, 0xFE0F, 0xFEFF, 0xE0041])
def test_invisible_characters_are_shown_in_what_a_person_decides_about(code: int) -> None:
    """TOL-318: for what a person decides about; elsewhere emoji and scripts need some of them."""
    shown = f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"

    assert visible(f"a{chr(code)}b\x1b") == f"a{shown}b\\u001b"
    assert printable("👩\u200d💻") == "👩\u200d💻"


def test_a_label_is_one_line() -> None:
    """API-417: it cannot look like two."""
    assert one_line("a\nb\u2028c\x1b") == "a b c\\u001b"


def test_a_brief_text_is_one_bounded_line() -> None:
    """Whatever it was before."""
    assert brief("a\n b\t c") == "a b c"
    assert (len(brief("x" * 1000)), brief("x" * 1000)[-1]) == (100, "…")


def test_a_table_in_a_pipe_is_never_cut(capsys: pytest.CaptureFixture[str]) -> None:
    """One line a row, however wide; markup is text."""
    print_table(("NAME", "VALUE"), [("[red]a[/red]", "x" * 500), ("b", None)])
    heading, first, second = capsys.readouterr().out.splitlines()

    assert heading.split() == ["NAME", "VALUE"]
    assert first.split() == ["[red]a[/red]", "x" * 500]
    assert second.split() == ["b"]


def test_json_is_what_the_wire_has(capsys: pytest.CaptureFixture[str]) -> None:
    """In the API's names, indented."""
    print_json([ModelRef(id="m", provider_id="p")])

    assert capsys.readouterr().out == '[\n  {\n    "id": "m",\n    "providerID": "p"\n  }\n]\n'


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stream", "shown"), [(Tty(), "a\\u001b[2Jb\n"), (io.StringIO(), "a\x1b[2Jb\n")])
def test_an_answer_cannot_steer_the_terminal(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, shown: str) -> None:
    """What is piped on stays as it was said."""
    monkeypatch.setattr(sys, "stdout", stream)
    text = {"assistantMessageID": "msg_1", "textID": "t", "text": "a\x1b[2Jb"}
    event = LiveEvent(id="evt_1", type="session.next.text.ended", data=msgspec.Raw(encode(text)))
    Screen(quiet=True).show(event, text)

    assert stream.getvalue() == shown


def test_nothing_is_written_over_a_question(capsys: pytest.CaptureFixture[str]) -> None:
    """It comes in order once the person has answered."""
    screen = Screen(quiet=False)
    screen.hold()
    screen.note("one")
    screen.note("two")
    assert capsys.readouterr() == ("", "")
    screen.release()

    assert capsys.readouterr().err == "one\ntwo\n"


# -- tables ------------------------------------------------------------------------------------------------------


def forty_columns(monkeypatch: pytest.MonkeyPatch) -> Tty:
    monkeypatch.setattr(sys, "stdout", stream := Tty())
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "dumb")
    return stream


def test_a_table_folds_its_last_column_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """An id stays in one piece, so that it can be copied; numbers stand on the right."""
    terminal = forty_columns(monkeypatch)
    print_table(("ID", "N", "TEXT"), [("ses_1", 7, "some words that do not fit on the line")], right=("N",))

    assert terminal.getvalue() == ("ID     N  TEXT\nses_1  7  some words that do not fit on\n          the line\n")


def test_a_table_without_room_is_left_to_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """No column of single letters."""
    terminal = forty_columns(monkeypatch)
    print_table(("ID", "TEXT"), [("x" * 30, "some words")])

    assert terminal.getvalue().splitlines()[1] == f"{'x' * 30}  some words"


def test_wide_letters_take_two_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what is written above a letter takes none."""
    terminal = forty_columns(monkeypatch)
    print_table(("A", "B"), [("日本", "x"), ("e\u0301", "x")])

    assert terminal.getvalue() == "A     B\n日本  x\ne\u0301     x\n"


def test_a_cell_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it was before; an empty table is its heading."""
    terminal = forty_columns(monkeypatch)
    print_table(("A", "B"), [("x\ny", "\x1b[2J")])
    print_table(("A", "B"), [])

    assert terminal.getvalue() == "A    B\nx y  \\u001b[2J\nA  B\n"


@pytest.mark.parametrize(("variable", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_a_heading_is_plain_on_request(monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    """Bold otherwise, and never in a pipe."""
    monkeypatch.setattr(sys, "stdout", Tty())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    bold = heading("A")
    monkeypatch.setenv(variable, value)

    assert (bold, heading("A")) == ("\x1b[1mA\x1b[0m", "A")


# -- events ------------------------------------------------------------------------------------------------------


def event(kind: str, **data: object) -> tuple[LiveEvent, dict[str, object]]:
    return LiveEvent(id="evt_1", type=f"session.next.{kind}", data=msgspec.Raw(encode(data))), data


def test_a_block_that_was_joined_in_the_middle_is_shown_once_and_whole(capsys: pytest.CaptureFixture[str]) -> None:
    """API-210: deltas are not replayed; those after a missed beginning are no beginning."""
    screen = Screen(quiet=True)
    block = {"assistantMessageID": "msg_1", "textID": "t"}
    screen.show(*event("text.delta", **block, delta="world"))
    screen.show(*event("text.ended", **block, text="hello world"))
    other = {**block, "textID": "u"}
    screen.show(*event("text.started", **other))
    screen.show(*event("text.delta", **other, delta="and "))
    screen.show(*event("text.ended", **other, text="and more"))

    assert capsys.readouterr().out == "hello world\nand more\n"


def test_a_call_is_told_in_a_few_words(capsys: pytest.CaptureFixture[str]) -> None:
    """Lists and records are not spelled out."""
    screen = Screen(quiet=False)
    screen.show(
        *event("tool.called", tool="question", callID="c1", timestamp=1, input={"questions": [{"header": "x"}]})
    )
    screen.show(*event("tool.called", tool="grep", callID="c2", timestamp=1, input={"pattern": "a b", "limit": 3}))

    assert capsys.readouterr().err == "> question\n> grep a b 3\n"
