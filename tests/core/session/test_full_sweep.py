"""Three turns and two tools, interrupted at every single callback of the loop, once and twice."""

from __future__ import annotations

import asyncio
from asyncio import events
from pathlib import Path
from typing import Any

import pytest
from tests.core.conftest import ToolRuntime, event_types, new_session
from tests.core.session.support_lab import LAB, Lab, Provider, Reply, calls, says, tool

from holdfast.core.session.errors import Interrupted
from holdfast.schema.prompt import Prompt


class Counting(asyncio.SelectorEventLoop):
    """Runs a function before the callback with a chosen number."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.at: dict[int, Any] = {}

    def watch(self, at: dict[int, Any]) -> None:
        self.count, self.at = 0, at

    def _run_once(self) -> None:
        due = self.at.pop(self.count, None)
        self.count += 1
        if due is not None:
            due()
        # One callback a round; in place, since the writer thread adds to the same queue.
        later = [self._ready.pop() for _ in range(len(self._ready) - 1)]  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]
        self._ready.extendleft(later)  # type: ignore[attr-defined]


def three_turns(body: dict[str, Any]) -> Reply:
    results = sum(message["role"] == "tool" for message in body["messages"])
    last = body["messages"][-1]
    if last["role"] == "user" and "next" in str(last["content"]):
        return says("fine")
    return (calls(("act", {}), text="one"), calls(("act", {"n": 1})), says("done"))[min(results, 2)]


async def activity(runtime: ToolRuntime, loop: Counting, moments: tuple[int, ...]) -> int:
    """One activity with interruptions at these moments; how many rounds of the loop it took."""
    session = await new_session(runtime, model=LAB)
    await runtime.sessions.prompt(session.id, Prompt(text="go"), resume=False)
    stopping: list[asyncio.Task[None]] = []

    def stop() -> None:
        events._set_running_loop(loop)
        stopping.append(loop.create_task(runtime.sessions.interrupt(session.id)))

    known = asyncio.all_tasks()
    loop.watch({moment: stop for moment in moments})
    running = asyncio.create_task(runtime.sessions.run(session.id))
    await asyncio.wait({running}, timeout=60)
    assert running.done(), "the drain never ends"
    taken = loop.count
    loop.watch({})
    assert running.exception() is None or isinstance(running.exception(), Interrupted)
    if stopping:
        await asyncio.wait(stopping, timeout=60)
    await runtime.sessions.wait(session.id)
    left = {task.get_name() for task in asyncio.all_tasks() - known - {running, *stopping}}
    assert not {name for name in left if name.startswith(("drain", "tool", "provider", "summary"))}
    types = await event_types(runtime, session.id)
    assert types.count("tool.input.started") == types.count("tool.success") + types.count("tool.failed")
    assert types.count("step.started") == types.count("step.ended") + types.count("step.failed")
    assert not [turn for turn in await runtime.sessions.interrupted() if turn.session_id == session.id]
    await runtime.sessions.prompt(session.id, Prompt(text="next"))
    await runtime.sessions.wait(session.id)
    last = (await runtime.sessions.messages(session.id, order="desc", limit=1))[0]
    assert b"fine" in last.wire
    return taken


def sweep(folder: Path, second: int | None) -> int:
    loop = Counting()
    asyncio.set_event_loop(None)

    async def run() -> int:
        provider = Provider(*[three_turns] * 100_000)
        acts = tool(lambda context: {"acted": True})
        async with Lab(folder, provider, tools={"act": acts}) as runtime:
            length = max([await activity(runtime, loop, ()) for _ in range(3)])
            for moment in range(length):
                moments = (moment,) if second is None else (moment, moment + second)
                await activity(runtime, loop, moments)
            assert await runtime.verify() == []
        return length

    try:
        return loop.run_until_complete(run())
    finally:
        loop.close()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("second", [None, 1, 4], ids=["once", "twice at once", "twice"])
def test_an_interruption_at_any_callback_is_clean(tmp_path: Path, second: int | None) -> None:
    """SES-118, SES-132, SES-133, SES-135, SES-136, SES-068: the drain ends, each call and step is closed, no turn stays
    open, no drain stays behind, and the next prompt is answered."""
    assert sweep(tmp_path, second) > 50
