"""Locks by message id."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.core.session.id_locks import IdLocks

pytestmark = pytest.mark.anyio


async def test_holders_of_one_id_take_turns_and_leave_nothing() -> None:
    """SES-337: in the order in which they came; one that is cancelled while it waits holds nobody up."""
    locks, begin, seen = IdLocks(), asyncio.Event(), list[str]()

    async def hold(name: str, id: str | None) -> None:
        async with locks.hold(id):
            seen.append(name)
            await begin.wait()

    tasks = [asyncio.create_task(hold(name, id)) for name, id in (("a", "1"), ("b", "1"), ("c", "1"), ("d", "2"))]
    free = asyncio.create_task(hold("e", None))
    await asyncio.sleep(0)
    assert seen == ["a", "d", "e"]
    tasks.pop(1).cancel()
    begin.set()
    await asyncio.gather(*tasks, free)
    assert seen == ["a", "d", "e", "c"]
    assert len(locks) == 0
