"""The cost of a fork, its one commit, and what storage keeps for it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from tests.core.conftest import MODEL, new_session
from tests.core.event.samples import raw

from holdfast.core.database.errors import StorageError
from holdfast.core.runtime.runtime import Runtime
from holdfast.core.session.errors import SessionNotFound
from holdfast.schema.codec import encode
from holdfast.schema.prompt import Prompt
from holdfast.schema.session import NO_TOKENS, Session
from holdfast.schema.session_event import (
    InstructionDiscovered,
    PromptAdmitted,
    Prompted,
    ShellEnded,
    ShellStarted,
    StepEnded,
    StepStarted,
    Synthetic,
    TextEnded,
    TextStarted,
)
from holdfast.schema.session_message import UserMessage

pytestmark = pytest.mark.anyio

MESSAGES = 10_000
FORKS = 20


async def told(runtime: Runtime, session: Session, count: int) -> None:
    """Messages without a model."""
    stamp: dict[str, Any] = {"timestamp": 1, "session_id": session.id}
    texts = [Synthetic(**stamp, message_id=f"msg_{n:05}", text=f"note {n}") for n in range(count)]
    for start in range(0, count, 2_000):
        await runtime.log.publish(*texts[start : start + 2_000])


def pages(runtime: Runtime) -> int:
    return int(raw(runtime.paths.database, "select (select page_count from pragma_page_count())")[0][0]) - int(
        raw(runtime.paths.database, "select (select freelist_count from pragma_freelist_count())")[0][0]
    )


@pytest.mark.store("sqlite", reason="pages of a file")
async def test_a_fork_of_ten_thousand_messages_is_small_and_quick(runtime: Runtime) -> None:
    """SES-326: at most 10 ms and 10 kB, with a System Context of 40 kB."""
    (runtime.directory / "AGENTS.md").write_text("Keep it short.\n" * 2_700)
    session = await new_session(runtime)
    await told(runtime, session, MESSAGES)
    await runtime.sessions.prompt(session.id, Prompt(text="one"))
    await runtime.sessions.wait(session.id)
    assert len(str(raw(runtime.paths.database, "select max(length(content)) from context_text")[0][0])) >= 5
    before = pages(runtime)
    took = []
    for _ in range(FORKS):
        began = time.perf_counter()
        fork = await runtime.sessions.fork(session.id)
        took.append(time.perf_counter() - began)
    grown = (pages(runtime) - before) * 4096 / FORKS
    best = min(took)  # others share the machine
    print(f"fork of {MESSAGES} messages: {best * 1000:.2f} ms, median {median(took) * 1000:.2f} ms, {grown:.0f} bytes")
    assert best < 0.010
    assert grown < 10_000
    assert raw(runtime.paths.database, "select count(*) from context_text") == [(2,)]
    newest = await runtime.sessions.messages(fork.id, order="desc", limit=3)
    assert newest == [
        row.replace(session_id=fork.id) for row in await runtime.sessions.messages(session.id, order="desc", limit=3)
    ]


async def test_each_fork_of_a_fork_adds_a_message(runtime: Runtime) -> None:
    """SES-326: the deepest one shows all of them, in order, after all others were deleted, and after a rebuild."""
    current = await new_session(runtime)
    expected, chain = [], [current]
    for number in range(80):
        await runtime.log.publish(Synthetic(timestamp=1, session_id=current.id, message_id=f"msg_{number}", text="x"))
        expected.append(f"msg_{number}")
        current = await runtime.sessions.fork(current.id)
        chain.append(current)
    for session in chain[:-1]:
        await runtime.sessions.delete(session.id)
    began = time.process_time()
    for order, wanted in (("asc", expected), ("desc", expected[::-1])):
        rows = await runtime.sessions.messages(current.id, order=order, limit=1000)  # type: ignore[arg-type]
        assert [row.id for row in rows] == wanted
    assert time.process_time() - began < 1
    middle = await runtime.sessions.fork(current.id, "msg_40")
    assert len(await runtime.sessions.messages(middle.id, order="asc", limit=1000)) == 40
    await runtime.log.rebuild(current.id)
    assert [row.id for row in await runtime.sessions.context(current.id)] == expected


@pytest.mark.store("sqlite", reason="plans of SQLite")
async def test_pages_of_a_fork_read_only_what_they_return(runtime: Runtime) -> None:
    """SES-326: no plan sorts or scans the conversation."""
    from holdfast.core.database.queries import load_queries

    queries = load_queries()
    for name in (
        "message.page_asc",
        "message.page_desc",
        "message.after",
        "message.checkpoint",
        "fork.newest",
        "fork.next",
    ):
        plan = raw_plan(runtime.paths.database, queries[name])
        poor = [line for line in plan if line.startswith(("SCAN m", "SCAN segment")) or "B-TREE FOR ORDER BY" in line]
        assert poor == [], name


def raw_plan(path: Path, sql: str) -> list[str]:
    import apsw

    connection = apsw.Connection(str(path))
    try:
        keys = ("session_id", "anchor", "limit", "after", "held", "through")
        return [str(row[3]) for row in connection.execute("explain query plan " + sql, dict.fromkeys(keys, 1))]
    finally:
        connection.close()


async def test_a_fork_is_made_again_when_its_source_changes_meanwhile(runtime: Runtime) -> None:
    """SES-327, SES-323: forks and reverts at once; each fork shows one state of the source."""
    session = await new_session(runtime)
    await told(runtime, session, 30)

    async def reverting() -> None:
        for number in (20, 10, 5):
            await runtime.sessions.stage_revert(session.id, f"msg_{number:05}", files=False)
            await runtime.sessions.commit_revert(session.id)

    *forks, _ = await asyncio.gather(*(runtime.sessions.fork(session.id) for _ in range(12)), reverting())
    for fork in forks:
        assert fork is not None
        rows = await runtime.sessions.messages(fork.id, order="asc", limit=100)
        assert len(rows) in (30, 21, 11, 6)
        assert [row.id for row in rows] == [f"msg_{n:05}" for n in range(len(rows))]
    assert await runtime.verify() == []


async def test_a_failed_commit_leaves_no_fork(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    """SES-327"""
    session = await new_session(runtime)
    await told(runtime, session, 3)
    before = len(await runtime.log.aggregates())
    submit = runtime.log._database.submit

    def fails(unit: object, *rest: object) -> asyncio.Future[object]:
        raise StorageError("disk")

    monkeypatch.setattr(runtime.log._database, "submit", fails)
    with pytest.raises(StorageError):
        await runtime.sessions.fork(session.id)
    monkeypatch.setattr(runtime.log._database, "submit", submit)
    assert len(await runtime.log.aggregates()) == before
    assert await runtime.verify() == []
    with pytest.raises(SessionNotFound):
        await runtime.sessions.fork("ses_none")


async def test_a_running_command_and_what_follows_it_are_not_shared(runtime: Runtime) -> None:
    """SES-318: when it has ended, they are."""
    session = await new_session(runtime)
    stamp: dict[str, Any] = {"timestamp": 1, "session_id": session.id}
    prompt: dict[str, Any] = {"message_id": "msg_2", "prompt": Prompt(text="x"), "delivery": "steer"}
    await runtime.log.publish(
        Synthetic(**stamp, message_id="msg_0", text="first"),
        ShellStarted(**stamp, message_id="msg_1", call_id="c", command="sleep 9"),
        PromptAdmitted(**stamp, **prompt),
        Prompted(**stamp, **prompt),
    )
    early = await runtime.sessions.fork(session.id)
    named = await runtime.sessions.fork(session.id, "msg_2")
    await runtime.log.publish(ShellEnded(**stamp, call_id="c", output="done"))
    late = await runtime.sessions.fork(session.id)
    found = [
        [row.id for row in await runtime.sessions.messages(fork.id, order="asc", limit=9)]
        for fork in (early, named, late)
    ]
    assert found == [["msg_0"], ["msg_0"], ["msg_0", "msg_1", "msg_2"]]
    assert named.fork is not None
    assert (named.fork.boundary.type, named.fork.boundary.message_id) == ("through", "msg_0")


async def test_discovered_instructions_keep_their_order_in_a_fork(runtime: Runtime) -> None:
    """SES-319: those up to the boundary, of the Session's Location."""
    session = await new_session(runtime)
    stamp: dict[str, Any] = {"timestamp": 1, "session_id": session.id}
    await told(runtime, session, 2)
    place: dict[str, Any] = {"location": session.location}
    await runtime.log.publish(
        InstructionDiscovered(**stamp, **place, paths=("/z",)), InstructionDiscovered(**stamp, **place, paths=("/a",))
    )
    await runtime.log.publish(Synthetic(**stamp, message_id="msg_last", text="x"))
    fork = await runtime.sessions.fork(session.id)
    early = await runtime.sessions.fork(fork.id, "msg_00001")
    again = await runtime.sessions.fork(fork.id, "msg_last")
    key: dict[str, Any] = {"directory": session.location.directory, "workspace_id": ""}
    listed = [
        [str(path) for (path,) in await runtime.database.fetch("instruction.list", {"session_id": it.id, **key})]
        for it in (fork, early, again)
    ]
    assert listed == [["/z", "/a"], [], ["/z", "/a"]]
    assert await runtime.verify() == []


async def test_the_texts_of_an_epoch_go_with_the_last_session_that_refers_to_them(runtime: Runtime) -> None:
    """CTX-112, EVT-054"""
    session = await new_session(runtime)
    await runtime.sessions.prompt(session.id, Prompt(text="one"))
    await runtime.sessions.wait(session.id)
    texts = raw(runtime.paths.database, "select id, content from context_text order by id")
    assert len(texts) == 2
    forks = [await runtime.sessions.fork(session.id) for _ in range(2)]
    assert raw(runtime.paths.database, "select id, content from context_text order by id") == texts
    for gone in (session, forks[0]):
        await runtime.sessions.delete(gone.id)
        assert raw(runtime.paths.database, "select id, content from context_text order by id") == texts
    await runtime.sessions.delete(forks[1].id)
    assert raw(runtime.paths.database, "select count(*) from context_text") == [(0,)]


async def test_a_fork_is_replayed_into_another_database(runtime: Runtime, tmp_path: Path) -> None:
    """EVT-003, EVT-033, SES-320: its first event has a sequence of its own; its own messages are there, in order."""
    from tests.core.event.samples import ENSURE_PROJECT, opened

    from holdfast.core.database.unit import Unit

    session = await new_session(runtime)
    await told(runtime, session, 5)
    fork = await runtime.sessions.fork(session.id, "msg_00003")
    step: dict[str, Any] = {"timestamp": 1, "session_id": fork.id, "assistant_message_id": "msg_x"}
    await runtime.log.publish(
        StepStarted(**step, agent="build", model=MODEL),
        TextStarted(**step, text_id="t"),
        TextEnded(**step, text_id="t", text="own"),
        StepEnded(**step, finish="stop", cost=0.0, tokens=NO_TOKENS),
    )
    logs = {id: await runtime.log.serialized(id) for id in (session.id, fork.id)}
    first = logs[fork.id][0]
    assert fork.fork is not None
    assert (first.type, first.seq) == ("session.created.1", fork.fork.through_seq + 1)
    async with opened(tmp_path / "other.db", project=True) as other:
        row = raw(runtime.paths.database, "select id, worktree, vcs, time_created from project")[0]
        project = ENSURE_PROJECT.replace(params=dict(zip(("id", "worktree", "vcs", "time_created"), row, strict=True)))
        await other.database.submit(Unit("project", local=(project,)))
        for id in (fork.id, session.id):  # in any order
            await other.log.replay_all(logs[id])
            await other.log.replay_all(logs[id])
        from holdfast.core.session.store import SessionStore

        rows = await SessionStore(other.database).messages(fork.id, order="asc", limit=10)
        assert [item.id for item in rows] == ["msg_00000", "msg_00001", "msg_00002", "msg_x"]
        assert [found async for found in other.log.verify([fork.id])] == []


async def test_a_prompt_of_the_source_is_no_prompt_of_the_fork(runtime: Runtime) -> None:
    """SES-319: pending input stays with the source; promoted input is shared as a message."""
    session = await new_session(runtime)
    await runtime.sessions.prompt(session.id, Prompt(text="one"), id="msg_one")
    await runtime.sessions.wait(session.id)
    await runtime.sessions.prompt(session.id, Prompt(text="two"), id="msg_two", resume=False)
    fork = await runtime.sessions.fork(session.id)
    assert await runtime.sessions.pending(fork.id) == []
    first = (await runtime.sessions.messages(fork.id, order="asc", limit=1))[0].decode()
    assert isinstance(first, UserMessage)
    assert encode(first) == encode((await runtime.sessions.message(session.id, "msg_one")).decode())
