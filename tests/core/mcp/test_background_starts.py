"""How many MCP servers start at the same moment."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from holdfast.core.mcp.background_starts import BackgroundStarts

pytestmark = pytest.mark.anyio


class Start:
    """A start that lasts until it is released."""

    def __init__(self, starts: BackgroundStarts, *, wanted: bool = False) -> None:
        self.wanted, self.begun, self.released = asyncio.Event(), asyncio.Event(), asyncio.Event()
        if wanted:
            self.wanted.set()
        self.task = asyncio.create_task(self._run(starts))

    async def _run(self, starts: BackgroundStarts) -> None:
        async with starts.turn(self.wanted):
            self.begun.set()
            await self.released.wait()


@contextmanager
def several(starts: BackgroundStarts, count: int) -> Iterator[list[Start]]:
    made = [Start(starts) for _ in range(count)]
    yield made
    for one in made:
        one.task.cancel()


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_starts_beyond_the_limit_wait_in_their_order() -> None:
    """MCP-366."""
    with several(BackgroundStarts(2), 4) as made:
        await settled()
        assert [one.begun.is_set() for one in made] == [True, True, False, False]
        made[1].released.set()
        await settled()
        assert [one.begun.is_set() for one in made] == [True, True, True, False]


async def test_a_wanted_start_goes_ahead_and_counts() -> None:
    """MCP-366: also one that waits already."""
    starts = BackgroundStarts(1)
    with several(starts, 3) as made:
        await settled()
        made[2].wanted.set()
        await settled()
        assert [one.begun.is_set() for one in made] == [True, False, True]
        made[0].released.set()
        await settled()
        assert not made[1].begun.is_set()
        made[2].released.set()
        await settled()
        assert made[1].begun.is_set()
        asked = Start(starts, wanted=True)
        await settled()
        assert asked.begun.is_set()
        asked.task.cancel()


@pytest.mark.parametrize("granted", [True, False])
async def test_a_start_that_is_cancelled_leaves_its_turn_to_the_next(granted: bool) -> None:
    """MCP-366: also if its turn came at the same moment."""
    with several(BackgroundStarts(1), 3) as made:
        await settled()
        if granted:
            made[0].released.set()
            while not made[1].wanted.is_set():  # noqa: ASYNC110 - who waits for it would come too late
                await asyncio.sleep(0)
        made[1].task.cancel()
        made[0].released.set()
        await settled()
        assert [one.begun.is_set() for one in made] == [True, False, True]
