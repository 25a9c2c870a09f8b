"""The live bus: who hears of an event, in which order, and what a faulty or slow observer can spoil (nothing)."""

from __future__ import annotations

import asyncio
import logging

import msgspec
import pytest
from tests.core.event.samples import SES, Story, follow, raw, seqs

from holdfast.core.event import bus
from holdfast.core.event.bus import Announcement, Subscription
from holdfast.core.event.errors import SubscriberOverflow
from holdfast.schema.live_event import SessionIdle, TextDelta

pytestmark = pytest.mark.anyio

SYNTHETIC = "session.next.synthetic"
DELTA = TextDelta(timestamp=1, session_id=SES, assistant_message_id="msg_a", text_id="t", delta="d")


async def test_rows_come_before_tails_and_tails_before_listeners(story: Story) -> None:
    """EVT-013: rows, then the tails' flags, then listeners in registration order, then subscribers of that type,
    then those of everything."""
    heard: list[str] = []
    everything = asyncio.ensure_future(_first(story.log.bus.subscribe(), "everything", heard))
    typed = asyncio.ensure_future(_first(story.log.bus.subscribe(frozenset({SYNTHETIC})), "typed", heard))
    await asyncio.sleep(0)
    with story.log.signals.follow(SES) as dirty:

        def listen(name: str) -> None:
            def listener(announcement: Announcement) -> None:
                (stored,) = raw(story.database.path, "select id from event where seq = 1")
                assert stored == (announcement.id,), "the row is there when observers hear of it"
                assert dirty.is_set(), "tails were told before"
                heard.append(name)

            story.log.bus.listen(listener)

        for name in ("first", "second", "third"):
            listen(name)
        await story.note(1)
        await asyncio.gather(everything, typed)
    assert heard == ["first", "second", "third", "typed", "everything"]


async def test_observers_hear_a_commit_of_several_events_in_sequence(story: Story) -> None:
    """EVT-013, EVT-019: events of one unit and of many units arrive in commit order."""
    with story.log.bus.subscribe() as live:
        await asyncio.gather(*(story.note(number) for number in range(1, 21)))
        wires = [msgspec.json.decode(item.wire) for item in await live.next()]
    assert [wire["durable"]["seq"] for wire in wires] == list(range(1, 21))
    assert [wire["data"]["text"] for wire in wires] == [str(number) for number in range(1, 21)]


async def test_a_listener_that_fails_after_a_commit_harms_nobody(
    story: Story, caplog: pytest.LogCaptureFixture
) -> None:
    """EVT-014: logged with id and type; the other listeners, the subscribers, the tail and the publisher go on."""
    heard: list[str] = []

    def faulty(announcement: Announcement) -> None:
        raise RuntimeError("listener is broken")

    stop = story.log.bus.listen(faulty)
    story.log.bus.listen(lambda announcement: heard.append(announcement.id))
    async with follow(story.log) as follower:
        await follower.start()
        with story.log.bus.subscribe() as live, caplog.at_level(logging.ERROR):
            async with asyncio.timeout(5):
                await story.note(1)
            (event,) = await follower.batch()
            assert [item.id for item in await live.next()] == [event.id] == heard
    (logged,) = [entry for entry in caplog.records if entry.exc_info]
    assert event.id in logged.getMessage()
    assert SYNTHETIC in logged.getMessage()
    stop()
    caplog.clear()
    await story.note(2)
    assert caplog.records == []
    assert len(heard) == 2


async def test_cancellation_raised_by_a_listener_propagates_and_the_row_stays(story: Story) -> None:
    """EVT-014: the publisher is cancelled, what was committed is committed, and the next publish works."""

    def cancelled(announcement: Announcement) -> None:
        raise asyncio.CancelledError

    stop = story.log.bus.listen(cancelled)
    async with follow(story.log) as follower:
        await follower.start()
        publishing = asyncio.ensure_future(story.note(1))
        with pytest.raises(asyncio.CancelledError):
            await publishing
        assert seqs(await follower.batch()) == [1]
    stop()
    assert (await story.note(2)).last == 2


async def test_a_listener_that_fails_on_a_live_event_harms_nobody(story: Story) -> None:
    """EVT-015: a faulty observer cannot abort a turn through a delta, nor keep it from the others."""

    def faulty(announcement: Announcement) -> None:
        raise RuntimeError("listener is broken")

    heard: list[str] = []
    story.log.bus.listen(faulty)
    story.log.bus.listen(lambda announcement: heard.append(announcement.type))
    with story.log.bus.subscribe() as live:
        story.log.announce(DELTA)
        await story.log.publish(DELTA)
        assert len(await live.next()) == 2
    assert heard == ["session.next.text.delta"] * 2


async def test_live_events_are_not_stored_and_not_replayed(story: Story) -> None:
    """EVT-023, EVT-030, EVT-049: whoever subscribes later gets none of them, and no sequence moves."""
    with story.log.bus.subscribe() as early:
        story.log.announce(DELTA)
        await story.log.publish(SessionIdle(session_id=SES))
        late = story.log.bus.subscribe()
        await story.note(1)
        assert [item.type for item in await early.next()] == [
            "session.next.text.delta",
            "session.idle",
            SYNTHETIC,
        ]
        assert [item.type for item in await late.next()] == [SYNTHETIC]
        late.close()
    assert raw(story.database.path, "select seq, type from event order by seq") == [
        (0, "session.created.1"),
        (1, "session.next.synthetic.1"),
    ]


async def test_a_subscriber_of_some_types_gets_only_those(story: Story) -> None:
    """EVT-013, EVT-030: filtered before the buffer, so others' events cannot make it overflow."""
    with story.log.bus.subscribe(frozenset({SYNTHETIC}), capacity=2) as typed:
        for _ in range(10):
            story.log.announce(DELTA)
        await story.note(1)
        await story.note(2)
        assert [item.type for item in await typed.next()] == [SYNTHETIC, SYNTHETIC]


@pytest.mark.parametrize(("capacity", "sent"), [(3, 3), (3, 4), (3, 50)])
async def test_a_slow_subscriber_gets_its_buffer_and_then_fails(story: Story, capacity: int, sent: int) -> None:
    """EVT-031: exactly full is fine; beyond that it ends with its capacity named. Publisher and others go on."""
    slow = story.log.bus.subscribe(capacity=capacity)
    quick = story.log.bus.subscribe(capacity=100)
    for number in range(1, sent + 1):
        await story.note(number)
    delivered = await slow.next()
    assert [_text(item) for item in delivered] == [str(number) for number in range(1, capacity + 1)]
    if sent > capacity:
        with pytest.raises(SubscriberOverflow) as overflow:
            await slow.next()
        assert overflow.value.capacity == capacity
        assert overflow.value.code == "EventV2.SubscriberOverflow"
    else:
        await story.note(sent + 1)
        assert [_text(item) for item in await slow.next()] == [str(sent + 1)]
    assert [_text(item) for item in await quick.next()][:sent] == [str(number) for number in range(1, sent + 1)]


async def test_iterating_an_overflowed_subscription_delivers_then_raises(story: Story) -> None:
    """EVT-031: the iterator has the same end as reading by hand; a subscriber that has failed stays failed."""
    slow = story.log.bus.subscribe(capacity=2)
    got: list[str] = []
    for number in range(1, 5):
        await story.note(number)
    with pytest.raises(SubscriberOverflow):
        await _collect(slow, got)
    assert got == ["1", "2"]
    await story.note(5)
    with pytest.raises(SubscriberOverflow):
        await slow.next()


async def test_the_default_buffer_holds_256_events(story: Story) -> None:
    """EVT-030: 256 fit, the next one is too many."""
    live = story.log.bus.subscribe()
    for _ in range(256):
        story.log.announce(DELTA)
    assert len(await live.next()) == 256
    for _ in range(257):
        story.log.announce(DELTA)
    assert len(await live.next()) == 256
    with pytest.raises(SubscriberOverflow) as overflow:
        await live.next()
    assert overflow.value.capacity == 256


async def test_a_buffer_is_bounded_in_bytes_and_takes_any_single_event(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EVT-074"""
    monkeypatch.setattr(bus, "BUFFER_BYTES", 10_000)
    large = msgspec.structs.replace(DELTA, delta="x" * 20_000)
    medium = msgspec.structs.replace(DELTA, delta="x" * 4_500)
    live = story.log.bus.subscribe()
    for _ in range(3):
        story.log.announce(large)
        assert len(await live.next()) == 1
        for _ in range(2):
            story.log.announce(medium)
        assert len(await live.next()) == 2, "what was taken does not count any more"
    for _ in range(3):
        story.log.announce(medium)
    assert len(await live.next()) == 2
    with pytest.raises(SubscriberOverflow):
        await live.next()


async def test_a_subscription_ends_when_the_log_closes(story: Story) -> None:
    """EVT-030: what is buffered is still delivered, then it ends instead of waiting for ever."""
    live = story.log.bus.subscribe()
    waiting = story.log.bus.subscribe(frozenset({"nothing of this kind"}))
    ending = asyncio.ensure_future(waiting.next())
    await story.note(1)
    await story.log.close()
    assert [_text(item) async for item in live] == ["1"]
    assert await ending == []


async def _first(subscription: Subscription, name: str, heard: list[str]) -> None:
    await subscription.next()
    heard.append(name)


async def _collect(subscription: Subscription, got: list[str]) -> None:
    async for item in subscription:
        got.append(_text(item))


def _text(item: Announcement) -> str:
    return str(msgspec.json.decode(item.wire)["data"]["text"])
