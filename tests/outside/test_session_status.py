"""The state of a Session in one word, and how its last activity ended: the same in every list."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest
from tests.cli.conftest import Machine, Provider, finish
from tests.outside.scripted_provider import PATIENCE, Turn, calling
from tests.outside.test_overview import COLOUR, Serve, begin, until
from tests.outside.tree_script import Cast, delegating
from tests.outside.world import World, ask, newest

from holdfast import Budget, Holdfast, Location, PromptInput, Session, connect

pytestmark = pytest.mark.anyio

LONG = "word " * 6000


async def statuses(hf: Holdfast) -> dict[str, str]:
    """By title."""
    return {told.session.title: told.status for told in (await hf.sessions.overview()).items}


async def has_status(hf: Holdfast, session: Session, status: str) -> Any:
    """Its record, once it has this status."""

    async def listed() -> Any:
        (told,) = (await hf.sessions.overview(ids=session.id)).items
        return told if told.status == status else None

    return await until(listed)


async def test_each_state_has_its_own_word_in_lists_and_trees(world: World) -> None:
    """SES-485, SES-486: what a Session does, or how its last activity ended; a budget comes with its numbers."""
    world.configure(agent={"general": {"permission": {"bash": "ask"}}})
    end = asyncio.Event()
    world.model.always = Cast(
        good=[Turn(text="done")],
        bad=[Turn(status=400, error="no such model")],
        stops=[Turn(text="so far", end=end)],
        runs=[Turn(text="so far", end=end)],
        asks=[calling("question", questions=[COLOUR])],
        tree=[delegating({"prompt": "deep", "description": "deep"})],
        deep=[calling("bash", command="ls", description="d")],
        works=[delegating({"prompt": "below", "description": "below"})],
        below=[Turn(text="so far", end=end)],
        pays=[calling("read", filePath="hello.txt"), calling("read", filePath="hello.txt")],
    )
    async with world.host() as hf:
        new = await hf.sessions.create()
        await hf.sessions.rename(new.id, title="new")
        await ask(hf, await begin(hf, "good"), "more")
        await hf.sessions.outcome((await begin(hf, "bad")).id)
        stopped = await begin(hf, "stops")
        await has_status(hf, stopped, "running")
        await hf.sessions.interrupt(stopped.id)
        queued = await hf.sessions.create()
        await hf.sessions.rename(queued.id, title="queued")
        await hf.sessions.prompt(queued.id, prompt=PromptInput(text="later"), delivery="queue", resume=False)
        tree = await begin(hf, "tree")
        pays = await begin(hf, "pays", budget=Budget(turns=1))
        for session in (await begin(hf, "asks"), tree):
            await has_status(hf, session, "waiting")
        paused = await has_status(hf, pays, "paused")
        await begin(hf, "runs")
        works = await begin(hf, "works")

        async def delegated() -> bool:
            return any(wait.kind == "subagent" for wait in await hf.sessions.waits(works.id))

        await until(delegated)
        assert await statuses(hf) == {
            "new": "new",
            "good": "finished",
            "bad": "failed",
            "stops": "stopped",
            "queued": "pending",
            "tree": "waiting",
            "asks": "waiting",
            "pays": "paused",
            "runs": "running",
            "works": "running",
        }
        (wait,) = paused.waits
        assert wait.budget is not None
        assert (wait.budget.session_id, wait.budget.limit.turns, wait.budget.used.turns) == (pays.id, 1, 1)
        nodes = (await hf.sessions.tree(tree.id)).nodes
        assert [node.status for node in nodes] == ["waiting", "waiting"]
        (node,) = (await hf.sessions.tree(stopped.id)).nodes
        assert (node.state, node.status, node.outcome) == ("idle", "stopped", "interrupted")
        end.set()


async def test_a_budget_of_the_root_is_named_where_its_child_waits_and_raising_it_continues(world: World) -> None:
    """SES-486, API-550: the wait names the Session whose budget it is, which is enough to raise it over HTTP."""
    world.model.always = Cast(
        tree=[delegating({"prompt": "deep", "description": "deep"})],
        deep=[calling("read", filePath="hello.txt")],
    )
    async with world.host() as hf:
        root = await begin(hf, "tree", budget=Budget(turns=2))
        told = await has_status(hf, root, "paused")
        (wait,) = told.waits
        budget = wait.cause.budget
        assert (budget.session_id, budget.limit.turns, budget.reached) == (root.id, 2, ("turns",))
        assert budget.used.turns + budget.reserved.turns == 2
        (single,) = await hf.sessions.waits(root.id)
        assert single.budget is not None
        assert single.budget == budget
        await hf.sessions.set_budget(budget.session_id, budget=Budget(turns=20))
        assert (await hf.sessions.outcome(root.id)).type == "completed"
        await has_status(hf, root, "finished")


async def test_what_a_crash_left_is_interrupted_until_a_person_decides(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """SES-485, CLI-032: the command's list says the same."""
    holdfast.use_provider(provider.url, settings={"recovery": "ask", "titles": False})
    provider.behave = provider.stall
    server = serve()
    async with asyncio.timeout(PATIENCE):
        async with connect(server.url, environment=holdfast.environment) as client:
            session = await client.sessions.create(location=Location(directory=str(holdfast.project)))
            await client.sessions.prompt(session.id, prompt=PromptInput(text="go"))

            async def answering() -> bool:
                return any(wait.kind == "provider" for wait in await client.sessions.waits(session.id))

            await until(answering)
        server.process.send_signal(signal.SIGKILL)
        finish(server.process)
        async with connect(serve().url, environment=holdfast.environment) as client:

            async def left() -> bool:
                (told,) = (await client.sessions.overview(ids=session.id)).items
                return told.status == "interrupted"

            await until(left)
            assert "  interrupted  " in (await asyncio.to_thread(holdfast, "sessions")).out


async def test_an_approval_that_outlives_its_process_still_waits(holdfast: Machine) -> None:
    """SES-485, CLI-032: a person looks for a request, not for a crash."""
    holdfast.configure(permission={"bash": "ask"}, model="demo/scripted")
    holdfast.script({"calls": [{"tool": "bash", "input": {"command": "touch made.txt", "description": "d"}}]})
    async with holdfast.host() as hf:
        session = await begin(hf, "go")
        await has_status(hf, session, "waiting")
    assert "  waiting  " in (await asyncio.to_thread(holdfast, "sessions")).out
    async with holdfast.host() as hf:
        await has_status(hf, session, "waiting")


async def test_the_outcome_is_that_of_the_last_activity_also_without_an_answer(world: World) -> None:
    """SES-487: interrupted while older history is being summarised, before anything was sent to the model."""
    world.configure(provider={"mock": world.provider(limit={"context": 24_000, "output": 1000})})
    end = asyncio.Event()
    async with world.host() as hf:
        session = await hf.sessions.create()
        for _ in range(3):
            await ask(hf, session, LONG)
        first = await newest(hf, session)
        assert (await hf.sessions.outcome(session.id)).message_id == first.id
        sent = len(world.model.requests)
        world.model.plays(Turn(text="a summary", end=end))
        await hf.sessions.prompt(session.id, prompt=PromptInput(text=LONG))
        await world.model.asked(sent + 1)
        await hf.sessions.interrupt(session.id)
        outcome = await hf.sessions.outcome(session.id)
        assert (outcome.type, outcome.message_id) == ("interrupted", None)
        assert (await hf.sessions.overview()).items[0].status == "stopped"
        end.set()
        world.model.plays(Turn(text="a summary"))
        await ask(hf, session, "small")
        assert (await hf.sessions.outcome(session.id)).type == "completed"


async def test_the_outcome_stays_when_many_notes_follow_the_answer(world: World) -> None:
    """SES-297, SES-487: also after more messages than one page."""
    world.model.plays(Turn(status=400, error="refused"))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "go")
        before = await hf.sessions.outcome(session.id)
        assert before.type == "failed"
        for number in range(25):
            await hf.sessions.prompt(session.id, prompt=PromptInput(text=f"note {number}", no_reply=True))
        await hf.sessions.wait(session.id)
        assert await hf.sessions.outcome(session.id) == before


async def test_the_outcome_after_a_revert_is_that_of_the_answer_before(world: World) -> None:
    """SES-487: lists and `outcome` agree."""
    world.model.plays(Turn(text="first"), Turn(status=400, error="refused"))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "one")
        kept = await newest(hf, session)
        await ask(hf, session, "two")
        assert (await hf.sessions.outcome(session.id)).type == "failed"
        await hf.sessions.stage_revert(session.id, message_id=kept.id)
        await hf.sessions.commit_revert(session.id)
        outcome = await hf.sessions.outcome(session.id)
        assert (outcome.type, outcome.message_id) == ("completed", kept.id)
        (told,) = (await hf.sessions.overview()).items
        assert (told.status, told.outcome) == ("finished", "completed")
