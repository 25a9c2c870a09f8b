"""Subagents under bad input, and while their parent is changed in other ways."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from tests.outside.scripted_provider import PATIENCE, Call, Turn, calling
from tests.outside.test_delegation import arrived, delivered, rule, tasks
from tests.outside.test_subagents import child_of, states
from tests.outside.tree_script import Cast, delegating, first_prompt
from tests.outside.world import World, ask, newest, text_of

from holdfast import ForkThrough, Holdfast, PromptInput, Session
from holdfast.schema.insight import RequestContextInfo
from holdfast.schema.session_message import ToolError

pytestmark = pytest.mark.anyio


async def test_spawns_results_and_new_agents_leave_the_prefix_of_the_parent(world: World) -> None:
    """CTX-226, SES-213: each request of the parent begins with the bytes of the one before, over a result, a background
    result, a command that is a task, and an agent that is added; the new list is told once."""
    world.configure(command={"apart": {"template": "c", "subtask": True}})
    cast = world.model.always = Cast(
        root=[
            delegating("a"),
            delegating({"prompt": "b", "background": True}),
            tasks("wait"),
            Turn(text="one"),
        ],
    )
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "root")
        await arrived(hf, session)
        await hf.sessions.wait(session.id)
        file = world.user_folder / "agent" / "late.md"
        file.parent.mkdir()
        file.write_text("---\nmode: subagent\ndescription: came late\n---\nx", encoding="utf-8")
        await ask(hf, session, "two")
        await hf.sessions.command(session.id, command="apart")
        await hf.sessions.wait(session.id)
        await ask(hf, session, "three")
        context = await hf.sessions.request_context(session.id)
    bodies = [request.raw for request in cast.requests["root"]]
    assert len(bodies) >= 7
    for shorter, longer in pairwise(bodies):
        assert longer.startswith(shorter.rstrip(b'"}]'))
    assert isinstance(context, RequestContextInfo)
    assert context.prefix_breaks == ()
    told = [text for _, text in cast.requests["root"][-1].said if "came late" in str(text)]
    assert len(told) == 1
    assert "came late" not in cast.requests["root"][-1].system


async def test_a_thousand_tasks_of_one_turn_are_bounded(world: World) -> None:
    """SES-391: as many as the tree may have are started; each other call says why it was not."""
    world.configure(holdfast={"titles": False, "subagents": {"tree": 3}, "calls": 1000})
    gate = asyncio.Event()
    given = [{"prompt": f"p{number}", "background": True} for number in range(1000)]

    def play(request: Any) -> Turn:
        if "x-parent-session-id" in request.headers:
            return Turn(text="late", begin=gate)
        return Turn(text="done") if request.results else delegating(*given)

    world.model.always = play
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="root"))
        async with asyncio.timeout(PATIENCE):
            await hf.sessions.wait(session.id)
        found = await states(hf, session)
        refused = [state.error.message for state in found if isinstance(state, ToolError)]
        assert (len(found), len(refused)) == (1000, 997)
        assert all("3 tasks are under way already" in message for message in refused)
        gate.set()
        assert len(await arrived(hf, session, 3)) == 3


async def test_more_tasks_than_may_run_side_by_side_wait_in_order(world: World) -> None:
    """SES-391: all of them are worked on."""
    world.configure(holdfast={"titles": False, "subagents": {"parallel": 2}})
    names = [f"t{number}" for number in range(6)]
    cast = world.model.always = Cast(root=[delegating(*names)])
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "root")
        assert [state.structured["status"] for state in await states(hf, session)] == ["completed"] * 6
        assert {name for name in cast.requests if name != "root"} == set(names)


async def test_an_agent_that_is_removed_ends_its_child(world: World) -> None:
    """SES-392: at the next boundary of the child; the parent is told and goes on."""
    gate = asyncio.Event()
    world.configure(agents={"short": {"mode": "subagent", "permissions": [rule("allow", "*")]}})
    world.model.always = Cast(
        root=[delegating({"prompt": "a", "agent": "short"})],
        a=[Turn(calls=calling("read", path="hello.txt").calls, begin=gate)],
    )
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="root"))
        await world.model.asked(2)
        world.configure()
        gate.set()
        async with asyncio.timeout(PATIENCE):
            await hf.sessions.wait(session.id)
        (state,) = await states(hf, session)
        assert isinstance(state, ToolError)
        assert "short" in state.error.message
        assert text_of(await newest(hf, session)) == "root done"


async def test_a_call_id_that_comes_twice_is_two_calls(world: World) -> None:
    """SES-392: each with its own child and its own result."""
    call = Call("subagent", {"agent": "general", "description": "a task", "prompt": "a"}, id="call_same")
    cast = world.model.always = Cast(root=[Turn(calls=(call, call))])
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "root")
        found = await states(hf, session)
        assert [state.structured["status"] for state in found] == ["completed"] * 2
        assert len({state.structured["sessionID"] for state in found}) == 2
        assert len(cast.requests["root"][-1].results) == 2


@pytest.mark.parametrize("change", ["fork", "compact", "archive", "revert"])
async def test_a_result_arrives_once_whatever_becomes_of_its_parent(world: World, change: str) -> None:
    """SES-393: forks do not get it, a compaction and the archive do not lose it, and a revert of what came after the
    call leaves it."""
    gate = asyncio.Event()
    world.configure(compaction={"keep": {"tokens": 1}})
    cast = Cast(root=[delegating({"prompt": "a", "background": True})], a=[Turn(text="found it", begin=gate)])
    world.model.always = lambda request: (
        cast(request) if first_prompt(request) in cast.parts else Turn(text="a summary")
    )
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "root")
        await ask(hf, session, "much " * 1000)
        await hf.sessions.prompt(session.id, id="msg_second", prompt=PromptInput(text="second"))
        await hf.sessions.wait(session.id)
        fork = await changed(hf, session, change)
        gate.set()
        (text,) = await arrived(hf, session)
        await hf.sessions.wait(session.id)
        assert "found it" in text
        if fork is not None:
            assert await delivered(hf, fork) == []
            assert await hf.verify() == []


async def changed(hf: Holdfast, session: Session, change: str) -> Session | None:
    match change:
        case "fork":
            return await hf.sessions.fork(session.id, boundary=ForkThrough())
        case "compact":
            await hf.sessions.compact(session.id)
        case "archive":
            await hf.sessions.archive(session.id, archived=True)
        case "revert":
            await hf.sessions.stage_revert(session.id, message_id="msg_second")
            await hf.sessions.commit_revert(session.id)
    return None


async def test_a_reverted_call_brings_no_result(world: World) -> None:
    """SES-393: a person took back what asked for it; the child itself goes on and stays."""
    gate = asyncio.Event()
    world.model.always = Cast(
        root=[Turn(text="so"), delegating({"prompt": "a", "background": True})], a=[Turn(text="found it", begin=gate)]
    )
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "root")
        await hf.sessions.prompt(session.id, id="msg_second", prompt=PromptInput(text="second"))
        await hf.sessions.wait(session.id)
        child = await child_of(hf, session)
        await changed(hf, session, "revert")
        gate.set()
        await hf.sessions.wait(child)
        await hf.sessions.wait(session.id)
        assert await delivered(hf, session) == []
        assert (await hf.sessions.get(child)).parent_id == session.id
    async with world.host() as hf:
        await hf.sessions.list()
        await hf.sessions.wait(session.id)
        assert await delivered(hf, session) == []
