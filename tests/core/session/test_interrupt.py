"""`cancellable`, the one place where an interruption may enter: swept over every step of the loop."""

from __future__ import annotations

import asyncio
import logging

import pytest
from tests.core.conftest import steps

from holdfast.core.session.errors import Interrupted
from holdfast.core.session.interrupt import ABANDONED, STOPPED, Interrupt, Stop

pytestmark = pytest.mark.anyio

TOOL_STEPS = 4
SETTLE_STEPS = 3


class Call:
    """A tool with one side effect at its end, and the settlement that must tell the truth about it."""

    def __init__(self, interrupt: Interrupt, length: int = TOOL_STEPS) -> None:
        self._interrupt = interrupt
        self._length = length
        self.effects = 0
        self.settlements: list[str] = []

    async def run(self) -> None:
        outcome = await self._interrupt.cancellable(self._execute(), name="tool")
        await steps(SETTLE_STEPS)  # bounding the output, publishing
        self.settlements.append("interrupted" if isinstance(outcome, Stop) else outcome)

    async def _execute(self) -> str:
        await steps(self._length)
        self.effects += 1
        return "success"


async def fire_after(interrupt: Interrupt, count: int) -> None:
    await steps(count)
    interrupt.fire()


@pytest.mark.parametrize("moment", range(TOOL_STEPS + SETTLE_STEPS + 6))
async def test_whenever_it_fires_there_is_one_settlement_and_it_is_true(moment: int) -> None:
    """SES-118: at no step of the loop can an interruption lose, double or falsify the settlement."""
    interrupt = Interrupt()
    firing = asyncio.create_task(fire_after(interrupt, moment))
    call = Call(interrupt)
    await call.run()
    await firing
    assert call.settlements == (["success"] if call.effects else ["interrupted"])


@pytest.mark.parametrize("moment", range(TOOL_STEPS + SETTLE_STEPS + 8))
async def test_calls_that_run_at_once_are_settled_each_by_its_own_truth(moment: int) -> None:
    """SES-118: some are done, some are cut; none is lost."""
    interrupt = Interrupt()
    calls = [Call(interrupt, length) for length in (0, 1, TOOL_STEPS, TOOL_STEPS + 2)]
    firing = asyncio.create_task(fire_after(interrupt, moment))
    await asyncio.gather(*(call.run() for call in calls))
    await firing
    for call in calls:
        assert call.settlements == (["success"] if call.effects else ["interrupted"])


async def test_a_result_that_exists_is_used_although_the_interruption_came_first() -> None:
    """SES-118: a tool that finishes its work while it is being stopped has succeeded."""
    interrupt = Interrupt()
    entered = asyncio.Event()

    async def finishes_anyway() -> str:
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await steps(3)
        return "done after all"

    running = asyncio.create_task(interrupt.cancellable(finishes_anyway(), name="tool"))
    await entered.wait()
    interrupt.fire()
    assert await running == "done after all"


async def test_an_interruption_is_remembered() -> None:
    """SES-118: one that arrives between two cancellable places is honoured by the next, whose work never begins."""
    interrupt = Interrupt()
    began: list[str] = []

    async def work(name: str) -> str:
        began.append(name)
        return name

    assert await interrupt.cancellable(work("first"), name="first") == "first"
    interrupt.check()
    interrupt.fire()
    interrupt.fire()
    assert await interrupt.cancellable(work("second"), name="second") is STOPPED
    assert began == ["first"]
    with pytest.raises(Interrupted):
        interrupt.check()


async def test_a_failure_of_the_work_is_the_callers_to_handle() -> None:
    """What the work raises comes out unchanged, also while it is being stopped."""
    interrupt = Interrupt()
    entered = asyncio.Event()

    async def fails_on_the_way_out() -> None:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise ZeroDivisionError("while cleaning up")

    running = asyncio.create_task(interrupt.cancellable(fails_on_the_way_out(), name="tool"))
    await entered.wait()
    interrupt.fire()
    with pytest.raises(ZeroDivisionError):
        await running


async def test_work_that_cannot_be_stopped_is_left_behind_and_named(caplog: pytest.LogCaptureFixture) -> None:
    """An interruption ends within its bound even if a tool will not stop; the log says which one it was."""
    interrupt = Interrupt(grace=0.01)
    entered, release = asyncio.Event(), asyncio.Event()

    async def ignores_everything() -> None:
        entered.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        raise ZeroDivisionError("much later")

    running = asyncio.create_task(interrupt.cancellable(ignores_everything(), name="tool mule"))
    await entered.wait()
    with caplog.at_level(logging.WARNING):
        interrupt.fire()
        assert await running is ABANDONED
        assert "tool mule" in caplog.text
        release.set()
        await steps(5)
    assert "much later" in caplog.text


async def test_firing_again_lets_work_that_stops_clean_up() -> None:
    """SES-184, SES-189: a call that stops its child is not cancelled a second time."""
    interrupt = Interrupt()
    entered, stopping, stopped = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def cleans_up() -> str:
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopping.set()
            await stopped.wait()
        return "what it had done"

    running = asyncio.create_task(interrupt.cancellable(cleans_up(), name="tool"))
    await entered.wait()
    interrupt.fire()
    await stopping.wait()
    interrupt.fire(suspend=True)
    await steps(3)
    stopped.set()
    assert await running == "what it had done"
    assert not interrupt.suspending
