"""One set of services per Location: built once, shared, kept while used, let go when idle."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.core.location.service_map import IDLE_SECONDS, ServiceMap
from holdfast.schema.location import Location

pytestmark = pytest.mark.anyio

HERE = Location(directory="/here")
THERE = Location(directory="/there")


class Services:
    busy = False

    def __init__(self, location: Location) -> None:
        self.location = location
        self.closed = asyncio.Event()

    async def close(self) -> None:
        self.closed.set()


class Builder:
    def __init__(self) -> None:
        self.built: list[Services] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.failures = 0

    async def __call__(self, location: Location) -> Services:
        await self.gate.wait()
        if self.failures:
            self.failures -= 1
            raise OSError("no such place")
        self.built.append(Services(location))
        return self.built[-1]


async def test_users_share_what_was_built_once() -> None:
    """SES-060, CAT-006: ten at once, and one later, get the same services; another Location has its own."""
    builder = Builder()
    services = ServiceMap(builder)
    builder.gate.clear()

    async def use(location: Location) -> Services:
        async with services.use(location) as found:
            return found

    users = [asyncio.create_task(use(HERE)) for _ in range(10)]
    await asyncio.sleep(0)
    builder.gate.set()
    found = await asyncio.gather(*users)
    assert len(set(found)) == 1
    assert await use(Location(directory="/here", workspace_id=None)) is found[0]
    assert (await use(THERE)).location == THERE
    assert (await use(Location(directory="/here", workspace_id="wrk_1"))) is not found[0]
    assert len(builder.built) == 3
    await services.close()


async def test_idle_services_are_let_go_and_built_anew() -> None:
    """SES-060, CAT-006, CAT-007: an hour by default; never while somebody uses them; closed when let go."""
    assert IDLE_SECONDS == 60 * 60
    builder = Builder()
    services = ServiceMap(builder, idle=0.01)
    async with services.use(HERE) as first:
        async with services.use(HERE):
            pass
        with pytest.raises(TimeoutError):  # longer than the idle time, and still in use
            await asyncio.wait_for(first.closed.wait(), 0.05)
        assert HERE in services
    await asyncio.wait_for(first.closed.wait(), 10)
    assert HERE not in services
    async with services.use(HERE) as second:
        assert second is not first
    await services.close()
    assert second.closed.is_set()


async def test_an_open_terminal_keeps_its_location() -> None:
    """CAT-007: an open terminal, though nobody looks at it."""
    services = ServiceMap(Builder(), idle=0.01)
    async with services.use(HERE) as found:
        found.busy = True
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(found.closed.wait(), 0.05)
    found.busy = False
    await asyncio.wait_for(found.closed.wait(), 10)


async def test_each_use_restarts_the_idle_time_of_a_location() -> None:
    """SES-060: the idle time starts anew with each use."""
    builder = Builder()
    services = ServiceMap(builder, idle=60)
    for _ in range(3):
        async with services.use(HERE):
            pass
    assert len(builder.built) == 1
    await services.close()
    assert builder.built[0].closed.is_set()
    assert HERE not in services


async def test_a_failed_start_is_told_to_all_and_tried_again() -> None:
    """CAT-007: waiters get the error; the next one builds."""
    builder = Builder()
    builder.failures = 1
    builder.gate.clear()
    services = ServiceMap(builder)

    async def use() -> Services:
        async with services.use(HERE) as found:
            return found

    users = [asyncio.create_task(use()) for _ in range(3)]
    await asyncio.sleep(0)
    builder.gate.set()
    outcomes = await asyncio.gather(*users, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [OSError] * 3
    assert HERE not in services
    assert (await use()).location == HERE
    await services.close()


async def test_a_user_who_leaves_during_the_start_takes_nobody_along() -> None:
    """CAT-006: the others still get what is being built."""
    builder = Builder()
    builder.gate.clear()
    services = ServiceMap(builder)

    async def use() -> Services:
        async with services.use(HERE) as found:
            return found

    leaving, staying = asyncio.create_task(use()), asyncio.create_task(use())
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.wait({leaving})
    builder.gate.set()
    assert (await staying).location == HERE
    assert len(builder.built) == 1
    await services.close()


async def test_of_many_idle_services_those_that_are_idle_for_longest_are_let_go() -> None:
    """OPS-326: not what is used or busy, however many there are."""
    builder = Builder()
    services = ServiceMap(builder, most=2)
    places = [Location(directory=f"/{number}") for number in range(5)]
    async with services.use(places[0]) as used:
        for place in places[1:]:
            async with services.use(place) as found:
                found.busy = place is places[1]
        assert set(services.opened()) == {places[0], places[1], places[4]}
        for let_go in builder.built[2:4]:
            await asyncio.wait_for(let_go.closed.wait(), 10)
        assert not used.closed.is_set()
        assert not builder.built[1].closed.is_set()
    await services.close()
    assert all(each.closed.is_set() for each in builder.built)
