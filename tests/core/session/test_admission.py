"""Admission: a prompt is recorded once, durably, before anything is executed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import apsw
import psycopg
import pytest
from tests.core.conftest import MODEL, event_types, messages, new_session, steps, tables

from holdfast.core.database.errors import StorageError
from holdfast.core.runtime.runtime import Paths, Runtime
from holdfast.core.session.input_errors import PromptConflict
from holdfast.llm.offline import ScriptedTransport
from holdfast.schema.codec import decode_any, encode
from holdfast.schema.prompt import AgentAttachment, Delivery, FileAttachment, Prompt
from holdfast.schema.session import Session
from holdfast.schema.session_event import ContextUpdated, StepStarted, Synthetic

pytestmark = pytest.mark.anyio
NOT_UNIQUE = (apsw.ConstraintError, psycopg.errors.UniqueViolation)

HELLO = Prompt(text="hello")


async def test_a_prompt_is_recorded_and_never_waits_for_its_turn(
    runtime: Runtime, session: Session, model: ScriptedTransport
) -> None:
    """SES-031, SES-033: the receipt comes while the model is held; by default it steers and wakes."""
    gate = model.hold(0)
    receipt = await runtime.sessions.prompt(session.id, HELLO)
    assert receipt.delivery == "steer"
    await model.seen(1)
    assert await runtime.sessions.active() == [session.id]
    assert (await event_types(runtime, session.id))[1] == "prompt.admitted"
    gate.set()
    await runtime.sessions.wait(session.id)


async def test_without_resume_a_prompt_is_only_admitted(
    runtime: Runtime, session: Session, model: ScriptedTransport
) -> None:
    """SES-031, SES-033, SES-035: nothing executes, and the input is in no history until it is promoted."""
    receipt = await runtime.sessions.prompt(session.id, HELLO, resume=False)
    await steps(20)
    assert await runtime.sessions.active() == []
    assert model.requests == []
    assert await messages(runtime, session.id) == []
    assert await runtime.sessions.context(session.id) == []
    await runtime.sessions.wake(session.id)
    await runtime.sessions.wait(session.id)
    (user, _) = await messages(runtime, session.id)
    assert user.id == receipt.id
    assert (await runtime.sessions.context(session.id))[0].id == receipt.id


async def test_the_receipt_is_what_was_stored(runtime: Runtime, session: Session) -> None:
    """SES-034, SES-042: one event and one row, with the sequence, the whole prompt and the time of the receipt."""
    prompt = Prompt(
        text="look",
        files=(FileAttachment(uri="data:,first", mime="text/plain", name="a.txt", description="first"),),
        agents=(AgentAttachment(name="plan"),),
    )
    receipt = await runtime.sessions.prompt(session.id, prompt, id="msg_1", delivery="queue", resume=False)
    stored = {
        "text": "look",
        "files": [{"uri": "data:,first", "mime": "text/plain", "name": "a.txt", "description": "first"}],
        "agents": [{"name": "plan"}],
    }
    assert decode_any(encode(receipt)) == {
        "admittedSeq": 1,
        "id": "msg_1",
        "sessionID": session.id,
        "prompt": stored,
        "delivery": "queue",
        "timeCreated": receipt.time_created,
    }
    (event,), _ = await runtime.sessions.history(session.id)
    assert event.durable is not None
    assert (event.type, event.durable.seq) == ("session.next.prompt.admitted", receipt.admitted_seq)
    assert decode_any(event.data) == {
        "timestamp": receipt.time_created,
        "sessionID": session.id,
        "messageID": "msg_1",
        "prompt": stored,
        "delivery": "queue",
    }
    assert await runtime.store.admission("msg_1") == receipt


async def test_event_and_row_are_one_transaction(runtime: Runtime, session: Session) -> None:
    """SES-034: when the row cannot be written there is no event either, and the id stays free."""
    with tables(runtime) as sql:
        sql("create trigger refuse before insert on session_input begin select raise(abort, 'refused'); end")
        with pytest.raises(StorageError):
            await runtime.sessions.prompt(session.id, HELLO, id="msg_1", resume=False)
        sql("drop trigger refuse")
    assert await event_types(runtime, session.id) == ["session.created"]
    assert (await runtime.sessions.prompt(session.id, HELLO, id="msg_1", resume=False)).admitted_seq == 1


async def test_equal_prompts_without_ids_are_two_inputs(runtime: Runtime, session: Session) -> None:
    """SES-036."""
    one, other = [await runtime.sessions.prompt(session.id, HELLO, resume=False) for _ in range(2)]
    assert one.id != other.id
    assert (one.admitted_seq, other.admitted_seq) == (1, 2)


async def test_an_exact_retry_gets_the_first_receipt_and_still_wakes(
    runtime: Runtime, session: Session, model: ScriptedTransport
) -> None:
    """SES-037: no further event; a wake unless `resume` is false; after promotion the receipt says where."""
    first = await runtime.sessions.prompt(session.id, HELLO, id="msg_1", resume=False)
    again = await runtime.sessions.prompt(session.id, HELLO, id="msg_1", resume=False)
    assert again == first
    assert await event_types(runtime, session.id) == ["session.created", "prompt.admitted"]
    assert model.requests == []

    assert (await runtime.sessions.prompt(session.id, HELLO, id="msg_1")).admitted_seq == first.admitted_seq
    await runtime.sessions.wait(session.id)
    assert len(model.requests) == 1

    before = await event_types(runtime, session.id)
    promoted = await runtime.sessions.prompt(session.id, HELLO, id="msg_1")
    await runtime.sessions.wait(session.id)
    assert promoted.promoted_seq == before.index("prompted")
    assert decode_any(encode(promoted))["promotedSeq"] == promoted.promoted_seq
    assert await event_types(runtime, session.id) == before
    assert len(model.requests) == 1


@pytest.mark.parametrize(
    ("prompt", "delivery", "elsewhere"),
    [
        (Prompt(text="hello "), "steer", False),
        (Prompt(text="hello", agents=(AgentAttachment(name="plan"),)), "steer", False),
        (Prompt(text="hello", files=(FileAttachment(uri="a", mime="text/plain"),)), "steer", False),
        (HELLO, "queue", False),
        (HELLO, "steer", True),
    ],
    ids=["text", "agents", "files", "delivery", "session"],
)
async def test_an_id_stands_for_one_prompt(
    runtime: Runtime, session: Session, model: ScriptedTransport, prompt: Prompt, delivery: Delivery, elsewhere: bool
) -> None:
    """SES-038, SES-041: another prompt, delivery or Session is a conflict; nothing is written, nothing is woken."""
    other = await new_session(runtime)
    await runtime.sessions.prompt(session.id, HELLO, id="msg_1", resume=False)
    await runtime.sessions.prompt(other.id, HELLO, id="msg_2", resume=False)
    asked = other.id if elsewhere else session.id
    with pytest.raises(PromptConflict) as conflict:
        await runtime.sessions.prompt(asked, prompt, id="msg_1", delivery=delivery)
    assert (conflict.value.session_id, conflict.value.message_id) == (asked, "msg_1")
    assert conflict.value.code == "Session.PromptConflictError"
    await steps(20)
    assert await runtime.sessions.active() == []
    assert model.requests == []
    for id in (session.id, other.id):
        assert await event_types(runtime, id) == ["session.created", "prompt.admitted"]


async def test_the_id_of_any_visible_message_is_taken(runtime: Runtime, session: Session) -> None:
    """SES-039: whatever its kind and whosever it is; no inbox row appears."""
    other = await new_session(runtime)
    await runtime.log.publish(Synthetic(timestamp=1, session_id=session.id, message_id="msg_synthetic", text="note"))
    await runtime.log.publish(ContextUpdated(timestamp=1, session_id=other.id, message_id="msg_system", text="x"))
    started = StepStarted(
        timestamp=1, session_id=other.id, assistant_message_id="msg_assistant", agent="build", model=MODEL
    )
    await runtime.log.publish(started)
    for id in ("msg_synthetic", "msg_system", "msg_assistant"):
        with pytest.raises(PromptConflict) as conflict:
            await runtime.sessions.prompt(session.id, HELLO, id=id)
        assert (conflict.value.session_id, conflict.value.message_id) == (session.id, id)
    with tables(runtime) as sql:
        assert sql("select count(*) from session_input") == [(0,)]


async def test_twenty_retries_at_once_admit_one_input(
    runtime: Runtime, session: Session, model: ScriptedTransport
) -> None:
    """SES-040, SES-049: one event, one row, twenty equal receipts, one user message and one turn."""
    receipts = await asyncio.gather(
        *(runtime.sessions.prompt(session.id, HELLO, id="msg_1", resume=number % 2 == 0) for number in range(20))
    )
    assert len({(receipt.id, receipt.admitted_seq, receipt.time_created) for receipt in receipts}) == 1
    await runtime.sessions.wait(session.id)
    types = await event_types(runtime, session.id)
    assert (types.count("prompt.admitted"), types.count("prompted")) == (1, 1)
    assert len(model.requests) == 1


async def test_two_processes_retrying_at_once_admit_one_input(
    runtime: Runtime, session: Session, project: Path
) -> None:
    """SES-040: the database decides, not the memory of one process; unequal prompts lose to whoever came first."""
    async with Runtime(
        paths=Paths(runtime.paths.data), directory=project, environment={}, transport=ScriptedTransport()
    ) as other:
        attempts = [host.sessions.prompt(session.id, HELLO, id="msg_1", resume=False) for host in (runtime, other) * 8]
        receipts = await asyncio.gather(*attempts)
        assert len({encode(receipt) for receipt in receipts}) == 1
        rivals = [
            host.sessions.prompt(session.id, Prompt(text=text), id="msg_2", resume=False)
            for host, text in ((runtime, "one"), (other, "two"))
        ]
        outcomes = await asyncio.gather(*rivals, return_exceptions=True)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Admission", "PromptConflict"]
    assert await event_types(runtime, session.id) == ["session.created", "prompt.admitted", "prompt.admitted"]


async def test_a_conflict_leaves_the_writer_fit_to_write_beside_another_process(
    runtime: Runtime, session: Session, project: Path
) -> None:
    """SES-038, SES-079: the refused commit is over, whoever still holds its error; it keeps no snapshot open."""
    await runtime.log.publish(Synthetic(timestamp=1, session_id=session.id, message_id="msg_taken", text="note"))
    with pytest.raises(PromptConflict) as conflict:
        await runtime.sessions.prompt(session.id, HELLO, id="msg_taken", resume=False)
    async with Runtime(
        paths=Paths(runtime.paths.data), directory=project, environment={}, transport=ScriptedTransport()
    ) as other:
        await other.sessions.prompt(session.id, HELLO, id="msg_1", resume=False)
    await runtime.sessions.prompt(session.id, HELLO, id="msg_2", resume=False)
    assert conflict.value.message_id == "msg_taken"


async def test_a_caller_who_leaves_cannot_part_the_commit_from_the_wake(runtime: Runtime) -> None:
    """SES-032: cancelled at any step after it began, the prompt is admitted, promoted and answered."""
    sessions = []
    for moment in range(1, 40):
        session = await new_session(runtime)
        sessions.append(session.id)
        caller = asyncio.create_task(runtime.sessions.prompt(session.id, HELLO))
        await steps(moment)
        caller.cancel()
        await asyncio.wait({caller})
    await runtime.sessions.close()
    for id in sessions:
        await runtime.sessions.wait(id)
        assert (await event_types(runtime, id))[-1] == "step.ended"


async def test_sequences_are_unique_in_the_inbox(runtime: Runtime, session: Session) -> None:
    """SES-043: the table itself refuses a second row with the same admitted or promoted sequence."""
    await runtime.sessions.prompt(session.id, HELLO, id="msg_1")
    await runtime.sessions.wait(session.id)
    receipt = await runtime.store.admission("msg_1")
    assert receipt is not None
    row = "insert into session_input (session_id, admitted_seq, id, prompt, delivery, promoted_seq, time_created)"
    with tables(runtime) as sql:
        for admitted, promoted in ((receipt.admitted_seq, None), (999, receipt.promoted_seq)):
            with pytest.raises(NOT_UNIQUE):
                sql(f"{row} values (?, ?, 'msg_2', '{{}}', 'steer', ?, 0)", session.id, admitted, promoted)
