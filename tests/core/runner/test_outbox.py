"""The event buffer of a drain: publications stay whole, and a failed commit is heard by whoever waits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.core.database.errors import StorageFull
from holdfast.core.database.unit import Committed
from holdfast.core.runner.outbox import Outbox
from holdfast.schema.session_event import Synthetic

pytestmark = pytest.mark.anyio


class Desk:
    """A lease whose commits end as a test says."""

    def __init__(self) -> None:
        self.commits: list[asyncio.Future[Committed]] = []
        self.submitted: list[list[str]] = []
        self.refusal: Exception | None = None

    def submit(self, *payloads: Any, **options: Any) -> asyncio.Future[Committed]:
        if self.refusal is not None:
            raise self.refusal
        self.submitted.append([payload.text for payload in payloads])
        self.commits.append(asyncio.get_running_loop().create_future())
        return self.commits[-1]


@pytest.fixture
async def desk() -> Desk:
    return Desk()


@pytest.fixture
async def outbox(desk: Desk) -> Outbox:
    lease: Any = desk
    return Outbox(lease)


def note(text: str = "x") -> Synthetic:
    return Synthetic(timestamp=1, session_id="ses_1", message_id="msg_1", text=text)


async def test_concurrent_publications_do_not_interleave(desk: Desk, outbox: Outbox) -> None:
    """SES-100: events of the provider and settlements of tools come from several tasks; each publication is whole."""
    groups = [[f"{name}{number}" for number in range(3)] for name in "abc"]
    tasks = [asyncio.create_task(outbox.commit(*map(note, group))) for group in groups]
    await asyncio.sleep(0)
    for number, commit in enumerate(desk.commits):
        commit.set_result(Committed(number, number))
    await asyncio.gather(*tasks)
    assert desk.submitted == groups


async def test_an_event_that_cannot_be_encoded_fails_the_commit(desk: Desk, outbox: Outbox) -> None:
    """SES-136: an event that has no encoding fails the commit, wherever it was submitted; nothing vanishes quietly."""
    desk.refusal = UnicodeEncodeError("utf-8", "\udce9", 0, 1, "surrogates not allowed")
    outbox.stage(note())
    outbox.submit()
    desk.refusal = None
    with pytest.raises(UnicodeEncodeError):
        await outbox.commit()


async def test_an_interrupted_waiter_does_not_hide_a_failed_commit(desk: Desk, outbox: Outbox) -> None:
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
