"""Events from elsewhere: exactly next, or already here; the same projectors, no hooks, no scheduling."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from tests.core.event.samples import (
    MODEL,
    SES,
    Opened,
    Story,
    data,
    follow,
    opened,
    projections,
    raw,
    seqs,
    without_polling,
)

from holdfast.core.database.errors import StorageError
from holdfast.core.database.unit import Committed, NewEvent, Statement, Unit
from holdfast.core.event.errors import InvalidDurableEvent
from holdfast.core.runtime.runtime import Runtime
from holdfast.llm.offline import ScriptedTransport
from holdfast.schema.event import Definition, SerializedEvent
from holdfast.schema.manifest import Manifest
from holdfast.schema.prompt import Prompt
from holdfast.schema.record import Record
from holdfast.schema.session import Session
from holdfast.schema.session_event import (
    ContextUpdated,
    ModelSwitched,
    PromptAdmitted,
    Prompted,
    TextEnded,
    TextStarted,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
async def events(story: Story) -> list[SerializedEvent]:
    """A whole log: two inputs of which one is promoted, an open call, a context update with operational state."""
    prompt = Prompt(text="hello")
    await story.tell(PromptAdmitted, at=1, message_id="msg_1", prompt=prompt, delivery="steer")
    await story.tell(PromptAdmitted, at=2, message_id="msg_2", prompt=prompt, delivery="queue")
    await story.tell(Prompted, at=1, message_id="msg_1", prompt=prompt, delivery="steer")
    await story.epoch()
    update = ContextUpdated(timestamp=3, session_id=SES, message_id="msg_3", text="context")
    await story.log.publish(update, metadata={"from": "here"}, local=[Statement("session.clear_epoch", {"id": SES})])
    await story.tell(ModelSwitched, message_id="msg_4", model=MODEL)
    await story.step()
    await story.say(TextStarted, text_id="t")
    await story.say(TextEnded, text_id="t", text="ünï")
    await story.call("c", {"a": 1})
    return await story.log.serialized(SES)


@pytest.fixture
async def other(tmp_path: Path) -> AsyncIterator[Opened]:
    async with opened(tmp_path / "other.db", project=True) as other:
        yield other


async def test_a_full_replay_rebuilds_everything_row_for_row(
    story: Story, events: list[SerializedEvent], other: Opened
) -> None:
    """EVT-033, EVT-039, EVT-043: Session, inbox with both sequences and messages are identical, although the other
    runtime has another clock and other random values; the stored events too."""
    assert await other.log.replay_all(events) == SES
    assert await projections(other.database, SES) == await story.projections()
    assert await other.log.serialized(SES) == events
    inbox = raw(other.database.path, "select id, admitted_seq, promoted_seq from session_input order by id")
    assert inbox == [("msg_1", 1, 3), ("msg_2", 2, None)]
    assert [found async for found in other.log.verify([SES])] == []


async def test_the_context_epoch_is_not_replayed(story: Story, events: list[SerializedEvent], other: Opened) -> None:
    """EVT-011, EVT-039, EVT-054: operational state stays what it is on the other side; hooks do not run there."""
    await story.epoch()
    await other.log.replay_all(events[:4])
    assert raw(other.database.path, "select count(*) from session_context_epoch") == [(0,)]
    insert = (
        "insert into session_context_epoch (session_id, baseline_id, snapshot_id, baseline_seq)"
        " values (?, 'theirs', 's', 0)"
    )
    raw(other.database.path, insert, (SES,))
    await other.log.replay_all(events[4:])
    assert raw(other.database.path, "select baseline_id from session_context_epoch") == [("theirs",)]


async def test_a_replay_without_its_project_fails_whole(events: list[SerializedEvent], tmp_path: Path) -> None:
    """EVT-010, EVT-039: the project row must be there; without it nothing is stored at all."""
    async with opened(tmp_path / "empty.db") as (database, log):
        with pytest.raises(StorageError):
            await log.replay(events[0])
        assert await log.latest(SES) == -1
        assert raw(database.path, "select count(*) from event_sequence") == [(0,)]


@pytest.mark.parametrize("seq", [3, 5, 1000])
async def test_replaying_events_with_a_gap_is_refused(events: list[SerializedEvent], other: Opened, seq: int) -> None:
    """EVT-016, EVT-033: the sequence must be exactly the next one."""
    await other.log.replay_all(events[:2])
    before = await projections(other.database, SES)
    with pytest.raises(InvalidDurableEvent, match="Sequence mismatch"):
        await other.log.replay(msgspec.structs.replace(events[2], seq=seq))
    assert await other.log.latest(SES) == 1
    assert await projections(other.database, SES) == before


async def test_an_exact_repeat_changes_and_publishes_nothing(events: list[SerializedEvent], other: Opened) -> None:
    """EVT-034, EVT-038: idempotent at any place that is already stored."""
    await other.log.replay_all(events)
    before = await projections(other.database, SES)
    with other.log.bus.subscribe() as live:
        for event in events:
            assert await other.log.replay(event, publish=True) is False
        await Story(other.database, other.log).note(1)
        assert len(await live.next()) == 1
    await other.log.replay_all(events)
    assert (await projections(other.database, SES))["inbox"] == before["inbox"]
    assert await other.log.latest(SES) == len(events)


async def test_data_from_elsewhere_is_stored_in_the_encoded_form(events: list[SerializedEvent], other: Opened) -> None:
    """EVT-008, EVT-034: white space on the way is not content; stored lines have none, and a stream's frames hold."""
    spaced = [
        msgspec.structs.replace(event, data=msgspec.Raw(msgspec.json.format(bytes(event.data), indent=2)))
        for event in events
    ]
    assert b"\n" in bytes(spaced[1].data)
    await other.log.replay_all(spaced)
    assert await other.log.serialized(SES) == events
    for event in (events[3], spaced[3]):
        assert await other.log.replay(event) is False


async def test_a_repeat_of_what_another_build_stored_is_the_same_event(other: Opened) -> None:
    """EVT-034: the same id, type and data are a no-op, also when the data has a field that this build does not know."""
    content = '{"timestamp":1,"sessionID":"ses_one","messageID":"msg_1","text":"x","later":{"field":1.50}}'
    stored = NewEvent("evt_1", "session.next.synthetic.1", content, None, ())
    await other.database.submit(Unit(SES, events=(stored,)))
    (event,) = await other.log.serialized(SES)
    assert bytes(event.data) == content.encode()
    assert await other.log.replay(event) is False
    assert await other.log.serialized(SES) == [event]


@pytest.mark.parametrize("difference", ["id", "type", "data"])
async def test_a_divergent_repeat_is_refused(events: list[SerializedEvent], other: Opened, difference: str) -> None:
    """EVT-016, EVT-034: another id, type or content at a stored sequence changes nothing."""
    await other.log.replay_all(events)
    before = await projections(other.database, SES)
    original = events[4]
    changed = {
        "id": msgspec.structs.replace(original, id="evt_other"),
        "type": msgspec.structs.replace(original, type="session.next.synthetic.1"),
        "data": msgspec.structs.replace(
            original, data=msgspec.Raw(bytes(original.data).replace(b'"context"', b'"something else"'))
        ),
    }[difference]
    assert changed != original
    with pytest.raises(InvalidDurableEvent, match="Replay diverged") as refused:
        await other.log.replay(changed)
    assert refused.value.type.startswith("session.next.")
    assert await projections(other.database, SES) == before
    assert await other.log.serialized(SES) == events


async def test_the_envelope_must_name_the_aggregate_of_its_payload(
    events: list[SerializedEvent], other: Opened
) -> None:
    """EVT-016, EVT-035: neither the envelope's nor the payload's aggregate is touched."""
    await other.log.replay_all(events[:1])
    with pytest.raises(InvalidDurableEvent, match="Aggregate mismatch"):
        await other.log.replay(msgspec.structs.replace(events[1], aggregate_id="ses_two"))
    assert await other.log.latest(SES) == 0
    assert await other.log.latest("ses_two") == -1


async def test_an_id_that_stands_elsewhere_is_refused_with_its_place(
    events: list[SerializedEvent], other: Opened
) -> None:
    """EVT-016, EVT-036: in the same aggregate or another, also when its projection would collide as well."""
    await other.log.replay_all(events[:2])
    moved = msgspec.structs.replace(events[2], id=events[1].id)
    with pytest.raises(InvalidDurableEvent, match=f"{events[1].id}.*{SES}:1"):
        await other.log.replay(moved)
    repeated = msgspec.structs.replace(events[1], seq=2)
    with pytest.raises(InvalidDurableEvent, match=f"{events[1].id}.*{SES}:1"):
        await other.log.replay(repeated)
    await Story(other.database, other.log, "ses_two").begin()
    foreign = SerializedEvent(
        id=events[0].id,
        type="session.next.synthetic.1",
        seq=1,
        aggregate_id="ses_two",
        data=msgspec.Raw(b'{"timestamp":1,"sessionID":"ses_two","messageID":"msg_x","text":"x"}'),
    )
    with pytest.raises(InvalidDurableEvent, match=f"{events[0].id}.*{SES}:0"):
        await other.log.replay(foreign)
    assert (await other.log.latest(SES), await other.log.latest("ses_two")) == (1, 0)


@pytest.mark.parametrize(
    ("type_", "content"),
    [
        ("session.next.invented.1", b"{}"),
        ("session.next.synthetic.9", b'{"timestamp":1,"sessionID":"ses_one","messageID":"msg_x","text":"x"}'),
        ("session.next.synthetic", b'{"timestamp":1,"sessionID":"ses_one","messageID":"msg_x","text":"x"}'),
        ("session.next.synthetic.1", b'{"timestamp":1,"messageID":"msg_x","text":"x"}'),
        ("session.next.synthetic.1", b'{"timestamp":1,"sessionID":7,"messageID":"msg_x","text":"x"}'),
        ("session.next.synthetic.1", b"not json"),
        ("session.next.text.delta", b"{}"),
    ],
    ids=["type", "version", "no version", "no aggregate", "wrong aggregate", "no json", "live"],
)
async def test_replaying_an_event_that_cannot_be_decoded_is_refused(other: Opened, type_: str, content: bytes) -> None:
    """EVT-016: unknown or malformed events from elsewhere are InvalidDurableEvent."""
    event = SerializedEvent(id="evt_1", type=type_, seq=0, aggregate_id=SES, data=msgspec.Raw(content))
    with pytest.raises(InvalidDurableEvent) as refused:
        await other.log.replay(event)
    assert refused.value.code == "EventV2.InvalidDurableEvent"
    assert await other.log.latest(SES) == -1


async def test_replay_all_checks_the_run_before_it_applies_any(events: list[SerializedEvent], other: Opened) -> None:
    """EVT-037: empty is nothing; a hole, a repeat or a second aggregate is refused before the first commit."""
    assert await other.log.replay_all([]) is None
    stranger = msgspec.structs.replace(events[2], aggregate_id="ses_two")
    for wrong in ([*events[:2], events[3]], [*events[:2], events[1]], [*events[:2], stranger], events[:2][::-1]):
        with pytest.raises(InvalidDurableEvent):
            await other.log.replay_all(wrong)
        assert await other.log.latest(SES) == -1


async def test_replay_all_takes_later_chunks_and_commits_each_event(
    events: list[SerializedEvent], other: Opened
) -> None:
    """EVT-037: chunks may follow and overlap; when one event fails the ones before it stay."""
    assert await other.log.replay_all(events[:3]) == SES
    assert await other.log.replay_all(events[2:6]) == SES
    assert await other.log.latest(SES) == 5
    broken = msgspec.structs.replace(events[7], type="session.next.invented.1")
    with pytest.raises(InvalidDurableEvent):
        await other.log.replay_all([events[6], broken, events[8]])
    assert await other.log.latest(SES) == 6
    assert await other.log.replay_all(events[7:]) == SES
    assert await other.log.serialized(SES) == events


async def test_observers_hear_of_a_replay_only_when_asked_and_tails_always(
    events: list[SerializedEvent], other: Opened
) -> None:
    """EVT-038: `publish` decides about listeners and subscribers; a tail wakes either way."""
    without_polling(other.database)
    heard: list[str] = []
    other.log.bus.listen(lambda announcement: heard.append(announcement.id))
    with other.log.bus.subscribe() as live:
        async with follow(other.log) as follower:
            await follower.start()
            await other.log.replay_all(events[:2])
            assert seqs(await follower.take(1)) == [1]
            assert heard == []
            await follower.start()
            await other.log.replay(events[2], publish=True)
            (event,) = await follower.take(1)
        assert heard == [events[2].id] == [item.id for item in await live.next()]
    assert data(event) == msgspec.json.decode(events[2].data)


async def test_a_replayed_input_stays_pending_until_someone_wakes_it(
    runtime: Runtime, session: Session, model: ScriptedTransport
) -> None:
    """EVT-038: replay admits into the inbox and starts nothing."""
    prompt = b'{"timestamp":5,"sessionID":"%s","messageID":"msg_1","prompt":{"text":"hi"},"delivery":"steer"}'
    event = SerializedEvent(
        id="evt_foreign",
        type="session.next.prompt.admitted.1",
        seq=1,
        aggregate_id=session.id,
        data=msgspec.Raw(prompt % session.id.encode()),
    )
    assert await runtime.log.replay(event, publish=True)
    await runtime.sessions.wait(session.id)
    assert await runtime.sessions.active() == []
    assert model.requests == []
    await runtime.sessions.wake(session.id)
    await runtime.sessions.wait(session.id)
    assert len(model.requests) == 1


class Noted(Record):
    book: str


async def test_a_removed_aggregate_can_begin_again(tmp_path: Path) -> None:
    """EVT-041: its events and sequence are gone at once, others and all projections stay, replay starts at 0."""
    manifest = Manifest([Definition(type="noted", payload=Noted, version=1, aggregate="book")])
    async with opened(tmp_path / "h.db", manifest=manifest, projectors={}) as (database, log):
        for book in ("a", "b"):
            await log.publish(Noted(book=book))
            await log.publish(Noted(book=book))
        kept = await log.serialized("a")
        await log.remove("a")
        assert await log.latest("a") == -1
        assert await log.aggregates() == ["b"]
        assert raw(database.path, "select distinct aggregate_id from event") == [("b",)]
        with pytest.raises(InvalidDurableEvent, match="Sequence mismatch"):
            await log.replay(kept[1])
        await log.replay_all(kept)
        assert await log.serialized("a") == kept
        await log.remove("a")
        assert await log.publish(Noted(book="a")) == Committed(0, 0)


async def test_removing_events_leaves_the_projections(story: Story, events: list[SerializedEvent]) -> None:
    """EVT-041: the Session can still be read; only its stream is gone."""
    before = await story.projections()
    await story.log.remove(SES)
    assert await story.projections() == before
    assert await story.log.serialized(SES) == []
    assert await story.log.history(SES) == ([], False)
