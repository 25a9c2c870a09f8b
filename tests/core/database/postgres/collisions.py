"""Two nodes that commit at the same moment: the unit of one is held inside its transaction, with everything written and
nothing committed, until the other has committed, failed, or waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import psycopg
from tests.stores.stores import STORES

from holdfast.core.clock import Ids, SystemClock
from holdfast.core.database.unit import Statement, Unit
from holdfast.core.runtime.runtime import HostOptions, Paths, Runtime
from holdfast.core.session.records import NewSession, SessionRecords
from holdfast.llm.offline import ScriptedTransport
from holdfast.schema import session_event as ev
from holdfast.schema.model import ModelRef
from holdfast.schema.session import Session

PATIENCE = 10.0
_GATE = Statement("project.ensure", {"id": "gate", "worktree": "/", "vcs": None, "time_created": 0})
_WAITING = """
select count(*) from pg_stat_activity
where datname = current_database() and cardinality(pg_blocking_pids(pid)) > 0
"""


class Gate:
    """A row that is about to be inserted: who inserts the same waits."""

    def __init__(self, address: str) -> None:
        self._holding = psycopg.connect(address)
        self._looking = psycopg.connect(address, autocommit=True)

    def close(self) -> None:
        self._holding.execute("insert into project (id, worktree, time_created) values ('gate', '/', 0)")

    def open(self) -> None:
        self._holding.rollback()

    def end(self) -> None:
        self._holding.close()
        self._looking.close()

    async def until_waiting(self, count: int, work: asyncio.Task[Any]) -> None:
        """Until so many transactions wait, or the work is done."""
        async with asyncio.timeout(PATIENCE):
            while not work.done() and self._looking.execute(_WAITING).fetchall() < [(count,)]:  # noqa: ASYNC110
                await asyncio.sleep(0.005)


class Nodes:
    """Two runtimes on one database."""

    def __init__(self, one: Runtime, two: Runtime, file: Path, gate: Gate) -> None:
        self.one = one
        self.two = two
        self._file = file
        self._gate = gate

    async def create(self, parent: Session | None = None, **options: Any) -> Session:
        runtime = self.one
        project = await runtime.project(runtime.location)
        model = ModelRef(id="echo", provider_id="demo")
        if parent is None:
            return await runtime.sessions.create(location=runtime.location, project=project, model=model, **options)
        return await child(runtime, parent)

    async def say(self, session: Session, *names: str) -> None:
        for name in names:
            said = ev.Synthetic(timestamp=1, session_id=session.id, message_id=f"msg_{name}", text=name)
            await self.one.log.publish(said)

    async def collide(self, type: str, held: Coroutine[Any, Any, Any], other: Coroutine[Any, Any, Any]) -> list[Any]:
        """Run both. The unit of node one that has an event of this type is held. Returns results or exceptions."""
        gate = self._gate
        gate.close()
        with _held(self.one, type):
            first = asyncio.create_task(held)
            await gate.until_waiting(1, first)
            assert not first.done(), first
            second = asyncio.create_task(other)
            await gate.until_waiting(2, second)
            gate.open()
            async with asyncio.timeout(PATIENCE):
                return list(await asyncio.gather(first, second, return_exceptions=True))

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with STORES.rows(self._file) as run:
            return run(sql)


@asynccontextmanager
async def two_nodes(folder: Path) -> AsyncIterator[Nodes]:
    project = folder / "project"
    project.mkdir()
    file = Paths(folder / "data").database
    async with AsyncExitStack() as stack:
        runtimes = [
            await stack.enter_async_context(
                Runtime(
                    paths=Paths(folder / "data"),
                    directory=project,
                    environment={"HOME": str(folder)},
                    transport=ScriptedTransport(),
                    options=HostOptions(titles=False, trust=True),
                )
            )
            for _ in range(2)
        ]
        gate = Gate(STORES.database(file).address)
        stack.callback(gate.end)
        one, two = runtimes
        yield Nodes(one, two, file, gate)


def records_of(runtime: Runtime) -> SessionRecords:
    clock = SystemClock()
    return SessionRecords(runtime.log, runtime.store, Ids(clock), clock)


async def child(runtime: Runtime, parent: Session) -> Session:
    new = NewSession(
        id=Ids(SystemClock()).session(),
        project_id=parent.project_id,
        location=parent.location,
        subpath=None,
        parent_id=parent.id,
    )
    return await records_of(runtime).create(new)


@contextmanager
def _held(runtime: Runtime, type: str) -> Iterator[None]:
    database: Any = runtime.database
    submit = database.submit

    def holding(unit: Unit, *rest: Any) -> Any:
        if any(event.type.startswith(type) for event in unit.events):
            unit = unit.replace(local=(*unit.local, _GATE))
        return submit(unit, *rest)

    database.submit = holding
    try:
        yield
    finally:
        database.submit = submit
