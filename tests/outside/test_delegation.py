"""What a model is told about subagents, what it may do with them, and how tasks are moved to the background."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import Any

import pytest
from tests.outside.scripted_provider import PATIENCE, Call, Turn
from tests.outside.test_subagents import child_of, states
from tests.outside.tree_script import Cast, delegating
from tests.outside.world import NESTING, World, ask, newest, text_of

from holdfast import ApiError, Holdfast, PromptInput, Session
from holdfast.schema.session_message import SyntheticMessage, ToolCompleted, ToolError

pytestmark = pytest.mark.anyio


def tasks(action: str, **arguments: Any) -> Turn:
    return Turn(calls=(Call("tasks", {"action": action, **arguments}),))


def rule(effect: str, action: str, resource: str = "*") -> dict[str, str]:
    return {"action": action, "resource": resource, "effect": effect}


async def delivered(hf: Holdfast, session: Session) -> list[str]:
    return [m.text for m in await hf.sessions.context(session.id) if isinstance(m, SyntheticMessage)]


async def arrived(hf: Holdfast, session: Session, count: int = 1) -> list[str]:
    """The results that came as messages, once there are so many."""
    async with asyncio.timeout(PATIENCE), aclosing(aiter(hf.sessions.events(session.id))) as stream:
        async for _ in stream:
            if len(found := await delivered(hf, session)) >= count:
                return found
    raise AssertionError("the stream ended")


# -- which agents ------------------------------------------------------------------------------------------------------


async def test_the_agents_that_may_be_called_are_told(world: World) -> None:
    """TOL-450, CTX-225: sorted, with their descriptions on one line, which cannot leave their element."""
    world.configure(
        agents={
            "review": {"mode": "subagent", "description": 'reads "it"\n</agent></available_agents> & more'},
            "both": {"mode": "all"},
            "lead": {"mode": "primary", "description": "leads"},
            "secret": {"mode": "subagent", "hidden": True, "description": "nobody sees it"},
            "off": {"mode": "subagent", "description": "denied"},
        },
        permissions=[rule("deny", "subagent", "off")],
    )
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "hello")
    system = world.model.last.system
    listed = system[system.index("<available_agents>") : system.index("</available_agents>")].splitlines()
    assert [line.split('"')[1] for line in listed[1:]] == ["both", "explore", "general", "review"]
    assert listed[1] == '  <agent name="both"></agent>'
    assert listed[-1] == (
        '  <agent name="review">reads &quot;it&quot; &lt;/agent&gt;&lt;/available_agents&gt; &amp; more</agent>'
    )
    assert system.count("</available_agents>") == 1
    description = next(t for t in world.model.last.body["tools"] if t["function"]["name"] == "subagent")
    assert "review" not in json.dumps(description)


@pytest.mark.parametrize(
    "settings",
    [
        {"holdfast": {"titles": False, "subagents": {"depth": 0}}},
        {"subagent_depth": 0},
        {"experimental": {"subagent_depth": 0}},
        {"permission": {"task": "deny"}},
        {"tools": {"task": False}},
        {"permissions": [rule("deny", "subagent", "explore"), rule("deny", "subagent", "general")]},
    ],
)
async def test_without_an_agent_to_call_nothing_is_offered(world: World, settings: dict[str, Any]) -> None:
    """TOL-451, TOL-453, CAT-240: by the depth, by rules, under the names that OpenCode has for them."""
    world.configure(**settings)
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "hello")
    assert not {"subagent", "tasks"} & set(world.model.last.tools)
    assert "available_agents" not in world.model.last.system


async def test_our_name_of_the_depth_comes_first(world: World) -> None:
    """CAT-240."""
    world.configure(subagent_depth=0, holdfast={"titles": False, "subagents": {"depth": 1}})
    cast = world.model.always = Cast(root=[delegating("a")])
    async with world.host() as hf:
        await ask(hf, await hf.sessions.create(), "root")
    assert ["subagent" in cast.requests[name][0].tools for name in ("root", "a")] == [True, False]


async def test_an_untrusted_project_can_only_narrow_the_limits(world: World) -> None:
    """CAT-241: of subagents; what is wider has no effect."""
    world.repository()
    project = {"holdfast": {"subagents": {"depth": 10, "background": False}}}
    world.write("opencode.json", json.dumps(project))
    world.configure(holdfast={"titles": False, "subagents": {"depth": 1}})
    cast = world.model.always = Cast(root=[delegating("a")])
    async with world.host() as hf:
        await ask(hf, await hf.sessions.create(), "root")
        assert ["subagent" in cast.requests[name][0].tools for name in ("root", "a")] == [True, False]
        assert "tasks" not in cast.requests["root"][0].tools


async def test_built_in_subagents_do_not_call_others_unless_they_are_told_to(world: World) -> None:
    """TOL-273, TOL-452: rules for everybody do not change that; a rule for the agent does."""
    for general, offered in (({}, False), (NESTING, True)):
        world.configure(agents={"general": general}, permission="allow")
        cast = world.model.always = Cast(root=[delegating("a")])
        async with world.host() as hf:
            await ask(hf, await hf.sessions.create(), "root")
        assert ("subagent" in cast.requests["a"][0].tools) is offered


async def test_a_prompt_that_leaves_the_tool_out_leaves_all_of_it_out(world: World) -> None:
    """TOL-451, TOL-453: also under its other name."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        for name in ("subagent", "task"):
            await hf.sessions.prompt(session.id, prompt=PromptInput(text="x", tools={name: False}))
            await hf.sessions.wait(session.id)
            assert not {"subagent", "tasks"} & set(world.model.last.tools)
            assert "read" in world.model.last.tools


# -- the other name ----------------------------------------------------------------------------------------------------


async def test_the_former_name_of_the_tool_is_accepted(world: World) -> None:
    """TOL-453: with its arguments; it is not offered."""
    given = {"subagent_type": "explore", "description": "look", "prompt": "a", "command": "x"}
    cast = world.model.always = Cast(root=[Turn(calls=(Call("task", given),))])
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "root")
        (state,) = await states(hf, session)
        assert isinstance(state, ToolCompleted)
        child = await hf.sessions.get(state.structured["sessionID"])
        assert (child.agent, child.parent_id) == ("explore", session.id)
        assert "task" not in cast.requests["root"][0].tools
        again = {**given, "task_id": child.id, "prompt": "more"}
        cast.parts["root"] = [*cast.parts["root"], Turn(text="so"), Turn(calls=(Call("task", again),))]
        await ask(hf, session, "again")
        assert (await states(hf, session))[-1].structured["sessionID"] == child.id


# -- the tool `tasks` --------------------------------------------------------------------------------------------------


async def test_a_model_looks_after_its_background_tasks(world: World) -> None:
    """TOL-454, TOL-455: it lists them, waits for them, and reads the result once, as a message."""
    gate = asyncio.Event()
    cast = world.model.always = Cast(
        root=[
            delegating({"prompt": "a", "background": True}),
            tasks("list"),
            tasks("wait", seconds=300),
            Turn(text="ok"),
        ],
        a=[Turn(text="found it", begin=gate)],
    )
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="root"))
        await world.model.asked(4)
        gate.set()
        async with asyncio.timeout(PATIENCE):
            await hf.sessions.wait(session.id)
        child = await child_of(hf, session)
        results = cast.requests["root"][-1].results
        assert results[1:] == [f"{child} running: general, a task", f"{child} completed: general, a task"]
        assert [text.count("found it") for text in await delivered(hf, session)] == [1]
        assert (await states(hf, session))[2].structured["tasks"][0]["state"] == "completed"


async def test_waiting_ends_when_a_person_writes(world: World) -> None:
    """TOL-455: nobody waits for a model that waits."""
    gate = asyncio.Event()
    world.model.always = Cast(
        root=[delegating({"prompt": "a", "background": True}), tasks("wait", seconds=300)],
        a=[Turn(text="found it", begin=gate)],
    )
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="root"))
        await world.model.asked(3)
        await ask(hf, session, "what is it?")
        assert ("user", "what is it?") in world.model.last.said
        assert (await states(hf, session))[1].structured["tasks"][0]["state"] == "running"
        gate.set()
        await world.model.asked(5)


async def test_waiting_is_bounded(world: World) -> None:
    """SES-182, TOL-455: a longer time is refused."""
    cast = world.model.always = Cast(root=[tasks("wait", seconds=301), tasks("wait", seconds=0), tasks("wait")])
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "root")
        first, second, third = cast.requests["root"][-1].results
        assert "Invalid tool input" in first
        assert "Invalid tool input" in second
        assert third == "You have called no subagents."


async def test_a_running_child_is_sent_more_and_gives_one_result(world: World) -> None:
    """SES-181, TOL-456: it reads the prompt at its next boundary, and its result is not told twice."""
    gate = asyncio.Event()
    cast = world.model.always = Cast(
        root=[delegating({"prompt": "a", "background": True})], a=[Turn(text="first", begin=gate), Turn(text="second")]
    )
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "root")
        child = await child_of(hf, session)
        cast.parts["root"] += [Turn(text="so"), tasks("send", sessionID=child, prompt="also this")]
        await ask(hf, session, "again")
        assert cast.requests["root"][-1].results[-1].startswith("Sent.")
        gate.set()
        texts = await arrived(hf, session, 2)
        assert ("user", "also this") in cast.requests["a"][-1].said
        assert [text.count("second") for text in texts] == [0, 1]


async def test_an_idle_child_is_sent_more_and_answers(world: World) -> None:
    """TOL-456: the answer comes as a message, though nobody waited for it."""
    cast = world.model.always = Cast(root=[delegating("a")], a=[Turn(text="first"), Turn(text="second")])
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "root")
        child = await child_of(hf, session)
        cast.parts["root"] += [Turn(text="so"), tasks("send", sessionID=child, prompt="more")]
        await ask(hf, session, "again")
        assert [text.count("second") for text in await arrived(hf, session)] == [1]


async def test_a_child_is_interrupted_by_its_parent(world: World) -> None:
    """TOL-457: what it had done comes as a message; once it has ended there is nothing to interrupt."""
    cast = world.model.always = Cast(
        root=[delegating({"prompt": "a", "background": True})], a=[Turn(text="half", end=asyncio.Event())]
    )
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "root")
        child = await child_of(hf, session)
        await world.model.asked(3)
        cast.parts["root"] += [
            Turn(text="so"),
            tasks("interrupt", sessionID=child),
            tasks("interrupt", sessionID=child),
        ]
        await ask(hf, session, "again")
        await hf.sessions.wait(session.id)
        assert cast.requests["root"][-1].results[-2:] == [
            "Interrupted. What it had done comes as a message.",
            "It is not running.",
        ]
        (text,) = await delivered(hf, session)
        assert f'sessionID="{child}" state="cancelled"' in text
        assert await hf.sessions.active() == {}


@pytest.mark.parametrize("action", ["wait", "send", "interrupt"])
async def test_only_own_children_are_looked_after(world: World, action: str) -> None:
    """TOL-454: not those of another Session, nor children of children, nor none."""
    cast = world.model.always = Cast(root=[delegating("a")], a=[delegating("b")])
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "root")
        child = await child_of(hf, session)
        other = await child_of(hf, await hf.sessions.get(child))
        cast.parts["root"] += [Turn(text="so"), tasks(action, sessionID=other, prompt="x")]
        if action != "wait":
            cast.parts["root"] += [tasks(action, prompt="x")]
        await ask(hf, session, "again")
        found = (await states(hf, session))[1:]
        assert all(isinstance(state, ToolError) for state in found)
        assert "is not a subagent of this Session" in found[0].error.message


async def test_without_the_background_there_is_no_such_tool(world: World) -> None:
    """TOL-454, TOL-458: and no way there."""
    gate = asyncio.Event()
    world.configure(holdfast={"titles": False, "subagents": {"background": False}})
    cast = world.model.always = Cast(
        root=[delegating({"prompt": "x", "background": True}), delegating("a")], a=[Turn(text="found it", begin=gate)]
    )
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="root"))
        await world.model.asked(3)
        assert "tasks" not in cast.requests["root"][0].tools
        with pytest.raises(ApiError) as refused:
            await hf.sessions.background(session.id)
        assert (refused.value.status, "switched off" in str(refused.value)) == (409, True)
        gate.set()
        await hf.sessions.wait(session.id)
        first, second = await states(hf, session)
        assert "Background tasks are switched off" in first.error.message
        assert second.structured["status"] == "completed"


# -- moving to the background ------------------------------------------------------------------------------------------


async def test_tasks_are_moved_to_the_background(world: World) -> None:
    """SES-183, SES-390, API-560: all that the Session waits for, those too that wait for their turn. Each
    result comes as a message, once."""
    world.configure(holdfast={"titles": False, "subagents": {"parallel": 2}})
    gate = asyncio.Event()
    names = ["a", "b", "c", "d"]
    world.model.always = Cast(
        root=[delegating(*names), Turn(text="meanwhile")],
        **{name: [Turn(text=f"{name} found it", begin=gate)] for name in names},
    )
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="root"))
        await world.model.asked(3)
        await hf.sessions.background(session.id)
        async with asyncio.timeout(PATIENCE):
            await hf.sessions.wait(session.id)
        assert [state.structured["status"] for state in await states(hf, session)] == ["running"] * 4
        assert text_of(await newest(hf, session)) == "meanwhile"
        await hf.sessions.background(session.id)
        gate.set()
        texts = await arrived(hf, session, 4)
        assert sorted(text.splitlines()[1] for text in texts) == [f"{name} found it" for name in names]


async def test_an_idle_session_has_nothing_to_move(world: World) -> None:
    """SES-390, API-560: nothing happens; an unknown Session is told."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.background(session.id)
        assert await hf.sessions.context(session.id) == []
        with pytest.raises(ApiError) as unknown:
            await hf.sessions.background("ses_unknown")
        assert unknown.value.status == 404


async def test_another_process_moves_tasks_to_the_background(world: World) -> None:
    """SES-390: the process that executes the Session is asked."""
    gate = asyncio.Event()
    world.model.always = Cast(root=[delegating("a"), Turn(text="meanwhile")], a=[Turn(text="found it", begin=gate)])
    async with world.host() as hf, world.host() as other:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="root"))
        await world.model.asked(2)
        await other.sessions.background(session.id)
        async with asyncio.timeout(PATIENCE):
            await other.sessions.wait(session.id)
        assert text_of(await newest(hf, session)) == "meanwhile"
        gate.set()
        assert len(await arrived(hf, session)) == 1


@pytest.mark.parametrize("milliseconds", [0, 1, 2, 4, 8])
async def test_a_task_that_ends_while_it_is_moved_has_one_result(world: World, milliseconds: int) -> None:
    """SES-390, SES-188: with the call, or as a message; never both, never none."""
    gate = asyncio.Event()
    world.model.always = Cast(root=[delegating("a")], a=[Turn(text="found it", begin=gate)])
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="root"))
        await world.model.asked(2)
        child = await child_of(hf, session)
        gate.set()
        await asyncio.sleep(milliseconds / 1000)
        await hf.sessions.background(session.id)
        async with asyncio.timeout(PATIENCE):
            await hf.sessions.wait(session.id)
            await hf.sessions.wait(child)
            await hf.sessions.wait(session.id)
            (state,) = await states(hf, session)
            moved = state.structured["status"] == "running"
            if moved:
                await arrived(hf, session)
        assert len(await delivered(hf, session)) == moved
    async with world.host() as hf:
        await hf.sessions.list()
        await hf.sessions.wait(session.id)
        assert len(await delivered(hf, session)) == moved
