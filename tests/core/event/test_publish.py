"""Appending: one transaction or nothing, one sequence per aggregate, and what is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.core.event.samples import (
    ENSURE_PROJECT,
    SES,
    Story,
    data,
    follow,
    opened,
    raw,
    record,
    seqs,
    without_polling,
)
from tests.stores.stores import STORES, OpenedDatabase

from holdfast.core.database.errors import Fenced, Refused, StorageError
from holdfast.core.database.unit import Committed, Fence, Statement, Unit, Value
from holdfast.core.event.errors import InvalidDurableEvent
from holdfast.core.event.projection import Projected
from holdfast.core.session.errors import SessionIdInUse
from holdfast.schema.codec import encode
from holdfast.schema.event import Definition
from holdfast.schema.live_event import SessionIdle, TextDelta
from holdfast.schema.location import Location
from holdfast.schema.manifest import Manifest
from holdfast.schema.prompt import Prompt
from holdfast.schema.record import Record
from holdfast.schema.session_event import AgentSwitched, ContextUpdated, PromptAdmitted, SessionCreated, Synthetic

pytestmark = pytest.mark.anyio

HERE = Location(directory="/w/here", workspace_id="wrk_1")


async def test_sequences_start_at_zero_and_have_no_hole(story: Story) -> None:
    """EVT-003, EVT-018: per aggregate, whatever else is written in between; an unknown aggregate stands at -1."""
    other = Story(story.database, story.log, "ses_two")
    assert await story.log.latest("ses_two") == -1
    assert await other.begin() == Committed(0, 0)
    for number in range(1, 4):
        assert await story.note(number) == Committed(number, number)
        assert await other.note(number) == Committed(number, number)
    assert await story.log.latest(SES) == await story.log.latest("ses_two") == 3


async def test_an_event_is_stored_encoded_under_its_versioned_type(story: Story) -> None:
    """EVT-002, EVT-004, EVT-008: wire names, integer times, type with version; delivered with the bare type."""
    payload = AgentSwitched(timestamp=1234, session_id=SES, message_id="msg_1", agent="plan")
    await story.log.publish(payload, id="evt_mine")
    (stored,) = raw(story.database.path, "select id, aggregate_id, seq, type, data from event where seq = 1")
    assert stored[:4] == ("evt_mine", SES, 1, "session.next.agent.switched.1")
    assert stored[4] == '{"timestamp":1234,"sessionID":"ses_one","messageID":"msg_1","agent":"plan"}'
    (event,) = (await story.log.page(SES)).events
    assert (event.id, event.type) == ("evt_mine", "session.next.agent.switched")
    assert event.durable is not None
    assert msgspec.to_builtins(event.durable) == {"aggregateID": SES, "seq": 1, "version": 1}
    assert data(event) == msgspec.to_builtins(payload)


async def test_the_envelope_of_durable_and_live_events(story: Story) -> None:
    """EVT-004, EVT-005: `durable` only on persisted events, `location` and `metadata` when given."""
    with story.log.bus.subscribe() as live:
        payload = Synthetic(timestamp=1, session_id=SES, message_id="msg_1", text="x")
        await story.log.publish(payload, location=HERE, metadata={"k": [1]})
        await story.note(2)
        await story.log.publish(SessionIdle(session_id=SES), location=HERE)
        story.log.announce(SessionIdle(session_id=SES))
        first, second, third, fourth = [msgspec.json.decode(item.wire) for item in await live.next()]
    place = {"directory": "/w/here", "workspaceID": "wrk_1"}
    assert first == {
        "id": first["id"],
        "type": "session.next.synthetic",
        "durable": {"aggregateID": SES, "seq": 1, "version": 1},
        "location": place,
        "metadata": {"k": [1]},
        "data": msgspec.to_builtins(payload),
    }
    assert set(second) == {"id", "type", "durable", "data"}
    assert third == {"id": third["id"], "type": "session.idle", "location": place, "data": {"sessionID": SES}}
    assert set(fourth) == {"id", "type", "data"}
    assert len({item["id"] for item in (first, second, third, fourth)}) == 4
    assert all(item["id"].startswith("evt_") for item in (first, second, third, fourth))


async def test_metadata_is_kept_and_projected_and_location_is_not_replayed(story: Story, tmp_path: Path) -> None:
    """EVT-006: metadata survives in the log, in the message, through replay and through a rebuild."""
    payload = Synthetic(timestamp=1, session_id=SES, message_id="msg_1", text="x")
    await story.log.publish(payload, location=HERE, metadata={"source": "ünï", "n": {"deep": None}})
    (event,) = (await story.log.page(SES)).events
    assert event.metadata == {"source": "ünï", "n": {"deep": None}}
    assert event.location is None
    assert (await story.message("msg_1")).metadata == event.metadata
    assert [found async for found in story.log.verify([SES])] == []
    async with opened(tmp_path / "other.db", project=True) as (database, log):
        await log.replay_all(await story.log.serialized(SES))
        assert (await Story(database, log).message("msg_1")).metadata == event.metadata


async def test_several_events_are_one_commit_with_one_wake(story: Story) -> None:
    """EVT-019: consecutive sequences, one transaction, one page for a follower."""
    notes = [Synthetic(timestamp=1, session_id=SES, message_id=f"msg_{number}", text="x") for number in range(3)]
    async with follow(story.log) as follower:
        await follower.start()
        assert await story.log.publish(*notes) == Committed(1, 3)
        assert seqs(await follower.batch()) == [1, 2, 3]
    clash = [Synthetic(timestamp=1, session_id=SES, message_id=id, text="x") for id in ("msg_new", "msg_1")]
    with pytest.raises(StorageError):
        await story.log.publish(*clash)
    assert await story.log.latest(SES) == 3
    assert await story.message_ids() == ["msg_0", "msg_1", "msg_2"]


async def test_a_failing_projection_rolls_everything_back(story: Story) -> None:
    """EVT-010: no event, no sequence, no projection, no local write, no observer."""
    await story.note(1)
    before = await story.projections()
    with story.log.bus.subscribe() as live:
        with pytest.raises(SessionIdInUse):
            await story.log.publish(
                SessionCreated(session_id=SES, info=record(title="again")),
                before=[Statement("project.ensure", {"id": "prj_2", "worktree": "/", "vcs": None, "time_created": 1})],
            )
        with pytest.raises(StorageError):
            await story.note(1)
        await story.note(2)
        assert len(await live.next()) == 1
    after = await story.projections()
    assert after["messages"][:-1] == before["messages"]
    assert after["session"] == before["session"]
    assert seqs((await story.log.page(SES)).events) == [1, 2]
    assert raw(story.database.path, "select id from project") == [("prj_1",)]


async def test_a_failing_local_write_rolls_everything_back(story: Story) -> None:
    """EVT-010, EVT-011: the event does not happen without its operational state."""
    never = Statement("lease.release", {"session_id": SES, "owner_id": "nobody", "token": 1}, changes=1)
    with pytest.raises(Refused):
        await story.log.publish(_context("msg_1"), local=[never])
    assert await story.log.latest(SES) == 0
    assert await story.message_ids() == []


async def test_local_writes_run_after_the_projections_with_the_new_sequence(
    story: Story, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EVT-010, EVT-011: they see the projected message and the sequence; they are neither stored nor replayed."""
    note = (
        "insert into todo (session_id, position, content, status, priority, time_created, time_updated)"
        " select session_id, :seq, id, 'x', 'x', 1, 1 from session_message where id = 'msg_1' and seq = :seq"
    )
    monkeypatch.setitem(STORES.statements(), "test.note", note)
    await story.note(0)
    await story.log.publish(_context("msg_1"), local=[Statement("test.note", {}, changes=1)])
    assert raw(story.database.path, "select position, content from todo") == [(2, "msg_1")]
    serialized = await story.log.serialized(SES)
    assert b"todo" not in encode(serialized)
    async with opened(tmp_path / "other.db", project=True) as (database, log):
        await log.replay_all(serialized)
        assert (await Story(database, log).projections())["todos"] == []
    with pytest.raises(InvalidDurableEvent, match="Local commit hooks require a durable event") as refused:
        await story.log.publish(SessionIdle(session_id=SES), local=[ENSURE_PROJECT])
    assert refused.value.message == "Local commit hooks require a durable event"
    assert refused.value.type == "session.idle"
    raw(story.database.path, "delete from todo")  # no event tells of it


async def test_a_reused_event_id_is_refused_before_anything_else_is_looked_at(story: Story) -> None:
    """EVT-010, EVT-016, EVT-036: named with its place, also when the same payload would fail in its projection."""
    admitted = PromptAdmitted(
        timestamp=1, session_id=SES, message_id="msg_p", prompt=Prompt(text="p"), delivery="steer"
    )
    await story.log.publish(admitted, id="evt_used")
    before = await story.projections()
    for payload in (_context("msg_other"), admitted, SessionCreated(session_id=SES, info=record())):
        with pytest.raises(InvalidDurableEvent, match=f"evt_used.*{SES}:1") as refused:
            await story.log.publish(payload, id="evt_used")
        assert refused.value.code == "EventV2.InvalidDurableEvent"
    assert await story.log.latest(SES) == 1
    assert await story.projections() == before


class Loose(Record):
    owner: Any = None


class Unknown(Record):
    session_id: str = SES


@pytest.mark.parametrize("payload", [Loose(), Loose(owner=7), Unknown()], ids=["missing", "not text", "unknown type"])
async def test_an_event_without_a_place_is_refused(tmp_path: Path, payload: Record) -> None:
    """EVT-016: no aggregate, an aggregate that is no string, or a type that nobody defined."""
    manifest = Manifest([Definition(type="loose", payload=Loose, version=1, aggregate="owner")])
    async with opened(tmp_path / "h.db", manifest=manifest, projectors={}) as (database, log):
        with pytest.raises(InvalidDurableEvent) as refused:
            await log.publish(payload)
        assert refused.value.code == "EventV2.InvalidDurableEvent"
        assert refused.value.type
        assert refused.value.message
        assert await log.publish(Loose(owner="fine")) == Committed(0, 0)
        assert raw(database.path, "select count(*) from event") == [(1,)]


async def test_one_commit_is_one_aggregate(story: Story) -> None:
    """EVT-016, EVT-019: a mixed list is refused as a whole."""
    elsewhere = Synthetic(timestamp=1, session_id="ses_two", message_id="msg_2", text="x")
    with pytest.raises(InvalidDurableEvent):
        await story.log.publish(_context("msg_1"), elsewhere)
    assert await story.log.latest(SES) == 0


async def test_live_events_in_a_commit_are_announced_in_their_place_and_not_stored(story: Story) -> None:
    """EVT-013, EVT-023, API-441: between the durable ones, after the commit; alone they are no commit."""
    delta = TextDelta(timestamp=1, session_id=SES, assistant_message_id="msg_a", text_id="t", delta="d")
    with story.log.bus.subscribe() as live:
        await story.log.publish(delta, _context("msg_1"), delta, delta, _context("msg_2"))
        types = [item.type.removeprefix("session.next.") for item in await live.next()]
    assert types == ["text.delta", "context.updated", "text.delta", "text.delta", "context.updated"]
    assert await story.log.latest(SES) == 2
    with pytest.raises(InvalidDurableEvent):
        story.log.submit(delta, delta)


async def test_cancelling_the_publisher_does_not_lose_the_wake(story: Story) -> None:
    """EVT-012: the event is committed, tails and observers hear of it, only the caller does not wait."""
    without_polling(story.database)
    async with follow(story.log) as follower:
        await follower.start()
        with story.log.bus.subscribe() as live:
            publishing = asyncio.ensure_future(story.note(1))
            await asyncio.sleep(0)
            publishing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await publishing
            assert seqs(await follower.batch()) == [1]
            assert len(await live.next()) == 1


async def test_projectors_get_the_decoded_payload(tmp_path: Path) -> None:
    """EVT-008: the same typed record whether it was just published, replayed or rebuilt."""
    seen: list[Projected] = []

    def project(event: Projected) -> tuple[Statement, ...]:
        seen.append(event)
        return ()

    manifest = Manifest([Definition(type="loose", payload=Loose, version=1, aggregate="owner")])
    async with opened(tmp_path / "h.db", manifest=manifest, projectors={Loose: project}) as (_, log):
        await log.publish(Loose(owner="me"), metadata={"a": 1})
        await log.rebuild("me")
    assert seen == [Projected(Loose(owner="me"), {"a": 1})] * 2


async def test_publishing_ignores_replay_owners_and_obeys_execution_leases(story: Story) -> None:
    """EVT-042: a claim stops nobody from publishing; a newer lease stops the older owner's runner, not a client."""
    await story.log.claim(SES, "somebody else")
    await story.note(1)
    await _lease(story.database, "own_a", token=1, seen=-1)
    mine = Fence(SES, "own_a", 1)
    assert await story.log.publish(_context("msg_1"), fence=mine) == Committed(2, 2)
    await _lease(story.database, "own_b", token=2, seen=1)
    with pytest.raises(Fenced):
        await story.log.publish(_context("msg_2"), fence=mine)
    assert await story.note(3) == Committed(3, 3), "a client's commit needs no lease"
    assert await story.log.publish(_context("msg_3"), fence=Fence(SES, "own_b", 2)) == Committed(4, 4)
    assert "msg_2" not in await story.message_ids()


def _context(message_id: str) -> ContextUpdated:
    return ContextUpdated(timestamp=1, session_id=SES, message_id=message_id, text="x")


async def _lease(database: OpenedDatabase, owner: str, *, token: int, seen: int) -> None:
    row: dict[str, Value] = {"session_id": SES, "owner_id": owner, "token": token, "seen_token": seen}
    await database.submit(Unit(SES, local=(Statement("lease.take", row, changes=1),)))
