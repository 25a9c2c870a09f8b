"""The coordinator beside a simple model: random wakes, runs, interruptions, cancelled waiters and endings."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Literal

import pytest
from tests.core.conftest import Broken, steps

from holdfast.core.runtime.run_coordinator import RunCoordinator
from holdfast.core.session.errors import Interrupted
from holdfast.core.session.interrupt import STOPPED, Interrupt

pytestmark = pytest.mark.anyio

KEYS = "ab"
Owed = Literal["no", "yes", "unsure"]


class Body:
    """One drain that began."""

    def __init__(self, force: bool, outcome: asyncio.Future[None]) -> None:
        self.force = force
        self.outcome = outcome
        self.ended = False


class Model:
    """Says what each key is owed, without knowing how the coordinator keeps its books."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.coordinator: RunCoordinator[str] = RunCoordinator(self.drain)
        self.bodies: dict[str, Body] = {}
        self.owed: dict[str, Owed] = dict.fromkeys(KEYS, "no")
        self.stopping = dict.fromkeys(KEYS, 0)
        self.runs: list[asyncio.Task[None]] = []
        self.forced = dict.fromkeys(KEYS, 0)
        self.may_force = dict.fromkeys(KEYS, 0)
        self.background: set[asyncio.Task[None]] = set()

    async def drain(self, key: str, force: bool, interrupt: Interrupt) -> None:
        assert key not in self.bodies, "two drains of one key"
        assert key in self.coordinator.active()
        outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        body = self.bodies[key] = Body(force, outcome)
        self.forced[key] += force
        if not interrupt.requested:
            self.owed[key] = "no"  # this drain looks now, so it sees whatever was announced before
        try:
            if self.chance.random() < 0.2:
                return
            if await interrupt.cancellable(_awaited(outcome), name="work") is STOPPED:
                await steps(self.chance.randrange(4))
                raise Interrupted
        finally:
            body.ended = True
            del self.bodies[key]

    def wake(self, key: str) -> None:
        self.coordinator.wake(key)
        self.owed[key] = "yes"
        assert key in self.coordinator.active(), "a woken key is active at once"

    def run(self, key: str) -> None:
        self.runs.append(asyncio.create_task(self._run(key)))

    async def _run(self, key: str) -> None:
        joins = key in self.coordinator.active() and not self.stopping[key]
        self.may_force[key] += not joins
        await self.coordinator.run(key)

    def interrupt(self, key: str) -> None:
        self.background.add(asyncio.create_task(self._interrupt(key)))

    async def _interrupt(self, key: str) -> None:
        body = self.bodies.get(key)
        # A repetition finds nothing to stop, unless the first one has just finished: then it is a new interruption.
        if self.owed[key] == "yes" and key in self.coordinator.active():
            self.owed[key] = "unsure" if self.stopping[key] else "no"
        self.stopping[key] += 1
        await self.coordinator.interrupt(key)
        self.stopping[key] -= 1
        assert body is None or body.ended, "interrupt returned before the drain had cleaned up"

    def cancel_a_waiter(self, key: str) -> None:
        if self.runs:
            self.chance.choice(self.runs).cancel()

    def end(self, key: str) -> None:
        body = self.bodies.get(key)
        if body is not None and not body.outcome.done():
            if self.chance.random() < 0.3:
                body.outcome.set_exception(Broken())
                body.outcome.exception()  # seen, in case an interruption comes first
            else:
                body.outcome.set_result(None)

    async def settle(self) -> None:
        """Let everything come to its end."""
        for _ in range(10_000):
            waiting = [task for task in (*self.runs, *self.background) if not task.done()]
            if not (waiting or self.coordinator.active() or self.bodies):
                return
            for key in KEYS:
                self.end(key)
            await asyncio.sleep(0)
        raise AssertionError("somebody was never answered")

    async def play(self, moves: int) -> None:
        acts: list[Callable[[str], None]] = [self.wake, self.run, self.interrupt, self.cancel_a_waiter, self.end]
        for _ in range(moves):
            self.chance.choice(acts)(self.chance.choice(KEYS))
            await steps(self.chance.randrange(5))
            assert set(self.bodies) <= set(self.coordinator.active())

    async def check(self) -> None:
        assert all(task.done() for task in self.runs), "a caller of run was never answered"
        outcomes = await asyncio.gather(*self.runs, return_exceptions=True)
        allowed = (type(None), Broken, Interrupted, asyncio.CancelledError)
        assert all(isinstance(outcome, allowed) for outcome in outcomes)
        await asyncio.gather(*self.background)
        assert self.coordinator.active() == ()
        assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("drain ")]


async def _awaited(future: asyncio.Future[None]) -> None:
    await future


@pytest.mark.parametrize("seeds", [range(start, start + 100) for start in range(0, 400, 100)], ids=str)
async def test_no_wake_is_lost_and_no_key_drains_twice(seeds: range) -> None:
    """SES-061, SES-063, SES-068, SES-069, SES-071, SES-072: whatever the order of events."""
    for seed in seeds:
        model = Model(seed)
        await model.play(40)
        await model.settle()
        await model.check()
        assert "yes" not in model.owed.values(), f"seed {seed}: a wake was lost"
        for key in KEYS:
            assert model.forced[key] <= model.may_force[key], f"seed {seed}: a joining run forced a drain (SES-062)"
        await model.coordinator.close()


async def test_closing_at_any_moment_leaves_nothing() -> None:
    """SES-072: shutdown in the middle of anything ends all drains, answers all callers and empties the set."""
    for seed in range(1000, 1200):
        model = Model(seed)
        await model.play(model.chance.randrange(25))
        await model.coordinator.close()
        await steps(5)
        assert not model.bodies
        await model.check()
        model.coordinator.wake("a")
        await steps(3)
        assert not model.bodies
        assert model.coordinator.active() == ()
