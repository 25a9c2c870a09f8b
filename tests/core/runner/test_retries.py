"""Waits between attempts at a provider turn: seen from every process, ended by time or by an interruption alone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.conftest import ManualClock
from tests.core.conftest import announced, event_types, new_session
from tests.core.session.support_lab import LAB, Lab, Provider, live, refuses, says

from holdfast.schema.prompt import Prompt

pytestmark = pytest.mark.anyio


class WaitingClock(ManualClock):
    """Says when somebody waits."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        self.waiting.set()
        await super().sleep(seconds)


async def test_a_wait_is_seen_from_another_process_until_its_time(tmp_path: Path) -> None:
    """LLM-416, SES-209: read from what is recorded; then the next attempt is what is waited for."""
    clock = WaitingClock()
    provider = Provider(refuses("busy", 503), says("made it"))
    held = provider.hold(1)
    async with Lab(tmp_path, provider, clock=clock) as runtime, Lab(tmp_path, Provider(), clock=clock) as other:
        session = await new_session(runtime, model=LAB)
        began = clock.now()
        await runtime.sessions.prompt(session.id, Prompt(text="go"))
        await clock.waiting.wait()
        wait = next(iter(await other.sessions.waits(session.id)))
        assert (wait.kind, wait.since) == ("retry", began)
        assert wait.until is not None
        assert 400 <= wait.until - began <= 600
        assert "is overloaded (HTTP 503)" in wait.what
        clock.advance(wait.until - began)
        await provider.seen(2)
        (now,) = await runtime.sessions.waits(session.id)
        assert (now.kind, now.since, now.until) == ("provider", wait.until, None)
        held.set()
        await runtime.sessions.wait(session.id)
        assert await runtime.sessions.waits(session.id) == []
        assert await runtime.verify() == []


async def test_an_interruption_ends_a_wait_at_once(tmp_path: Path) -> None:
    """LLM-415: the clock stands still, and no attempt follows."""
    clock = WaitingClock()
    provider = Provider(refuses("busy", 503), says("never"))
    async with Lab(tmp_path, provider, clock=clock) as runtime, announced(runtime) as heard:
        session = await new_session(runtime, model=LAB)
        await runtime.sessions.prompt(session.id, Prompt(text="go"))
        await clock.waiting.wait()
        await runtime.sessions.interrupt(session.id)
        clock.advance(600_000)
        assert [item["status"]["type"] for item in live(heard, "session.status")] == ["busy", "retry", "idle"]
        assert (await event_types(runtime, session.id))[-3:] == ["retried", "step.started", "step.failed"]
        assert len(provider.requests) == 1
