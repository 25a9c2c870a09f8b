"""Promotion: an admitted input becomes exactly one user message, or stays as it was."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.conftest import ManualClock
from tests.core.conftest import event_types, lease_of, messages, new_session, tables, user_texts

from holdfast.core.database.errors import StorageError
from holdfast.core.database.read import Read
from holdfast.core.event.bus import Announcement
from holdfast.core.runtime.runtime import Paths, Runtime
from holdfast.core.session.inbox import Inbox
from holdfast.core.session.input_errors import LifecycleConflict
from holdfast.core.session.ownership import Lease
from holdfast.core.session.store import SessionStore
from holdfast.core.session.stored_sessions import Boundary, SessionAtBoundary
from holdfast.llm.offline import ScriptedTransport
from holdfast.schema.codec import decode_any
from holdfast.schema.prompt import Admission, Delivery, Prompt
from holdfast.schema.session import Session
from holdfast.schema.session_event import Prompted
from holdfast.schema.session_message import Time, UserMessage

pytestmark = pytest.mark.anyio

HELLO = Prompt(text="hello")


def promotion(receipt: Admission) -> Prompted:
    return Prompted(
        timestamp=receipt.time_created,
        session_id=receipt.session_id,
        message_id=receipt.id,
        prompt=receipt.prompt,
        delivery=receipt.delivery,
    )


@pytest.fixture
async def timed(tmp_path: Path, project: Path, model: ScriptedTransport, clock: ManualClock) -> AsyncIterator[Runtime]:
    async with Runtime(
        paths=Paths(tmp_path / "data"), directory=project, environment={}, transport=model, clock=clock
    ) as runtime:
        yield runtime


async def test_row_and_message_carry_the_sequence_of_the_promotion(timed: Runtime, clock: ManualClock) -> None:
    """SES-046, SES-047, SES-191: same id, same sequence; the event repeats the input; the time is the admission's."""
    session = await new_session(timed)
    admitted = clock.now()
    await timed.sessions.prompt(session.id, HELLO, id="msg_1", delivery="queue", resume=False)
    clock.advance(60_000)
    await timed.sessions.run(session.id)

    seq = (await event_types(timed, session.id)).index("prompted")
    receipt = await timed.store.admission("msg_1")
    assert receipt is not None
    assert receipt.promoted_seq == seq
    stored = await timed.sessions.message(session.id, "msg_1")
    assert stored.seq == seq
    assert stored.decode() == UserMessage(id="msg_1", time=Time(created=admitted), text="hello")
    events, _ = await timed.sessions.history(session.id, after=seq - 1, limit=1)
    assert decode_any(events[0].data) == {
        "timestamp": admitted,
        "sessionID": session.id,
        "messageID": "msg_1",
        "prompt": {"text": "hello"},
        "delivery": "queue",
    }


async def test_notes_are_promoted_with_their_prompt(timed: Runtime, clock: ManualClock) -> None:
    """SES-276: in one commit, with the time of admission, each prompt's after its own message."""
    session = await new_session(timed)
    admitted = clock.now()
    for number in (1, 2):
        prompt = Prompt(text=f"prompt {number}", notes=(f"note {number}a", f"note {number}b"))
        await timed.sessions.prompt(session.id, prompt, id=f"msg_{number}", resume=False)
    clock.advance(60_000)
    await timed.sessions.run(session.id)

    found = (await messages(timed, session.id))[:6]
    assert [getattr(item, "text", None) for item in found] == [
        "prompt 1",
        "note 1a",
        "note 1b",
        "prompt 2",
        "note 2a",
        "note 2b",
    ]
    assert {item.time.created for item in found} == {admitted}
    assert await timed.verify() == []


@pytest.mark.parametrize("half", ["before insert on session_message", "before update on session_input"])
async def test_a_promotion_that_fails_by_half_has_not_happened(
    runtime: Runtime, session: Session, model: ScriptedTransport, half: str
) -> None:
    """SES-046: neither half is visible, no model is called, and a later wake promotes it after all."""
    with tables(runtime) as sql:
        sql(f"create trigger refuse {half} begin select raise(abort, 'refused'); end")
        await runtime.sessions.prompt(session.id, HELLO, id="msg_1")
        await runtime.sessions.wait(session.id)
        assert await event_types(runtime, session.id) == ["session.created", "prompt.admitted"]
        assert sql("select promoted_seq from session_input") == [(None,)]
        assert await messages(runtime, session.id) == []
        assert model.requests == []
        sql("drop trigger refuse")
    await runtime.sessions.wake(session.id)
    await runtime.sessions.wait(session.id)
    assert user_texts(model.requests[0]) == ["hello"]


@pytest.mark.parametrize("difference", ["prompt", "delivery", "session_id", "timestamp", "again"])
async def test_a_promotion_that_differs_from_its_admission_is_refused(
    runtime: Runtime, session: Session, difference: str
) -> None:
    """SES-048: another prompt, delivery, Session or time, or a second promotion; everything rolls back."""
    other = await new_session(runtime)
    receipt = await runtime.sessions.prompt(session.id, HELLO, id="msg_1", resume=False)
    event = promotion(receipt)
    changes: dict[str, object] = {
        "prompt": Prompt(text="hello!"),
        "delivery": "queue",
        "session_id": other.id,
        "timestamp": receipt.time_created + 1,
    }
    if difference == "again":
        await runtime.log.publish(event)
        receipt = await runtime.store.admission("msg_1") or receipt
    else:
        event = msgspec.structs.replace(event, **{difference: changes[difference]})
    before = [await event_types(runtime, id) for id in (session.id, other.id)]
    visible = await messages(runtime, session.id)

    with pytest.raises(LifecycleConflict):
        await runtime.log.publish(event)

    assert [await event_types(runtime, id) for id in (session.id, other.id)] == before
    assert await runtime.store.admission("msg_1") == receipt
    assert await messages(runtime, session.id) == visible


async def test_a_real_conflict_ends_the_drain_and_leaves_the_input(
    runtime: Runtime, session: Session, model: ScriptedTransport
) -> None:
    """SES-048: a row that says something else than its promotion is a LifecycleConflict naming it, not a turn."""
    await runtime.sessions.prompt(session.id, HELLO, id="msg_1", resume=False)
    with tables(runtime) as sql:
        sql("""update session_input set prompt = '{ "text": "hello" }' where id = 'msg_1'""")
    with pytest.raises(LifecycleConflict) as conflict:
        await runtime.sessions.run(session.id)
    assert conflict.value.id == "msg_1"
    assert await messages(runtime, session.id) == []
    assert await runtime.store.waiting(session.id) == {"steer"}
    assert model.requests == []


class Interfering(SessionStore):
    """Admits inputs between the reads of a boundary, and promotes some before its caller does."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime.database)
        self._runtime = runtime
        self.promote: tuple[str, ...] = ()
        self.admit: tuple[str, ...] = ()

    async def at_boundary(self, session_id: str) -> SessionAtBoundary:
        fetch_many = self._database.fetch_many

        async def interrupted(first: Read, *others: Read) -> list[list[Any]]:
            found = await fetch_many(first)
            admit, self.admit = self.admit, ()
            for id in admit:
                await self._runtime.sessions.prompt(session_id, Prompt(text=id), id=id, resume=False)
            return [*found, *await fetch_many(*others)]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self._database, "fetch_many", interrupted)
            seen = await super().at_boundary(session_id)
        for receipt in seen.steers:
            if receipt.id in self.promote:
                await self._runtime.log.publish(promotion(receipt))
        return seen


def inbox_of(runtime: Runtime) -> Inbox:
    return Inbox(runtime.log, runtime.store, runtime._ids, runtime._clock)


async def promote(
    runtime: Runtime, session_id: str, boundary: Boundary, lease: Lease, store: SessionStore | None = None
) -> int:
    """One boundary; how many inputs it took."""
    seen = await (store or runtime.store).at_boundary(session_id)
    return len(await inbox_of(runtime).promote(seen.due(boundary), lease))


async def test_an_input_that_another_promoted_first_is_no_conflict(runtime: Runtime, session: Session) -> None:
    """SES-048: of two inputs one was taken meanwhile; the other is promoted, and each is visible once."""
    for id in ("msg_1", "msg_2"):
        await runtime.sessions.prompt(session.id, Prompt(text=id), id=id, resume=False)
    store = Interfering(runtime)
    store.promote = ("msg_1",)
    lease = await lease_of(runtime, session.id)
    await promote(runtime, session.id, "steer", lease, store)
    assert [message.id for message in await messages(runtime, session.id)] == ["msg_1", "msg_2"]
    assert (await event_types(runtime, session.id)).count("prompted") == 2
    assert await runtime.store.waiting(session.id) == frozenset()


async def test_promoters_at_once_make_one_message(runtime: Runtime, session: Session) -> None:
    """SES-049: five attempts, one promoted event for each input."""
    for id in ("msg_1", "msg_2", "msg_3"):
        await runtime.sessions.prompt(session.id, Prompt(text=id), id=id, resume=False)
    lease = await lease_of(runtime, session.id)
    await asyncio.gather(*(promote(runtime, session.id, "steer", lease) for _ in range(5)))
    assert (await event_types(runtime, session.id)).count("prompted") == 3
    assert [message.id for message in await messages(runtime, session.id)] == ["msg_1", "msg_2", "msg_3"]


async def test_a_promotion_without_admission_brings_its_own_row(
    runtime: Runtime, session: Session, model: ScriptedTransport
) -> None:
    """SES-050: admitted and promoted at its own sequence; the same prompt with that id is then an exact retry."""
    await runtime.log.publish(
        Prompted(timestamp=77, session_id=session.id, message_id="msg_old", prompt=HELLO, delivery="steer")
    )
    before = await event_types(runtime, session.id)
    expected = Admission(
        admitted_seq=1,
        id="msg_old",
        session_id=session.id,
        prompt=HELLO,
        delivery="steer",
        time_created=77,
        promoted_seq=1,
    )
    assert await runtime.store.admission("msg_old") == expected
    assert await runtime.sessions.prompt(session.id, HELLO, id="msg_old") == expected
    await runtime.execution.drain(10)
    assert await event_types(runtime, session.id) == before
    assert model.requests == []


@pytest.mark.parametrize("delivery", ["steer", "queue"])
async def test_inputs_are_promoted_in_the_order_of_admission(
    timed: Runtime, clock: ManualClock, model: ScriptedTransport, delivery: Delivery
) -> None:
    """SES-051, SES-053, EVT-057: whatever their ids sort like, and also while the clock of the machine goes back."""
    session = await new_session(timed)
    for id in ("msg_c", "msg_a", "msg_d", "msg_b"):
        await timed.sessions.prompt(session.id, Prompt(text=id), id=id, delivery=delivery, resume=False)
        clock.advance(-1000)
    await timed.sessions.run(session.id)
    assert user_texts(model.requests[-1]) == ["msg_c", "msg_a", "msg_d", "msg_b"]


async def test_a_steer_that_arrives_during_the_batch_waits(runtime: Runtime, session: Session) -> None:
    """SES-051, SES-052: the steers up to the cutoff go together, in the order of admission; the late one goes next."""
    for id in ("msg_b", "msg_a"):
        await runtime.sessions.prompt(session.id, Prompt(text=id), id=id, resume=False)
    store = Interfering(runtime)
    store.admit = ("msg_late",)
    lease = await lease_of(runtime, session.id)
    assert await promote(runtime, session.id, "steer", lease, store) == 2
    assert [message.id for message in await messages(runtime, session.id)] == ["msg_b", "msg_a"]
    assert await promote(runtime, session.id, "steer", lease) == 1
    assert [message.id for message in await messages(runtime, session.id)] == ["msg_b", "msg_a", "msg_late"]


async def test_a_queue_boundary_takes_one_queued_input_first_and_then_steers(
    runtime: Runtime, session: Session
) -> None:
    """SES-052, SES-053, SES-054: one queued input, the oldest; then the steers up to the cutoff before it."""
    arrivals: dict[str, Delivery] = {"msg_s1": "steer", "msg_q1": "queue", "msg_q2": "queue", "msg_s2": "steer"}
    for id, delivery in arrivals.items():
        await runtime.sessions.prompt(session.id, Prompt(text=id), id=id, delivery=delivery, resume=False)
    store = Interfering(runtime)
    store.admit = ("msg_late",)
    lease = await lease_of(runtime, session.id)
    assert await promote(runtime, session.id, "queue", lease, store) == 3
    assert [message.id for message in await messages(runtime, session.id)] == ["msg_q1", "msg_s1", "msg_s2"]


async def test_an_input_that_is_withdrawn_or_put_off_meanwhile_is_not_promoted(
    runtime: Runtime, session: Session
) -> None:
    """SES-303: of three inputs that were due, one is left; the others are as their callers wanted."""
    for id in ("msg_1", "msg_2", "msg_3"):
        await runtime.sessions.prompt(session.id, Prompt(text=id), id=id, resume=False)
    inbox, lease = inbox_of(runtime), await lease_of(runtime, session.id)
    due = (await runtime.store.at_boundary(session.id)).due("steer")
    await runtime.sessions.withdraw(session.id, "msg_1")
    await runtime.sessions.deliver_as(session.id, "msg_2", "queue")
    promoted = await inbox.promote(due, lease)
    assert [item.id for item in promoted] == ["msg_3"]
    assert [message.id for message in await messages(runtime, session.id)] == ["msg_3"]
    assert [item.id for item in await runtime.sessions.pending(session.id)] == ["msg_2"]


async def test_a_faulty_listener_cannot_strand_an_input(
    runtime: Runtime, session: Session, model: ScriptedTransport, caplog: pytest.LogCaptureFixture
) -> None:
    """SES-057: the promotion is committed, the turn proceeds, and the log names the fault."""

    def explode(announcement: Announcement) -> None:
        if announcement.type == "session.next.prompted":
            raise RuntimeError("a faulty observer")

    runtime.log.bus.listen(explode)
    with caplog.at_level(logging.ERROR):
        await runtime.sessions.prompt(session.id, HELLO)
        await runtime.sessions.run(session.id)
    assert user_texts(model.requests[0]) == ["hello"]
    assert (await event_types(runtime, session.id))[-1] == "step.ended"
    assert "a faulty observer" in caplog.text


async def test_an_explicit_run_raises_what_made_the_promotion_fail(runtime: Runtime, session: Session) -> None:
    """SES-046, SES-062: the caller of run learns of it, and the input is still there."""
    with tables(runtime) as sql:
        sql("create trigger refuse before insert on session_message begin select raise(abort, 'refused'); end")
        await runtime.sessions.prompt(session.id, HELLO, resume=False)
        with pytest.raises(StorageError, match="refused"):
            await runtime.sessions.run(session.id)
        sql("drop trigger refuse")
    assert await runtime.store.waiting(session.id) == {"steer"}
