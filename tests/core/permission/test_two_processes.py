"""One database, two processes: whoever is connected to either can answer, and a dead one leaves only history."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence

import pytest
from tests.conftest import ManualClock
from tests.core.event.samples import SES, Story, opened
from tests.core.permission.desk import HERE, REPLIED, Desk, soon, want

from holdfast.core.clock import Ids
from holdfast.core.database.errors import Fenced
from holdfast.core.database.unit import Fence, Statement, Unit
from holdfast.core.permission.errors import DeniedByPerson, DeniedWithFeedback, PermissionNotFound
from holdfast.core.session.ownership import Lease
from holdfast.core.session.store import SessionStore
from holdfast.core.session.stored_activity import OpenRequest
from holdfast.schema.codec import decode_any
from holdfast.schema.permission import PermissionRequest
from holdfast.schema.session_event import PermissionAsked

pytestmark = pytest.mark.anyio


@pytest.fixture
async def other(story: Story, clock: ManualClock) -> AsyncIterator[Desk]:
    """The same Location in another process."""
    async with opened(story.database.path) as there:
        desk = Desk(there.log, there.database, Ids(clock, random.Random(3)), clock)
        yield desk
        await desk.close()


async def test_another_process_can_answer(desk: Desk, other: Desk) -> None:
    """TOL-091, TOL-103: the same request, the same Location; observers of both hear of it, once each."""
    task, request = await desk.wait(want())
    assert await other.permissions.list() == (request,)
    await other.permissions.reply(SES, request.id, "reject", message="not that one")
    with pytest.raises(DeniedWithFeedback) as caught:
        await soon(task)
    assert caught.value.feedback == "not that one"
    expected = [{"sessionID": SES, "requestID": request.id, "reply": "reject"}]
    assert await desk.ear.count(REPLIED, 1) == expected
    assert await other.ear.count(REPLIED, 1) == expected
    with pytest.raises(PermissionNotFound):
        await desk.permissions.reply(SES, request.id, "once")


async def test_one_of_two_answers_wins(desk: Desk, other: Desk) -> None:
    """TOL-091: answered at the same moment in both processes."""
    for _ in range(5):
        task, request = await desk.wait(want())
        outcomes = await soon(
            asyncio.gather(
                desk.permissions.reply(SES, request.id, "once"),
                other.permissions.reply(SES, request.id, "once"),
                return_exceptions=True,
            )
        )
        assert sorted(type(outcome).__name__ for outcome in outcomes) == ["NoneType", "PermissionNotFound"]
        await soon(task)


async def test_consequences_cross_processes_too(desk: Desk, other: Desk) -> None:
    """TOL-093, TOL-096: siblings are declined and covered requests released wherever they wait."""
    first, request = await desk.wait(want("edit", "a", save=("*",)))
    second, _ = await other.wait(want("edit", "b"))
    await other.permissions.reply(SES, request.id, "always")
    await soon(first)
    await soon(second)
    third, request = await desk.wait(want("bash", "a"))
    fourth, _ = await other.wait(want("bash", "b"))
    await desk.permissions.reply(SES, request.id, "reject")
    for task in (third, fourth):
        with pytest.raises(DeniedByPerson):
            await soon(task)


async def test_a_request_of_a_dead_process_is_closed_by_the_next_drain(
    desk: Desk, story: Story, clock: ManualClock
) -> None:
    """TOL-101, TOL-090: it is history, told to observers and never approved; what this process waits for goes on."""
    left = await _left_behind(story)
    task, mine = await desk.wait(want("edit", "mine"))
    assert {item.id for item in await desk.permissions.list()} == {left, mine.id}
    await desk.permissions.abandon(await _opened(story), await _lease(story))
    assert await desk.permissions.list() == (mine,)
    assert await desk.ear.count(REPLIED, 1) == [{"sessionID": SES, "requestID": left, "reply": "reject"}]
    with pytest.raises(PermissionNotFound):
        await desk.permissions.reply(SES, left, "always")
    stored = decode_any((await desk.log.serialized(SES))[-1].data)
    assert (stored["requestID"], stored["cause"]) == (left, "interrupted")
    assert not task.done()


async def test_only_the_owner_of_a_session_may_abandon(desk: Desk, story: Story) -> None:
    """TOL-101: a drain that has lost its lease closes nothing that the newer owner asked."""
    left = await _left_behind(story)
    stale = Lease(story.log, HERE, Fence(SES, "own_old", 0), ())
    await _lease(story)
    opened = await _opened(story)
    with pytest.raises(Fenced):
        await desk.permissions.abandon(opened, stale)
    assert [item.id for item in await desk.permissions.list()] == [left]


async def _opened(story: Story) -> Sequence[OpenRequest]:
    return (await SessionStore(story.database).left_open(SES)).requests


async def _left_behind(story: Story) -> str:
    """What a process leaves that asked and then was gone, without a chance to say so."""
    request = PermissionRequest(id="per_left", session_id=SES, action="edit", resources=("left",), save=("*",))
    await story.tell(PermissionAsked, request=request, agent="build")
    return request.id


async def _lease(story: Story) -> Lease:
    take = Statement("lease.take", {"session_id": SES, "owner_id": "own_new", "token": 1, "seen_token": 0})
    await story.database.submit(Unit(SES, local=(take,)))
    return Lease(story.log, HERE, Fence(SES, "own_new", 1), ())
