"""Interrupting, joining and waiting, through a whole runtime: a held model, a held tool, a slow cleanup."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.core.conftest import (
    HeldTool,
    ToolRuntime,
    event_types,
    messages,
    new_session,
    script,
    steps,
    user_texts,
)

from holdfast.core.runtime.runtime import Paths, Runtime
from holdfast.core.session.errors import Interrupted
from holdfast.llm.errors import LLMError
from holdfast.llm.offline import Call, ScriptedTransport, Turn
from holdfast.schema.prompt import Prompt
from holdfast.schema.session import Session
from holdfast.schema.session_message import AssistantMessage, ToolError, ToolPart

pytestmark = pytest.mark.anyio

HELLO = Prompt(text="hello")
HOLD = Turn(calls=(Call(tool="held", input={}),))


async def test_interrupting_a_held_turn_returns_when_it_is_recorded(
    runtime: Runtime, session: Session, model: ScriptedTransport
) -> None:
    """SES-068, SES-070: the step's end is on disk when interrupt returns; callers of run hear of an interruption."""
    model.hold(0)
    caller = asyncio.create_task(runtime.sessions.run(session.id))
    await model.seen(1)
    await runtime.sessions.interrupt(session.id)
    assert (await event_types(runtime, session.id))[-1] == "step.failed"
    assert await runtime.sessions.active() == []
    (failed,) = await messages(runtime, session.id)
    assert isinstance(failed, AssistantMessage)
    assert failed.error is not None
    assert failed.error.message == "Provider turn interrupted"
    with pytest.raises(Interrupted):
        await caller


async def test_interrupting_an_idle_session_changes_nothing(
    runtime: Runtime, session: Session, model: ScriptedTransport
) -> None:
    """SES-068: before anything ran, and again after an interruption."""
    await runtime.sessions.interrupt(session.id)
    assert await event_types(runtime, session.id) == ["session.created"]
    model.hold(0)
    await runtime.sessions.prompt(session.id, HELLO)
    await model.seen(1)
    await asyncio.gather(*(runtime.sessions.interrupt(session.id) for _ in range(3)))
    before = await event_types(runtime, session.id)
    await runtime.sessions.interrupt(session.id)
    assert await event_types(runtime, session.id) == before
    assert before.count("step.failed") == 1


async def test_an_interruption_before_the_drain_began_leaves_the_input(
    runtime: Runtime, session: Session, model: ScriptedTransport
) -> None:
    """SES-068, SES-072: the wake is dropped, the row stays; nothing was promoted and nothing asked."""
    await runtime.sessions.prompt(session.id, HELLO, id="msg_1", resume=False)
    runtime.execution.wake(session.id)
    assert runtime.execution.here(session.id)
    await runtime.execution.interrupt(session.id)  # no await in between: the drain's task has not run yet
    assert await event_types(runtime, session.id) == ["session.created", "prompt.admitted"]
    assert model.requests == []


@pytest.mark.parametrize("again", ["run", "wake", "prompt"])
async def test_input_queued_before_an_interruption_is_delivered_later(
    runtime: Runtime, session: Session, model: ScriptedTransport, again: str
) -> None:
    """SES-068, SES-074: the queued input keeps its place; the next request has the original and the queued text."""
    model.hold(0)
    await runtime.sessions.prompt(session.id, Prompt(text="original"))
    await model.seen(1)
    await runtime.sessions.prompt(session.id, Prompt(text="queued"), id="msg_q", delivery="queue")
    await runtime.sessions.interrupt(session.id)
    await steps(20)
    assert await runtime.sessions.active() == []
    assert len(model.requests) == 1
    receipt = await runtime.store.admission("msg_q")
    assert receipt is not None
    assert receipt.promoted_seq is None

    match again:
        case "run":
            await runtime.sessions.run(session.id)
        case "wake":
            await runtime.sessions.wake(session.id)
        case _:
            await runtime.sessions.prompt(session.id, Prompt(text="queued"), id="msg_q", delivery="queue")
    await runtime.sessions.wait(session.id)
    assert user_texts(model.requests[1]) == ["original", "queued"]
    assert len(model.requests) == 2


async def test_interrupting_a_tool_settles_its_call(
    tooled: ToolRuntime, model: ScriptedTransport, held: HeldTool
) -> None:
    """SES-068: when interrupt returns the tool has been cut, has cleaned up and is recorded; nothing runs it again."""
    script(model, HOLD)
    session = await new_session(tooled)
    await tooled.sessions.prompt(session.id, HELLO)
    await held.started.wait()
    held.cleaned.clear()
    stopping = asyncio.create_task(tooled.sessions.interrupt(session.id))
    await held.cut.wait()
    await steps(20)
    assert not stopping.done()
    held.cleaned.set()
    await stopping
    called = (await messages(tooled, session.id))[1]
    assert isinstance(called, AssistantMessage)
    (part,) = called.content
    assert isinstance(part, ToolPart)
    assert isinstance(part.state, ToolError)
    assert part.state.error.message == "Tool execution interrupted"
    assert (held.runs, len(model.requests)) == (1, 1)
    assert await tooled.verify() == []


async def test_a_prompt_during_the_cleanup_is_executed_after_it(
    tooled: ToolRuntime, model: ScriptedTransport, held: HeldTool
) -> None:
    """SES-069: its wake survives; a queued one from before goes with the same drain, since it starts anew."""
    script(model, HOLD)
    session = await new_session(tooled)
    await tooled.sessions.prompt(session.id, HELLO)
    await held.started.wait()
    held.cleaned.clear()
    stopping = asyncio.create_task(tooled.sessions.interrupt(session.id))
    await held.cut.wait()
    await tooled.sessions.prompt(session.id, Prompt(text="during cleanup"))
    await steps(20)
    assert len(model.requests) == 1
    held.cleaned.set()
    await stopping
    await tooled.sessions.wait(session.id)
    assert [user_texts(request) for request in model.requests] == [["hello"], ["hello", "during cleanup"]]


async def test_a_run_during_the_cleanup_runs_after_it(
    tooled: ToolRuntime, model: ScriptedTransport, held: HeldTool
) -> None:
    """SES-069: it is not answered with the interruption; it forces a drain of its own and returns with that."""
    script(model, HOLD)
    session = await new_session(tooled)
    await tooled.sessions.prompt(session.id, HELLO)
    await held.started.wait()
    held.cleaned.clear()
    stopping = asyncio.create_task(tooled.sessions.interrupt(session.id))
    await held.cut.wait()
    running = asyncio.create_task(tooled.sessions.run(session.id))
    await steps(20)
    held.cleaned.set()
    await asyncio.gather(stopping, running)
    assert [user_texts(request) for request in model.requests] == [["hello"], ["hello"]]


async def test_run_joins_what_a_prompt_began(runtime: Runtime, session: Session, model: ScriptedTransport) -> None:
    """SES-062, SES-065: no request of its own, and it returns after the follow-up that a later prompt asked for."""
    first, second = model.hold(0), model.hold(1)
    await runtime.sessions.prompt(session.id, HELLO)
    await model.seen(1)
    joined = [asyncio.create_task(runtime.execution.run(session.id)) for _ in range(2)]
    await steps(1)  # they join without waiting for anything
    await runtime.sessions.prompt(session.id, Prompt(text="more"), delivery="queue")
    first.set()
    await model.seen(2)
    assert not any(task.done() for task in joined)
    second.set()
    await asyncio.gather(*joined)
    await runtime.sessions.wait(session.id)
    assert len(model.requests) == 2


async def test_a_failure_reaches_the_joined_and_does_not_eat_the_next_prompt(
    runtime: Runtime, session: Session, model: ScriptedTransport
) -> None:
    """SES-062, SES-066: both callers get the same error; the steer that came during the failing turn is executed."""
    script(model, Turn(fail=400))
    gate = model.hold(0)
    callers = [asyncio.create_task(runtime.sessions.run(session.id)) for _ in range(2)]
    await model.seen(1)
    await runtime.sessions.prompt(session.id, Prompt(text="next"))
    gate.set()
    one, other = await asyncio.gather(*callers, return_exceptions=True)
    assert isinstance(one, LLMError)
    assert one is other
    await runtime.sessions.wait(session.id)
    assert user_texts(model.requests[1]) == ["next"]


async def test_a_caller_who_leaves_does_not_take_the_interruption_back(
    runtime: Runtime, session: Session, model: ScriptedTransport
) -> None:
    """SES-068: cancelled in the middle, the interruption still happens."""
    model.hold(0)
    await runtime.sessions.prompt(session.id, HELLO)
    await model.seen(1)
    caller = asyncio.create_task(runtime.sessions.interrupt(session.id))
    await steps(1)
    caller.cancel()
    await asyncio.wait({caller})
    await runtime.sessions.wait(session.id)
    assert (await event_types(runtime, session.id))[-1] == "step.failed"


async def test_closing_records_what_it_interrupts(tmp_path: Path, project: Path) -> None:
    """SES-072: after shutdown in a held turn the log has its end, and nothing is active for the next process."""
    paths = Paths(tmp_path / "data")
    model = ScriptedTransport()
    model.hold(0)
    async with Runtime(paths=paths, directory=project, environment={}, transport=model) as runtime:
        session = await new_session(runtime)
        await runtime.sessions.prompt(session.id, HELLO)
        await model.seen(1)
    async with Runtime(paths=paths, directory=project, environment={}, transport=ScriptedTransport()) as runtime:
        assert (await event_types(runtime, session.id))[-2:] == ["step.failed", "activity.suspended"]
        assert await runtime.sessions.active() == []
        assert await runtime.verify() == []
