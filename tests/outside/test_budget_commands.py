"""Budgets on the command line."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest
from tests.cli.conftest import PATIENCE, Machine, Ran, Server

Invoke = Callable[..., Ran]
ECHO = ("run", "--model", "demo/echo")


def test_a_run_whose_budget_is_used_up_says_so_and_exits_with_3(here: Invoke) -> None:
    """API-554: it is kept, and goes on where it was."""
    ran = here(*ECHO, "--budget", "0", "What does hello.txt say?")
    assert (ran.code, ran.out) == (3, "")
    assert f"{ran.session} is paused" in ran.complaint
    assert "$0.00 of $0.00 used" in ran.complaint
    shown = here("sessions", "waits", ran.session)
    assert "budget" in shown.out
    assert here("sessions", "budget", ran.session, "--none").code == 0
    went_on = here("sessions", "recover", ran.session, "--continue")
    assert went_on.code == 0
    assert "hello world" in went_on.out


def test_the_budget_of_a_session_is_shown_and_changed(here: Invoke) -> None:
    """API-554: options replace the whole budget."""
    session = here(*ECHO, "--budget", "$2.50", "hello").session
    assert here("sessions", "budget", session).out.splitlines()[1].split()[:3] == ["money", "$0.0000", "$2.5000"]
    here("sessions", "budget", session, "--turns", "7", "--time", "1.5", "--tokens", "9000000")
    (info,) = json.loads(here("sessions", "budget", session, "--json").out)
    assert info["limit"] == {"tokens": 9000000, "turns": 7, "time": 1.5}
    assert info["used"]["turns"] >= 1
    assert "has no budget" in here("sessions", "budget", session, "--none").err


def test_a_run_sets_the_budget_of_a_session_that_exists(here: Invoke) -> None:
    """API-554: --budget with --session."""
    session = here(*ECHO, "hello").session
    assert here("run", "--session", session, "--budget", "1", "again").code == 0
    (info,) = json.loads(here("sessions", "budget", session, "--json").out)
    assert info["limit"] == {"money": 1.0}


@pytest.mark.parametrize("amount", ["-1", "nan", "inf", "much", "", "1e30"])
def test_what_is_no_amount_is_a_usage_error(here: Invoke, amount: str) -> None:
    """API-554: before anything is created."""
    for command in ((*ECHO, f"--budget={amount}", "hello"), ("sessions", "budget", "ses_x", f"--money={amount}")):
        ran = here(*command)
        assert ran.code == 2
        assert "Invalid value for" in ran.complaint
    assert "no sessions" in here("sessions").err
    assert here("sessions", "budget", "ses_x", "--none", "--turns", "1").code == 2


def test_a_running_server_goes_on_when_a_command_raises_the_budget(
    here: Invoke, holdfast: Machine, serve: Callable[..., Server]
) -> None:
    """SES-377, API-554: the command itself ends at once."""
    serve()
    paused = here(*ECHO, "--budget", "0", "What does hello.txt say?")
    assert paused.code == 3
    assert here("sessions", "budget", paused.session, "--money", "5").code == 0
    deadline = time.monotonic() + PATIENCE
    while "hello world" not in here("sessions", "show", paused.session).out:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_run_whose_children_all_wait_for_the_budget_exits_with_3(
    here: Invoke, holdfast: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """API-554, SES-375: the call of the parent waits on, and only somebody else can end that."""
    monkeypatch.setattr("holdfast.cli.following.SILENCE_SECONDS", 0.05)
    holdfast.configure_user(holdfast={"titles": False, "budget": {"turns": 1}})
    task = {"agent": "general", "description": "a task", "prompt": "look"}
    holdfast.script({"calls": [{"tool": "subagent", "input": task}]}, {"text": "looked"}, {"text": "all done"})
    monkeypatch.setenv("HOLDFAST_SCRIPT", holdfast.environment["HOLDFAST_SCRIPT"])
    ran = here("run", "--json", "--model", "demo/scripted", "go")
    assert ran.code == 3
    assert "0 turns of 1 turns used, 1 turns reserved" in ran.complaint
    lines = [json.loads(line) for line in ran.out.splitlines()]
    session = lines[0]["session"]["id"]
    assert (lines[-1]["type"], lines[-1]["result"]["outcome"]) == ("result", "waiting")
    assert here("sessions", "budget", session, "--none").code == 0
    went_on = here("sessions", "recover", session, "--continue")
    assert (went_on.code, went_on.out) == (0, "looked\n")
