"""Who runs when: waking, waiting, interrupting, several Sessions at once, the allowance of an agent."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest
from tests.outside.scripted_provider import PATIENCE, Turn, calling
from tests.outside.world import World, answers, ask, events, newest, of_type, text_of, tools_of, types, until

from holdfast import ApiError, PromptInput
from holdfast.schema.live_event import SessionStatus
from holdfast.schema.session_event import StepFailed
from holdfast.schema.session_message import ToolError

pytestmark = pytest.mark.anyio

GO = PromptInput(text="go")


async def test_waiting_ends_with_the_work_and_never_ends_the_work(world: World) -> None:
    """SES-058, SES-071: an idle Session is waited for no time; a waiter that gives up changes nothing for the
    others."""
    gate = asyncio.Event()
    world.model.plays(Turn(text="answered", begin=gate))
    async with world.host() as hf, asyncio.timeout(PATIENCE):
        session = await hf.sessions.create()
        await hf.sessions.wait(session.id)
        await hf.sessions.prompt(session.id, prompt=GO)
        await world.model.asked(1)
        impatient, patient = (asyncio.create_task(hf.sessions.wait(session.id)) for _ in range(2))
        await asyncio.wait({impatient}, timeout=0.01)
        impatient.cancel()
        await asyncio.wait({impatient})
        assert not patient.done()
        gate.set()
        await patient
        assert text_of(await newest(hf, session)) == "answered"


async def test_sessions_run_side_by_side_and_each_one_turn_at_a_time(world: World) -> None:
    """SES-061, SES-063, SES-072, SES-073, API-113: two Sessions are asked at once; several prompts to a running one
    make one further turn; who runs is listed, and nobody afterwards."""
    gate = asyncio.Event()
    world.model.plays(Turn(text="a", begin=gate), Turn(text="b", begin=gate))
    async with world.host() as hf:
        one, two = await hf.sessions.create(), await hf.sessions.create()
        assert await hf.sessions.active() == {}
        for session in (one, two):
            await hf.sessions.prompt(session.id, prompt=GO)
        await world.model.asked(2)
        active = await hf.sessions.active()
        assert {id: state.type for id, state in active.items()} == {one.id: "running", two.id: "running"}
        for text in ("more", "and more", "and yet more"):
            await hf.sessions.prompt(one.id, prompt=PromptInput(text=text))
        assert len(world.model.requests) == 2
        gate.set()
        for session in (one, two):
            await hf.sessions.wait(session.id)
        assert await hf.sessions.active() == {}
    assert len(world.model.requests) == 3


async def test_a_wake_with_nothing_to_do_does_nothing(world: World) -> None:
    """SES-064, SES-138: a repeated prompt wakes an idle Session whose last turn had failed: no event, no request, no
    new attempt at what was already promoted."""
    world.model.plays(Turn(status=400))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "go", id="msg_1")
        before = await events(hf, session)
        assert before[-1].type == "session.next.step.failed"
        await ask(hf, session, "go", id="msg_1")
        assert await events(hf, session) == before
        assert await hf.sessions.active() == {}
    assert len(world.model.requests) == 1


async def test_a_failed_turn_loses_no_wake(world: World) -> None:
    """SES-066, SES-111: what arrived during a turn that failed is answered by a drain of its own."""
    gate = asyncio.Event()
    world.model.plays(Turn(status=400, error="no", begin=gate), Turn(text="second"))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="one"))
        await world.model.asked(1)
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="two"))
        gate.set()
        await hf.sessions.wait(session.id)
        failed, answered = answers(await hf.sessions.context(session.id))
        assert failed.finish == "error"
        assert failed.error is not None
        assert "no" in failed.error.message
        assert text_of(answered) == "second"
        assert await hf.sessions.active() == {}
    assert [text for role, text in world.model.last.said if role == "user"] == ["one", "two"]


async def test_an_interruption_returns_when_its_truth_is_recorded(world: World) -> None:
    """SES-068, SES-074, SES-103, SES-132, API-124: the half answer is kept and closed, the step failed, nothing runs;
    what waited still waits, and a later wake delivers all of it. Interrupting again, or an idle Session, is nothing."""
    never = asyncio.Event()
    world.model.plays(Turn(text="half an ", end=never))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.interrupt(session.id)
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="one"))
        await until(hf, session, of_type("text.started"))
        await hf.sessions.prompt(session.id, id="msg_two", prompt=PromptInput(text="two"), delivery="queue")
        await hf.sessions.interrupt(session.id)

        assert await hf.sessions.active() == {}
        told = await events(hf, session)
        names = [event.type.removeprefix("session.next.") for event in told]
        assert names[-2:] == ["text.ended", "step.failed"]
        assert isinstance(told[-1].data, StepFailed)
        assert told[-1].data.error.message == "Provider turn interrupted"
        broken = await newest(hf, session)
        assert (text_of(broken), broken.finish) == ("half an ", "error")
        assert [input.id for input in await hf.sessions.pending(session.id)] == ["msg_two"]
        await hf.sessions.interrupt(session.id)
        assert await events(hf, session) == told
        assert len(world.model.requests) == 1

        await ask(hf, session, "two", id="msg_two", delivery="queue")
        assert text_of(await newest(hf, session)) == "done"
    assert [text for role, text in world.model.last.said if role == "user"] == ["one", "two"]
    assert ("assistant", "half an ") in world.model.last.said


async def test_an_interruption_during_tools_keeps_the_step_that_was_complete(world: World) -> None:
    """SES-133, TOL-032: the call is recorded as interrupted, the step as ended; a completed sibling keeps its
    result."""
    world.model.plays(
        Turn(calls=(*calling("read", path="hello.txt").calls, *calling("bash", command="sleep 60").calls))
    )
    async with world.host(unattended="allow") as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=GO)
        await until(hf, session, of_type("tool.success"))
        await hf.sessions.interrupt(session.id)
        (message,) = answers(await hf.sessions.context(session.id))
        read, bash = tools_of(message)
        assert read.state.__class__.__name__ == "ToolCompleted"
        assert isinstance(bash.state, ToolError)
        assert bash.state.error.message == "Tool execution interrupted"
        assert (message.finish, message.error) == ("tool-calls", None)
        assert (await types(hf, session))[-1] == "step.ended"
    assert len(world.model.requests) == 1


async def test_status_is_announced_to_whoever_listens(world: World) -> None:
    """SES-076, API-210, API-214: busy, then idle; after the connection was greeted, with deltas in between."""
    written = asyncio.Event()
    world.model.always = Turn(text="some words", end=written)
    async with (
        world.host() as hf,
        asyncio.timeout(PATIENCE),
        aclosing(aiter(hf.events.subscribe())) as live,
    ):
        assert (await anext(live)).type == "server.connected"
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=GO)
        seen: list[str] = []
        states: list[str] = []
        while states[-1:] != ["idle"]:
            event = await anext(live)
            seen.append(event.type)
            if event.type == "session.next.text.delta":
                written.set()  # an answer that ends at once need not have live deltas
            if isinstance(event.data, SessionStatus) and event.data.session_id == session.id:
                states.append(type(event.data.status).__name__.lower())
    assert states == ["busy", "idle"]
    assert {"session.next.text.delta", "session.idle"} <= set(seen)


async def test_an_agents_steps_end_with_a_turn_without_tools(world: World) -> None:
    """SES-080, SES-081, SES-083, SES-084, CAT-070, TOL-018: the second of two turns advertises nothing, may call
    nothing, and is told so in a text that is not kept; a call made anyway is refused and nothing follows."""
    world.configure(agents={"short": {"steps": 2, "mode": "primary"}})
    wanted = calling("read", path="hello.txt")
    world.model.always = wanted
    async with world.host(unattended="allow") as hf:
        session = await hf.sessions.create(agent="short")
        await ask(hf, session, "go")
        first, last = world.model.requests
        assert "read" in first.tools
        assert last.tools == []
        assert last.body.get("tool_choice", "none") == "none"
        notice = last.said[-1][1]
        assert "step" in notice
        one, two = answers(await hf.sessions.context(session.id))
        (refused,) = tools_of(two)
        assert isinstance(refused.state, ToolError)
        assert refused.state.error.message == "Tools are disabled after the maximum agent steps"
        kept = [message for message in await hf.sessions.context(session.id) if getattr(message, "text", "") == notice]
        assert kept == []
        assert tools_of(one)[0].state.__class__.__name__ == "ToolCompleted"


async def test_new_input_gives_an_agent_all_of_its_steps_again(world: World) -> None:
    """SES-082: a steer that joins at the second boundary makes that turn the first again; two at once count once."""
    world.configure(agents={"short": {"steps": 2, "mode": "primary"}})
    gate = asyncio.Event()
    world.model.always = calling("read", path="hello.txt")
    world.model.plays(Turn(calls=calling("read", path="hello.txt").calls, begin=gate))
    async with world.host(unattended="allow") as hf:
        session = await hf.sessions.create(agent="short")
        await hf.sessions.prompt(session.id, prompt=GO)
        await world.model.asked(1)
        for text in ("wait", "also"):
            await hf.sessions.prompt(session.id, prompt=PromptInput(text=text))
        gate.set()
        await hf.sessions.wait(session.id)
    assert [bool(request.tools) for request in world.model.requests] == [True, True, False]


async def test_an_unknown_session_is_not_found_by_any_operation(world: World) -> None:
    """SES-010, SES-030, SES-145: before anything else is looked at."""
    nobody = "ses_nobody"
    async with world.host() as hf:
        calls = [
            hf.sessions.get(nobody),
            hf.sessions.prompt(nobody, prompt=GO),
            hf.sessions.interrupt(nobody),
            hf.sessions.wait(nobody),
            hf.sessions.compact(nobody),
            hf.sessions.context(nobody),
            hf.sessions.history(nobody),
            hf.sessions.messages(nobody),
            hf.sessions.message(nobody, message_id="msg_1"),
            hf.sessions.switch_agent(nobody, agent="build"),
            hf.sessions.stage_revert(nobody, message_id="msg_1"),
            hf.sessions.move(nobody, directory=str(world.project)),
            hf.sessions.rename(nobody, title="x"),
            hf.sessions.archive(nobody),
            hf.sessions.delete(nobody),
            hf.sessions.pending(nobody),
            hf.sessions.todos(nobody),
            hf.sessions.request_context(nobody),
            hf.permissions.list(nobody),
            hf.questions.list(nobody),
        ]
        for call in calls:
            with pytest.raises(ApiError) as unknown:
                await call
            assert (unknown.value.status, unknown.value.code) == (404, "SessionNotFoundError")
            assert unknown.value.body["sessionID"] == nobody
