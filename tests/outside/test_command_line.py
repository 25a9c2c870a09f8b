"""The command line as a person and a script use it: exit codes, the newest session, names of sessions, lists."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable

import httpx2
import pytest
from tests.cli.conftest import Machine, Provider, Server, finish, rows

from holdfast import Holdfast

ECHO = ("run", "--model", "demo/echo")
TOUCH = {"tool": "bash", "input": {"command": "touch made.txt", "description": "make a file"}}


@pytest.fixture
def asking(holdfast: Machine) -> Machine:
    """The model wants to run a command, for which the configuration asks."""
    holdfast.configure(permission={"bash": "ask"})
    holdfast.script({"text": "I try.", "calls": [TOUCH]}, {"text": "Good."})
    return holdfast


@pytest.mark.parametrize("quiet", [False, True])
def test_a_denial_has_an_exit_code_and_a_line_of_its_own(asking: Machine, quiet: bool) -> None:
    """CLI-020, CLI-010: though the model went on and answered; also with -q, where nothing else is said."""
    ran = asking("run", "--model", "demo/scripted", "go", *(["-q"] if quiet else []))

    assert (ran.code, ran.out) == (4, "I try.\nGood.\n")
    assert "Permission denied: bash touch made.txt" in ran.complaint
    assert "--yes" in ran.complaint
    assert not quiet or len(ran.err.splitlines()) == 1


def test_a_denial_is_in_the_result_for_programs(asking: Machine) -> None:
    """CLI-016: the answer is there too."""
    ran = asking("run", "--model", "demo/scripted", "go", "--json")
    result = json.loads(ran.out.splitlines()[-1])["result"]

    assert (ran.code, result["outcome"], len(result["denied"])) == (4, "completed", 1)
    allowed = asking("run", "--model", "demo/scripted", "go", "--json", "--yes")
    assert (allowed.code, "denied" in json.loads(allowed.out.splitlines()[-1])["result"]) == (0, False)


def test_what_a_rule_denies_is_no_denied_request(asking: Machine) -> None:
    """CLI-020: nobody would have been asked."""
    asking.configure(permission={"bash": {"*": "allow", "touch *": "deny"}})

    assert asking("run", "--model", "demo/scripted", "go").code == 0


def test_a_denied_shell_command_is_a_denial_too(asking: Machine) -> None:
    """CLI-020: a person typed it, and nobody is there to allow it."""
    ran = asking("run", "--model", "demo/echo", "!touch made.txt")

    assert (ran.code, ran.out) == (4, "")
    assert "touch made.txt" in ran.complaint
    assert not (asking.project / "made.txt").exists()


def test_a_script_goes_on_with_the_newest_session_and_finds_it_by_title(holdfast: Machine) -> None:
    """CLI-021, CLI-030, CLI-031: by a part of the title and by the beginning of the id."""
    first = holdfast(*ECHO, "Explain the parser").session
    second = holdfast(*ECHO, "Explain the lexer").session

    assert holdfast("run", "-c", "go on").session == second
    assert holdfast("run", "--session", "PARSER", "go on").session == first
    assert holdfast("run", "-c", "go on").session == first
    assert holdfast("run", "--session", second[:-1], "go on").session == second
    several = holdfast("run", "--session", "explain", "go on")
    assert (several.code, first in several.err, second in several.err) == (2, True, True)
    assert holdfast("run", "--session", "no such title", "go on").code == 1


def test_an_interrupted_first_turn_is_marked_and_titled(holdfast: Machine, provider: Provider) -> None:
    """CLI-032, CLI-033: it is found by its prompt, and goes on."""
    holdfast.use_provider(provider.url)
    provider.behave = provider.stall
    process = holdfast.start("run", "count the words")
    assert provider.asked.acquire(timeout=45)
    process.send_signal(signal.SIGINT)
    assert finish(process).code == 130

    [[_, _, state, title]] = rows(holdfast("sessions"))
    assert (state, title) == ("stopped", "count the words")
    provider.behave = Provider.answer
    assert holdfast("run", "--session", "count", "again").out == "fine\n"
    assert rows(holdfast("sessions"))[0][2] == "finished"


def test_a_narrow_terminal_gets_two_short_lines_per_session(holdfast: Machine) -> None:
    """CLI-034: 40 columns."""
    id = holdfast(*ECHO, "a title that is much longer than forty columns can show").session
    ran = holdfast.at_terminal("sessions", whole=True, columns=40).leave()

    assert ran.err.splitlines()[0] == id
    assert all(len(line) <= 40 for line in ran.err.splitlines())
    assert "finished: a title" in ran.err


def test_every_client_can_look_a_session_up(holdfast: Machine, serve: Callable[..., Server]) -> None:
    """CLI-030, CLI-032: over HTTP and with the generated client."""
    id = holdfast(*ECHO, "Explain the parser").session
    url = serve("--no-auth").url
    found = httpx2.get(f"{url}/api/lookup", params={"name": "the PARSER"}).json()["data"]
    assert [session["id"] for session in found] == [id]
    assert httpx2.get(f"{url}/api/lookup", params={"name": id[:-4]}).json()["data"] == found
    assert httpx2.get(f"{url}/api/lookup", params={"name": "nothing"}).json()["data"] == []
    for wrong in ("", "name=", f"name={'x' * 1001}", "name=x&limit=0"):
        assert httpx2.get(f"{url}/api/lookup", params=wrong).status_code == 400
    [told] = httpx2.get(f"{url}/api/overview", params={"ids": id}).json()["data"]
    assert (told["state"], told["outcome"]) == ("idle", "completed")
    assert httpx2.get(f"{url}/api/overview", params={"ids": "ses_nothing"}).json()["data"] == []
    assert httpx2.get(f"{url}/api/overview", params={"ids": "nonsense"}).status_code == 400


@pytest.mark.anyio
async def test_the_embedded_host_looks_a_session_up(holdfast: Machine) -> None:
    """CLI-030: an id, a beginning, a title; what begins like an id and is none may be a title."""
    async with holdfast.host() as hf:
        assert isinstance(hf, Holdfast)
        first = await hf.sessions.create(model="demo/echo")
        await hf.sessions.rename(first.id, title="abcd")
        second = await hf.sessions.create(model="demo/echo")
        for name, ids in {
            first.id: [first.id],
            first.id[4:]: [first.id],
            first.id[:8]: [second.id, first.id],
            "abcd": [first.id],
            "ABC": [first.id],
            " ": [],
        }.items():
            assert [found.id for found in await hf.sessions.find(name=name)] == ids, name
