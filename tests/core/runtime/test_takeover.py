"""When the owner of a Session dies or stops: at once after `kill -9`, after the expiry when it only stands still."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.conftest import ManualClock
from tests.core.conftest import ToolRuntime, event_types, messages, new_session, tables, user_texts

from holdfast.core.database.errors import Fenced
from holdfast.core.session import ownership
from holdfast.llm.offline import ScriptedTransport
from holdfast.schema.prompt import Prompt
from holdfast.schema.session_message import AssistantMessage, ToolError, ToolPart

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[3]
SESSION = "ses_shared"
PROMPTLY = 10.0
"""Seconds; well below the expiry, which is what a takeover must not wait for."""


@asynccontextmanager
async def stuck_process(data: Path, project: Path, where: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.core.session.child",
        str(data),
        str(project),
        SESSION,
        where,
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        assert await process.stdout.readline() == b"held\n"
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def kill(process: asyncio.subprocess.Process) -> None:
    process.send_signal(signal.SIGKILL)
    await process.wait()


async def test_a_killed_owner_is_succeeded_at_once(tmp_path: Path, project: Path) -> None:
    """SES-078, SES-079, SES-137: the waiting host goes on as soon as the lock is free; the lost call is reported."""
    data, model = tmp_path / "data", ScriptedTransport()
    async with (
        stuck_process(data, project, "tool") as process,
        ToolRuntime(data=data, directory=project, transport=model) as runtime,
    ):
        assert await runtime.sessions.active() == [SESSION]
        await runtime.sessions.prompt(SESSION, Prompt(text="from the survivor"))
        await kill(process)
        async with asyncio.timeout(PROMPTLY):
            await runtime.sessions.wait(SESSION)
        assert user_texts(model.requests[0]) == ["hello", "from the survivor"]
        called = (await messages(runtime, SESSION))[1]
        assert isinstance(called, AssistantMessage)
        part = called.content[-1]
        assert isinstance(part, ToolPart)
        assert isinstance(part.state, ToolError)
        assert part.state.error.message == "Tool execution interrupted"
        assert await runtime.sessions.active() == []
        assert await runtime.verify() == []


async def test_wait_and_interrupt_return_when_the_owner_is_killed(tmp_path: Path, project: Path) -> None:
    """SES-078, SES-068, SES-058: wait and interrupt, begun while the owner lived, return once it is killed."""
    data = tmp_path / "data"
    async with (
        stuck_process(data, project, "model") as process,
        ToolRuntime(data=data, directory=project, transport=ScriptedTransport()) as runtime,
    ):
        process.send_signal(signal.SIGSTOP)  # it holds its lock and its lease, and answers nothing
        waiting = asyncio.create_task(runtime.sessions.wait(SESSION))
        stopping = asyncio.create_task(runtime.sessions.interrupt(SESSION))
        done, _ = await asyncio.wait({waiting, stopping}, timeout=0.3)
        assert not done
        await kill(process)
        async with asyncio.timeout(PROMPTLY):
            await asyncio.gather(waiting, stopping)
        assert await runtime.sessions.active() == []
        with tables(runtime) as sql:
            assert sql("select count(*) from session_control") == [(0,)]


async def test_an_interruption_reaches_another_process(tmp_path: Path, project: Path) -> None:
    """SES-078: the owner stops its tool, records it and lets go; the process itself lives on."""
    data = tmp_path / "data"
    async with (
        stuck_process(data, project, "tool") as process,
        ToolRuntime(data=data, directory=project, transport=ScriptedTransport()) as runtime,
    ):
        async with asyncio.timeout(PROMPTLY):
            await runtime.sessions.interrupt(SESSION)
        types = await event_types(runtime, SESSION)
        assert types.count("tool.failed") == 1
        assert await runtime.sessions.active() == []
        assert process.returncode is None


async def test_an_owner_that_stands_still_loses_its_lease_after_the_expiry(tmp_path: Path, project: Path) -> None:
    """SES-078: with a living lock but no heartbeat it is believed for a while, then replaced, then fenced."""
    still, clock = ManualClock(), ManualClock()
    stuck, model = ScriptedTransport(), ScriptedTransport()
    gate = stuck.hold(0)
    async with (
        ToolRuntime(data=tmp_path / "data", directory=project, transport=stuck, clock=still) as owner,
        ToolRuntime(data=tmp_path / "data", directory=project, transport=model, clock=clock) as other,
    ):
        session = await new_session(owner)
        joined = asyncio.create_task(owner.sessions.run(session.id))
        await stuck.seen(1)
        clock.advance(int(ownership.EXPIRY_SECONDS * 1000) - 1)
        assert await other.sessions.active() == [session.id]
        clock.advance(1)
        assert await other.sessions.active() == []
        await other.sessions.prompt(session.id, Prompt(text="take over"))
        await other.sessions.wait(session.id)
        assert len(model.requests) == 1
        before = await event_types(other, session.id)
        gate.set()
        with pytest.raises(Fenced):
            await joined
        assert await event_types(other, session.id) == before


async def test_a_beating_owner_keeps_its_lease(tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SES-078: each heartbeat starts the expiry anew, also during one long turn."""
    monkeypatch.setattr(ownership, "BEAT_SECONDS", 0.01)
    clock = ManualClock()
    stuck = ScriptedTransport()
    gate = stuck.hold(0)
    async with (
        ToolRuntime(data=tmp_path / "data", directory=project, transport=stuck, clock=clock) as owner,
        ToolRuntime(data=tmp_path / "data", directory=project, transport=ScriptedTransport(), clock=clock) as other,
    ):
        session = await new_session(owner)
        await owner.sessions.prompt(session.id, Prompt(text="hello"))
        await stuck.seen(1)
        with tables(other) as sql:
            for _ in range(3):
                clock.advance(int(ownership.EXPIRY_SECONDS * 1000) - 1)
                async with asyncio.timeout(PROMPTLY):
                    while sql("select beat from owner") != [(clock.now(),)]:  # noqa: ASYNC110 - rows call nobody
                        await asyncio.sleep(0.005)
                assert await other.sessions.active() == [session.id]
        gate.set()
        await owner.sessions.wait(session.id)
