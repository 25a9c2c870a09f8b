"""When a key counts as active, and how the coordinator shuts down."""

from __future__ import annotations

import asyncio

import pytest
from tests.core.conftest import Broken, Drains, running, steps

from holdfast.core.runtime.run_coordinator import RunCoordinator
from holdfast.core.session.errors import Interrupted

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("ending", ["success", "failure", "defect", "interruption", "never begun"])
async def test_a_key_is_active_until_its_drain_has_settled(
    coordinator: RunCoordinator[str], drains: Drains, ending: str
) -> None:
    """SES-072: from the wake itself, before the body runs, until the end, whichever that is."""
    coordinator.wake("a")
    assert coordinator.active() == ("a",)
    assert drains.calls == []
    if ending == "never begun":
        await coordinator.interrupt("a")
        assert coordinator.active() == ()
        return
    call = await drains.nth(0)
    call.cleaned.clear()
    assert coordinator.active() == ("a",)
    stopping = None
    match ending:
        case "success":
            call.succeed()
        case "failure":
            call.fail(Broken())
        case "defect":
            call.fail(ZeroDivisionError())
        case _:
            stopping = asyncio.create_task(coordinator.interrupt("a"))
            await steps(5)
            assert coordinator.active() == ("a",)
            call.cleaned.set()
    await coordinator.wait("a")
    assert call.ended
    assert coordinator.active() == ()
    if stopping is not None:
        await stopping


async def test_shutdown_interrupts_everything_and_leaves_nothing(
    coordinator: RunCoordinator[str], drains: Drains
) -> None:
    """SES-072: it waits for cleanups, drops what was asked for during them, and starts nothing any more."""
    callers = [await running(coordinator, key) for key in "abc"]
    calls = [await drains.nth(number) for number in range(3)]
    for call in calls:
        call.cleaned.clear()
    closing = asyncio.create_task(coordinator.close())
    await steps(3)
    late = await running(coordinator, "b")
    coordinator.wake("a")
    coordinator.wake("d")
    assert not closing.done()
    for call in calls:
        call.cleaned.set()
    await closing
    assert coordinator.active() == ()
    outcomes = await asyncio.gather(*callers, late, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [Interrupted] * 4
    await steps(5)
    assert len(drains.calls) == 3
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("drain ")]


async def test_shutdown_answers_a_run_that_waited_for_a_cleanup(
    coordinator: RunCoordinator[str], drains: Drains
) -> None:
    """SES-072: a run promised for after the cleanup is told that it was interrupted; it never hangs."""
    coordinator.wake("a")
    call = await drains.nth(0)
    call.cleaned.clear()
    stopping = asyncio.create_task(coordinator.interrupt("a"))
    await steps(3)
    promised = await running(coordinator)
    closing = asyncio.create_task(coordinator.close())
    await steps(3)
    call.cleaned.set()
    await asyncio.gather(closing, stopping)
    with pytest.raises(Interrupted):
        await promised
    assert len(drains.calls) == 1
