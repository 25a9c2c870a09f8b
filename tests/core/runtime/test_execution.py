"""From a Session id alone to its Location's runner, and what the outside sees of it."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from tests.core.conftest import (
    MODEL,
    HeldTool,
    ToolRuntime,
    announced,
    event_types,
    messages,
    new_session,
    script,
    steps,
    tables,
)

from holdfast.core.location.service_map import IDLE_SECONDS
from holdfast.core.runner.runner import Runner
from holdfast.core.runtime.runtime import Paths, Runtime
from holdfast.core.session.errors import Interrupted, LeaseLost
from holdfast.core.session.interrupt import Interrupt
from holdfast.core.session.ownership import Lease
from holdfast.embedded.holdfast import Holdfast
from holdfast.llm.errors import LLMError
from holdfast.llm.offline import Call, ScriptedTransport, Turn
from holdfast.schema.codec import decode_any, encode
from holdfast.schema.location import Location
from holdfast.schema.prompt import Prompt, PromptInput
from holdfast.schema.session import Session
from holdfast.schema.session_event import StepStarted, ToolInputStarted
from holdfast.schema.session_message import AssistantMessage, ToolError, ToolPart

pytestmark = pytest.mark.anyio

HELLO = Prompt(text="hello")


async def test_services_belong_to_the_location_not_to_the_session(tooled: ToolRuntime, tmp_path: Path) -> None:
    """SES-059, SES-060: built once for two Sessions in one place, once more for another place, then reused."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    here = [await new_session(tooled) for _ in range(2)]
    there = await new_session(tooled, location=Location(directory=str(elsewhere)))
    for session in (*here, there, *here):
        await tooled.execution.run(session.id)
    assert tooled.built == [here[0].location, there.location]
    assert IDLE_SECONDS == 3600


async def test_tools_work_where_the_session_lives(runtime: Runtime, model: ScriptedTransport, tmp_path: Path) -> None:
    """SES-059: the same path names another file in another Location."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "hello.txt").write_text("from elsewhere")
    script(model, Turn(calls=(Call(tool="read", input={"path": "hello.txt"}),)))
    session = await new_session(runtime, location=Location(directory=str(elsewhere)))
    await runtime.sessions.prompt(session.id, HELLO)
    await runtime.sessions.wait(session.id)
    assert "from elsewhere" in model.requests[1]["messages"][-1]["content"]


async def test_a_redundant_wake_costs_only_the_check(
    runtime: Runtime, session: Session, model: ScriptedTransport
) -> None:
    """SES-064: with a call left open by an earlier process, a wake writes, says and asks nothing; a run repairs it."""
    started = StepStarted(timestamp=1, session_id=session.id, assistant_message_id="msg_a", agent="x", model=MODEL)
    called = ToolInputStarted(
        timestamp=2, session_id=session.id, assistant_message_id="msg_a", call_id="c", name="read"
    )
    await runtime.log.publish(started, called)
    before = await event_types(runtime, session.id)
    async with announced(runtime) as heard:
        await runtime.sessions.wake(session.id)
        await runtime.sessions.wait(session.id)
    assert heard == []
    assert await event_types(runtime, session.id) == before
    with tables(runtime) as sql:
        assert sql("select count(*) from session_lease") == [(0,)]
    assert model.requests == []

    await runtime.sessions.run(session.id)
    assert len(model.requests) == 1
    abandoned = (await messages(runtime, session.id))[0]
    assert isinstance(abandoned, AssistantMessage)
    (part,) = abandoned.content
    assert isinstance(part, ToolPart)
    assert isinstance(part.state, ToolError)
    assert part.state.error.message == "Tool execution interrupted"


async def test_waiting_ends_with_the_drain_and_a_waiter_may_leave(
    runtime: Runtime, session: Session, model: ScriptedTransport
) -> None:
    """SES-058, SES-071: idle returns at once; cancelling one waiter stops neither the drain nor another waiter."""
    await runtime.sessions.wait(session.id)
    gate = model.hold(0)
    await runtime.sessions.prompt(session.id, HELLO)
    await model.seen(1)
    leaving, staying = (asyncio.create_task(runtime.sessions.wait(session.id)) for _ in range(2))
    await steps(10)
    leaving.cancel()
    await asyncio.wait({leaving})
    await steps(10)
    assert not staying.done()
    gate.set()
    await staying
    assert (await event_types(runtime, session.id))[-1] == "step.ended"


async def test_a_failed_drain_is_logged_once_and_not_the_waiters_failure(
    runtime: Runtime, session: Session, model: ScriptedTransport, caplog: pytest.LogCaptureFixture
) -> None:
    """SES-058, SES-075: wait returns; run raises the error itself; each failure is one line with the Session's id."""
    script(model, Turn(fail=400), Turn(fail=400))
    with caplog.at_level(logging.INFO, logger="holdfast"):
        await runtime.sessions.prompt(session.id, HELLO)
        await runtime.sessions.wait(session.id)
        assert len([record for record in caplog.records if session.id in record.getMessage()]) == 1
        caplog.clear()
        with pytest.raises(LLMError):
            await asyncio.gather(runtime.sessions.run(session.id), runtime.sessions.run(session.id))
        assert len([record for record in caplog.records if session.id in record.getMessage()]) == 1


@pytest.mark.store("sqlite", reason="the folder of the locks of owners")
async def test_a_drain_that_fails_before_it_has_its_lease_is_logged_too(
    runtime: Runtime, session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    """SES-075: nobody waits for a wake, so the log is the only place where its failure can be seen."""
    runtime.paths.owners.write_text("a file where a folder should be")
    with caplog.at_level(logging.INFO, logger="holdfast"):
        await runtime.sessions.prompt(session.id, HELLO)
        await runtime.sessions.wait(session.id)
    assert len([record for record in caplog.records if session.id in record.getMessage()]) == 1


async def test_an_interruption_is_no_failure_to_log(
    runtime: Runtime, session: Session, model: ScriptedTransport, caplog: pytest.LogCaptureFixture
) -> None:
    """SES-075: pure interruption leaves no line."""
    model.hold(0)
    with caplog.at_level(logging.INFO, logger="holdfast"):
        await runtime.sessions.prompt(session.id, HELLO)
        await model.seen(1)
        await runtime.sessions.interrupt(session.id)
    assert [record for record in caplog.records if session.id in record.getMessage()] == []


@pytest.mark.parametrize("ending", ["success", "failure", "interruption"])
async def test_status_is_announced_live(
    runtime: Runtime, session: Session, model: ScriptedTransport, ending: str
) -> None:
    """SES-076: busy when a drain begins, idle when it ends, however it ends; never in the durable log."""
    gate = model.hold(0)
    script(model, Turn(fail=400) if ending == "failure" else Turn(text="done"))
    async with announced(runtime) as heard:
        await runtime.sessions.prompt(session.id, HELLO)
        await model.seen(1)
        if ending == "interruption":
            await runtime.sessions.interrupt(session.id)
        gate.set()
        await runtime.sessions.wait(session.id)
    events = [decode_any(item.wire) for item in heard if item.type == "session.status"]
    assert [event["data"] for event in events] == [
        {"sessionID": session.id, "status": {"type": "busy"}},
        {"sessionID": session.id, "status": {"type": "idle"}},
    ]
    assert all("durable" not in event for event in events)
    assert not [kind for kind in await event_types(runtime, session.id) if "status" in kind]


async def test_active_sessions_are_listed_only_while_they_run(tmp_path: Path, project: Path) -> None:
    """SES-072, SES-073: running from the wake until the end; absent when idle; empty after a restart."""
    model = ScriptedTransport()
    gate = model.hold(0)

    def host() -> Holdfast:
        return Holdfast(project, data=tmp_path / "data", environment={}, transport=model)

    async with host() as holdfast:
        session = await holdfast.sessions.create(model=MODEL)
        idle = await holdfast.sessions.create(model=MODEL)
        assert await holdfast.sessions.active() == {}
        await holdfast.sessions.prompt(session.id, prompt=PromptInput(text="hello"))
        active = await holdfast.sessions.active()
        assert decode_any(encode(active)) == {session.id: {"type": "running"}}
        assert idle.id not in active
        await model.seen(1)
    async with host() as holdfast:
        assert await holdfast.sessions.active() == {}
    gate.set()


async def test_a_drain_leaves_no_trace_of_itself(runtime: Runtime, session: Session, model: ScriptedTransport) -> None:
    """SES-208: two drains of one turn and one drain of two turns write the same kinds of events, and no more."""
    turn = [
        "prompt.admitted",
        "prompted",
        "turn.dispatched",
        "step.started",
        "text.started",
        "text.ended",
        "step.ended",
    ]
    for _ in range(2):
        await runtime.sessions.prompt(session.id, HELLO)
        await runtime.sessions.wait(session.id)
    assert await event_types(runtime, session.id) == ["session.created", *turn, *turn]

    other = await new_session(runtime)
    for _ in range(2):
        await runtime.sessions.prompt(other.id, HELLO, delivery="queue", resume=False)
    await runtime.sessions.wake(other.id)
    await runtime.sessions.wait(other.id)
    assert await event_types(runtime, other.id) == ["session.created", *turn[:1], *turn, *turn[1:]]


async def test_sessions_execute_at_the_same_time(tooled: ToolRuntime, model: ScriptedTransport) -> None:
    """SES-061: three models are being asked at once, each for another Session."""
    gates = [model.hold(number) for number in range(3)]
    sessions = [await new_session(tooled) for _ in range(3)]
    for session in sessions:
        await tooled.sessions.prompt(session.id, HELLO)
    await model.seen(3)
    assert await tooled.sessions.active() == sorted(session.id for session in sessions)
    for gate in gates:
        gate.set()
    for session in sessions:
        await tooled.sessions.wait(session.id)
    assert await tooled.sessions.active() == []


async def test_two_runtimes_keep_apart_what_has_separate_storage(tmp_path: Path, project: Path, held: HeldTool) -> None:
    """SES-079: hosts with storage of their own share nothing."""
    one, other = ScriptedTransport(), ScriptedTransport()
    async with (
        ToolRuntime(data=tmp_path / "one", directory=project, transport=one) as first,
        Runtime(paths=Paths(tmp_path / "other"), directory=project, environment={}, transport=other) as second,
    ):
        await new_session(first, id="ses_same")
        await new_session(second, id="ses_same")
        one.hold(0)
        await first.sessions.prompt("ses_same", HELLO)
        await one.seen(1)
        assert await second.sessions.active() == []
        await second.sessions.prompt("ses_same", HELLO)
        await second.sessions.wait("ses_same")
        assert len(other.requests) == 1


async def test_exclusive_work_is_tried_again_under_another_lease(runtime: Runtime, session: Session) -> None:
    """SES-284: another process took the lease first, so nothing had happened; a failure is the caller's alone."""
    tried: list[int] = []

    async def work(runner: Runner, lease: Lease, interrupt: Interrupt) -> None:
        tried.append(lease.fence.token)
        if len(tried) == 1:
            raise LeaseLost

    async def failing(runner: Runner, lease: Lease, interrupt: Interrupt) -> None:
        raise ValueError("mine")

    await runtime.execution.exclusively(session.id, work)
    assert len(tried) == 2
    with pytest.raises(ValueError, match="mine"):
        await runtime.execution.exclusively(session.id, failing)
    await runtime.sessions.wait(session.id)
    assert await runtime.sessions.active() == []
    assert await event_types(runtime, session.id) == ["session.created"]


async def test_exclusive_work_that_waits_is_given_up_by_an_interruption(runtime: Runtime, session: Session) -> None:
    """SES-288: of this process or of another one; what runs ends by itself."""
    begun = asyncio.Event()

    async def holding(runner: Runner, lease: Lease, interrupt: Interrupt) -> None:
        begun.set()
        await interrupt.cancellable(asyncio.sleep(600), name="held")

    async def never(runner: Runner, lease: Lease, interrupt: Interrupt) -> None:
        raise AssertionError("it must not begin")

    for stop in (runtime.execution.interrupt, lambda id: runtime.execution._obey("interrupt", id)):
        begun.clear()
        first = asyncio.create_task(runtime.execution.exclusively(session.id, holding))
        await begun.wait()
        second = asyncio.create_task(runtime.execution.exclusively(session.id, never))
        await asyncio.sleep(0)
        await stop(session.id)
        await first
        with pytest.raises(Interrupted):
            await second
