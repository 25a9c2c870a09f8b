"""Trees of Sessions in the terminal: lists, `sessions tree`, what `run` shows of subagents, stopping and deleting."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.cli.conftest import Machine, Provider, Ran, Server, finish, rows

Invoke = Callable[..., Ran]
RUN = ("run", "--model", "demo/scripted", "--yes")


def subagent(prompt: str, **fields: Any) -> dict[str, Any]:
    given = {"agent": "general", "description": "look it up", "prompt": prompt, "model": "demo/echo", **fields}
    return {"tool": "subagent", "input": given}


@pytest.fixture
def tree(holdfast: Machine, here: Invoke, monkeypatch: pytest.MonkeyPatch) -> Ran:
    """A run whose model gave a task to a subagent."""
    holdfast.script({"calls": [subagent("What does hello.txt say?")]}, {"text": "Good."})
    monkeypatch.setenv("HOLDFAST_SCRIPT", holdfast.environment["HOLDFAST_SCRIPT"])
    ran = here(*RUN, "go")
    assert ran.code == 0, ran
    return ran


def test_run_shows_what_subagents_do_and_what_all_of_it_used(tree: Ran) -> None:
    """API-572: short lines below the call, the answer alone on standard output."""
    assert tree.out == "Good.\n"
    lines = [line.strip() for line in tree.err.splitlines()]
    begun = next(index for index, line in enumerate(lines) if line.startswith("> subagent"))
    assert lines[begun + 1].startswith("┊ general : look it up (ses_")
    assert lines[begun + 2].startswith("┊ general = ")
    assert lines[-2].startswith("with subagents: 2 sessions, $0.0000, tokens: ")


def test_json_output_carries_the_events_of_subagents(tree: Ran, here: Invoke) -> None:
    """API-572: as lines of their own, with their Session; and the sums in the result."""
    ran = here(*RUN, "--json", "go")
    found = [json.loads(line) for line in ran.out.splitlines()]
    session_id = found[0]["session"]["id"]
    events = [line["event"] for line in found if line["type"] == "event"]
    children = {event["data"]["sessionID"] for event in events} - {session_id}
    assert len(children) == 1
    kinds = {event["type"] for event in events if event["data"]["sessionID"] in children}
    assert {"session.created", "session.next.prompted", "session.next.text.ended"} <= kinds
    assert found[-1]["result"]["total"]["sessions"] == 2
    assert found[-1]["result"]["text"] == "Good."


def test_lists_show_roots_with_the_number_of_their_children(tree: Ran, here: Invoke) -> None:
    """API-570: children on request."""
    ((session_id, _, state, children, _),) = rows(here("sessions"))
    assert (session_id, state, children) == (tree.session, "finished", "1")
    assert len(rows(here("sessions", "--children"))) == 2
    assert len(rows(here("sessions", "--all"))) == 2
    (found,) = json.loads(here("sessions", "--json").out)
    assert found["children"] == 1


def test_a_tree_is_drawn(tree: Ran, here: Invoke) -> None:
    """API-571: state, agent, title, usage; the newest one without an id; JSON for programs."""
    ran = here("sessions", "tree")
    root, child, total = ran.out.splitlines()
    assert root.startswith(f"{tree.session}  idle  (default)  ")
    assert child.startswith("└─ ses_")
    assert "  completed  general  look it up  $0.0000  " in child
    assert total.startswith("total: 2 sessions, $0.0000, ")
    found = json.loads(here("sessions", "tree", tree.session, "--json").out)
    assert [node["depth"] for node in found["nodes"]] == [0, 1]
    below = here("sessions", "tree", found["nodes"][1]["id"]).out.splitlines()
    assert below[0] == f"below {tree.session}"
    assert here("sessions", "tree", "--follow").out == ran.out
    assert here("sessions", "tree", "ses_nothing").code == 1


def test_a_tree_is_followed_at_a_server_until_it_is_stopped(
    holdfast: Machine, provider: Provider, serve: Callable[..., Server]
) -> None:
    """API-571, API-573: what the server executes is seen and stopped from another process, the background too."""
    holdfast.use_provider(provider.url)
    provider.behave = provider.hang
    holdfast.script({"calls": [subagent("x", model="mock/m", background=True)]}, {"text": "Meanwhile."})
    serve(HOLDFAST_SCRIPT=holdfast.environment["HOLDFAST_SCRIPT"])
    ran = holdfast(*RUN, "go")
    assert provider.asked.acquire(timeout=20)
    following = holdfast.start("sessions", "tree", "--follow")
    assert following.stdout is not None
    lines = [following.stdout.readline() for _ in range(3)]
    assert "  running  general, background  look it up" in lines[1]
    assert "waits for the first byte from mock/m" in lines[2]
    assert holdfast("sessions", "interrupt", ran.session).code == 0
    assert following.poll() is None
    assert holdfast("sessions", "interrupt", ran.session, "--background").code == 0
    rest = finish(following)
    assert "  cancelled  general, background  look it up" in rest.out


def test_a_session_goes_on_without_waiting_for_its_subagent(
    holdfast: Machine, provider: Provider, serve: Callable[..., Server], here: Invoke
) -> None:
    """API-581: the command names what goes on in the background; a second one finds nothing."""
    holdfast.use_provider(provider.url)
    provider.behave = provider.hang
    holdfast.script({"calls": [subagent("x", model="mock/m")]}, {"text": "Meanwhile."})
    serve(HOLDFAST_SCRIPT=holdfast.environment["HOLDFAST_SCRIPT"])
    running = holdfast.start(*RUN, "go")
    assert provider.asked.acquire(timeout=20)
    ((session_id, *_),) = rows(here("sessions"))
    moved = here("sessions", "background", session_id)
    assert moved.out.endswith("  general  look it up\n")
    ran = finish(running)
    assert (ran.code, ran.out) == (0, "Meanwhile.\n")
    drawn = here("sessions", "tree", session_id).out
    assert "  running  general, background  look it up" in drawn
    again = here("sessions", "background", session_id)
    assert (again.code, again.out) == (0, "")
    assert again.err == f"{session_id} waits for no subagent\n"
    assert here("sessions", "background", "ses_nothing").code == 1


def test_a_run_says_which_subagents_stop_with_it(holdfast: Machine, provider: Provider, here: Invoke) -> None:
    """API-582: without a server nobody goes on with those in the background; the named command does."""
    holdfast.use_provider(provider.url)
    provider.behave = provider.hang
    holdfast.script(
        {"calls": [subagent("x", model="mock/m", background=True)]}, {"text": "Meanwhile."}, {"text": "Good."}
    )
    ran = holdfast(*RUN, "go")
    assert (ran.code, ran.out) == (0, "Meanwhile.\n")
    (note,) = [line for line in ran.err.splitlines() if line.startswith("subagents in the background stop")]
    child = json.loads(here("sessions", "tree", ran.session, "--json").out)["nodes"][1]
    assert f"{child['id']} (look it up)" in note
    assert f"`holdfast sessions recover {ran.session} --continue`" in note
    assert "      waits for a process that goes on: " in here("sessions", "tree", ran.session).out
    provider.behave = Provider.answer
    again = holdfast("sessions", "recover", ran.session, "--continue", "--yes")
    assert (again.code, again.out) == (0, "Good.\n"), again


def test_switches_of_a_call_are_shown_by_their_names(holdfast: Machine, here: Invoke) -> None:
    """API-572: not as `True`."""
    holdfast.script({"calls": [subagent("x", background=True)]}, {"text": "Good."})
    ran = holdfast(*RUN, "go")
    (line,) = [line for line in ran.err.splitlines() if line.startswith("> subagent")]
    assert line.endswith("demo/echo background")


def test_a_session_is_deleted_with_its_children_or_without(tree: Ran, here: Invoke) -> None:
    """API-573: the question says how many go with it."""
    assert here("sessions", "delete", tree.session, "--keep-children", "--yes").code == 0
    ((kept, *_),) = rows(here("sessions"))
    assert kept != tree.session
    again = here(*RUN, "go").session
    assert here("sessions", "delete", again, "--yes").code == 0
    assert len(rows(here("sessions", "--all"))) == 1


@pytest.fixture
def killed(holdfast: Machine, provider: Provider) -> None:
    """A process was killed while its subagent waited for the provider."""
    holdfast.use_provider(provider.url)
    provider.behave = provider.hang
    holdfast.script({"calls": [subagent("x", model="mock/m")]}, {"text": "Good."})
    process = holdfast.start(*RUN, "go")
    assert provider.asked.acquire(timeout=20)
    process.kill()
    finish(process)


@pytest.mark.usefixtures("killed")
def test_a_tree_that_was_left_goes_on_from_its_root(holdfast: Machine, provider: Provider, here: Invoke) -> None:
    """API-574, SES-407: the subagent is asked again, and its result ends the call of the root."""
    root, _ = asyncio.run(_interrupted(holdfast))
    provider.behave = Provider.answer
    ran = holdfast("sessions", "recover", root.session_id, "--continue", "--yes")
    assert (ran.code, ran.out) == (0, "Good.\n"), ran
    drawn = here("sessions", "tree", root.session_id).out
    assert "  idle  " in drawn
    assert "  completed  general  " in drawn
    assert len(provider.bodies) == 2


@pytest.mark.usefixtures("killed")
def test_a_decision_at_the_root_is_one_for_the_tree(holdfast: Machine, here: Invoke) -> None:
    """API-574, SES-401, SES-407, SES-408: what a killed process left below is abandoned with its root."""
    found = asyncio.run(_interrupted(holdfast))
    root, child = found
    assert (root.depth, child.depth, child.parent_id, child.root_id) == (0, 1, root.session_id, root.session_id)
    ((listed, *_),) = rows(here("sessions", "--interrupted"))
    assert listed == root.session_id
    drawn = here("sessions", "tree", root.session_id).out
    assert "unfinished  general" in drawn
    assert f"waits for subagent {child.session_id} (general: look it up), which waits for" in drawn
    assert here("sessions", "recover", root.session_id, "--abandon").code == 0
    assert asyncio.run(_interrupted(holdfast)) == []
    assert "unfinished" not in here("sessions", "tree", root.session_id).out


async def _interrupted(machine: Machine) -> list[Any]:
    async with machine.host(recover=False) as hf:
        return await hf.sessions.interrupted()
