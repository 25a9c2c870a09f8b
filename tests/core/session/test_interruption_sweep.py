"""A turn with two tool calls, interrupted at everything that observers hear of it and some steps after."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.core.conftest import NoInput, ToolRuntime, event_types, new_session, steps

from holdfast.core.event.bus import Announcement
from holdfast.core.tool.tool import Tool, ToolContext
from holdfast.llm.offline import Call, ScriptedTransport, Turn
from holdfast.schema.prompt import Prompt

pytestmark = pytest.mark.anyio

MOMENTS = 16


class Effect:
    """A tool that does one thing after a few steps of the loop."""

    def __init__(self) -> None:
        self.done: list[str] = []

    @property
    def tool(self) -> Tool[NoInput, dict[str, Any]]:
        return Tool(description="acts", input=NoInput, output=dict[str, Any], execute=self._execute)

    async def _execute(self, given: NoInput, context: ToolContext) -> dict[str, Any]:
        await steps(3)
        self.done.append(context.session_id)
        return {"acted": True}


class Stopper:
    """Interrupts a Session some steps after the n-th announcement."""

    def __init__(self, runtime: ToolRuntime, session_id: str, moment: int, later: int) -> None:
        self._runtime = runtime
        self._session_id = session_id
        self._left = moment
        self._later = later
        self.task: asyncio.Task[None] | None = None

    def __call__(self, announcement: Announcement) -> None:
        if self._left == 0:
            self.task = asyncio.create_task(self._stop())
        self._left -= 1

    async def _stop(self) -> None:
        await steps(self._later)
        await self._runtime.sessions.interrupt(self._session_id)


def two_calls_then_done(body: dict[str, Any]) -> Turn:
    if body["messages"][-1]["role"] == "user":
        return Turn(text="two calls", calls=tuple(Call(tool="act", input={}) for _ in range(2)))
    return Turn(text="done")


@pytest.mark.parametrize("later", [0, 1, 2, 4, 7])
async def test_whenever_it_is_interrupted_each_call_has_one_true_settlement(
    tmp_path: Path, project: Path, later: int
) -> None:
    """SES-118, SES-136: one settlement for each call, even one whose input only began; one end for each step."""
    model, effect = ScriptedTransport([two_calls_then_done] * 3 * MOMENTS), Effect()
    data = tmp_path / "data"
    async with ToolRuntime(data=data, directory=project, transport=model, tools={"act": effect.tool}) as runtime:
        for moment in range(MOMENTS):
            session = await new_session(runtime)
            stopper = Stopper(runtime, session.id, moment, later)
            stop_listening = runtime.log.bus.listen(stopper)
            await runtime.sessions.prompt(session.id, Prompt(text="act"))
            await runtime.sessions.wait(session.id)
            if stopper.task is not None:
                await stopper.task
            stop_listening()
            types = await event_types(runtime, session.id)
            settled = types.count("tool.success") + types.count("tool.failed")
            assert types.count("tool.input.started") == settled >= types.count("tool.called")
            assert types.count("tool.success") == effect.done.count(session.id)
            assert types.count("step.started") == types.count("step.ended") + types.count("step.failed")
        assert await runtime.verify() == []
