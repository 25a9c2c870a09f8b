"""`holdfast sessions` and `holdfast context`: what there is, and what can be done with it."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest
from tests.cli.conftest import PATIENCE, Machine, Provider, Ran, Server, finish, rows

Invoke = Callable[..., Ran]
ECHO = ("run", "--model", "demo/echo")


@pytest.fixture
def session(here: Invoke) -> str:
    return here(*ECHO, "What does hello.txt say?").session


def listed(here: Invoke, *options: str) -> list[str]:
    ran = here("sessions", *options)
    assert ran.code == 0
    return [line.split()[0] for line in ran.out.splitlines()[1:]]


def test_show_prints_a_session_with_its_messages_and_pending_input(
    here: Invoke, session: str, holdfast: Machine
) -> None:
    """SES-045: what is known, what is pending, what was said."""
    asyncio.run(admit(holdfast, session, "for later"))
    ran = here("sessions", "show", session)
    as_json = json.loads(here("sessions", "show", session, "--json").out)

    assert ran.code == 0
    for part in (session, str(holdfast.project), "demo/echo", "Reading hello.txt. [read]", "for later"):
        assert part in ran.out
    assert as_json["session"]["id"] == session
    assert [receipt["prompt"]["text"] for receipt in as_json["pending"]] == ["for later"]
    assert len(as_json["messages"]) == 3


async def admit(machine: Machine, session_id: str, text: str) -> None:
    from holdfast import Holdfast, PromptInput

    async with Holdfast(machine.project, preset="allow", data=machine.data, environment=machine.environment) as hf:
        await hf.sessions.prompt(session_id, prompt=PromptInput(text=text), resume=False)


def test_rename_changes_the_title_in_the_list(here: Invoke, session: str) -> None:
    """SES-027: as the list shows."""
    assert here("sessions", "rename", session, "A", "good", "name").code == 0

    assert rows(here("sessions"))[0][-1] == "A good name"


def test_a_session_is_archived_and_taken_out_again(here: Invoke, session: str) -> None:
    """SES-027: lists show it only when asked for."""
    assert here("sessions", "archive", session).code == 0
    away = (here("sessions").out, listed(here, "--archived"), listed(here, "--archived", "--all"))
    assert here("sessions", "archive", session, "--undo").code == 0

    assert away == ("", [session], [session])
    assert listed(here) == [session]
    assert here("sessions", "--archived").out == ""


def test_the_limit_counts_what_is_listed(here: Invoke) -> None:
    """What is put away takes nobody's place."""
    made = [here(*ECHO, "x").session for _ in range(3)]
    here("sessions", "archive", made[2])

    assert listed(here, "--limit", "2") == [made[1], made[0]]
    assert [found["id"] for found in json.loads(here("sessions", "--json").out)] == [made[1], made[0]]


def test_a_session_is_deleted_when_that_is_meant(here: Invoke, holdfast: Machine, session: str) -> None:
    """SES-028: asked for first; who says no, or cannot be asked, keeps it."""
    unasked = here("sessions", "delete", session)
    person = holdfast.at_terminal("sessions", "delete", session)
    person.wait_for(f"Delete {session}?")
    person.type("n\n")
    kept = person.leave()
    assert (unasked.code, "--yes" in unasked.complaint) == (2, True)
    assert (kept.code, "was not deleted" in kept.complaint) == (1, True)
    assert listed(here) == [session]
    assert here("sessions", "delete", session, "--yes").code == 0

    assert here("sessions").out == ""
    gone = here("sessions", "show", session)
    assert (gone.code, session in gone.complaint) == (1, True)


def test_a_title_is_not_empty(here: Invoke, session: str) -> None:
    """A usage error, before anything is opened."""
    ran = here("sessions", "rename", session, " ")

    assert (ran.code, "TITLE" in ran.complaint) == (2, True)


def test_a_list_can_be_asked_for_by_name(here: Invoke, session: str) -> None:
    """The same, with the same options."""
    assert here("sessions", "list", "--limit", "1", "--all") == here("sessions", "--limit", "1", "--all")
    assert json.loads(here("sessions", "list", "--json").out)[0]["id"] == session


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "ses_unknown"),
        ("rename", "ses_unknown", "x"),
        ("archive", "ses_unknown"),
        ("delete", "ses_unknown", "--yes"),
        ("compact", "ses_unknown"),
        ("waits", "ses_unknown"),
        ("recover", "ses_unknown", "--abandon"),
        ("recover", "ses_unknown", "--continue"),
    ],
)
def test_an_unknown_session_is_one_readable_line(here: Invoke, arguments: tuple[str, ...]) -> None:
    """Exit code 1, and the line names it."""
    ran = here("sessions", *arguments)

    assert (ran.code, ran.out) == (1, "")
    assert "ses_unknown" in ran.complaint


def test_nothing_to_compact_is_said(here: Invoke) -> None:
    """One line."""
    session = here(*ECHO, "x").session
    ran = here("sessions", "compact", session)

    assert ran.code == 1
    assert ran.complaint


def test_a_session_that_waits_for_nothing(here: Invoke, session: str) -> None:
    """SES-209: nothing is no failure."""
    assert here("sessions", "waits", session)[:2] == (0, "")
    assert json.loads(here("sessions", "waits", session, "--json").out) == []


def test_show_says_what_a_session_of_another_process_waits_for(
    holdfast: Machine, here: Invoke, provider: Provider
) -> None:
    """SES-209: asked from another process than the one that executes it."""
    holdfast.use_provider(provider.url)
    provider.behave = provider.hang
    process = holdfast.start("run", "hello")
    assert provider.asked.acquire(timeout=PATIENCE)
    assert process.stderr is not None
    session = process.stderr.readline().split()[1]
    waits = {row[0]: row for row in rows(here("sessions", "waits", session))}
    state = rows(here("sessions"))[0][2]
    process.send_signal(signal.SIGINT)
    finish(process)

    assert "mock/m" in waits["provider"][2]
    assert "owner" in waits
    assert state == "running"


# -- recovery ----------------------------------------------------------------------------------------------------


@pytest.fixture
def broken(holdfast: Machine, provider: Provider) -> str:
    """A session whose process was killed in the middle of a turn."""
    holdfast.use_provider(provider.url, settings={"recovery": "ask"})
    provider.behave = provider.hang
    process = holdfast.start("run", "hello")
    assert provider.asked.acquire(timeout=PATIENCE)
    assert process.stderr is not None
    session = process.stderr.readline().split()[1]
    process.kill()
    process.wait()
    provider.behave = Provider.answer
    return session


def test_a_broken_turn_is_listed_and_continued(here: Invoke, broken: str) -> None:
    """SES-139: a person says so; then it is answered like any other."""
    fine = here(*ECHO, "x").session
    before = (listed(here, "--interrupted"), [row[2] for row in rows(here("sessions")) if row[0] == broken])
    ran = here("sessions", "recover", broken, "--continue")

    assert before == ([broken], ["interrupted"])
    assert (ran.code, ran.out) == (0, "fine\n")
    assert here("sessions", "--interrupted").out == ""
    assert set(listed(here)) == {broken, fine}


def test_a_broken_turn_is_abandoned(here: Invoke, broken: str, holdfast: Machine) -> None:
    """SES-139: nothing is sent, and it is no longer open."""
    assert here("sessions", "recover", broken).code == 2
    assert here("sessions", "recover", broken, "--abandon").code == 0

    assert here("sessions", "--interrupted").out == ""
    assert holdfast.healthy()


def test_continuing_an_answered_session_makes_no_request(here: Invoke, session: str, holdfast: Machine) -> None:
    """SES-139: there is nothing to go on with, so no request is made."""
    before = holdfast.look(session)
    ran = here("sessions", "recover", session, "--continue")

    assert (ran.code, ran.out, "nothing to continue" in ran.complaint) == (1, "", True)
    assert holdfast.look(session) == before


def test_a_server_says_what_broke_off(broken: str, serve: Callable[..., Server]) -> None:
    """SES-139: with the policy `ask` it decides nothing, and tells how to."""
    told = serve("--no-auth")
    told.process.terminate()
    silent = serve("--no-auth", "--no-recovery")
    silent.process.terminate()

    assert f"sessions recover {broken} --continue" in finish(told.process).err
    assert broken not in finish(silent.process).err


def test_a_server_wakes_what_was_admitted(holdfast: Machine, provider: Provider, serve: Callable[..., Server]) -> None:
    """SES-077: a prompt whose process died before its turn."""
    holdfast.use_provider(provider.url)
    first = holdfast("run", "hello")
    assert provider.asked.acquire(timeout=PATIENCE)
    program = (
        "import asyncio, os, sys\n"
        "from holdfast import Holdfast, PromptInput\n"
        "from holdfast.core.runtime.execution import Execution\n"
        "Execution.wake = lambda self, session_id: None\n"
        "async def main():\n"
        "    async with Holdfast() as hf:\n"
        "        await hf.sessions.prompt(sys.argv[1], prompt=PromptInput(text='later'))\n"
        "        os._exit(0)\n"
        "asyncio.run(main())\n"
    )
    subprocess.run(
        [sys.executable, "-c", program, first.session],
        cwd=holdfast.project,
        env=holdfast.environment,
        check=True,
        timeout=20,
    )
    serve("--no-auth")

    assert provider.asked.acquire(timeout=PATIENCE)
    assert provider.bodies[-1]["messages"][-1]["content"] in ("later", [{"type": "text", "text": "later"}])


# -- the system context ------------------------------------------------------------------------------------------


def test_the_context_is_shown_with_what_changed_it(holdfast: Machine, here: Invoke) -> None:
    """CTX-202: the baseline, each source, every change with its cause, and what broke the prefix."""
    (holdfast.project / "AGENTS.md").write_text("Speak softly.\n", encoding="utf-8")
    session = here(*ECHO, "one").session
    (holdfast.project / "AGENTS.md").write_text("Speak loudly.\n", encoding="utf-8")
    assert here("run", "--session", session, "--agent", "general", "two").code == 0
    ran = here("context", session)
    as_json = json.loads(here("context", session, "--json").out)
    baseline, rest = ran.out.split("Sources")

    assert ran.code == 0
    assert "Speak softly." in baseline
    assert "core/instructions" in rest
    assert "Speak loudly." in rest.split("Changes since")[1]
    assert "agent" in rest.split("did not begin")[1]
    assert as_json["status"] == "initialized"
    assert "Speak softly." in as_json["baseline"]
    assert {"core/environment", "core/date"} <= {source["key"] for source in as_json["sources"]}
    assert any("core/instructions" in change["keys"] for change in as_json["changes"])
    assert as_json["prefixBreaks"]


def test_a_session_without_a_context_says_so(holdfast: Machine, here: Invoke) -> None:
    """CTX-202: an explicit result, no failure."""
    session = asyncio.run(create(holdfast))
    ran = here("context", session)

    assert (ran.code, ran.out) == (0, "")
    assert "no System Context yet" in ran.err
    assert json.loads(here("context", session, "--json").out) == {"status": "not initialized"}
    assert here("context", "ses_unknown").code == 1


async def create(machine: Machine) -> str:
    from holdfast import Holdfast

    async with Holdfast(machine.project, preset="allow", data=machine.data, environment=machine.environment) as hf:
        return (await hf.sessions.create()).id
