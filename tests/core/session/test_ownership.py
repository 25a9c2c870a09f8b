"""Two hosts on one database: one executes a Session, the other sees it, feeds it, stops it and waits for it."""

from __future__ import annotations

import asyncio
import gc
import random
from pathlib import Path
from typing import Any

import pytest
from tests.core.conftest import (
    NoInput,
    Pair,
    ToolRuntime,
    event_types,
    lease_of,
    messages,
    new_session,
    steps,
    tables,
    user_texts,
)

from holdfast.core.database.errors import Fenced, StorageUnavailable
from holdfast.core.session.errors import Interrupted, LeaseLost
from holdfast.core.tool.tool import Tool, ToolContext
from holdfast.llm.offline import Call, ScriptedTransport, Turn
from holdfast.schema.prompt import Prompt
from holdfast.schema.session_event import Synthetic
from holdfast.schema.session_message import UserMessage

pytestmark = pytest.mark.anyio

HELLO = Prompt(text="hello")


async def drain_in_a(pair: Pair) -> asyncio.Event:
    """A executes the Session and its model is being held."""
    gate = pair.model_a.hold(0)
    await pair.a.sessions.prompt(pair.session.id, HELLO)
    await pair.model_a.seen(1)
    return gate


async def test_the_other_host_sees_who_executes_and_waits_for_it(pair: Pair) -> None:
    """SES-079, SES-078, SES-058: active in both; wait in B ends when A has finished, and not before."""
    gate = await drain_in_a(pair)
    assert await pair.b.sessions.active() == [pair.session.id]
    waiting = asyncio.create_task(pair.b.sessions.wait(pair.session.id))
    done, _ = await asyncio.wait({waiting}, timeout=0.1)
    assert not done
    gate.set()
    await waiting
    assert (await event_types(pair.b, pair.session.id))[-1] == "step.ended"
    assert await pair.b.sessions.active() == []


async def test_an_admission_in_b_is_executed_by_a(pair: Pair) -> None:
    """SES-079: the owner notices the row; B's own model is never asked."""
    gate = await drain_in_a(pair)
    await pair.b.sessions.prompt(pair.session.id, Prompt(text="from B"))
    gate.set()
    await pair.b.sessions.wait(pair.session.id)
    await pair.a.sessions.wait(pair.session.id)
    assert [user_texts(request) for request in pair.model_a.requests] == [["hello"], ["hello", "from B"]]
    assert pair.model_b.requests == []


async def test_what_b_asks_for_is_looked_up_again_after_the_database_was_away(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SES-079, STO-182: a lost database is no unhandled failure, and what is asked for afterwards is done."""
    fetch, refused = pair.a.database.fetch, asyncio.Event()

    async def away(name: str, params: Any, **options: Any) -> Any:
        if name == "control.asked":
            refused.set()
            raise StorageUnavailable("the database", "no answer")
        return await fetch(name, params, **options)

    with monkeypatch.context() as patch:
        patch.setattr(pair.a.database, "fetch", away)
        pair.a.execution._ownership.look()
        await refused.wait()
        await asyncio.sleep(0)
    gc.collect()  # a failure that nobody retrieved is reported when its task is collected
    pair.a.execution._ownership.look()


async def test_an_interruption_from_b_stops_the_drain_in_a(pair: Pair) -> None:
    """SES-078, SES-068: it returns once the owner has recorded the end; the queued input stays."""
    await drain_in_a(pair)
    joined = asyncio.create_task(pair.a.execution.run(pair.session.id))
    await steps(1)  # it joins without waiting for anything
    await pair.a.sessions.prompt(pair.session.id, Prompt(text="later"), delivery="queue")
    await pair.b.sessions.interrupt(pair.session.id)
    assert (await event_types(pair.b, pair.session.id))[-1] == "step.failed"
    assert await pair.a.sessions.active() == []
    with pytest.raises(Interrupted):
        await joined
    assert await pair.b.store.waiting(pair.session.id) == {"queue"}
    with tables(pair.b) as sql:
        assert sql("select count(*) from session_control") == [(0,)]

    await pair.b.sessions.run(pair.session.id)
    assert user_texts(pair.model_b.requests[0]) == ["hello", "later"]


async def test_input_of_another_process_is_kept_when_it_interrupts(pair: Pair) -> None:
    """SES-068, SES-078: B's own wake is dropped with the interruption, its input is not executed and not lost."""
    await drain_in_a(pair)
    await pair.b.sessions.prompt(pair.session.id, Prompt(text="from B"), delivery="queue")
    await pair.b.sessions.interrupt(pair.session.id)
    assert await pair.b.store.waiting(pair.session.id) == {"queue"}
    assert len(pair.model_a.requests) + len(pair.model_b.requests) == 1


async def test_a_run_in_b_joins_the_drain_in_a(pair: Pair) -> None:
    """SES-062, SES-079: while active it joins, wherever it is active; no additional turn is forced."""
    gate = await drain_in_a(pair)
    running = asyncio.create_task(pair.b.sessions.run(pair.session.id))
    done, _ = await asyncio.wait({running}, timeout=0.1)
    assert not done
    gate.set()
    await running
    assert len(pair.model_a.requests) + len(pair.model_b.requests) == 1


async def test_when_a_closes_b_goes_on(pair: Pair) -> None:
    """SES-079: A's turn ends as interrupted; the input that B was waiting to have executed is executed by B."""
    await drain_in_a(pair)
    await pair.b.sessions.prompt(pair.session.id, Prompt(text="from B"))
    await pair.a.execution.close()
    await pair.b.sessions.wait(pair.session.id)
    assert user_texts(pair.model_b.requests[0]) == ["hello", "from B"]
    assert await pair.b.verify() == []


async def test_hosts_that_start_at_once_do_not_run_one_session_twice(pair: Pair) -> None:
    """SES-079: both are woken at the same moment, ten times; turns never overlap and every prompt is answered."""
    for number in range(10):
        session = await new_session(pair.a)
        await asyncio.gather(
            pair.a.sessions.prompt(session.id, Prompt(text="A"), id=f"msg_a{number}"),
            pair.b.sessions.prompt(session.id, Prompt(text="B"), id=f"msg_b{number}"),
        )
        for host in (pair.a, pair.b, pair.a):
            await host.sessions.wait(session.id)
        turns = [kind for kind in await event_types(pair.a, session.id) if kind.startswith("step.")]
        assert turns == ["step.started", "step.ended"] * (len(turns) // 2)
        users = [message for message in await messages(pair.a, session.id) if isinstance(message, UserMessage)]
        assert {message.text for message in users} == {"A", "B"}
        assert len(users) == 2


async def test_no_prompt_is_stranded_when_an_owner_lets_go(pair: Pair) -> None:
    """SES-079, SES-063: B admits at every stage of A's short drains; each input is executed by one of them, once."""
    chance = random.Random(3)
    for number in range(30):
        await pair.a.sessions.prompt(pair.session.id, Prompt(text=f"A{number}"))
        await steps(chance.randrange(60))
        await pair.b.sessions.prompt(pair.session.id, Prompt(text=f"B{number}"))
        for host in (pair.b, pair.a, pair.b):
            await host.sessions.wait(pair.session.id)
        assert await pair.b.store.waiting(pair.session.id) == frozenset()
    texts = [message.text for message in await messages(pair.a, pair.session.id) if isinstance(message, UserMessage)]
    assert sorted(texts) == sorted(f"{host}{number}" for host in "AB" for number in range(30))


async def test_an_owner_that_lost_its_lease_cannot_commit(pair: Pair) -> None:
    """SES-078: a newer token makes every later commit of the old drain fail, and nothing of it is stored."""
    gate = await drain_in_a(pair)
    joined = asyncio.create_task(pair.a.execution.run(pair.session.id))
    await steps(1)  # it joins without waiting for anything
    with tables(pair.b) as sql:
        sql("update session_lease set owner_id = 'own_other', token = token + 1")
    before = await event_types(pair.b, pair.session.id)
    gate.set()
    with pytest.raises(Fenced) as fenced:
        await joined
    assert fenced.value.session_id == pair.session.id
    assert await event_types(pair.b, pair.session.id) == before
    with tables(pair.b) as sql:
        assert sql("select owner_id from session_lease") == [("own_other",)]


async def test_a_turn_whose_dispatch_is_refused_is_never_sent(tmp_path: Path, project: Path) -> None:
    """SES-078, SES-139: the lease is lost while a tool runs: neither its result nor the next turn is recorded, and the
    provider hears nothing."""

    async def lose(given: NoInput, context: ToolContext) -> dict[str, Any]:
        with tables(runtime) as sql:
            sql("update session_lease set owner_id = 'own_other', token = token + 1")
        return {}

    model = ScriptedTransport([Turn(text="losing", calls=(Call(tool="lose", input={}),)), Turn(text="never")])
    tools = {"lose": Tool(description="loses", input=NoInput, output=dict[str, Any], execute=lose)}
    async with ToolRuntime(data=tmp_path / "data", directory=project, transport=model, tools=tools) as runtime:
        session = await new_session(runtime)
        with pytest.raises(Fenced):
            await runtime.sessions.run(session.id)
        assert len(model.requests) == 1
        types = await event_types(runtime, session.id)
        assert types[-1] == "tool.called"
        assert types.count("turn.dispatched") == 1


async def test_admissions_need_no_lease(pair: Pair) -> None:
    """SES-078: the fence is for drains; clients of any host go on admitting while another owns the Session."""
    await drain_in_a(pair)
    receipts = await asyncio.gather(
        *(host.sessions.prompt(pair.session.id, HELLO, resume=False) for host in (pair.a, pair.b) * 3)
    )
    assert len({receipt.admitted_seq for receipt in receipts}) == 6


async def test_a_lease_is_taken_once_from_the_state_that_was_seen(pair: Pair) -> None:
    """SES-078: of two that saw it free one gets it; tokens grow with each owner, also after a release."""

    def note(number: int) -> Synthetic:
        return Synthetic(timestamp=1, session_id=pair.session.id, message_id=f"msg_{number}", text="x")

    mine = await lease_of(pair.a, pair.session.id)
    theirs = await lease_of(pair.b, pair.session.id)
    await theirs.publish(note(1))
    with pytest.raises(LeaseLost):
        await mine.publish(note(2))
    pair.b._ownership.release(theirs)
    again = await lease_of(pair.a, pair.session.id)
    await again.publish(note(3))
    assert again.fence.token > theirs.fence.token
    with pytest.raises(Fenced):
        await theirs.publish(note(4))
    assert [message.id for message in await messages(pair.a, pair.session.id)] == ["msg_1", "msg_3"]
