"""What a start, a turn and the pages of lists read, with few and with many stored Sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.outside.scripted_provider import Model, calling
from tests.outside.test_overview import requests
from tests.outside.tree_script import Cast, delegating
from tests.outside.world import World, ask
from tests.stored_sessions import copy_sessions

from holdfast import Holdfast, Session

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.store("sqlite", reason="counts the steps of SQLite's statements"),
]

FEW, MANY = 50, 1_000
STEPS = "SQLITE_STMTSTATUS_VM_STEP"
Counted = dict[str, int]


class Steps:
    """The most steps that one execution of each statement took. A row that is visited costs some."""

    def __init__(self) -> None:
        self.most: Counted = {}

    def __call__(self, connection: apsw.Connection) -> None:
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, self._executed, id=self)

    def _executed(self, event: dict[str, Any]) -> None:
        sql = " ".join(event["sql"].split())
        self.most[sql] = max(self.most.get(sql, 0), event["stmt_status"][STEPS])


@contextmanager
def counted() -> Iterator[Counted]:
    steps = Steps()
    apsw.connection_hooks.append(steps)
    try:
        yield steps.most
    finally:
        apsw.connection_hooks.remove(steps)


async def story(hf: Holdfast, model: Model) -> Session:
    """A Session with a prompt, calls of tools, an approval, a child and its answer."""
    session = await hf.sessions.create()
    model.always = Cast(
        go=[
            calling("read", filePath="hello.txt"),
            calling("bash", command="true", description="nothing"),
            delegating({"prompt": "child", "description": "child"}),
        ],
        child=[calling("read", filePath="hello.txt")],
    )
    prompted = asyncio.create_task(ask(hf, session, "go"))
    (request,) = await requests(hf, "permission")
    assert request.permission is not None
    await hf.permissions.reply(session.id, request_id=request.permission.id, reply="once")
    await prompted
    return session


async def use(hf: Holdfast, model: Model) -> None:
    session = await story(hf, model)
    assert (await hf.system.usage(by="day,project,model,session", since=session.time.created)).total.requests
    await hf.sessions.list(limit=20, order="asc")
    last = await hf.sessions.list(limit=20)
    while last.next is not None:
        last = await hf.sessions.list(limit=20, cursor=last.next)
    await hf.sessions.overview(limit=20)
    await hf.sessions.overview(open=True)
    await hf.sessions.interrupted()
    await hf.permissions.list_requests()


async def steps_with(world: World, home: Path, stored: int) -> Counted:
    world.configure(agent={"build": {"permission": {"bash": "ask"}}})
    data = home / "data"
    async with world.host(data=data) as hf:
        session = await story(hf, world.model)
        ids = [session.id, *(child.id for child in (await hf.sessions.list(parent_id=session.id)).items)]
    assert copy_sessions(data / "holdfast.db", ids, stored)
    with counted() as steps:
        async with world.host(data=data) as hf:
            await use(hf, world.model)
    return steps


async def test_no_statement_visits_more_rows_because_more_sessions_are_stored(world: World, tmp_path: Path) -> None:
    """OPS-400: of a start, a turn with tools, an approval and a child, each page of a list, the overview and the
    requests of a directory."""
    few = await steps_with(world, tmp_path / "few", FEW)
    many = await steps_with(world, tmp_path / "many", MANY)
    grown = {sql: (few.get(sql), steps) for sql, steps in many.items() if steps > _allowed(few.get(sql))}
    assert grown == {}


def _allowed(steps: int | None) -> float:
    """A row costs at least three steps, so one that is visited for each stored Session costs more than this. Less says
    nothing: what was committed since the last read is read at once, and that is more on a loaded machine. A statement
    that ran only once there were many has no other number."""
    return steps * 1.2 + MANY if steps is not None else 2 * MANY


async def test_the_copies_are_what_their_events_say(world: World) -> None:
    """OPS-400: what is measured with copies of Sessions holds for Sessions."""
    world.configure(agent={"build": {"permission": {"bash": "ask"}}})
    async with world.host() as hf:
        session = await story(hf, world.model)
    copy_sessions(world.data / "holdfast.db", [session.id], 3)
    async with world.host() as hf:
        report = await hf.system.doctor()
    assert report.sessions == 5
    assert [finding for finding in report.findings if finding.check in ("rows", "database")] == []
