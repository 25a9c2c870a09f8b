"""What a person does in the interactive terminal: prompts, requests, choices, and finding everything again."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Machine
from tests.tui.emulator import Terminal
from tests.tui.test_terminal import end_servers, local_server

ONE_PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
)
SLOW = {"text": " ".join(f"word{number}" for number in range(300)), "pace": 0.03}
ASKING = {"calls": [{"tool": "bash", "input": {"command": "touch made.txt && ls", "description": "x"}}]}
QUESTION = {
    "question": "Which colour?",
    "header": "Colour",
    "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}],
}


@pytest.fixture
def open_terminal(holdfast: Machine) -> Iterator[Callable[..., Terminal]]:
    """Plays turns of the scripted model, and opens a new Session with it."""

    def start(*turns: dict[str, Any], shown: str = "A new session", **options: Any) -> Terminal:
        holdfast.script(*turns)
        local_server(holdfast)
        person = Terminal(holdfast, "--new", "-m", "demo/scripted", **options)
        person.wait_for(shown)
        return person

    yield start
    end_servers(holdfast)


def test_a_prompt_steers_another_is_queued_and_taken_back(open_terminal: Callable[..., Terminal]) -> None:
    """TUI-122, TUI-123"""
    person = open_terminal(SLOW, {"text": "Done."})
    person.type("begin\r")
    person.wait_for("word5")
    person.type("steer this\r")
    person.wait_for("next: steer this")
    person.type("queue that\t")
    person.wait_for("queued: queue that")
    person.type("\x18")
    person.wait_without("queued: queue that")
    person.wait_for("taken back")
    assert "queue that" in person.text
    person.type("\x03\x03")
    assert person.leave() == 0
    assert "goes on working in the background" in person.text


def test_esc_twice_interrupts_and_enter_lets_waiting_inputs_begin(open_terminal: Callable[..., Terminal]) -> None:
    """TUI-124"""
    person = open_terminal(SLOW, {"text": "The second answer."})
    person.type("begin\r")
    person.wait_for("word5")
    person.type("later\t")
    person.wait_for("queued: later")
    person.type("\x1b")
    person.wait_for("Esc again to interrupt")
    person.press_until("\x1b", "inputs wait: Enter begins")
    person.press_until("\r", "The second answer.")  # the first one may be taken for Alt-Enter, right after an Esc
    person.wait_for("idle")
    assert "The script is over." not in person.text
    person.type("\x03\x03")
    assert person.leave() == 0


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (40, 20)])
def test_an_approval_shows_the_command_and_runs_it(
    holdfast: Machine, open_terminal: Callable[..., Terminal], columns: int, rows: int
) -> None:
    """TUI-130, TUI-132"""
    holdfast.configure_user(permission={"bash": "ask"})
    person = open_terminal(ASKING, {"text": "It is made."}, columns=columns, rows=rows)
    person.type("make it\r")
    person.wait_for("Permission to bash")
    assert "touch made.txt && ls" in person.text
    person.wait_for("allow it once")
    person.type("y")
    person.wait_for("It is made.")
    assert (holdfast.project / "made.txt").exists()
    person.wait_for("idle")
    person.type("\x04")
    assert person.leave() == 0


def test_a_refusal_tells_the_model_why(holdfast: Machine, open_terminal: Callable[..., Terminal]) -> None:
    """TUI-130"""
    holdfast.configure_user(permission={"bash": "ask"})
    person = open_terminal(ASKING, {"text": "I see."})
    person.type("make it\r")
    person.wait_for("allow it once")
    person.type("n")
    person.wait_for("reason (empty stops the turn):")
    person.type("use the makefile\r")
    person.wait_for("use the makefile")
    person.wait_for("I see.")
    assert not (holdfast.project / "made.txt").exists()
    person.type("\x04")
    assert person.leave() == 0


def test_what_is_typed_when_a_request_appears_is_no_answer(
    holdfast: Machine, open_terminal: Callable[..., Terminal]
) -> None:
    """TUI-134"""
    holdfast.configure_user(permission={"bash": "ask"})
    person = open_terminal({**ASKING, "pause": 1.5}, {"text": "It is made."})
    person.type("make it\r")
    person.wait_for("the model answers")
    person.type("y")
    person.wait_for("Permission to bash")
    person.wait_for("Ctrl-G answers it")
    person.type("y and yes")
    person.wait_for("yy and yes")
    assert not (holdfast.project / "made.txt").exists()
    person.type("\x03\x03")
    assert person.leave() == 0


def test_a_question_is_answered_in_place(open_terminal: Callable[..., Terminal]) -> None:
    """TUI-136"""
    asked = {"calls": [{"tool": "question", "input": {"questions": [QUESTION]}}]}
    person = open_terminal(asked, {"text": "Blue it is."})
    person.type("ask me\r")
    person.wait_for("2  Blue: cold")
    person.type("2")
    person.wait_for("Blue it is.")
    person.type("\x04")
    assert person.leave() == 0


def test_files_and_commands_are_completed(holdfast: Machine, open_terminal: Callable[..., Terminal]) -> None:
    """TUI-117, TUI-118"""
    (holdfast.project / "deep").mkdir()
    (holdfast.project / "deep" / "module_one.py").touch()
    person = open_terminal({"text": "Seen."})
    person.type("see @mod")
    person.wait_for("deep/module_one.py")
    person.type("\t")
    person.wait_for("see @deep/module_one.py")
    person.type("\x03")
    person.wait_without("module_one")
    person.type("/ren")
    person.wait_for("give the session a title")
    person.type("\t")
    person.wait_for("/rename")
    person.type("\x03\x03")
    assert person.leave() == 0


def test_shell_commands_run_in_the_session(open_terminal: Callable[..., Terminal]) -> None:
    """TUI-125"""
    person = open_terminal({"text": "Seen."})
    person.type("!echo made by $((40 + 2))\r")
    person.wait_for("made by 42")
    person.type("\x04")
    assert person.leave() == 0


def test_an_unknown_command_comes_back_with_similar_names(open_terminal: Callable[..., Terminal]) -> None:
    """TUI-150"""
    person = open_terminal({"text": "Seen."})
    person.type("/hepl me\r")
    person.wait_for("no command /hepl; similar: /help")
    person.wait_for("/hepl me")
    person.type("\x03\x03")
    assert person.leave() == 0


def test_undo_restores_files_and_redo_brings_them_back(
    holdfast: Machine, open_terminal: Callable[..., Terminal]
) -> None:
    """TUI-151"""
    import subprocess

    subprocess.run(["git", "init", "-q"], cwd=holdfast.project, check=True)
    write = {"calls": [{"tool": "write", "input": {"path": "new.txt", "content": "made"}}]}
    person = open_terminal(write, {"text": "Written."})
    person.type("write it\r")
    person.wait_for("Written.")
    person.wait_for("idle")
    made = holdfast.project / "new.txt"
    assert made.exists()
    person.type("/undo\r")
    person.wait_for("undone, 1 file restored")
    assert not made.exists()
    person.wait_for("/redo brings it back: write it")
    person.type("\x03")
    person.type("/redo\r")
    person.wait_for("brought back")
    assert made.exists()
    person.type("\x04")
    assert person.leave() == 0


def test_fork_rename_export_and_the_list_of_sessions(holdfast: Machine, open_terminal: Callable[..., Terminal]) -> None:
    """TUI-152, TUI-153, TUI-142"""
    person = open_terminal({"text": "An **answer** with `code`."})
    person.type("begin\r")
    person.wait_for("An answer with code.")
    person.wait_for("idle")
    person.type("/rename The first\r")
    person.wait_for("renamed to The first")
    person.type("/fork\r")
    person.wait_for("this is a fork of The first")
    person.type("/export copy.md\r")
    person.wait_for("written to")
    written = (holdfast.project / "copy.md").read_text(encoding="utf-8")
    assert "## Prompt\n\nbegin\n" in written
    assert "An **answer** with `code`." in written
    person.type("/export copy.md\r")
    person.wait_for("give another name")
    person.type("/sessions first\r")
    person.wait_for("type to search")
    person.wait_for("The first")
    person.type("\x1b")
    person.wait_without("type to search")
    person.type("\x04")
    assert person.leave() == 0


def test_pages_and_choices_open_and_close(open_terminal: Callable[..., Terminal]) -> None:
    """TUI-142, TUI-143, TUI-154"""
    person = open_terminal({"text": "Fine."})
    person.type("?")
    person.wait_for("send; while it runs, steer")
    person.type("\x1b")
    person.wait_without("send; while it runs, steer")
    person.type("begin\r")
    person.wait_for("Fine.")
    person.wait_for("idle")
    for command, shown in (
        ("cost", "this session"),
        ("context", "tokens"),
        ("mcp", "No MCP server is configured"),
        ("doctor", "compared with the event log"),
        ("todos", "no to-do list"),
        ("help", "Keys"),
    ):
        person.type(f"/{command}\r")
        person.wait_for("Esc closes")
        person.wait_for(shown) if shown != "Keys" else person.wait_for("Enter")
        person.type("\x1b")
        person.wait_without("Esc closes")
    person.type("/model\r")
    person.wait_for("demo/echo")
    person.type("echo\r")
    person.wait_for("model demo/echo")
    person.type("/agent plan\r")
    person.wait_for("agent plan")
    person.type("/theme light\r")
    person.type("/mouse\r")
    person.wait_for("the mouse selects text")
    person.type("\x04")
    assert person.leave() == 0


def test_settings_that_need_trust_are_asked_about_and_shown(
    holdfast: Machine, open_terminal: Callable[..., Terminal]
) -> None:
    """TUI-155"""
    holdfast.configure(permission={"bash": "allow"}, mcp={"tracker": {"type": "local", "command": ["false"]}})
    person = open_terminal({"text": "Fine."}, shown="need your trust")
    person.wait_for("This project has settings that need your trust")
    person.type("\r")
    person.wait_without("need your trust")
    person.wait_for("settings untrusted")
    person.type("/trust\r")
    person.wait_for("trust them as they are now")
    person.type("as they\r")
    person.wait_without("settings untrusted")
    person.type("\x04")
    assert person.leave() == 0
    assert "(trusted)" in holdfast("trust").out


def test_hostile_text_is_shown_and_not_obeyed(holdfast: Machine, open_terminal: Callable[..., Terminal]) -> None:
    """TUI-126"""
    (holdfast.project / "a\x1b[2Jb.txt").touch()
    person = open_terminal({"text": "Hello \x1b[2J\x1b]0;owned\x07 there"})
    person.type("begin\r")
    person.wait_for("there")
    assert "\\u001b[2J" in person.text
    person.type("@b.txt")
    person.wait_for("a\\u001b[2Jb.txt")
    person.type("\x03\x03")
    assert person.leave() == 0


def test_a_long_paste_is_folded_and_arrives_whole(
    holdfast: Machine, open_terminal: Callable[..., Terminal], tmp_path: Path
) -> None:
    """TUI-110"""
    person = open_terminal({"text": "Read."})
    pasted = "\n".join(f"row {number}" for number in range(200))
    person.type(f"\x1b[200~{pasted}\x1b[201~")
    person.wait_for("[pasted 200 lines]")
    person.type("\r")
    person.wait_for("Read.")
    person.wait_for("idle")
    person.type("\x04")
    assert person.leave() == 0
    session = person.text.partition("holdfast --session ")[2].split()[0]
    _, messages = holdfast.look(session)
    assert any(getattr(message, "text", "") == pasted for message in messages)


def test_ctrl_v_attaches_the_image_of_the_clipboard(holdfast: Machine, open_terminal: Callable[..., Terminal]) -> None:
    """TUI-119: what is there when the key is pressed, and a paste without text does the same."""
    programs = holdfast.home / "programs"
    programs.mkdir()
    reader = programs / "xclip"
    picture = holdfast.home / "picture.png"
    reader.write_text(f'#!/bin/sh\ncat "{picture}"\n', encoding="utf-8")
    reader.chmod(0o755)
    holdfast.environment |= {"DISPLAY": ":0", "PATH": f"{programs}:{holdfast.environment['PATH']}"}
    person = open_terminal({"text": "I see it."})
    person.type("\x16")
    person.wait_for("there is no image in the clipboard")
    picture.write_bytes(ONE_PIXEL)
    person.type("look at \x16")
    person.wait_for("look at [image 1: clipboard-")
    person.type("\x1b[200~\x1b[201~")
    person.wait_for("[image 2: clipboard-")
    person.type("\r")
    person.wait_for("I see it.")
    kept = list((holdfast.home / "state" / "holdfast" / "images").iterdir())
    assert [(path.read_bytes(), path.stat().st_mode & 0o777) for path in kept] == [(ONE_PIXEL, 0o600)] * 2
    person.type("\x03\x03")
    assert person.leave() == 0
