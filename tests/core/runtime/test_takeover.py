"""Nodes on one database: one ends or stops, another that runs goes on with what it left."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.core.conftest import Pair, ToolRuntime, event_types, messages, new_session, tables, user_texts

from holdfast.core.database.errors import StorageUnavailable
from holdfast.core.event import signal
from holdfast.core.runtime import takeover
from holdfast.core.session import heartbeats
from holdfast.core.session import liveness as liveness_module
from holdfast.core.session.activity import Cause
from holdfast.core.session.heartbeats import EXPIRY_SECONDS
from holdfast.core.session.liveness import FileLiveness, ServerLiveness
from holdfast.core.session.nodes import NodeInfo, rank
from holdfast.core.session.ownership import Lease
from holdfast.llm.offline import ScriptedTransport
from holdfast.schema.prompt import Prompt
from holdfast.schema.session_message import AssistantMessage

pytestmark = pytest.mark.anyio

HELLO = Prompt(text="hello")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(takeover, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(takeover, "STAGGER_SECONDS", 0.05)
    monkeypatch.setattr(liveness_module, "SETTLING_SECONDS", 0.05)


async def serve(*hosts: ToolRuntime) -> None:
    for number, host in enumerate(hosts):
        await host.takeover.start(NodeInfo(name=f"node-{number}"))


def lose_lock(host: ToolRuntime) -> None:
    """As the end of its process does."""
    liveness = host._ownership._liveness
    if isinstance(liveness, FileLiveness):
        assert liveness._lock is not None
        os.close(liveness._lock)
        liveness._lock = None
    else:
        assert isinstance(liveness, ServerLiveness)
        liveness._lock._listener.close()  # type: ignore[attr-defined]


async def until_asked(model: ScriptedTransport, count: int = 1) -> None:
    async with asyncio.timeout(10):
        await model.seen(count)


async def suspend(host: ToolRuntime, session_id: str) -> None:
    """End the turn in this host as a shutdown does, and nothing else."""
    await host.execution._coordinator.close()
    assert (await event_types(host, session_id))[-1] == "activity.suspended"


async def test_a_node_goes_on_with_what_another_one_left(pair: Pair) -> None:
    """STO-102: the turn that a shutdown cut short is taken again by the node that runs, without anybody asking."""
    await serve(pair.a, pair.b)
    pair.model_a.hold(0)
    await pair.a.sessions.prompt(pair.session.id, HELLO)
    await until_asked(pair.model_a)
    await suspend(pair.a, pair.session.id)
    lose_lock(pair.a)
    await until_asked(pair.model_b)
    await pair.b.sessions.wait(pair.session.id)
    assert [user_texts(request) for request in pair.model_b.requests] == [["hello"]]
    assert (await event_types(pair.b, pair.session.id))[-1] == "step.ended"


async def test_a_waiter_of_another_node_waits_for_the_takeover_too(pair: Pair) -> None:
    """STO-102: from the outside there is one wait, whichever node ended in between."""
    await serve(pair.a, pair.b)
    pair.model_a.hold(0)
    await pair.a.sessions.prompt(pair.session.id, HELLO)
    await until_asked(pair.model_a)
    waiting = asyncio.create_task(pair.b.sessions.wait(pair.session.id))
    await suspend(pair.a, pair.session.id)
    lose_lock(pair.a)
    await waiting
    assert len(pair.model_b.requests) == 1
    assert (await event_types(pair.b, pair.session.id))[-1] == "step.ended"


async def test_a_lost_wake_is_found_by_a_running_node(pair: Pair) -> None:
    """STO-102: the input was admitted, and its process ended before it began."""
    await serve(pair.a, pair.b)
    pair.a.execution.wake = lambda session_id: None  # type: ignore[method-assign]
    await pair.a.sessions.prompt(pair.session.id, HELLO)
    assert pair.model_b.requests == []
    lose_lock(pair.a)
    await until_asked(pair.model_b)
    await pair.b.sessions.wait(pair.session.id)
    assert pair.model_a.requests == []


async def test_the_row_of_a_dead_process_is_removed(pair: Pair) -> None:
    """STO-103: with its leases, once everything was looked through."""
    await serve(pair.a, pair.b)
    pair.model_a.hold(0)
    await pair.a.sessions.prompt(pair.session.id, HELLO)
    await until_asked(pair.model_a)
    lose_lock(pair.a)
    with tables(pair.b) as sql:
        async with asyncio.timeout(10):
            while sql("select 1 from owner where id = ?", pair.a._ownership.id):  # noqa: ASYNC110 - only looking tells
                await asyncio.sleep(0.01)
        assert sql("select count(*) from session_lease where owner_id = ?", pair.a._ownership.id) == [(0,)]
    await until_asked(pair.model_b)


async def test_a_process_that_does_not_serve_takes_nothing_over(pair: Pair) -> None:
    """STO-102"""
    await serve(pair.a)
    pair.model_a.hold(0)
    await pair.a.sessions.prompt(pair.session.id, HELLO)
    await until_asked(pair.model_a)
    await suspend(pair.a, pair.session.id)
    lose_lock(pair.a)
    await asyncio.sleep(0.1)
    assert pair.model_b.requests == []


@pytest.fixture
async def three(tmp_path: Path, project: Path) -> AsyncIterator[list[tuple[ToolRuntime, ScriptedTransport]]]:
    models = [ScriptedTransport() for _ in range(3)]
    data = tmp_path / "data"
    async with (
        ToolRuntime(data=data, directory=project, transport=models[0]) as a,
        ToolRuntime(data=data, directory=project, transport=models[1]) as b,
        ToolRuntime(data=data, directory=project, transport=models[2]) as c,
    ):
        yield list(zip((a, b, c), models, strict=True))


async def test_two_nodes_that_notice_do_the_work_once_and_share_it(
    three: list[tuple[ToolRuntime, ScriptedTransport]],
) -> None:
    """STO-103: every Session goes on once, and neither of the nodes does everything."""
    (a, model_a), (b, model_b), (c, model_c) = three
    await serve(a, b, c)
    count = 16
    for number in range(count):
        model_a.hold(number)
    sessions = [await new_session(a) for _ in range(count)]
    for session in sessions:
        await a.sessions.prompt(session.id, HELLO)
    await until_asked(model_a, count)
    await a.execution._coordinator.close()
    lose_lock(a)
    async with asyncio.timeout(20):
        while len(model_b.requests) + len(model_c.requests) < count:  # noqa: ASYNC110 - only looking tells
            await asyncio.sleep(0.01)
        for session in sessions:
            await b.sessions.wait(session.id)
            await c.sessions.wait(session.id)
    assert len(model_b.requests) + len(model_c.requests) == count
    assert model_b.requests
    assert model_c.requests
    for session in sessions:
        answers = [item for item in await messages(b, session.id) if isinstance(item, AssistantMessage)]
        assert [answer.finish for answer in answers] == ["error", "stop"]


async def test_a_stopped_owner_loses_its_sessions_and_is_refused(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """STO-104: its lock is held, and it has not reported for too long."""
    monkeypatch.setattr(heartbeats, "WATCHED_SECONDS", 0.5)
    await serve(pair.a, pair.b)
    gate = pair.model_a.hold(0)
    await pair.a.sessions.prompt(pair.session.id, HELLO)
    await until_asked(pair.model_a)
    pair.a._ownership._stop_serving()  # it beats no more
    with tables(pair.b) as sql:
        old = int(EXPIRY_SECONDS * 1000) + 1000
        sql("update owner set beat = beat - ? where id = ?", old, pair.a._ownership.id)
    async with asyncio.timeout(10):
        await until_asked(pair.model_b)
    await pair.b.sessions.wait(pair.session.id)
    before = await event_types(pair.b, pair.session.id)
    gate.set()
    await pair.a.sessions.wait(pair.session.id)
    assert await event_types(pair.b, pair.session.id) == before
    assert await pair.b.verify() == []


async def test_an_owner_that_only_seemed_dead_ends_its_turn_in_the_last_moment(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STO-181: after the other one has looked and before it commits anything: the turn ends once."""
    await serve(pair.a)
    gate = pair.model_a.hold(0)
    await pair.a.sessions.prompt(pair.session.id, HELLO)
    await until_asked(pair.model_a)
    monkeypatch.setattr(pair.b._ownership, "_alive", lambda holder: False)
    monkeypatch.setattr(signal, "POLL_SECONDS", 60)  # nobody hears of the commits in time
    decided = pair.b.store.activity

    async def decide_and_pause(session_id: str) -> Any:
        """The last look before a drain begins."""
        activity = await decided(session_id)
        if pair.b._ownership.executing:
            gate.set()
            while pair.a.execution.here(session_id):  # noqa: ASYNC110 - only looking tells
                await asyncio.sleep(0.01)
        return activity

    monkeypatch.setattr(pair.b.store, "activity", decide_and_pause)
    await pair.b.execution.resume(pair.session.id, Cause("policy"))
    types = await event_types(pair.b, pair.session.id)
    assert [type for type in types if type.startswith("step.")] == ["step.started", "step.ended"]


def test_sessions_spread_evenly_and_everybody_agrees() -> None:
    """STO-103"""
    nodes = ["own_a", "own_b", "own_c"]
    for session in (f"ses_{number}" for number in range(50)):
        assert sorted(rank(node, nodes, session) for node in nodes) == [0, 1, 2]
    firsts = [next(node for node in nodes if rank(node, nodes, f"ses_{n}") == 0) for n in range(300)]
    assert all(60 < firsts.count(node) < 140 for node in nodes)


async def test_a_prompt_is_interrupted_that_another_node_is_about_to_begin_with(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STO-155: the caller has the receipt of one node, and asks the other one."""
    await serve(pair.a, pair.b)
    pair.model_a.hold(0)
    gate = asyncio.Event()
    start = pair.a.execution._start

    async def late(*arguments: Any) -> Any:
        await gate.wait()
        return await start(*arguments)

    monkeypatch.setattr(pair.a.execution, "_start", late)
    await pair.a.sessions.prompt(pair.session.id, HELLO)
    interrupting = asyncio.create_task(pair.b.sessions.interrupt(pair.session.id))
    await asyncio.sleep(0.05)
    assert not interrupting.done()
    gate.set()
    async with asyncio.timeout(10):
        await interrupting
    assert await pair.b.sessions.active() == []
    assert (await pair.b.sessions.outcome(pair.session.id)).type in ("interrupted", "idle")
    assert len(pair.model_a.requests) <= 1


async def test_an_ended_process_is_looked_at_again_after_the_database_was_away(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """STO-102, STO-103: what it left waits until the database answers, and not for the next end of a process."""
    await serve(pair.a, pair.b)
    leased = pair.b._ownership.leased_to
    attempts = itertools.count(1)
    again = asyncio.Event()

    async def away_at_first(owners: Any) -> Any:
        if next(attempts) == 1:
            raise StorageUnavailable("the database", "no answer")
        again.set()
        return await leased(owners)

    monkeypatch.setattr(pair.b._ownership, "leased_to", away_at_first)
    pair.model_a.hold(0)
    await pair.a.sessions.prompt(pair.session.id, HELLO)
    await until_asked(pair.model_a)
    await suspend(pair.a, pair.session.id)
    lose_lock(pair.a)
    with suppress(TimeoutError):
        await asyncio.wait_for(again.wait(), 5)
    assert "was not looked through" in caplog.text
    assert again.is_set(), "the ended process was not looked at again"
    await until_asked(pair.model_b)
    await pair.b.sessions.wait(pair.session.id)
    assert (await event_types(pair.b, pair.session.id))[-1] == "step.ended"


async def test_what_a_drain_starts_from_is_read_after_a_lease_of_another_owner_is_taken(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STO-181: an owner that only seemed dead ends its turn between the read of the start and the taking of the lease.
    The turn has its own end, and no second one."""
    await serve(pair.a)
    gate = pair.model_a.hold(0)
    await pair.a.sessions.prompt(pair.session.id, HELLO)
    await until_asked(pair.model_a)
    monkeypatch.setattr(pair.b._ownership, "_alive", lambda holder: False)
    monkeypatch.setattr(signal, "POLL_SECONDS", 60)  # nobody hears of the commits in time
    take = pair.b._ownership.take

    async def take_late(lease: Lease) -> None:
        gate.set()
        await pair.a.sessions.wait(pair.session.id)
        await take(lease)

    monkeypatch.setattr(pair.b._ownership, "take", take_late)
    async with asyncio.timeout(10):
        await pair.b.sessions.run(pair.session.id)
    types = await event_types(pair.b, pair.session.id)
    ends = [type for type in types if type in ("turn.dispatched", "step.ended", "step.failed", "turn.abandoned")]
    assert ends == ["turn.dispatched", "step.ended"] * 2  # a run asks the model once more
