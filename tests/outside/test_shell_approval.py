"""Approval of shell commands as users meet it: what runs unasked, what "always" means, and who has to wait."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.cli.conftest import Machine, Server, finish

ALLOWED = {"*": "ask", "cat *": "allow", "echo *": "allow"}
RUN = ("run", "--model", "demo/scripted", "go")


def bash(*commands: str) -> dict[str, object]:
    """A turn of the model."""
    return {"calls": [{"tool": "bash", "input": {"command": command}} for command in commands]}


@pytest.fixture
def asking(holdfast: Machine) -> Machine:
    holdfast.configure_user(permission={"bash": "ask"})
    return holdfast


def test_an_allow_list_of_commands_allows_nothing_else(holdfast: Machine) -> None:
    """TOL-360: with `cat *` and `echo *` allowed, text around them makes no file and runs no other program."""
    evil = holdfast.project / "evil"
    evil.mkdir()
    (evil / "cat").write_text("#!/bin/sh\n: > made\n", encoding="utf-8")
    (evil / "cat").chmod(0o755)
    holdfast.configure_user(permission={"bash": ALLOWED})
    commands = (
        "cat <<E\n x $(touch made)\nE",
        "echo $(( '$(touch made)' ))",
        "echo a &>/dev/null touch made",
        "for PATH in ./evil; do cat x; done",
        'echo "$\\\n(touch made)"',
        "echo a; [[ x > made ]]",
        "echo a > made",
        "echo() { touch made; }; echo a",
    )
    holdfast.script(bash(*commands, "echo fine | cat > /dev/null && echo done"), {"text": "Good."})
    ran = holdfast(*RUN)

    assert (ran.code, ran.out) == (4, "Good.\n")
    assert not (holdfast.project / "made").exists()
    assert ran.err.count("\n! Permission denied") == len(commands)


def test_always_is_for_the_command_that_was_shown(asking: Machine) -> None:
    """TOL-363, TOL-362: the same command runs again; its parts, and others like it, are asked about."""
    command = "true . && touch made*"
    asking.script(bash(command), {"text": "Good."})
    person = asking.at_terminal(*RUN)
    person.wait_for("a         always allow exactly this")
    person.wait_for("a1        always allow exactly this command")
    person.wait_for("a2        always allow true *")
    person.wait_for("your answer:")
    person.type("a\n")
    assert person.leave().code == 0
    (asking.project / "made*").unlink()

    asking.script(bash(command), {"text": "Good."})
    assert "nobody" not in asking(*RUN).err
    assert (asking.project / "made*").exists()
    asking.script(bash("touch made*", "true .", "true . && touch made_too", f"{command} "), {"text": "Good."})
    assert asking(*RUN).err.count("\n! Permission denied") == 4


def test_over_http_always_saves_the_exact_command(asking: Machine, serve: Callable[..., Server]) -> None:
    """TOL-363, TOL-362, TOL-099: a client that makes no choice saves nothing wider; one that does gets the prefix."""
    asking.script(bash("git status -s"), {"text": "Good."})
    with httpx2.Client(base_url=f"{serve('--no-auth').url}/api", timeout=30) as client:
        for answer, saved in (({}, "git status -s"), ({"save": ["git status *"]}, "git status *")):
            session = client.post("/session", json={"model": {"providerID": "demo", "id": "scripted"}}).json()["data"]
            client.post(f"/session/{session['id']}/prompt", json={"prompt": {"text": "go"}})
            request = wait_for_request(client, session["id"])
            assert request["save"] == ["git status -s", "git status *"]
            path = f"/session/{session['id']}/permission/{request['id']}/reply"
            assert client.post(path, json={"reply": "always", **answer}).status_code == 204
            approvals = client.get("/permission/saved").json()["data"]
            assert [item["resource"] for item in approvals] == [saved]
            client.delete(f"/permission/saved/{approvals[0]['id']}")


def test_an_approval_covers_the_directory_that_was_shown(asking: Machine, serve: Callable[..., Server]) -> None:
    """TOL-527: neither another directory of the project, by `workdir` or as that of a Session, nor its parts."""
    nested = asking.project / "sub"
    nested.mkdir()
    subprocess.run(("git", "init", "-q"), cwd=asking.project, check=True)
    for folder, word in ((asking.project, "above"), (nested, "below")):
        (folder / "run.sh").write_text(f"echo {word} >> '{asking.home}/ran'")
    ran = asking.home / "ran"
    calls = [{"tool": "bash", "input": {"command": "sh ./run.sh", **where}} for where in ({}, {"workdir": "sub"})]
    asking.script({"calls": [calls[0]]}, {"text": "Good."})
    with httpx2.Client(base_url=f"{serve('--no-auth').url}/api", timeout=30) as client:

        def begin(directory: Path) -> str:
            body = {"model": {"providerID": "demo", "id": "scripted"}, "location": {"directory": str(directory)}}
            session: str = client.post("/session", json=body).json()["data"]["id"]
            client.post(f"/session/{session}/prompt", json={"prompt": {"text": "go"}})
            return session

        session = begin(asking.project)
        request = wait_for_request(client, session)
        path = f"/session/{session}/permission/{request['id']}/reply"
        assert client.post(path, json={"reply": "always"}).status_code == 204
        client.post(f"/session/{session}/wait")
        assert ran.read_text() == "above\n"

        for place, turn in ((asking.project, [calls[1]]), (nested, [calls[0]])):
            asking.script({"calls": turn}, {"text": "Good."})
            request = wait_for_request(client, begin(place))
            assert request["metadata"]["directory"] == str(nested)
            assert request["save"][0].startswith("exact:")
            assert ran.read_text() == "above\n"

        asking.script({"calls": [calls[0]]}, {"text": "Good."})
        again = begin(asking.project)
        client.post(f"/session/{again}/wait")
        assert ran.read_text() == "above\nabove\n"


def test_denials_see_through_options_and_wrappers(holdfast: Machine) -> None:
    """TOL-529: although everything else is allowed."""
    holdfast.configure_user(permission={"bash": {"*": "allow", "rm *": "deny", "git push *": "ask"}})
    (holdfast.project / "kept").touch()
    denied = ("nice -n 5 rm kept", "env -i rm kept", "sh -c 'rm kept'", "eval rm kept", "trap 'rm kept' EXIT")
    commands = (*denied, "git -C . push", "git -c a=b push")
    holdfast.script(bash(*commands), {"text": "Good."})
    ran = holdfast(*RUN)
    assert ran.err.count("\n! Permission denied") == len(commands)
    assert (holdfast.project / "kept").exists()


def test_the_preset_ask_asks_about_changes_only(holdfast: Machine) -> None:
    """TOL-525, TOL-523, CAT-185: the command line has no preset unless one is chosen."""
    turn = bash("ls; git status --short", "touch made", "git log --output=made")
    holdfast.script(turn, {"text": "Good."})
    assert "Permission denied" not in holdfast(*RUN).err
    (holdfast.project / "made").unlink()
    assert holdfast("config", "preset", "ask").code == 0
    holdfast.script(turn, {"text": "Good."})
    ran = holdfast(*RUN)
    assert ran.err.count("\n! Permission denied") == 2
    assert not (holdfast.project / "made").exists()


def test_what_a_person_runs_is_not_asked_about(holdfast: Machine, serve: Callable[..., Server]) -> None:
    """TOL-525, SES-284: because of a preset; a rule that says `ask` counts."""
    assert holdfast("config", "preset", "ask").code == 0
    with httpx2.Client(base_url=f"{serve('--no-auth').url}/api", timeout=30) as client:
        session = client.post("/session", json={}).json()["data"]["id"]
        done = client.post(f"/session/{session}/shell", json={"command": "touch made"})
        assert done.status_code == 204, done.text
        assert (holdfast.project / "made").exists()


def test_no_command_holds_up_the_server(asking: Machine, serve: Callable[..., Server]) -> None:
    """TOL-361: others are answered within 200 ms while a model sends commands that are expensive to read."""
    size = 8_192
    units = ("a|", "a;", "<<E ", "cat <<E\n$x\nE\n", "$(", '"$(', "( ", "nice ", "`a`", "$x ", "' \" ", "[", "{a,")
    asking.script(bash(*((unit * size)[:size] for unit in units), "a|" * 30_000), {"text": "Good."})
    url = serve("--no-auth").url
    worst: list[float] = []
    while not worst or (worst[-1] >= 0.2 and len(worst) < 3):  # anyone may be unlucky on a busy machine, but not thrice
        running = asking.start(*RUN, "--attach", url)
        taken = []
        with httpx2.Client(base_url=f"{url}/api", timeout=60) as client:
            while running.poll() is None:
                started = time.monotonic()
                assert client.get("/health").status_code == 200
                taken.append(time.monotonic() - started)
        assert finish(running).out == "Good.\n"
        worst.append(max(taken))
    assert worst[-1] < 0.2


def wait_for_request(client: httpx2.Client, session_id: str) -> dict[str, Any]:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        found = client.get(f"/session/{session_id}/permission").json()["data"]
        if found:
            request: dict[str, Any] = found[0]
            return request
    raise AssertionError("nothing was asked")
