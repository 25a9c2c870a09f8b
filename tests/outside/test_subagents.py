"""Subagents as users see them: a call gives a task to a child Session, and its result comes once, whatever happens."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.outside.scripted_provider import PATIENCE, Turn, calling
from tests.outside.tree_script import Cast, delegating
from tests.outside.world import World, answers, ask, newest, text_of, tools_of

from holdfast import Holdfast, PromptInput, Session
from holdfast.schema.session_message import SyntheticMessage, ToolCompleted, ToolError

pytestmark = pytest.mark.anyio


async def states(hf: Holdfast, session: Session) -> list[Any]:
    parts = [part for message in answers(await hf.sessions.context(session.id)) for part in tools_of(message)]
    return [part.state for part in parts]


async def child_of(hf: Holdfast, session: Session) -> str:
    async with asyncio.timeout(PATIENCE):
        while True:
            found = [
                state.structured.get("sessionID") for state in await states(hf, session) if hasattr(state, "structured")
            ]
            if found and found[0]:
                return str(found[0])
            await asyncio.sleep(0.005)


async def test_a_task_is_given_to_a_child_and_its_last_text_is_the_result(world: World) -> None:
    """SES-187, TOL-272, TOL-274: an ordinary Session with a parent, its agent and its task as the first prompt."""
    cast = world.model.always = Cast(
        root=[delegating({"prompt": "look", "agent": "explore", "description": "look around"})],
        look=[calling("read", path="hello.txt"), Turn(text="it says hello")],
    )
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "root")
        (state,) = await states(hf, session)
        assert isinstance(state, ToolCompleted)
        assert state.structured["status"] == "completed"
        child = await hf.sessions.get(state.structured["sessionID"])
        assert (child.parent_id, child.agent, child.title) == (session.id, "explore", "look around")
        assert child.location == session.location
        assert cast.requests["root"][-1].results == [
            f'<subagent sessionID="{child.id}" state="completed">\nit says hello\n</subagent>'
        ]
        assert "subagent" in cast.requests["look"][0].said[1][1]
        assert text_of(await newest(hf, session)) == "root done"


async def test_several_tasks_run_side_by_side(world: World) -> None:
    """SES-187: all of them are at the provider before the first one ends."""
    gate = asyncio.Event()
    world.model.always = Cast(
        root=[delegating("a", "b", "c")], **{name: [Turn(text=name, begin=gate)] for name in "abc"}
    )
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="root"))
        await world.model.asked(4)
        gate.set()
        await hf.sessions.wait(session.id)
        assert [state.structured["status"] for state in await states(hf, session)] == ["completed"] * 3


async def test_a_child_goes_on_with_its_conversation(world: World) -> None:
    """TOL-272: by its Session id, and only for its own parent."""
    cast = world.model.always = Cast(root=[delegating("a")], a=[Turn(text="first")])
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "root")
        child = await child_of(hf, session)
        cast.parts["root"] = [delegating("a"), Turn(text="fine"), delegating({"prompt": "more", "sessionID": child})]
        await ask(hf, session, "again")
        assert [text for role, text in cast.requests["a"][-1].said if role == "user"][-1] == "more"
        assert (await states(hf, session))[-1].structured == {"sessionID": child, "status": "completed"}
        other = await hf.sessions.create()
        cast.parts["foreign"] = [delegating({"prompt": "x", "sessionID": child})]
        await ask(hf, other, "foreign")
        (state,) = await states(hf, other)
        assert isinstance(state, ToolError)
        assert "is not a subagent of this Session" in state.error.message


@pytest.mark.parametrize("agent", ["nobody", "build"])
async def test_only_agents_for_that_are_called(world: World, agent: str) -> None:
    """TOL-272: unknown agents, and those that only lead a Session; the model reads which there are."""
    message = f"Unknown agent: {agent}. Agents that can be called: explore, general"
    world.model.always = Cast(root=[delegating({"prompt": "a", "agent": agent})])
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "root")
        (state,) = await states(hf, session)
        assert (state.status, state.error.message) == ("error", message)


async def test_children_may_not_be_nested_without_end(world: World) -> None:
    """SES-189, TOL-273: a child that calls itself reaches the depth that is configured."""
    world.configure(holdfast={"titles": False, "subagents": {"depth": 2}})
    cast = world.model.always = Cast(root=[delegating("a")], a=[delegating("b")], b=[delegating("c")])
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "root")
        assert "Unknown tool: subagent" in cast.requests["b"][-1].results[0]
        assert ["subagent" in cast.requests[name][0].tools for name in ("root", "a", "b")] == [True, True, False]
        assert "c" not in cast.requests
        assert text_of(await newest(hf, session)) == "root done"


async def test_a_failed_child_is_a_failed_call_that_names_it(world: World) -> None:
    """TOL-274: with what went wrong and what it had done."""
    world.model.always = Cast(
        root=[delegating("a")], a=[calling("read", path="hello.txt"), Turn(status=400, error="no such thing")]
    )
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "root")
        (state,) = await states(hf, session)
        assert isinstance(state, ToolError)
        child = await child_of(hf, session)
        assert state.error.message.startswith(f"Subagent {child} failed: ")
        assert "no such thing" in state.error.message
        assert "It had called: read." in state.error.message


async def test_a_child_that_cannot_begin_is_told(world: World) -> None:
    """SES-187: its model is not there; nothing waits for it."""
    world.model.always = Cast(root=[delegating({"prompt": "a", "model": "mock/gone"})])
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "root")
        (state,) = await states(hf, session)
        assert isinstance(state, ToolError)
        assert "could not begin" in state.error.message
        assert "gone" in state.error.message


async def test_a_background_task_brings_its_result_by_itself(world: World) -> None:
    """SES-188, SES-186, TOL-276: the call settles at once, the parent becomes idle, and the result wakes it once."""
    gate = asyncio.Event()
    cast = world.model.always = Cast(
        root=[delegating({"prompt": "a", "background": True}), Turn(text="meanwhile"), Turn(text="I see")],
        a=[Turn(text="found it", begin=gate)],
    )
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "root")
        (state,) = await states(hf, session)
        assert state.structured["status"] == "running"
        child = state.structured["sessionID"]
        assert text_of(await newest(hf, session)) == "meanwhile"
        assert session.id not in await hf.sessions.active()
        gate.set()
        await world.model.asked(4)
        await hf.sessions.wait(session.id)
        assert text_of(await newest(hf, session)) == "I see"
        (message,) = [m for m in await hf.sessions.context(session.id) if isinstance(m, SyntheticMessage)]
        assert message.text == (
            f'<subagent sessionID="{child}" state="completed" description="a task">\nfound it\n</subagent>'
        )
        assert message.metadata == {"source": "subagent", "childID": child, "agent": "general", "state": "completed"}
        assert len(cast.requests["root"]) == 3


async def test_interrupting_a_parent_stops_its_children_first_and_says_what_they_had_done(world: World) -> None:
    """SES-189: the whole tree stops, bottom up, and the history of the parent tells it."""
    world.model.always = Cast(
        root=[delegating("a")],
        a=[calling("read", path="hello.txt"), delegating("b")],
        b=[Turn(text="half an answer", end=asyncio.Event())],
    )
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="root"))
        await world.model.asked(4)
        async with asyncio.timeout(PATIENCE):
            await hf.sessions.interrupt(session.id)
        assert await hf.sessions.active() == {}
        (state,) = await states(hf, session)
        assert isinstance(state, ToolError)
        assert "did not finish: it was interrupted" in state.error.message
        assert "It had called: read, subagent." in state.error.message


async def test_an_interruption_leaves_background_children_alone(world: World) -> None:
    """SES-189."""
    gate, never = asyncio.Event(), asyncio.Event()
    world.model.always = Cast(
        root=[delegating({"prompt": "a", "background": True}), Turn(text="slow", end=never)],
        a=[Turn(text="found it", begin=gate)],
    )
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="root"))
        await world.model.asked(3)
        await hf.sessions.interrupt(session.id)
        child = (await states(hf, session))[0].structured["sessionID"]
        assert list(await hf.sessions.active()) == [child]
        gate.set()
        await hf.sessions.wait(child)
        await hf.sessions.wait(session.id)
        messages = await hf.sessions.context(session.id)
        assert any(isinstance(m, SyntheticMessage) and "found it" in m.text for m in messages)


async def test_a_shutdown_in_the_middle_loses_and_repeats_nothing(world: World) -> None:
    """SES-180, SES-185, SES-188, SES-190: the call stays open, the next process goes on with the child and settles
    the call once."""
    gate = asyncio.Event()
    cast = world.model.always = Cast(
        root=[delegating("a")], a=[calling("read", path="hello.txt"), Turn(text="found it", begin=gate)]
    )
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="root"))
        await world.model.asked(3)
        child = await child_of(hf, session)
    gate.set()
    async with world.host() as hf:
        await hf.sessions.list()  # the first operation starts recovery
        await world.model.asked(5)
        await hf.sessions.wait(session.id)
        (state,) = await states(hf, session)
        assert state.structured == {"sessionID": child, "status": "completed"}
        assert "found it" in state.content[0].text
        assert text_of(await newest(hf, session)) == "root done"
        assert len(cast.requests["root"]) == 2
        sessions = (await hf.sessions.list()).items
        assert len(sessions) == 2


async def test_a_background_result_outlives_the_process(world: World) -> None:
    """SES-179, SES-188, SES-190: delivered by the next one, once."""
    gate = asyncio.Event()
    world.model.always = Cast(
        root=[delegating({"prompt": "a", "background": True}), Turn(text="meanwhile"), Turn(text="I see")],
        a=[Turn(text="found it", begin=gate)],
    )
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "root")
        await world.model.asked(3)
    gate.set()
    async with world.host() as hf:
        await hf.sessions.list()  # the first operation starts recovery
        await world.model.asked(5)
        await hf.sessions.wait(session.id)
        assert text_of(await newest(hf, session)) == "I see"
    async with world.host() as hf:
        messages = await hf.sessions.context(session.id)
        assert sum(isinstance(m, SyntheticMessage) for m in messages) == 1


async def test_a_run_of_the_parent_goes_on_with_a_child_that_was_shut_down(world: World) -> None:
    """SES-190, SES-456: also in a host that does not recover by itself."""
    world.configure()
    begin = asyncio.Event()
    world.model.plays(delegating("look"), Turn(text="cut off", begin=begin), Turn(text="found it"), Turn(text="done"))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="go"))
        await world.model.asked(2)
    async with world.host(recover=False) as hf, asyncio.timeout(20):
        assert (await hf.sessions.run(session.id)).type == "completed"
        assert await hf.sessions.interrupted() == []
