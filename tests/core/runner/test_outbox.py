"""What a drain has to say, where handing it over or waiting for it goes wrong."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.core.database.errors import StorageFull
from holdfast.core.database.unit import Committed
from holdfast.core.runner.outbox import Outbox
from holdfast.schema.location import Location
from holdfast.schema.session_event import Synthetic

pytestmark = pytest.mark.anyio


class Desk:
    """A lease whose commits end as a test says."""

    def __init__(self) -> None:
        self.commits: list[asyncio.Future[Committed]] = []
        self.refusal: Exception | None = None

    def submit(self, *payloads: Any, **options: Any) -> asyncio.Future[Committed]:
        if self.refusal is not None:
            raise self.refusal
        self.commits.append(asyncio.get_running_loop().create_future())
        return self.commits[-1]


@pytest.fixture
async def desk() -> Desk:
    return Desk()


@pytest.fixture
async def outbox(desk: Desk) -> Outbox:
    lease: Any = desk
    return Outbox(lease, Location(directory="/"))


def note(text: str = "x") -> Synthetic:
    return Synthetic(timestamp=1, session_id="ses_1", message_id="msg_1", text=text)


async def test_what_cannot_be_handed_over_is_not_passed_over(desk: Desk, outbox: Outbox) -> None:
    """SES-136: an event that has no encoding fails the commit, wherever it was submitted; nothing vanishes quietly."""
    desk.refusal = UnicodeEncodeError("utf-8", "\udce9", 0, 1, "surrogates not allowed")
    outbox.stage(note())
    outbox.submit()
    desk.refusal = None
    with pytest.raises(UnicodeEncodeError):
        await outbox.commit()


async def test_who_waits_may_be_cut_off_and_the_failure_is_still_heard(desk: Desk, outbox: Outbox) -> None:
    """SES-118, SES-139: an interruption in the very step in which a commit failed does not hide the failure."""
    outbox.submit(note())
    waiting = asyncio.create_task(outbox.heard())
    await asyncio.sleep(0)
    desk.commits[0].set_exception(StorageFull("/data"))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    with pytest.raises(StorageFull):
        await outbox.commit()


async def test_a_commit_that_was_cut_off_is_waited_for_by_the_next(desk: Desk, outbox: Outbox) -> None:
    """SES-118: it goes on; what follows it is not on disk before it is."""
    outbox.submit(note("first"))
    waiting = asyncio.create_task(outbox.heard())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not desk.commits[0].cancelled()
    ending = asyncio.create_task(outbox.commit(note("second")))
    await asyncio.sleep(0)
    desk.commits[1].set_result(Committed(1, 1))
    done, _ = await asyncio.wait({ending}, timeout=0.05)
    assert not done
    desk.commits[0].set_result(Committed(0, 0))
    assert await ending == Committed(1, 1)


async def test_a_failure_is_told_once(desk: Desk, outbox: Outbox) -> None:
    """SES-136"""
    outbox.submit(note())
    desk.commits[0].set_exception(StorageFull("/data"))
    with pytest.raises(StorageFull):
        await outbox.heard()
    assert await outbox.commit() is None
