"""What every process commits, announced once and in order; and live events that another process passes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.core.event.samples import SES, Story
from tests.stores.stores import STORES

from holdfast.core.clock import Ids, SystemClock
from holdfast.core.database.errors import StorageUnavailable
from holdfast.core.event import relay
from holdfast.core.event.bus import Announcement, Subscription
from holdfast.core.event.errors import SubscriberOverflow
from holdfast.core.event.log import EventLog
from holdfast.core.session.projector import SESSION_PROJECTORS
from holdfast.schema.codec import encode
from holdfast.schema.live_event import PermissionRepliedLive, SessionIdle, TextDelta
from holdfast.schema.manifest import MANIFEST
from holdfast.schema.session_event import Synthetic, TextEnded, TextStarted, TodosReplaced

pytestmark = pytest.mark.anyio

BLOCK: dict[str, Any] = {"timestamp": 1, "session_id": SES, "assistant_message_id": "msg_a", "text_id": "t"}


def delta(text: str) -> TextDelta:
    return TextDelta(delta=text, **BLOCK)


def note(number: int) -> Synthetic:
    return Synthetic(timestamp=1, session_id=SES, message_id=f"msg_note{number}", text=str(number))


class NoLinks:
    """Links that a test plays itself."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.standing = True

    async def open(self) -> None:
        self.calls.append("open")

    async def close(self) -> None:
        self.calls.append("close")


@pytest.fixture
async def other(story: Story) -> AsyncIterator[EventLog]:
    """The log of another process on the same file."""
    database = STORES.open(Path(story.database.path))
    log = EventLog(database, MANIFEST, SESSION_PROJECTORS, Ids(SystemClock()))
    yield log
    await log.close()
    database.close()


async def heard(subscription: Subscription, count: int) -> list[Any]:
    items: list[Any] = []
    async with asyncio.timeout(10):
        while len(items) < count:
            items += [msgspec.json.decode(item.wire) for item in await subscription.next()]
    return items


def texts(items: list[Any]) -> list[str]:
    return [item["data"].get("text") or item["data"].get("delta") or item["type"] for item in items]


def wire(kind: str, payload: Any, seq: int | None = None) -> bytes:
    position = {"durable": {"aggregateID": SES, "seq": seq, "version": 1}} if seq is not None else {}
    return encode({"id": f"evt_{kind}{seq}", "type": f"session.next.{kind}", **position, "data": payload})


async def test_two_writers_are_heard_in_one_order(story: Story, other: EventLog) -> None:
    """API-431: 200 commits of two processes to one aggregate; in sequence, each once, private ones unheard."""
    async with story.log.relay.observe() as live:
        for number in range(0, 200, 4):
            await asyncio.gather(
                *(log.publish(note(number + place)) for place, log in enumerate((story.log, other, story.log))),
                other.publish(TodosReplaced(timestamp=1, session_id=SES, todos=())),
            )
        items = await heard(live, 150)
    seqs = [item["durable"]["seq"] for item in items]
    assert seqs == sorted(set(seqs))
    assert len(items) == 150


async def test_a_live_event_waits_for_what_another_process_committed_before(story: Story, other: EventLog) -> None:
    """API-431: this process's own commit lies behind a gap; what it says after it stays behind it."""
    async with story.log.relay.observe() as live:
        await story.log.publish(note(1))
        await heard(live, 1)
        await other.publish(note(2))
        await story.log.publish(note(3))
        story.log.announce(delta("after three"))
        story.log.announce(SessionIdle(session_id="ses_other"))
        items = await heard(live, 4)
    assert [text for text in texts(items) if text != "session.idle"] == ["2", "3", "after three"]


async def test_nothing_is_read_while_nobody_observes(
    story: Story, other: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """API-431: and whoever comes later gets no replay."""
    await other.publish(note(1))
    asked: list[str] = []
    fetch = story.database.fetch

    async def counting(name: str, params: Any, into: Any) -> Any:
        asked.append(name)
        return await fetch(name, params, into)

    monkeypatch.setattr(story.log.relay._database, "fetch", counting)
    await story.log.publish(note(2))
    assert asked == []
    async with story.log.relay.observe() as live:
        await other.publish(note(3))
        assert texts(await heard(live, 1)) == ["3"]
    assert not story.log.bus.observed


async def test_links_are_opened_by_the_first_observer_and_closed_by_the_last(story: Story) -> None:
    """API-432."""
    links = story.log.relay.links = NoLinks()
    async with story.log.relay.observe(), story.log.relay.observe():
        assert links.calls == ["open"]
    await asyncio.sleep(0)
    assert links.calls == ["open", "close"]


@pytest.mark.parametrize("durable", ["", '"durable":{"aggregateID":"ses_a","seq":0,"version":1},'])
async def test_an_event_of_another_server_that_is_nested_too_deeply_is_no_event(story: Story, durable: str) -> None:
    """API-432: as others that cannot be read, so that the link ends in order."""
    deep = f'{{"id":"evt_a","type":"session.next.text.delta",{durable}"data":{{"a":{"[" * 200_000}'
    with pytest.raises(msgspec.DecodeError):
        story.log.relay.receive(deep.encode())


async def test_events_passed_on_by_another_server_keep_their_order(story: Story, other: EventLog) -> None:
    """API-432: durable events from the link or from the database, whichever is first; deltas after their start and not
    after their end, and nothing of another instance."""
    story.log.relay.links = NoLinks()
    started, ended = TextStarted(**BLOCK), TextEnded(text="one two", **BLOCK)
    async with story.log.relay.observe() as live:
        first = (await other.publish(note(1))).first
        await other.publish(started)
        story.log.relay.receive(wire("text.started", started, first + 1))
        story.log.relay.receive(wire("text.delta", delta("one")))
        await other.publish(ended)
        items = await heard(live, 4)
        story.log.relay.receive(wire("text.started", started, first + 1))
        story.log.relay.receive(wire("text.ended", ended, first + 2))
        story.log.relay.receive(wire("text.delta", delta(" two")))
        story.log.relay.receive(encode({"id": "evt_1", "type": "catalog.updated", "data": {}}))
        story.log.announce(SessionIdle(session_id=SES))
        (last,) = await heard(live, 1)
    assert texts(items) == ["1", "session.next.text.started", "one", "one two"]
    assert last["type"] == "session.idle", "the late delta and the foreign event are not passed on"


async def test_a_malformed_event_ends_the_link(story: Story) -> None:
    """API-432: the link ends; nothing else is harmed."""
    for garbage in (b"{", b"[]", b'{"id":"evt_1","type":"x","data":[]}'):
        with pytest.raises(msgspec.DecodeError):
            story.log.relay.receive(garbage)


async def test_a_database_that_is_away_is_read_until_it_answers(
    story: Story, other: EventLog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """API-431, STO-182: nothing is left out meanwhile, and nothing comes before what was committed before it."""
    monkeypatch.setattr(relay, "AGAIN_SECONDS", 0.01)
    announce = story.log.relay._announce_stored
    failures = iter(range(3))

    async def broken() -> None:
        if next(failures, None) is not None:
            raise StorageUnavailable("the database", "no answer")
        await announce()

    async with story.log.relay.observe() as live:
        await story.log.publish(note(1))
        await heard(live, 1)
        monkeypatch.setattr(story.log.relay, "_announce_stored", broken)
        await other.publish(note(2))
        await story.log.publish(note(3))
        story.log.announce(delta("after"))
        assert texts(await heard(live, 3)) == ["2", "3", "after"]
    assert "other processes" in caplog.text


async def test_a_first_event_that_was_read_before_its_commit_was_acknowledged_is_announced_once(story: Story) -> None:
    """API-431: as after a connection that was lost with the answer to a commit. An aggregate that begins again does."""
    first = Announcement("evt_1", "session.next.prompted", SES, wire("prompted", note(1), 0), 0)
    again = Announcement("evt_2", "session.next.prompted", SES, wire("prompted", note(2), 0), 0)
    async with story.log.relay.observe() as live:
        story.log.relay._announce(SES, relay._Unit((first,), 0, 0))
        story.log.relay.committed(SES, 0, 0, (first,))
        story.log.relay.committed(SES, 0, 0, (again,))
        assert texts(await heard(live, 2)) == ["1", "2"]


async def test_a_commit_behind_a_gap_waits_for_a_read_that_began_after_it(
    story: Story, other: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """API-431: a read that began before the commits of two processes says nothing about the first of them, so the
    second is not announced after it."""
    started, answered = asyncio.Event(), asyncio.Event()
    fetch = story.database.fetch

    async def late(name: str, parameters: Any, **options: Any) -> Any:
        rows = await fetch(name, parameters, **options)
        if name == "event.moved_since" and not started.is_set():
            started.set()
            await answered.wait()
        return rows

    async with story.log.relay.observe() as live:
        monkeypatch.setattr(story.database, "fetch", late)
        story.log.relay._look_now()
        await started.wait()
        await other.publish(note(1))
        await story.log.publish(note(2))
        answered.set()
        assert texts(await heard(live, 2)) == ["1", "2"]


async def test_live_events_of_a_commit_that_a_read_saw_first_are_heard(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """API-431, EVT-045: the read knows the durable events only, and waits for the acknowledgement of the commit."""
    stored, acknowledged = asyncio.Event(), asyncio.Event()
    submit = story.database.submit

    def late(unit: Any, on_commit: Any) -> asyncio.Future[Any]:
        async def answer() -> Any:
            committed = await submit(unit)
            stored.set()
            await acknowledged.wait()
            on_commit(committed)
            return committed

        return asyncio.ensure_future(answer())

    async with story.log.relay.observe() as live:
        await story.log.publish(note(1))
        await heard(live, 1)
        monkeypatch.setattr(story.database, "submit", late)
        commit = story.log.submit(TextStarted(**BLOCK), delta("short"), TextEnded(text="whole", **BLOCK))
        await stored.wait()
        story.log.relay._look_now()
        assert story.log.relay._looking is not None
        await asyncio.wait({story.log.relay._looking}, timeout=0.2)
        acknowledged.set()
        await commit
        assert texts(await heard(live, 3)) == ["session.next.text.started", "short", "whole"]


class LateRead:
    """Holds back the answer to the first read of what was committed, and counts the reads after it."""

    def __init__(self, story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
        self.started, self.answer = asyncio.Event(), asyncio.Event()
        self.further = 0
        self._fetch = story.database.fetch
        monkeypatch.setattr(story.database, "fetch", self._late)

    async def _late(self, name: str, parameters: Any, **options: Any) -> Any:
        rows = await self._fetch(name, parameters, **options)
        await asyncio.sleep(0)  # as over a network
        if name == "event.moved_since" and not self.started.is_set():
            self.started.set()
            await self.answer.wait()
        elif self.started.is_set():
            self.further += 1
            assert self.further < 50
        return rows


async def test_a_read_ends_when_nobody_observes_any_more(
    story: Story, other: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """API-431: what the read found is announced to nobody, and is not read for ever."""
    async with story.log.relay.observe():
        await other.publish(note(1))
        late = LateRead(story, monkeypatch)
        story.log.relay._look_now()
        await late.started.wait()
    late.answer.set()
    async with asyncio.timeout(10):
        await story.log.relay.close()
    assert late.further == 0


async def test_a_read_for_an_earlier_observer_tells_a_later_one_nothing(
    story: Story, other: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """API-431: whoever observes hears of commits from then on, each once."""
    async with story.log.relay.observe():
        await other.publish(note(1))
        late = LateRead(story, monkeypatch)
        story.log.relay._look_now()
        await late.started.wait()
    async with story.log.relay.observe() as live:
        late.answer.set()
        await other.publish(note(2))
        await other.publish(note(3))
        assert texts(await heard(live, 2)) == ["2", "3"]


async def test_announcements_that_wait_for_a_read_are_bounded(
    story: Story, other: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """API-431, STO-182: beyond the limit observers end, so that nobody sees a gap; new ones begin as ever."""
    monkeypatch.setattr(relay, "HELD_LIMIT", 3)
    never = asyncio.Event()
    async with story.log.relay.observe() as live:
        await story.log.publish(note(1))
        await heard(live, 1)
        with monkeypatch.context() as patch:
            patch.setattr(story.log.relay, "_announce_stored", never.wait)
            await other.publish(note(2))
            await story.log.publish(note(3))
            for number in range(2):
                story.log.announce(delta(f"delta {number}"))
            assert sum(map(len, story.log.relay._held.values())) == 3
            story.log.announce(delta("delta 2"))
            with pytest.raises(SubscriberOverflow):
                await live.next()
            never.set()
    async with story.log.relay.observe() as live:
        await other.publish(note(4))
        assert texts(await heard(live, 1)) == ["4"]


async def test_the_relay_remembers_a_bounded_number_of_aggregates_and_blocks(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """API-431, API-432: aggregates and ended blocks; the oldest give way, and are still announced once."""
    monkeypatch.setattr(relay, "HEARD_LIMIT", 2)
    monkeypatch.setattr(relay, "ENDED_LIMIT", 2)
    story.log.relay.links = NoLinks()
    async with story.log.relay.observe() as live:
        for number in range(4):
            story.log.relay._hear(f"ses_{number}", number)
            ended = TextEnded(text="x", **{**BLOCK, "text_id": f"t{number}"})
            story.log.relay._announce(
                SES,
                relay._Unit((Announcement("e", "session.next.text.ended", SES, wire("text.ended", ended), 0, True),)),
            )
        assert list(story.log.relay._heard) == ["ses_2", "ses_3"]
        assert [block[2] for block in story.log.relay._ended] == ["t2", "t3"]
        await story.log.publish(note(1))
        assert texts(await heard(live, 5))[-1] == "1"


async def test_a_session_is_followed_with_its_live_events(story: Story, other: EventLog) -> None:
    """API-433, EVT-045: replay, then everything in order; live events of this Session alone, marked; a reader that
    falls behind fails."""
    await story.log.publish(note(1))
    tail = aiter(story.log.tail_live(SES))
    (first,) = await anext(tail)
    story.log.announce(SessionIdle(session_id="ses_other"))
    await story.log.publish(TextStarted(**BLOCK), delta("a"), TextEnded(text="a", **BLOCK))
    await other.publish(note(2))
    seen: list[bytes] = []
    while len(seen) < 4:
        seen += await anext(tail)
    assert first.startswith(b'{"id":')
    assert texts([msgspec.json.decode(item) for item in seen]) == ["session.next.text.started", "a", "a", "2"]
    assert [item.startswith(b'{"live":true,') for item in seen] == [False, True, False, False]
    for number in range(300):
        story.log.announce(delta(str(number)))
    left = 0
    with pytest.raises(SubscriberOverflow):  # noqa: PT012
        async for batch in tail:
            left += len(batch)
    assert left == 256


async def test_a_request_of_a_child_reaches_those_who_observe_an_ancestor(story: Story) -> None:
    """API-543: from this process and from another one; other Sessions do not get it."""
    story.log.relay.links = NoLinks()
    replied = PermissionRepliedLive(
        session_id="ses_child", request_id="per_1", reply="once", ancestors=("ses_root", SES)
    )
    data = msgspec.json.decode(encode(replied))
    observe = story.log.relay.observe
    async with observe(aggregate_id=SES) as above, observe(aggregate_id="ses_other") as beside:
        story.log.announce(replied)
        story.log.relay.receive(encode({"id": "evt_1", "type": "permission.v2.replied", "data": data}))
        story.log.announce(SessionIdle(session_id="ses_child"))
        story.log.announce(SessionIdle(session_id="ses_other"))
        assert [event["data"] for event in await heard(above, 2)] == [data, data]
        assert [event["type"] for event in await heard(beside, 1)] == ["session.idle"]


async def test_a_commit_that_a_read_announced_before_its_acknowledgement_is_announced_once(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """API-431: the acknowledgement comes after the read has waited for it long enough; the events that it brings again
    are left out."""
    monkeypatch.setattr(relay, "ACKNOWLEDGED_SECONDS", 0.01)
    stored, acknowledged = asyncio.Event(), asyncio.Event()
    submit = story.database.submit

    def late(unit: Any, on_commit: Any) -> asyncio.Future[Any]:
        async def answer() -> Any:
            committed = await submit(unit)
            stored.set()
            await acknowledged.wait()
            on_commit(committed)
            return committed

        return asyncio.ensure_future(answer())

    async with story.log.relay.observe() as live:
        await story.log.publish(note(1))
        await heard(live, 1)
        with monkeypatch.context() as patch:
            patch.setattr(story.database, "submit", late)
            commit = story.log.submit(note(2))
            await stored.wait()
            story.log.relay._look_now()
            assert texts(await heard(live, 1)) == ["2"]
            acknowledged.set()
            await commit
        await story.log.publish(note(3))
        assert texts(await heard(live, 1)) == ["3"]
