"""Commands that are tasks: a subagent works on them, and the model of the Session reports the result."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.outside.scripted_provider import Turn, calling
from tests.outside.test_subagents import child_of, states
from tests.outside.world import World, answers, ask, newest, text_of

from holdfast import ApiError, Holdfast, PromptInput, Session
from holdfast.schema.session_message import SyntheticMessage, ToolCompleted, ToolError, UserMessage

pytestmark = pytest.mark.anyio

SUBTASK = {"template": "look at $ARGUMENTS", "description": "looks\n around", "subtask": True}


async def run(hf: Holdfast, session: Session, command: str, arguments: str = "x", **call: Any) -> None:
    await hf.sessions.command(session.id, command=command, arguments=arguments, **call)
    await hf.sessions.wait(session.id)


@pytest.mark.parametrize(
    ("settings", "agent"),
    [
        ({}, "general"),
        ({"agent": "explore"}, "explore"),
        ({"agent": "explore", "subtask": None}, "explore"),
        ({"agent": "plan"}, "plan"),
    ],
)
async def test_a_command_is_given_to_a_subagent(world: World, settings: dict[str, Any], agent: str) -> None:
    """CAT-242, CAT-231, SES-370: by `subtask`, or because its agent is one. Its text is the whole task, and its result
    stands in the conversation like that of a call. Nothing is sent for the step that calls it: it is no turn."""
    command = {key: value for key, value in {**SUBTASK, **settings}.items() if value is not None}
    world.configure(command={"apart": command})
    children: list[Any] = []

    def play(request: Any) -> Turn:
        child = request.headers.get("x-parent-session-id") is not None
        children.append(child)
        return Turn(text="found it" if child else "it was found")

    world.model.always = play
    async with world.host() as hf:
        session = await hf.sessions.create()
        await run(hf, session, "apart", "the moon")
        child = await hf.sessions.get(await child_of(hf, session))
        assert (child.agent, child.parent_id, child.title) == (agent, session.id, "looks around")
        assert children == [True, False]
        assert (await hf.sessions.get(session.id)).agent == session.agent
        first, note, call, answer = await hf.sessions.context(session.id)
        assert isinstance(first, UserMessage)
        assert first.text == "look at the moon"
        assert isinstance(note, SyntheticMessage)
        (state,) = await states(hf, session)
        assert isinstance(state, ToolCompleted)
        assert "found it" in world.model.last.results[0]
        assert text_of(answers([call, answer])[-1]) == "it was found"
        assert world.model.requests[0].said[0] == ("user", "look at the moon")
        usage = await hf.sessions.usage(session.id)
        assert (usage.own.turns, usage.tree.turns) == (1, 2)
        assert await hf.verify() == []


@pytest.mark.parametrize("command", [{"subtask": False, "agent": "explore"}, {}])
async def test_other_commands_run_in_the_session_itself(world: World, command: dict[str, Any]) -> None:
    """CAT-242."""
    world.configure(command={"here": {"template": "look", **command}})
    async with world.host() as hf:
        session = await hf.sessions.create()
        await run(hf, session, "here")
        assert await states(hf, session) == []
        assert len((await hf.sessions.list()).items) == 1


@pytest.mark.parametrize("settings", [{"subagent_depth": 0}, {"permission": {"task": "deny"}}])
async def test_where_nobody_can_be_called_the_model_is_told(world: World, settings: dict[str, Any]) -> None:
    """CAT-242: the command runs in the Session, and a note says so."""
    world.configure(command={"apart": SUBTASK}, **settings)
    async with world.host() as hf:
        session = await hf.sessions.create()
        receipt = await hf.sessions.command(session.id, command="apart", arguments="x")
        assert "None can be called here" in (receipt.prompt.notes or ("",))[0]
        await hf.sessions.wait(session.id)
        assert await states(hf, session) == []
        assert text_of(await newest(hf, session)) == "done"


async def test_an_agent_that_does_not_exist_refuses_the_command(world: World) -> None:
    """CAT-242: nothing is admitted."""
    world.configure(command={"apart": SUBTASK}, agents={"general": {"disabled": True}})
    async with world.host() as hf:
        session = await hf.sessions.create()
        with pytest.raises(ApiError) as refused:
            await hf.sessions.command(session.id, command="apart")
        assert (refused.value.status, "the agent general" in str(refused.value)) == (400, True)
        assert await hf.sessions.context(session.id) == []


async def test_a_failed_task_of_a_command_is_told_to_the_model(world: World) -> None:
    """CAT-242: which goes on with it."""
    world.configure(command={"apart": SUBTASK})
    world.model.plays(Turn(status=400, error="no such thing"))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await run(hf, session, "apart")
        (state,) = await states(hf, session)
        assert isinstance(state, ToolError)
        assert "no such thing" in world.model.last.results[0]
        assert text_of(await newest(hf, session)) == "done"


async def test_a_command_with_other_prompts_is_given_away_once(world: World) -> None:
    """CAT-243: whatever is promoted with it."""
    world.configure(command={"apart": SUBTASK})
    async with world.host() as hf:
        session = await hf.sessions.create()
        for text in ("one", "two"):
            await hf.sessions.command(session.id, command="apart", arguments=text, resume=False)
        await ask(hf, session, "and this")
        assert len(await states(hf, session)) == 2
        assert len(world.model.requests) == 3
        await ask(hf, session, "more")
        assert len(world.model.requests) == 4


async def test_a_shutdown_while_a_command_is_worked_on_loses_nothing(world: World) -> None:
    """CAT-243: the next process goes on with the same child."""
    world.configure(command={"apart": SUBTASK})
    gate = asyncio.Event()
    world.model.plays(calling("read", path="hello.txt"), Turn(text="found it", begin=gate))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.command(session.id, command="apart", arguments="x")
        await world.model.asked(2)
        child = await child_of(hf, session)
    gate.set()
    world.model.plays(Turn(text="found it"))
    async with world.host() as hf:
        await hf.sessions.list()  # the first operation starts recovery
        await world.model.asked(4)
        await hf.sessions.wait(session.id)
        (state,) = await states(hf, session)
        assert state.structured == {"sessionID": child, "status": "completed"}
        assert text_of(await newest(hf, session)) == "done"
        assert len((await hf.sessions.list()).items) == 2


async def test_a_command_is_given_away_while_the_session_works(world: World) -> None:
    """CAT-243: at the next boundary; afterwards the model goes on with everything."""
    world.configure(command={"apart": SUBTASK})
    gate = asyncio.Event()
    world.model.plays(Turn(calls=calling("read", path="hello.txt").calls, begin=gate), Turn(text="found it"))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="root"))
        await world.model.asked(1)
        await hf.sessions.command(session.id, command="apart", arguments="x")
        gate.set()
        await hf.sessions.wait(session.id)
        assert [type(state).__name__ for state in await states(hf, session)] == ["ToolCompleted"] * 2
        assert "found it" in world.model.last.results[-1]
