"""The Session at each sequence is what a store has that was given exactly these events."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.core.conftest import ToolRuntime, new_session, script

from holdfast.core.database.unit import NewEvent
from holdfast.core.inspect import past as module
from holdfast.core.inspect.errors import NoSuchSequence, TooManyEvents
from holdfast.core.runtime.runtime import Runtime
from holdfast.llm.offline import Call, ScriptedTransport, Turn
from holdfast.schema.event import SerializedEvent
from holdfast.schema.past import PastSession
from holdfast.schema.prompt import Prompt
from holdfast.schema.session import Session
from holdfast.schema.session_event import Synthetic

pytestmark = pytest.mark.anyio

TODOS = [{"content": "look", "status": "pending", "priority": "high"}]
OPTIONS = [{"label": "yes", "description": "do it"}]
ASKED = {"questions": [{"question": "Shall I?", "header": "Go", "options": OPTIONS}]}
LIMIT = 1_000


async def say(runtime: Runtime, session: Session, text: str, **options: Any) -> None:
    await runtime.sessions.prompt(session.id, Prompt(text=text), **options)
    await runtime.sessions.wait(session.id)


async def story(runtime: Runtime, model: ScriptedTransport) -> Session:
    """Tools, a question, queued and withdrawn input, a shell command, a compaction that is undone, and a revert."""
    session = await new_session(runtime)
    script(
        model,
        Turn(text="first"),
        Turn(calls=(Call(tool="todowrite", input={"todos": TODOS}), Call(tool="read", input={"path": "hello.txt"}))),
        Turn(text="looked"),
        Turn(calls=(Call(tool="question", input=ASKED),)),
        Turn(text="asked"),
    )
    await say(runtime, session, "hello")
    await say(runtime, session, "look", id="msg_look")
    await runtime.sessions.prompt(session.id, Prompt(text="ask"), id="msg_ask")
    async with runtime.locations.use(session.location) as services:
        while not (opened := await services.questions.for_session(session.id)):  # noqa: ASYNC110 - only looking tells
            await asyncio.sleep(0.01)
        await runtime.sessions.prompt(session.id, Prompt(text="later"), delivery="queue")
        await runtime.sessions.prompt(session.id, Prompt(text="never"), delivery="queue", id="msg_never")
        await runtime.sessions.withdraw(session.id, "msg_never")
        await services.questions.reply(session.id, opened[0].id, [["yes"]])
    await runtime.sessions.wait(session.id)
    await runtime.sessions.shell(session.id, "echo hi")
    await say(runtime, session, "long " * 9_000)
    await runtime.sessions.compact(session.id)
    await runtime.sessions.undo_compaction(session.id)
    await runtime.sessions.compact(session.id)
    await say(runtime, session, "after")
    await runtime.sessions.stage_revert(session.id, "msg_ask")
    await runtime.sessions.clear_revert(session.id)
    await runtime.sessions.stage_revert(session.id, "msg_look")
    await say(runtime, session, "again")
    return session


async def present(runtime: Runtime, session_id: str, seq: int, time: int) -> PastSession:
    """The same of a store as it is."""
    store = runtime.store
    stored = await store.messages(session_id, order="desc", limit=LIMIT)
    async with runtime.locations.use(runtime.location) as services:
        questions = await services.questions.for_session(session_id)
    return PastSession(
        seq=seq,
        time=time,
        session=await store.get(session_id),
        messages=tuple(message.decode() for message in stored[::-1]),
        more=False,
        pending=tuple(await store.all_pending(session_id)),
        todos=await runtime.todos.get(session_id),
        requests=tuple(request.id for request in questions),
    )


async def compared(runtime: Runtime, other: Runtime, session_id: str, after: int = -1, limit: int = 10_000) -> int:
    """How many sequences were compared with a store that is given one event after the other."""
    events = await runtime.log.serialized(session_id, after=after, limit=limit)
    for event in events:
        await other.log.replay(event)
        past = await runtime.inspection.past(session_id, event.seq, LIMIT)
        assert past == await present(other, session_id, event.seq, past.time), event.type
    return len(events)


async def test_every_sequence_is_what_its_events_make_of_it(
    runtime: Runtime, model: ScriptedTransport, tmp_path: Path, project: Path
) -> None:
    """WEB-215, WEB-216: also of a fork and of a fork of it, whose sources went back and were deleted."""
    session = await story(runtime, model)
    session_head = await runtime.log.latest(session.id)
    fork = await runtime.sessions.fork(session.id)
    await say(runtime, fork, "in the fork", id="msg_fork")
    shared = await runtime.log.latest(fork.id)
    second = await runtime.sessions.fork(fork.id)
    await say(runtime, second, "in the second")
    await runtime.sessions.stage_revert(fork.id, "msg_look")
    await runtime.sessions.commit_revert(fork.id)
    async with ToolRuntime(data=tmp_path / "other", directory=project, transport=ScriptedTransport()) as other:
        await new_session(other)  # the row of the project comes from no event
        assert await compared(runtime, other, session.id) > 60
        # In the order in which it happened: what nobody shows any more is gone.
        assert await compared(runtime, other, fork.id, limit=shared - session_head) > 5
        assert await compared(runtime, other, second.id) > 5
        assert await compared(runtime, other, fork.id, after=shared) > 1
        head = await runtime.log.latest(second.id)
        before = await runtime.inspection.past(second.id, head, LIMIT)
        await runtime.sessions.delete(session.id)
        assert await runtime.inspection.past(second.id, head, LIMIT) == before


async def test_more_events_than_a_call_replays_are_refused(
    runtime: Runtime, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """WEB-217: with those of the source of a fork."""
    texts = [Synthetic(timestamp=1, session_id=session.id, message_id=f"msg_{n}", text="x") for n in range(40)]
    await runtime.log.publish(*texts)
    fork = await runtime.sessions.fork(session.id)
    monkeypatch.setattr(module, "EVENTS", 30)
    monkeypatch.setattr(module, "PAGE", 7)
    assert len((await runtime.inspection.past(session.id, 20, LIMIT)).messages) == 20
    for session_id, seq in ((session.id, 35), (fork.id, await runtime.log.latest(fork.id))):
        with pytest.raises(TooManyEvents) as refused:
            await runtime.inspection.past(session_id, seq, LIMIT)
        assert (refused.value.status, refused.value.field) == (400, "seq")


async def test_a_sequence_that_is_not_in_the_log_is_not_found(runtime: Runtime, session: Session) -> None:
    """WEB-215."""
    with pytest.raises(NoSuchSequence):
        await runtime.inspection.past(session.id, 1, LIMIT)


async def test_the_loop_is_not_held_up(runtime: Runtime, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """WEB-217: events are projected on another thread."""
    texts = [Synthetic(timestamp=1, session_id=session.id, message_id=f"msg_{n}", text="x") for n in range(30)]
    await runtime.log.publish(*texts)
    project, threads = runtime.log.projected, set[threading.Thread]()

    def projected(event: SerializedEvent) -> NewEvent:
        threads.add(threading.current_thread())
        return project(event)

    monkeypatch.setattr(runtime.log, "projected", projected)
    assert len((await runtime.inspection.past(session.id, 30, 10)).messages) == 10
    assert threads
    assert threading.current_thread() not in threads


async def test_a_caller_that_leaves_ends_it(runtime: Runtime, session: Session) -> None:
    """WEB-217: at the next page, and the temporary database is closed when nothing uses it any more."""
    texts = [Synthetic(timestamp=1, session_id=session.id, message_id=f"msg_{n}", text="x") for n in range(2_000)]
    await runtime.log.publish(*texts)
    for seconds in (0.0, 0.002, 0.01):
        looking = asyncio.ensure_future(runtime.inspection.past(session.id, 2_000, LIMIT))
        await asyncio.sleep(seconds)
        looking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await looking
    assert (await runtime.inspection.past(session.id, 2_000, LIMIT)).more
