"""What is printed, and what a terminal must not be told."""

from __future__ import annotations

import io
import sys

import pytest

from holdfast.cli.output import brief, print_json, print_table, printable
from holdfast.cli.screen import Screen
from holdfast.schema.model import ModelRef
from holdfast.schema.session_message import AssistantMessage, TextPart, Time


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
def test_control_characters_are_shown(text: str, shown: str) -> None:
    """Everything that a terminal would obey, and nothing else."""
    assert printable(text) == shown


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
    message = AssistantMessage(
        id="msg_1",
        time=Time(created=0),
        agent="build",
        model=ModelRef(id="m", provider_id="p"),
        content=(TextPart(id="t", text="a\x1b[2Jb"),),
    )
    Screen(quiet=True).complete(message)

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
