"""Sessions by id, beginning of an id, and title; the newest one; their states and titles in the list."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from tests.cli.conftest import Machine, NearMachine, Provider, Ran, rows

MACHINE = NearMachine
ECHO = ("run", "--model", "demo/echo")


def state_and_title(machine: Machine, *arguments: str) -> list[list[str]]:
    return [row[2:] for row in rows(machine("sessions", *arguments))]


def test_a_session_is_found_by_the_beginning_of_its_id(holdfast: Machine) -> None:
    """CLI-030: with and without `ses_`."""
    id = holdfast(*ECHO, "first words").session
    for name in (id, id[:-3], id.removeprefix("ses_")[:-3]):
        assert id in holdfast("sessions", "show", name).out
    assert holdfast("run", "--session", id[:-2], "more").session == id
    assert holdfast("context", id[:-2]).code == 0


def test_a_session_is_found_by_its_title(holdfast: Machine) -> None:
    """CLI-030: the whole title before a part of it, whatever the case; no character has a meaning of its own."""
    long, short = holdfast(*ECHO, "Fix the test now").session, holdfast(*ECHO, "Fix the test").session

    assert long in holdfast("sessions", "show", "TEST now").out
    assert short in holdfast("sessions", "show", "fix the test").out
    for name in ("%", "*", "[a-z]", "fix_the", "^Fix"):
        assert holdfast("sessions", "show", name).code == 1


def test_titles_of_this_directory_come_first(holdfast: Machine) -> None:
    """CLI-030: those of other directories are found too."""
    (elsewhere := holdfast.home / "elsewhere").mkdir()
    there = holdfast(*ECHO, "--dir", str(elsewhere), "same words").session
    assert there in holdfast("sessions", "show", "same words").out
    here = holdfast(*ECHO, "same words").session
    assert here in holdfast("sessions", "show", "same words").out


def test_a_name_that_fits_several_sessions_lists_them(holdfast: Machine) -> None:
    """CLI-031: exit code 2, and nothing was sent."""
    ids = {holdfast(*ECHO, f"fix {number}").session for number in range(2)}
    ran = holdfast("run", "--session", "fix", "hello")

    assert (ran.code, ran.out) == (2, "")
    assert all(id in ran.err for id in ids)


@pytest.mark.parametrize("name", ["nothing", "ses_nothing", "", "x" * 2000, "a\x1bb"])
def test_a_name_that_fits_nothing_is_an_error(holdfast: Machine, name: str) -> None:
    """CLI-031: one line without control characters."""
    ran = holdfast("sessions", "show", name)

    assert (ran.code, ran.out) == (1, "")
    assert "\x1b" not in ran.complaint


def test_continuing_takes_the_session_that_changed_last(holdfast: Machine) -> None:
    """CLI-021: not the newest; not an archived one; not with --session; not without any."""
    assert "No sessions in" in holdfast("run", "-c", "x").complaint
    old, new = holdfast(*ECHO, "old").session, holdfast(*ECHO, "new").session
    assert holdfast("run", "--session", old, "again").code == 0

    assert holdfast("run", "-c", "more").session == old
    assert holdfast("sessions", "archive", old).code == 0
    assert holdfast("run", "--continue", "more").session == new
    assert holdfast("run", "-c", "--session", new, "x").code == 2


def test_a_failed_first_turn_is_marked_and_titled(holdfast: Machine, provider: Provider) -> None:
    """CLI-032, CLI-033."""

    def refuse(handler: Any) -> None:
        handler.send_error(400, "no")

    provider.behave = refuse
    holdfast.use_provider(provider.url)
    assert holdfast("run", "explain the failure").code == 1

    assert state_and_title(holdfast) == [["failed", "explain the failure"]]
    provider.behave = Provider.answer
    assert holdfast("run", "-c", "again").code == 0
    assert state_and_title(holdfast) == [["finished", "explain the failure"]]


def test_an_unknown_model_leaves_no_session(holdfast: Machine) -> None:
    """CLI-033."""
    assert holdfast("run", "--model", "nobody/model", "x").code == 1
    assert holdfast("run", "--model", "demo/unknown", "x").code == 1
    assert holdfast("sessions").out == ""


def test_lists_are_searched_and_placed(holdfast: Machine) -> None:
    """CLI-034: by title; of another directory."""
    (elsewhere := holdfast.home / "elsewhere").mkdir()
    holdfast(*ECHO, "apples")
    holdfast(*ECHO, "pears")
    holdfast(*ECHO, "--dir", str(elsewhere), "plums")

    assert state_and_title(holdfast, "--search", "APP") == [["finished", "apples"]]
    assert state_and_title(holdfast, "--directory", str(elsewhere)) == [["finished", "plums"]]
    assert "'quinces'" in holdfast("sessions", "--search", "quinces").err
    assert holdfast("sessions", "--all", "--directory", str(elsewhere)).code == 2


def test_undo_takes_back_the_last_prompt_and_its_files(holdfast: Machine) -> None:
    """CLI-035: and says which; `--keep-files` leaves them; the first prompt goes as well."""
    subprocess.run(["git", "init", "-q"], cwd=holdfast.project, check=True)
    file = holdfast.project / "hello.txt"
    edit = {"tool": "edit", "input": {"path": "hello.txt", "oldString": "hello", "newString": "bye"}}
    holdfast.script({"text": "Well."}, {"calls": [edit]}, {"text": "Done."})
    id = holdfast("run", "--model", "demo/scripted", "first").session
    for _ in range(2):
        holdfast("run", "--session", id, "change it")
        assert file.read_text() == "bye world\n"
        ran = holdfast("sessions", "undo", "first")
        assert ran == Ran(0, "took back: change it\n  restored hello.txt  +1 -1\n", "")
        assert file.read_text() == "hello world\n"
    assert [message.__struct_config__.tag for message in holdfast.look(id)[1]][:2] == ["user", "assistant"]

    holdfast("run", "--session", id, "change it")
    assert "left as they are" in holdfast("sessions", "undo", id, "--keep-files").out
    assert file.read_text() == "bye world\n"
    assert holdfast("sessions", "undo", id).out.startswith("took back: first\n")
    assert holdfast.look(id)[1] == []
    assert "nothing that could be taken back" in holdfast("sessions", "undo", id).complaint
    assert holdfast.healthy()


def test_undo_says_where_files_cannot_be_restored(holdfast: Machine) -> None:
    """CLI-035: without a git repository."""
    id = holdfast(*ECHO, "first").session
    assert "only in a git repository" in holdfast("sessions", "undo", id).out


def test_usage_is_told_of_a_session_and_of_a_directory(holdfast: Machine) -> None:
    """CLI-036: with requests, tokens, cache and cost."""
    assert "no usage" in holdfast("usage").err
    id = holdfast(*ECHO, "one two three").session
    holdfast(*ECHO, "four")
    [own] = rows(holdfast("usage", id))
    by_day: Ran = holdfast("usage", "--json")

    assert own[:2] == ["this session", "1"]
    assert own[-1] == "$0.0000"
    [told] = json.loads(by_day.out)
    assert (told["model"], told["requests"], told["cost"]) == ("demo/echo", 2, 0.0)
    assert rows(holdfast("usage"))[-1][:2] == ["total", "2"]
