"""Following an aggregate: everything public after the cursor, once, in order, from whichever process."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, cast

import pytest
from tests.core.event.samples import SES, Story, data, follow, opened, record, seqs, without_polling
from tests.stores.stores import OpenedDatabase

from holdfast.core.clock import Ids
from holdfast.core.database.errors import StorageUnavailable
from holdfast.core.database.unit import Committed, NewEvent, Unit, Value
from holdfast.core.event.log import EventLog
from holdfast.core.event.signal import UNKNOWN
from holdfast.core.event.stored_event import FEW, PAGE
from holdfast.core.runtime.runtime import Runtime
from holdfast.core.session.errors import SessionNotFound
from holdfast.core.session.projector import SESSION_PROJECTORS
from holdfast.schema.codec import decode_any
from holdfast.schema.live_event import TextDelta
from holdfast.schema.manifest import MANIFEST
from holdfast.schema.session import Session
from holdfast.schema.session_event import SessionUpdated

pytestmark = pytest.mark.anyio


async def test_a_tail_replays_and_then_follows(story: Story) -> None:
    """EVT-021, EVT-022: from before sequence 0; private rows are skipped, so the first visible sequence is 1."""
    for number in (1, 2, 3):
        await story.note(number)
    async with follow(story.log) as follower:
        assert seqs(await follower.take(3)) == [1, 2, 3]
        await follower.start()
        await story.note(4)
        (event,) = await follower.take(1)
    assert seqs([event]) == [4]
    assert data(event)["text"] == "4"


@pytest.mark.parametrize("after", [-1, 0, 1, 4, 5])
async def test_a_tail_starts_strictly_after_its_cursor(story: Story, after: int) -> None:
    """EVT-021, EVT-023, EVT-032: the cursor is a sequence; resuming with the last one seen misses and repeats
    nothing."""
    for number in range(1, 6):
        await story.note(number)
    async with follow(story.log, after=after) as follower:
        await follower.start()
        await story.note(6)
        expected = list(range(max(after, 0) + 1, 7))
        assert seqs(await follower.take(len(expected))) == expected


async def test_private_rows_are_passed_once_and_not_read_again(story: Story, ids: Ids) -> None:
    """EVT-022, EVT-026: the position moves over filtered rows, although nothing is delivered for them."""
    watched = Watched(story.database)
    log = EventLog(watched, MANIFEST, SESSION_PROJECTORS, ids)
    async with follow(log) as follower:
        for _ in range(3):
            await follower.start()
            await log.publish(SessionUpdated(session_id=SES, info=record()))
            await _settle()
        await Story(story.database, log).note(1)
        assert seqs(await follower.take(1)) == [4]
    for (after, returned), (following, _) in itertools.pairwise(watched.pages):
        assert following == after + returned, "each read begins where the one before ended, filtered rows included"
    assert sum(returned for _, returned in watched.pages) == 5
    await log.close()


async def test_live_events_never_appear_and_never_move_the_cursor(story: Story) -> None:
    """EVT-021, EVT-023: fragments around and between commits leave no trace in the stream."""
    delta = TextDelta(timestamp=1, session_id=SES, assistant_message_id="msg_a", text_id="t", delta="d")
    with story.log.bus.subscribe():
        async with follow(story.log) as follower:
            await follower.start()
            for number in (1, 2, 3):
                story.log.announce(delta)
                await story.note(number)
                story.log.announce(delta)
            events = await follower.take(3)
    assert seqs(events) == [1, 2, 3]
    assert {event.type for event in events} == {"session.next.synthetic"}


async def test_64_quick_commits_are_64_events(story: Story) -> None:
    """EVT-024: wakes collapse, rows do not: whatever the tail was doing, it delivers every one, in order."""
    without_polling(story.database)
    async with follow(story.log) as follower:
        await follower.start()
        await asyncio.gather(*(story.note(number) for number in range(1, 65)))
        assert story.log.signals.followed() == {SES}
        events = await follower.take(64)
    assert seqs(events) == list(range(1, 65))
    assert [data(event)["text"] for event in events] == [str(number) for number in range(1, 65)]


async def test_many_commits_while_a_tail_is_busy_are_one_wake(story: Story, ids: Ids) -> None:
    """EVT-024: a tail that was away for 20 commits reads once more, not 20 times."""
    watched = Watched(story.database)
    log = EventLog(watched, MANIFEST, SESSION_PROJECTORS, ids)
    here = Story(story.database, log)
    async with follow(log) as follower:
        await here.note(1)
        await follower.take(1)
        for number in range(2, 22):
            await here.note(number)
        watched.pages.clear()
        assert len(await follower.take(20)) == 20
        assert [returned for _, returned in watched.pages] == [FEW, 20 - FEW]
    await log.close()


async def test_a_commit_between_the_read_and_the_wait_is_not_lost(story: Story, ids: Ids) -> None:
    """EVT-025: the flag is registered before the read, so what lands after the rows were read still wakes."""
    watched = Watched(story.database)
    log = EventLog(watched, MANIFEST, SESSION_PROJECTORS, ids)
    here = Story(story.database, log)
    numbers = iter(range(1, 6))

    async def commit_meanwhile() -> None:
        assert log.signals.followed() == {SES}, "registered before the first read"
        if (number := next(numbers, None)) is not None:
            await here.note(number)

    watched.after_page = commit_meanwhile
    async with follow(log) as follower:
        assert seqs(await follower.take(5)) == [1, 2, 3, 4, 5]
    await log.close()


async def test_each_tail_has_its_own_flag_and_leaves_nothing_behind(story: Story) -> None:
    """EVT-024, EVT-025: tails of one aggregate wake independently; closed ones keep no state."""
    without_polling(story.database)
    other = Story(story.database, story.log, "ses_two")
    await other.begin()
    async with follow(story.log) as one, follow(story.log) as two, follow(story.log, "ses_two") as three:
        for follower in (one, two, three):
            await follower.start()
        assert story.log.signals.followed() == {SES, "ses_two"}
        await story.note(1)
        assert seqs(await one.take(1)) == seqs(await two.take(1)) == [1]
        await one.close()
        await two.start()
        await story.note(2)
        assert seqs(await two.take(1)) == [2]
        assert not (await three.start()).done()
        await other.note(1)
        assert seqs(await three.take(1)) == [1]
    assert story.log.signals.followed() == frozenset()


async def test_a_backlog_is_read_in_bounded_pages(story: Story, ids: Ids) -> None:
    """EVT-027: more rows than a page come in several, none of them larger than the bound, private rows in between."""
    total = 2 * PAGE + 50
    kinds = ["session.next.synthetic.1" if number % 7 else "session.updated.1" for number in range(1, total + 1)]
    await asyncio.gather(*(story.database.submit(_stored(seq, kind)) for seq, kind in enumerate(kinds, start=1)))
    watched = Watched(story.database)
    log = EventLog(watched, MANIFEST, SESSION_PROJECTORS, ids)
    expected = [number for number in range(1, total + 1) if number % 7]
    async with follow(log) as follower:
        batches = [await follower.batch() for _ in range(3)]
    assert [seq for batch in batches for seq in seqs(batch)] == expected
    assert all(returned <= PAGE for _, returned in watched.pages)
    await log.close()


@pytest.mark.parametrize("count", [PAGE - 1, PAGE, PAGE + 1])
async def test_a_backlog_of_about_a_page_neither_hangs_nor_repeats(story: Story, count: int) -> None:
    """EVT-021, EVT-027: at the edge of a page the tail goes on to follow."""
    for number in range(1, count):
        story.database.submit(_stored(number, "session.next.synthetic.1"))
    await story.database.submit(_stored(count, "session.next.synthetic.1"))
    async with follow(story.log, after=0) as follower:
        events = await follower.take(count)
        await follower.start()
        await story.note(count + 1)
        events += await follower.take(1)
    assert seqs(events) == list(range(1, count + 2))


async def test_a_page_without_public_rows_does_not_end_the_stream(story: Story) -> None:
    """EVT-026, EVT-027: a page full of private rows is passed over and reading goes on at once."""
    for number in range(1, PAGE + 20):
        story.database.submit(_stored(number, "session.updated.1"))
    await story.note(PAGE + 20)
    async with follow(story.log) as follower:
        assert seqs(await follower.take(1)) == [PAGE + 20]


@pytest.mark.parametrize(
    "unknown", ["session.next.invented.1", "session.next.synthetic.7", "plugin.thing.1", "no version", ""]
)
async def test_stored_types_that_this_build_does_not_know_are_skipped(story: Story, unknown: str) -> None:
    """EVT-027: neither the tail nor history fails, before and after the stranger."""
    await story.note(1)
    await story.database.submit(_stored(2, unknown))
    async with follow(story.log) as follower:
        await follower.start()
        await story.note(3)
        assert seqs(await follower.take(2)) == [1, 3]
    events, more = await story.log.history(SES)
    assert (seqs(events), more) == ([1, 3], False)


async def test_commits_of_another_process_are_delivered_in_order(story: Story) -> None:
    """EVT-062: a second database on the same file publishes; a tail here gets it in time, between its own."""
    delays: list[float] = []
    async with opened(story.database.path) as (database, log), follow(story.log) as follower:
        elsewhere = Story(database, log)
        for number in range(1, 11):
            await follower.start()
            writer = elsewhere if number % 2 else story
            await writer.note(number)
            committed = time.monotonic()
            assert seqs(await follower.take(1)) == [number]
            if writer is elsewhere:
                delays.append(time.monotonic() - committed)
    assert min(delays) < 0.2, "a loaded machine may delay some, not all"


async def test_a_burst_of_another_process_has_no_gap(story: Story) -> None:
    """EVT-062, EVT-024: 50 commits there, interleaved with 50 here, are 100 events in sequence."""
    async with opened(story.database.path) as (database, log), follow(story.log) as follower:
        elsewhere = Story(database, log)
        await follower.start()
        await asyncio.gather(
            *(story.note(number) for number in range(50)),
            *(elsewhere.note(number) for number in range(50, 100)),
        )
        assert seqs(await follower.take(100)) == list(range(1, 101))


async def test_only_what_others_committed_counts_as_theirs(story: Story) -> None:
    """EVT-062, EVT-026: a look at the database tells nobody again of what this process has committed; what another one
    did is told of once, by the look or by the sequence of the next commit here."""
    without_polling(story.database)
    signals = story.log.signals
    async with opened(story.database.path) as (database, log):
        elsewhere = Story(database, log)
        with signals.follow(SES) as flag:
            await signals.look()  # tells everyone, as nothing is known yet
            assert flag.head == UNKNOWN
            await story.note(1)
            await signals.look()
            flag.head = -1
            flag.clear()
            await signals.look()
            assert not flag.is_set()
            seqs = []
            for commit, look in (
                (story.note(2), False),
                (elsewhere.note(3), True),
                (elsewhere.note(4), False),
                (story.note(5), False),
            ):
                await commit
                if look:
                    await signals.look()
                seqs.append(flag.head)
            assert seqs == [seqs[0], seqs[0] + 1, seqs[0] + 1, seqs[0] + 3]
            flag.clear()
            await signals.look()
            assert not flag.is_set()


async def test_a_tail_ends_when_the_log_closes(story: Story) -> None:
    """EVT-021: forever, that is until the runtime goes; what is stored by then has been delivered."""
    async with follow(story.log) as follower:
        waiting = await follower.start()
        await story.note(1)
        assert seqs(await follower.take(1)) == [1]
        waiting = await follower.start()
        await story.log.close()
        with pytest.raises(StopAsyncIteration):
            async with asyncio.timeout(5):
                await waiting


async def test_following_a_session_that_does_not_exist_is_refused(runtime: Runtime, session: Session) -> None:
    """EVT-021, EVT-029: the Session is verified first, for the stream and for history."""
    with pytest.raises(SessionNotFound):
        await anext(runtime.sessions.events("ses_unknown"))
    with pytest.raises(SessionNotFound):
        await runtime.sessions.history("ses_unknown")
    assert await runtime.sessions.history(session.id) == ([], False)


async def test_a_commit_between_replay_and_the_live_stream_is_delivered_once(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """API-433, API-202: the commit is announced to the subscription that stands already, and it is in the page that is
    read after subscribing."""
    await story.note(1)
    reads = itertools.count()
    page = story.log.page

    async def commit_before_the_second_page(*arguments: Any, **options: Any) -> Any:
        if next(reads) == 1:  # the first one is the replay
            await story.note(2)
        return await page(*arguments, **options)

    monkeypatch.setattr(story.log, "page", commit_before_the_second_page)
    tail = cast("AsyncGenerator[list[bytes], None]", story.log.tail_live(SES))
    received: list[int] = []
    async with asyncio.timeout(5), aclosing(tail):
        while not received or received[-1] < 3:
            batch = await anext(tail)
            received += [decode_any(item)["durable"]["seq"] for item in batch]
            if not batch:  # live events begin
                await story.note(3)
    assert received == [1, 2, 3]


async def test_followers_look_again_after_a_read_of_what_moved_has_failed(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EVT-062: which aggregates have new events is unknown then, so that every follower reads its own."""
    without_polling(story.database)
    signals = story.log.signals
    with signals.follow(SES) as one, signals.follow("ses_two") as two:
        await signals.look()
        for flag in (one, two):
            flag.head = -1
            flag.clear()

        async def unavailable(*arguments: Any, **options: Any) -> Any:
            raise StorageUnavailable("the database", "no answer")

        monkeypatch.setattr(story.database, "fetch", unavailable)
        await signals.look()
        assert [(flag.is_set(), flag.head) for flag in (one, two)] == [(True, UNKNOWN)] * 2


class Watched:
    """The real database, with every page that a tail reads written down, and a moment in which a test can act."""

    def __init__(self, database: OpenedDatabase) -> None:
        self._database = database
        self.pages: list[tuple[int, int]] = []
        self.after_page: Callable[[], Awaitable[None]] | None = None
        self.fetch_large = database.fetch_large
        self.fetch_many, self.fetch_large_many = database.fetch_many, database.fetch_large_many
        self.version = lambda: -1  # only signals inside this process wake
        self.waiting_since = database.waiting_since
        self.queued = database.queued
        self.outage, self.identity = database.outage, database.identity
        self.close = database.close

    def submit(self, unit: Unit, on_commit: Callable[[Committed], None] | None = None) -> asyncio.Future[Committed]:
        return self._database.submit(unit, on_commit)

    async def fetch(self, name: str, params: Mapping[str, Value], into: Any = None) -> list[Any]:
        rows: list[Any] = await self._database.fetch(name, params, into)
        if name == "event.page":
            self.pages.append((int(str(params["after"])), len(rows)))
            if self.after_page is not None:
                await self.after_page()
        return rows


def _stored(number: int, type_: str) -> Unit:
    event = NewEvent(f"evt_{number}", type_, '{"sessionID":"ses_one","text":"x"}', None, ())
    return Unit(SES, events=(event,))


async def _settle() -> None:
    """Let a woken tail read."""
    for _ in range(5):
        await asyncio.sleep(0)
