"""Pages of the log, and how far a search looks."""

from __future__ import annotations

import pytest

from holdfast.core.inspect import stored_log
from holdfast.core.runtime.runtime import Runtime
from holdfast.schema.ids import format_id, time_of_id
from holdfast.schema.session import Session
from holdfast.schema.session_event import Synthetic

pytestmark = pytest.mark.anyio


@pytest.fixture
async def long_log(runtime: Runtime, session: Session) -> Session:
    """31 events; texts from `note 0` to `note 29`."""
    texts = [Synthetic(timestamp=n, session_id=session.id, message_id=f"msg_{n}", text=f"note {n}.") for n in range(30)]
    await runtime.log.publish(*texts)
    return session


async def test_a_search_looks_at_a_bounded_number_of_events(
    runtime: Runtime, long_log: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """WEB-213: it says that there are more, and goes on from any sequence."""
    monkeypatch.setattr(stored_log, "SEARCHED_EVENTS", 10)
    log, id = runtime.inspection.log, long_log.id
    nothing = await log(id, limit=5, search="note 3.")
    assert (nothing.entries, nothing.more) == ([], True)
    further = await log(id, limit=5, search="note 3.", before=11)
    assert ([entry.seq for entry in further.entries], further.more) == ([4], True)
    first = await log(id, limit=5, search="note 3.", after=0)
    assert ([entry.seq for entry in first.entries], first.more) == ([4], True)
    last = await log(id, limit=5, search="note 2", after=20)
    assert ([entry.seq for entry in last.entries], last.more) == ([21, 22, 23, 24, 25], True)
    rest = await log(id, limit=5, search="note 2", after=25)
    assert ([entry.seq for entry in rest.entries], rest.more) == ([26, 27, 28, 29, 30], False)


async def test_pages_without_a_search_are_not_bounded(
    runtime: Runtime, long_log: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """WEB-210: the newest of what is asked for, oldest first."""
    monkeypatch.setattr(stored_log, "SEARCHED_EVENTS", 10)
    page = await runtime.inspection.log(long_log.id, limit=2, before=5)
    assert ([entry.seq for entry in page.entries], page.more) == ([3, 4], True)
    created = await runtime.inspection.log(long_log.id, limit=5, types="session.created")
    assert ([entry.type for entry in created.entries], created.more) == (["session.created.1"], False)
    assert created.entries[0].time == long_log.time.created
    empty = await runtime.inspection.log(long_log.id, limit=5, types=" , ")
    assert len(empty.entries) == 5


def test_an_id_says_when_it_was_made() -> None:
    """WEB-206: after the time that is known for sure, whatever digits it lacks."""
    now = 1_794_969_092_415
    for waited in (0, 1, 250, 86_400_000):
        assert time_of_id(format_id("evt", (now + waited) * 4096 + 7, "x" * 14), now) == now + waited
    assert time_of_id(format_id("evt", (now - 5) * 4096, "x" * 14), now) == now
    assert time_of_id("evt_elsewhere", now) == now
    assert time_of_id("", now) == now
