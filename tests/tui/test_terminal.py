"""The interactive terminal in a pseudo-terminal: start, prompts, leaving, crashes, and a server that is killed."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from tests.cli.conftest import Machine, finish
from tests.cli.conftest import holdfast as holdfast
from tests.tui.emulator import Terminal

from holdfast.client.discovery import running_servers

HINT = "Type a prompt."


@pytest.fixture
def terminal(holdfast: Machine) -> Iterator[Callable[..., Terminal]]:
    """Opens terminals. Servers that they started are ended with the test."""

    def start(*arguments: str, **options: object) -> Terminal:
        return Terminal(holdfast, *arguments, **options)  # type: ignore[arg-type]

    yield start
    end_servers(holdfast)


def end_servers(machine: Machine, number: int = signal.SIGKILL) -> list[int]:
    pids = [server.pid for server in running_servers(machine.environment)]
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
    return pids


def local_server(machine: Machine) -> int:
    """A server without a port, forked so that it starts quickly. Returns its process id."""
    process = machine.start("serve", "--local")
    assert process.stdout is not None
    assert "private socket" in process.stdout.readline()
    return process.pid


def test_the_first_start_asks_how_agents_may_work_then_opens_the_screen(
    holdfast: Machine, terminal: Callable[..., Terminal]
) -> None:
    """TUI-101, TUI-102, TUI-106"""
    holdfast.choices.unlink()
    person = terminal()
    person.wait_for("your choice [1]:")
    person.type("2\n")
    person.wait_for("A new session")
    person.wait_for(HINT)
    person.type("What does hello.txt say?\r")
    person.wait_for("The file begins: hello world")
    person.type("\x04")
    assert person.leave() == 0
    assert person.is_restored
    assert "comes back to it" in person.text
    assert b'"ask-changes"' in holdfast.choices.read_bytes()


def test_the_newest_session_of_the_directory_is_opened_again(
    holdfast: Machine, terminal: Callable[..., Terminal]
) -> None:
    """TUI-100"""
    local_server(holdfast)
    holdfast("run", "--model", "demo/echo", "What does hello.txt say?")
    person = terminal()
    person.wait_for("What does hello.txt say?")
    person.wait_for("hello world")
    person.wait_for("demo/echo")
    person.type("/quit\r")
    assert person.leave() == 0
    new = terminal("--new")
    new.wait_for("A new session")
    new.type("\x03\x03")
    assert new.leave() == 0
    assert new.is_restored


def test_a_session_is_attached_by_its_title_and_forked(holdfast: Machine, terminal: Callable[..., Terminal]) -> None:
    """TUI-100"""
    local_server(holdfast)
    ran = holdfast("run", "--model", "demo/echo", "What does hello.txt say?")
    holdfast("sessions", "rename", ran.session, "Seaweed")
    person = terminal("attach", "seaweed", "--fork")
    person.wait_for("hello world")
    person.type("\x04")
    assert person.leave() == 0
    assert ran.session not in person.text
    unknown = terminal("attach", "nonsense")
    assert unknown.leave() == 1
    assert unknown.is_restored
    assert "holdfast: no session is called nonsense" in unknown.text


@pytest.mark.store("sqlite", reason="makes the folder of the file unusable")
def test_a_server_that_cannot_start_is_told_and_the_terminal_ends(
    holdfast: Machine, terminal: Callable[..., Terminal]
) -> None:
    """TUI-106, TUI-107"""
    holdfast.data.parent.mkdir(parents=True)
    holdfast.data.write_text("a file where the data folder should be", encoding="utf-8")
    person = terminal(columns=200)
    assert person.leave() == 1
    assert person.is_restored
    assert "the server ended with 1" in person.text


def test_without_a_terminal_help_is_printed(holdfast: Machine) -> None:
    """TUI-103"""
    ran = holdfast()
    assert ran.code == 2
    assert "Usage: holdfast" in ran.err
    assert finish(holdfast.start("attach")).code == 2


def test_options_of_the_terminal_exclude_each_other(holdfast: Machine, terminal: Callable[..., Terminal]) -> None:
    """TUI-103"""
    assert "put it behind the command's name" in holdfast("--new", "sessions").complaint
    person = terminal("--new", "--fork")
    person.wait_for("--new cannot be combined with --session or --fork")
    assert person.leave() == 2


def test_ctrl_c_once_clears_the_composer(holdfast: Machine, terminal: Callable[..., Terminal]) -> None:
    """TUI-104"""
    local_server(holdfast)
    person = terminal()
    person.wait_for("A new session")
    person.type("half a prompt")
    person.wait_for("half a prompt")
    person.type("\x03")
    person.wait_without("half a prompt")
    person.wait_for("Ctrl-C again to leave")
    assert person.process.poll() is None
    person.type("\x04")
    assert person.leave() == 0


def test_what_is_typed_before_there_is_a_connection_is_kept(
    holdfast: Machine, terminal: Callable[..., Terminal]
) -> None:
    """TUI-101"""
    person = terminal()
    person.wait_for(HINT)
    person.type("typed early")
    person.wait_for("typed early")
    person.wait_for("A new session")
    person.wait_for("typed early")
    person.type("\x03\x03")
    person.leave()


def test_a_closed_terminal_leaves_the_work_running(holdfast: Machine, terminal: Callable[..., Terminal]) -> None:
    """TUI-105"""
    holdfast.script({"text": " ".join(f"word{n}" for n in range(40)), "pace": 0.02})
    local_server(holdfast)
    person = terminal("--new", "-m", "demo/scripted")
    person.wait_for("A new session")
    person.type("begin\r")
    person.wait_for("word1")
    person.hang_up()
    finish(person.process)
    again = terminal()
    again.wait_for("word39")
    again.wait_for("idle")
    again.type("\x04")
    assert again.leave() == 0


def test_a_killed_server_is_started_again_and_a_prompt_arrives_once(
    holdfast: Machine, terminal: Callable[..., Terminal]
) -> None:
    """TUI-120, TUI-121"""
    pid = local_server(holdfast)
    person = terminal("-m", "demo/echo")
    person.wait_for("A new session")
    person.type("What does hello.txt say?\r")
    person.wait_for("hello world")
    os.kill(pid, signal.SIGKILL)
    person.type("And once more hello.txt?\r")
    person._until(lambda: person.text.count("The file begins: hello world") == 2, "the second answer is missing")
    person.wait_for("idle")
    person.type("\x04")
    assert person.leave() == 0
    assert person.text.count("holdfast --session") == 1
    session = person.text.partition("holdfast --session ")[2].split()[0]
    messages = holdfast("sessions", "show", session).out
    assert messages.count("And once more") == 1


def test_a_prompt_that_did_not_arrive_is_told_when_the_person_leaves(
    holdfast: Machine, terminal: Callable[..., Terminal]
) -> None:
    """TUI-104, TUI-112"""
    local_server(holdfast)
    person = terminal("-m", "demo/echo")
    person.wait_for("A new session")
    for pid in end_servers(holdfast, signal.SIGSTOP):
        person.type("are you there?\r")
        person.wait_for("sending: are you there?")
        person.type("\x04")
        person.wait_for("a prompt is still being sent")
        person.type("\x03\x03")
        assert person.leave() == 0
        os.kill(pid, signal.SIGCONT)
    assert "Not sent: are you there?" in person.text


CRASH = """
import sys
sys.argv = ["holdfast"]
from holdfast.tui.operations import Operations
async def begin(self): raise RuntimeError("a defect")
Operations.begin = begin
from holdfast.cli.main import main
main()
"""


def test_a_crash_restores_the_terminal_and_is_told(holdfast: Machine, terminal: Callable[..., Terminal]) -> None:
    """TUI-107"""
    holdfast.started_by = [sys.executable, "-c", CRASH]
    person = terminal()
    assert person.leave() == 1
    assert person.is_restored
    assert "RuntimeError: a defect" in person.text


def test_a_signal_restores_the_terminal(holdfast: Machine, terminal: Callable[..., Terminal]) -> None:
    """TUI-107"""
    local_server(holdfast)
    person = terminal()
    person.wait_for("A new session")
    os.kill(person.process.pid, signal.SIGTERM)
    assert person.leave() == 130
    assert person.is_restored


def test_suspend_and_resume(holdfast: Machine, terminal: Callable[..., Terminal]) -> None:
    """TUI-108"""
    local_server(holdfast)
    holdfast.started_by = ["bash", "-c", 'set -m; "$0" "$@"; echo stopped; read -r line; fg']
    person = terminal()
    person.wait_for("A new session")
    person.type("kept")
    person.wait_for("kept")
    person.type("\x1a")
    person.wait_for("stopped")
    person._until(lambda: not person.display.alternate, "the main screen is not back")
    person.type("\n")
    person.wait_for("kept")
    assert person.display.alternate
    person.type("\x03\x03")
    assert person.leave() == 0


@pytest.mark.parametrize(("columns", "rows"), [(40, 20), (20, 5), (10, 2), (200, 50)])
def test_every_size_is_drawn(holdfast: Machine, terminal: Callable[..., Terminal], columns: int, rows: int) -> None:
    """TUI-109"""
    local_server(holdfast)
    person = terminal()
    person.wait_for("A new session")
    person.resize(columns, rows)
    person.type("abc")
    person.wait_for("abc" if columns >= 10 and rows > 2 else "a")
    person.resize(80, 24)
    person.wait_for("A new session")
    person.type("\x03\x03")
    assert person.leave() == 0
    assert person.is_restored


def test_line_by_line_for_a_dumb_terminal(holdfast: Machine, terminal: Callable[..., Terminal]) -> None:
    """TUI-160"""
    local_server(holdfast)
    person = terminal(TERM="dumb")
    person.wait_for("line by line")
    person.type("What does hello.txt say?\n")
    person.wait_for("The file begins: hello world")
    assert not person.display.alternate
    person.type("/quit\n")
    assert person.leave() == 0
