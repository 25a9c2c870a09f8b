"""What the command line is connected to: streams that are closed, full, cut off or of another encoding."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest
from tests.cli.conftest import HOLDFAST, Machine, Provider, Ran, Server, eventually, finish

ECHO = f"{HOLDFAST} run --model demo/echo"


def shell(machine: Machine, line: str, **environment: str) -> Ran:
    """Run a line of the shell; `$OUT` and `$ERR` are files for what its own redirections leave alone."""
    process = subprocess.run(
        ["sh", "-c", line],
        cwd=machine.project,
        env={**machine.environment, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=50,
        check=False,
    )
    return Ran(process.returncode, process.stdout, process.stderr)


@pytest.mark.parametrize(
    ("closed", "out"), [("<&-", "hello\n"), (">&-", ""), ("2>&-", "hello\n"), ("<&- >&- 2>&-", "")]
)
def test_a_closed_stream_leads_nowhere(holdfast: Machine, closed: str, out: str) -> None:
    """As under a daemon: the answer is recorded, and no file takes the place of the stream."""
    ran = shell(holdfast, f"{ECHO} hello {closed}")

    assert (ran.code, ran.out) == (0, out)
    assert "Traceback" not in ran.err
    assert holdfast.healthy()


def test_a_closed_standard_input_is_an_empty_prompt(holdfast: Machine) -> None:
    """A usage error, not a traceback."""
    ran = shell(holdfast, f"{ECHO} - <&-")

    assert ran.code == 2
    assert "empty" in ran.complaint


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize("line", [f"{ECHO} hello", f"{ECHO} --json hello", f"{HOLDFAST} agents", f"{HOLDFAST} --help"])
def test_no_room_for_the_output_is_said(holdfast: Machine, line: str) -> None:
    """One line and exit code 1, also at the end of the process; what was done is kept."""
    ran = shell(holdfast, f"{line} > /dev/full")

    assert ran.code == 1
    assert "standard output" in ran.complaint
    assert holdfast.healthy()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_no_room_for_a_complaint_is_a_failure_like_any_other(holdfast: Machine) -> None:
    """Exit code 1, though nothing can be said about it."""
    assert shell(holdfast, f"{HOLDFAST} sessions show ses_unknown 2> /dev/full") == Ran(1, "", "")


def test_characters_that_the_encoding_lacks_are_spelled_out(holdfast: Machine) -> None:
    """In an answer and in a table."""
    answer = shell(holdfast, f"{ECHO} 'to be →'", PYTHONIOENCODING="latin-1")
    table = shell(holdfast, f"{HOLDFAST} sessions", PYTHONIOENCODING="latin-1")

    assert (answer.code, answer.out) == (0, "to be \\u2192\n")
    assert (table.code, "to be \\u2192" in table.out) == (0, True)


def test_json_is_utf_8_whatever_the_terminal_speaks(holdfast: Machine) -> None:
    """Programs read it, and an escape that JSON does not know would stop them."""
    ran = shell(holdfast, f"{ECHO} --json 'to be 🦀'", PYTHONIOENCODING="latin-1")

    assert ran.code == 0
    assert all(json.loads(line) for line in ran.out.splitlines())
    assert "to be 🦀" in ran.out


def test_a_key_in_no_encoding_is_refused(holdfast: Machine) -> None:
    """CAT-132: nothing is stored."""
    ran = shell(holdfast, f"printf '\\377' | {HOLDFAST} auth login anthropic")

    assert (ran.code, "UTF-8" in ran.complaint) == (2, True)
    assert holdfast("auth", "list").out == ""


def test_a_directory_that_is_gone_is_said(holdfast: Machine) -> None:
    """Not where in the program it was missed."""
    ran = shell(holdfast, f"mkdir gone && cd gone && rmdir ../gone && {HOLDFAST} agents")

    assert (ran.code, ran.out) == (1, "")
    assert "current directory" in ran.complaint


def test_a_folder_that_cannot_be_used_is_said(holdfast: Machine) -> None:
    """By its name."""
    ran = holdfast("serve", "--port", "0", XDG_STATE_HOME=str(holdfast.project / "hello.txt"))

    assert (ran.code, ran.out) == (1, "")
    assert "hello.txt" in ran.complaint


def test_a_closed_pipe_interrupts_the_turn_at_the_server(
    holdfast: Machine, provider: Provider, serve: Callable[..., Server]
) -> None:
    """API-124: a run through a server ends its turn there as one without a server does."""
    holdfast.use_provider(provider.url)
    provider.behave = provider.stall
    url = serve("--no-auth").url
    reader, writer = os.pipe()
    process = subprocess.Popen(
        [HOLDFAST, "run", "--attach", url, "hello"],
        cwd=holdfast.project,
        env=holdfast.environment,
        stdin=subprocess.DEVNULL,
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writer)
    os.close(reader)
    ran = finish(process)

    assert (ran.code, "Traceback" in ran.err) == (1, False)
    assert httpx2.get(f"{url}/api/session/active").json() == {"data": {}}


def test_a_server_that_ends_in_mid_answer_is_named(
    holdfast: Machine, provider: Provider, serve: Callable[..., Server]
) -> None:
    """What was recorded is kept, and the line says so."""
    holdfast.use_provider(provider.url)
    provider.behave = provider.stall
    server = serve()
    process = holdfast.start("run", "hello")
    eventually(lambda: provider.asked.acquire(blocking=False))
    server.process.kill()
    ran = finish(process)

    assert ran.code == 1
    assert "The server ended before the answer was complete" in ran.complaint
    assert holdfast.healthy()
