"""`holdfast run` in a terminal: colours, the progress line, and what a dumb terminal gets."""

from __future__ import annotations

import pytest
from tests.cli.conftest import Machine, Provider

STORY = ("run", "--model", "demo/scripted", "go")


@pytest.fixture
def machine(holdfast: Machine) -> Machine:
    holdfast.environment["TERM"] = "xterm-256color"
    edit = {"tool": "edit", "input": {"path": "hello.txt", "oldString": "hello", "newString": "bye"}}
    command = {"tool": "bash", "input": {"command": "echo out; exit 3", "description": "fails"}}
    holdfast.script({"text": "# Plan\n\x1b]0;owned\x07 **now**", "calls": [edit, command]}, {"text": "Done."})
    return holdfast


def test_a_terminal_shows_styled_text_diffs_and_failures(machine: Machine) -> None:
    """CLI-011, CLI-012, CLI-013, CLI-014: and control sequences of the model are shown, not obeyed."""
    ran = machine.at_terminal(*STORY, whole=True).leave()

    assert ran.code == 0
    assert "\x1b[1;35m# Plan\x1b[0m\n\\u001b]0;owned\\u0007 \x1b[1m**now**\x1b[0m\n" in ran.err
    assert "edit hello.txt  \x1b[2m0." in ran.err
    assert "\x1b[31m-hello world\x1b[0m\n    \x1b[32m+bye world\x1b[0m" in ran.err
    assert "bash echo out; exit 3  \x1b[31mexit status 3, 0." in ran.err
    assert "tokens in" in ran.err.splitlines()[-1]
    assert "\x07" not in ran.err
    assert "\x1b]" not in ran.err


@pytest.mark.parametrize("plain", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": ""}])
def test_colours_can_be_switched_off(machine: Machine, plain: dict[str, str]) -> None:
    """CLI-011: no escape sequence at all; a fast run has no progress line either."""
    machine.environment |= plain
    ran = machine.at_terminal(*STORY, whole=True).leave()

    assert ran.code == 0
    assert "\x1b" not in ran.err
    assert "+bye world" in ran.err


def test_a_pipe_gets_no_escape_sequence(machine: Machine) -> None:
    """CLI-010: the answer as it was written on standard output; calls, diffs and failures on standard error."""
    ran = machine(*STORY)

    assert ran.out == "# Plan\n\x1b]0;owned\x07 **now**\nDone.\n"
    assert "\x1b" not in ran.err
    assert "+bye world" in ran.err
    assert "! bash: exit status 3\n    out\n" in ran.err


def test_a_progress_line_says_what_is_waited_for_and_goes_away(machine: Machine, provider: Provider) -> None:
    """CLI-015: erased before the answer; nothing of it with -q."""
    provider.behave = provider.answer_later
    machine.use_provider(provider.url, settings={"titles": False})
    person = machine.at_terminal("run", "hello", whole=True)
    person.wait_for("s the model")
    provider.released.set()
    ran = person.leave()

    assert ran.code == 0
    before, _, after = ran.err.rpartition("\x1b[K")
    assert after.startswith("model mock/m\nfine\n")
    assert "… " in before
    assert "…" not in machine.at_terminal("run", "-q", "hello", whole=True).leave().err
