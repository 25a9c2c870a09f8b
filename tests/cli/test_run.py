"""`holdfast run`: one prompt and its answer."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.conftest import HOLDFAST, Machine, Ran, Server, finish

ECHO = ("run", "--model", "demo/echo")


def test_the_answer_goes_to_standard_output(holdfast: Machine) -> None:
    """CLI-010, CLI-014: everything else goes to standard error: the session, the model, the tool call, what was
    used."""
    ran = holdfast(*ECHO, "What does", "hello.txt say?")

    assert ran.code == 0
    assert ran.out.startswith("Reading hello.txt.\nThe file begins: ")
    *lines, used = ran.err.splitlines()
    assert lines == [f"session {ran.session}", "model demo/echo", "> read hello.txt"]
    assert re.fullmatch(r"0 tokens in, \d+ out, \$0\.0000, \d+\.\d s", used)
    assert holdfast.commands_work()


def test_quiet_is_the_answer_only(holdfast: Machine) -> None:
    """Nothing on standard error when all is well."""
    assert holdfast(*ECHO, "-q", "just say this") == Ran(0, "just say this\n", "")


def test_continuing_a_session_keeps_its_history_and_model(holdfast: Machine) -> None:
    """API-117: the second prompt joins the first one's history and keeps its model."""
    first = holdfast(*ECHO, "one")
    second = holdfast("run", "--session", first.session, "two")
    session, messages = holdfast.look(first.session)

    assert (second.code, second.out, second.session) == (0, "two\n", first.session)
    assert [message.__struct_config__.tag for message in messages] == ["user", "assistant"] * 2
    assert session.location.directory == str(holdfast.project)


def test_the_directory_is_where_the_session_lives(holdfast: Machine) -> None:
    """API-034, API-111: `--dir` instead of the current one."""
    (elsewhere := holdfast.home / "elsewhere").mkdir()
    (elsewhere / "note.txt").write_text("over here\n", encoding="utf-8")
    ran = holdfast(*ECHO, "--dir", str(elsewhere), "note.txt")

    assert (ran.code, ran.out.splitlines()[0]) == (0, "Reading note.txt.")
    assert holdfast.look(ran.session)[0].location.directory == str(elsewhere)


def test_without_any_model_the_offline_one_answers_and_says_so(holdfast: Machine) -> None:
    """A first run works without configuration."""
    ran = holdfast("run", "hello")

    assert (ran.code, ran.out) == (0, "hello\n")
    assert "demo/echo" in ran.err.splitlines()[0]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--session", "ses_unknown", "x"), 1, "ses_unknown"),
        (("--session", "nonsense", "x"), 1, "nonsense"),
        (("--model", "noslash", "x"), 2, "PROVIDER/MODEL"),
        (("--model", "demo/", "x"), 2, "PROVIDER/MODEL"),
        (("--model", "/echo", "x"), 2, "PROVIDER/MODEL"),
        (("--model", "nobody/model", "x"), 1, "nobody/model"),
        (("--model", "demo/unknown", "x"), 1, "demo/unknown"),
        (("--model", "openai/gpt-4.1-mini", "x"), 1, "OPENAI_API_KEY"),
        (("--dir", "/not/there", "x"), 2, "/not/there"),
        ((), 2, "PROMPT"),
        (("",), 2, "empty"),
        ((" ", "\n"), 2, "empty"),
        (("--unknown", "x"), 2, "--unknown"),
    ],
)
def test_a_mistake_is_one_readable_line(
    holdfast: Machine, here: Callable[..., Ran], arguments: tuple[str, ...], code: int, said: str
) -> None:
    """Exit code 1 or 2, and a line that names what is wrong."""
    ran = here("run", *arguments)

    assert (ran.code, ran.out) == (code, "")
    assert said in ran.complaint
    assert holdfast.healthy()


def test_json_is_one_document_a_line(holdfast: Machine) -> None:
    """API-117, API-201, API-491: the session, the receipt, every event, the result; nothing on standard error."""
    ran = holdfast(*ECHO, "--json", "hello.txt")
    lines = [json.loads(line) for line in ran.out.splitlines()]
    session, admission, *events, result = [line[line["type"]] for line in lines]

    assert (ran.code, ran.err) == (0, "")
    assert [line["type"] for line in (*lines[:3], lines[-1])] == ["session", "admission", "event", "result"]
    assert (result["sessionID"], result["outcome"]) == (session["id"], "completed")
    assert admission["sessionID"] == session["id"]
    assert events[-1]["data"] == {"sessionID": session["id"], "status": {"type": "idle"}}
    assert sum(event["type"] == "session.next.step.ended" for event in events) == 2


def test_a_prompt_in_no_encoding_is_refused(holdfast: Machine) -> None:
    """Bytes that are no UTF-8 cannot be a prompt; that is said, not thrown."""
    ran = holdfast(*ECHO, b"caf\xff")

    assert ran.code != 0
    assert ran.complaint


def test_a_closed_pipe_gives_no_traceback_and_the_turn_is_recorded(holdfast: Machine) -> None:
    """A closed pipe: no traceback, and the turn is recorded all the same."""
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.Popen(
        [HOLDFAST, *ECHO, "hello.txt"],
        cwd=holdfast.project,
        env=holdfast.environment,
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writer)
    ran = finish(process)

    assert "Traceback" not in ran.err
    assert holdfast.healthy()


def test_run_attached_to_a_server_gives_the_same_answer(holdfast: Machine, serve: Callable[..., Server]) -> None:
    """API-040, API-041: the same answer through the server, with the password that this machine keeps."""
    server = serve()
    ran = holdfast(*ECHO, "--attach", server.url, "What does hello.txt say?")
    again = holdfast("run", "--attach", server.url, "--session", ran.session, "once more")

    assert ran.code == 0
    assert ran.out.startswith("Reading hello.txt.\nThe file begins: ")
    assert (again.code, again.out, again.session) == (0, "once more\n", ran.session)


def test_run_places_the_session_in_the_directory_of_dir(holdfast: Machine, serve: Callable[..., Server]) -> None:
    """API-111: `--dir` places the session, attached or not."""
    (elsewhere := holdfast.home / "elsewhere").mkdir()
    (elsewhere / "note.txt").write_text("over here\n", encoding="utf-8")
    ran = holdfast(*ECHO, "--attach", serve("--no-auth").url, "--dir", str(elsewhere), "note.txt")

    _, messages = holdfast.look(ran.session)

    assert ran.code == 0
    assert "over here" in str(messages)


def test_attached_a_failing_turn_fails_the_command(holdfast: Machine, serve: Callable[..., Server]) -> None:
    """The server's failures read like our own."""
    url = serve("--no-auth").url
    unavailable = holdfast("run", "--attach", url, "--model", "nobody/model", "x")
    unknown = holdfast("run", "--attach", url, "--session", "ses_unknown", "x")

    assert (unavailable.code, unknown.code) == (1, 1)
    assert "nobody/model" in unavailable.complaint
    assert "ses_unknown" in unknown.complaint


def test_attached_with_a_wrong_password(holdfast: Machine, serve: Callable[..., Server]) -> None:
    """API-042, API-309: refused, and said so."""
    url = serve(OPENCODE_SERVER_PASSWORD="right").url
    ran = holdfast(*ECHO, "--attach", url, "x", OPENCODE_SERVER_PASSWORD="wrong")

    assert ran.code == 1
    assert "redential" in ran.complaint


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://127.0.0.1:port", "nonsense", "ftp://127.0.0.1"])
def test_attaching_to_a_bad_address_is_told_in_one_line(here: Callable[..., Ran], url: str) -> None:
    """API-309: one line, whatever is wrong with the address."""
    ran = here(*ECHO, "--attach", url, "x")

    assert (ran.code, ran.out) == (1, "")
    assert ran.complaint


def test_sessions_are_listed_newest_first(holdfast: Machine) -> None:
    """API-110: those of this directory, or all."""
    (elsewhere := holdfast.home / "elsewhere").mkdir()
    here = [holdfast(*ECHO, "x").session for _ in range(2)]
    there = holdfast(*ECHO, "--dir", str(elsewhere), "x").session

    def ids(*arguments: str) -> list[str]:
        heading, *lines = holdfast("sessions", *arguments).out.splitlines()
        assert heading.split()[0] == "SESSION"
        return [line.split()[0] for line in lines]

    assert ids() == here[::-1]
    assert ids("--limit", "1") == here[1:]
    assert ids("--all") == [there, *here[::-1]]
    assert holdfast("sessions", "--limit", "0").code != 0


def test_an_empty_machine_has_no_sessions(holdfast: Machine) -> None:
    """Nothing to list is no failure."""
    ran = holdfast("sessions")

    assert (ran.code, ran.out) == (0, "")
    assert str(Path(holdfast.project)) in ran.err
    assert holdfast("doctor").code == 0


def test_standard_input_in_no_encoding_is_refused(holdfast: Machine) -> None:
    """One line, and no session is left behind."""
    process = subprocess.run(
        [HOLDFAST, *ECHO, "-"],
        cwd=holdfast.project,
        env=holdfast.environment,
        input=b"caf\xff",
        capture_output=True,
        check=False,
    )

    assert process.returncode == 2
    assert b"UTF-8" in process.stderr
    assert b"Traceback" not in process.stderr
    assert holdfast("sessions").out == ""
