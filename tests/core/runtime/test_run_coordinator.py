"""One drain per key at a time: wakes, runs and interruptions, each at a moment that a gate chooses."""

from __future__ import annotations

import asyncio

import pytest
from tests.core.conftest import Broken, Drains, running, steps

from holdfast.core.runtime.run_coordinator import RunCoordinator
from holdfast.core.session.errors import Interrupted
from holdfast.core.session.interrupt import Interrupt

pytestmark = pytest.mark.anyio


async def test_keys_run_side_by_side_and_each_alone(coordinator: RunCoordinator[str], drains: Drains) -> None:
    """SES-061: two Sessions execute at once; a second request for one of them starts nothing beside it."""
    coordinator.wake("a")
    coordinator.wake("b")
    a, b = await drains.nth(0), await drains.nth(1)
    coordinator.wake("a")
    joined = await running(coordinator)
    assert {a.key, b.key} == {"a", "b"}
    assert len(drains.calls) == 2
    b.succeed()
    await coordinator.wait("b")
    assert coordinator.active() == ("a",)
    a.succeed()
    (await drains.nth(2)).succeed()
    await joined


async def test_run_forces_a_drain_when_idle_and_joins_when_not(
    coordinator: RunCoordinator[str], drains: Drains
) -> None:
    """SES-062: the first run is forced; later ones wait for it and leave no further drain behind."""
    first = await running(coordinator)
    joined = [await running(coordinator) for _ in range(3)]
    (await drains.nth(0)).succeed()
    await asyncio.gather(first, *joined)
    await steps(5)
    assert drains.forced == [True]
    assert coordinator.active() == ()


async def test_a_joined_run_shares_the_failure_itself(coordinator: RunCoordinator[str], drains: Drains) -> None:
    """SES-062: every caller gets the same error object, whether its run or a wake began the drain."""
    error = Broken()
    coordinator.wake("a")
    call = await drains.nth(0)
    joined = [await running(coordinator) for _ in range(2)]
    call.fail(error)
    assert await asyncio.gather(*joined, return_exceptions=True) == [error, error]
    assert drains.forced == [False]


async def test_wakes_while_active_coalesce_into_one_follow_up(coordinator: RunCoordinator[str], drains: Drains) -> None:
    """SES-063: idle starts an unforced drain; three wakes during it are one more, unforced, afterwards."""
    coordinator.wake("a")
    first = await drains.nth(0)
    for _ in range(3):
        coordinator.wake("a")
    first.succeed()
    (await drains.nth(1)).succeed()
    await coordinator.wait("a")
    await steps(5)
    assert drains.forced == [False, False]


async def test_a_joined_run_waits_for_every_follow_up(coordinator: RunCoordinator[str], drains: Drains) -> None:
    """SES-065, SES-067: success is reported after the follow-up, and after the one that was asked for during it."""
    caller = await running(coordinator)
    for number in range(2):
        call = await drains.nth(number)
        coordinator.wake("a")
        call.succeed()
        await drains.nth(number + 1)
        await steps(10)
        assert not caller.done()
    (await drains.nth(2)).succeed()
    await caller
    assert drains.forced == [True, False, False]


async def test_a_failure_is_told_at_once_and_the_follow_up_still_runs(
    coordinator: RunCoordinator[str], drains: Drains
) -> None:
    """SES-066: the failed drain's waiters do not wait for the follow-up, whose own outcome is another."""
    caller = await running(coordinator)
    call = await drains.nth(0)
    coordinator.wake("a")
    call.fail(Broken())
    with pytest.raises(Broken):
        await caller
    follow_up = await drains.nth(1)
    assert coordinator.active() == ("a",)
    later = await running(coordinator)
    follow_up.succeed()
    await later
    assert drains.forced == [True, False]


async def test_twenty_thousand_wakes_by_the_drain_itself() -> None:
    """SES-067: follow-ups are a loop, not a recursion."""
    count = 0

    async def drain(key: str, force: bool, interrupt: Interrupt) -> None:
        nonlocal count
        count += 1
        if count < 20_000:
            coordinator.wake(key)

    coordinator: RunCoordinator[str] = RunCoordinator(drain)
    await coordinator.run("a")
    assert count == 20_000


async def test_interrupt_waits_for_the_cleanup_and_drops_the_follow_up(
    coordinator: RunCoordinator[str], drains: Drains
) -> None:
    """SES-068: it returns when the drain has cleaned up; what was asked for before is not done."""
    coordinator.wake("a")
    call = await drains.nth(0)
    call.cleaned.clear()
    coordinator.wake("a")
    stopping = asyncio.create_task(coordinator.interrupt("a"))
    again = asyncio.create_task(coordinator.interrupt("a"))
    await steps(5)
    assert not stopping.done()
    assert not again.done()
    call.cleaned.set()
    await asyncio.gather(stopping, again)
    assert call.ended
    await steps(5)
    assert len(drains.calls) == 1
    assert coordinator.active() == ()


async def test_interrupting_an_idle_key_does_nothing(coordinator: RunCoordinator[str], drains: Drains) -> None:
    """SES-068: neither before anything ran, nor after it ended, nor does it mark what comes next."""
    await coordinator.interrupt("a")
    caller = await running(coordinator)
    (await drains.nth(0)).succeed()
    await caller
    await coordinator.interrupt("a")
    caller = await running(coordinator)
    call = await drains.nth(1)
    assert not call.interrupt.requested
    call.succeed()
    await caller


async def test_a_drain_that_ignores_the_interruption_gets_no_follow_up(drains: Drains) -> None:
    """SES-068, SES-070: even if it ends well, its waiters hear of an interruption and the earlier wake is gone."""
    gate, entered, count = asyncio.Event(), asyncio.Event(), 0

    async def stubborn(key: str, force: bool, interrupt: Interrupt) -> None:
        nonlocal count
        count += 1
        entered.set()
        await gate.wait()

    coordinator = RunCoordinator(stubborn)
    caller = await running(coordinator)
    await entered.wait()
    coordinator.wake("a")
    stopping = asyncio.create_task(coordinator.interrupt("a"))
    await steps(3)
    gate.set()
    await stopping
    with pytest.raises(Interrupted):
        await caller
    assert count == 1


async def test_a_wake_during_cleanup_runs_afterwards(coordinator: RunCoordinator[str], drains: Drains) -> None:
    """SES-069: one fresh unforced drain, not interrupted, after the cleanup and never beside it."""
    coordinator.wake("a")
    call = await drains.nth(0)
    call.cleaned.clear()
    stopping = asyncio.create_task(coordinator.interrupt("a"))
    await steps(3)
    coordinator.wake("a")
    coordinator.wake("a")
    await steps(3)
    assert len(drains.calls) == 1
    call.cleaned.set()
    await stopping
    fresh = await drains.nth(1)
    assert (fresh.force, fresh.interrupt.requested) == (False, False)
    fresh.succeed()
    await coordinator.wait("a")
    assert len(drains.calls) == 2


async def test_a_run_during_cleanup_starts_its_own_forced_drain(
    coordinator: RunCoordinator[str], drains: Drains
) -> None:
    """SES-069: it does not inherit the interruption; it waits, then forces, and gets that drain's outcome."""
    coordinator.wake("a")
    call = await drains.nth(0)
    call.cleaned.clear()
    stopping = asyncio.create_task(coordinator.interrupt("a"))
    await steps(3)
    callers = [await running(coordinator) for _ in range(2)]
    assert len(drains.calls) == 1
    call.cleaned.set()
    await stopping
    fresh = await drains.nth(1)
    assert fresh.force
    assert not any(caller.done() for caller in callers)
    fresh.succeed()
    await asyncio.gather(*callers)
    assert drains.forced == [False, True]


async def test_waiters_see_an_interruption_and_are_not_cancelled(
    coordinator: RunCoordinator[str], drains: Drains
) -> None:
    """SES-070: a dedicated exception, so the caller's own task goes on."""
    seen: list[BaseException] = []

    async def caller() -> str:
        try:
            await coordinator.run("a")
        except BaseException as error:  # noqa: BLE001 - the very question is which one it is
            seen.append(error)
        await asyncio.sleep(0)
        return "went on"

    tasks = [asyncio.create_task(caller()) for _ in range(2)]
    await drains.nth(0)
    await coordinator.interrupt("a")
    assert await asyncio.gather(*tasks) == ["went on", "went on"]
    assert all(isinstance(error, Interrupted) for error in seen)
    assert not any(isinstance(error, asyncio.CancelledError) for error in seen)


async def test_cancelling_one_waiter_changes_nothing_for_the_rest(
    coordinator: RunCoordinator[str], drains: Drains
) -> None:
    """SES-071, SES-058: neither the caller who began the drain nor one who only waits takes it along."""
    owner = await running(coordinator)
    joined = await running(coordinator)
    waiting = asyncio.create_task(coordinator.wait("a"))
    idle = asyncio.create_task(coordinator.wait("a"))
    call = await drains.nth(0)
    for task in (owner, waiting):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert not call.interrupt.requested
    assert not joined.done()
    call.succeed()
    await asyncio.gather(joined, idle)


async def test_a_waiter_that_is_cancelled_during_cleanup_takes_nobody_along(
    coordinator: RunCoordinator[str], drains: Drains
) -> None:
    """SES-071: of two runs that wait for the cleanup, one may leave; leaving `interrupt` does not undo it."""
    coordinator.wake("a")
    call = await drains.nth(0)
    call.cleaned.clear()
    stopping = asyncio.create_task(coordinator.interrupt("a"))
    await steps(3)
    leaving, staying = await running(coordinator), await running(coordinator)
    for task in (leaving, stopping):
        task.cancel()
    await steps(3)
    call.cleaned.set()
    (await drains.nth(1)).succeed()
    await staying
    assert call.ended
