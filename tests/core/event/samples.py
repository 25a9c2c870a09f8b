"""A Session to publish into, and ways to look at what became of it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

from tests.stores.stores import STORES, OpenedDatabase

from holdfast.core.clock import Ids, SystemClock
from holdfast.core.database.database import PROJECTIONS
from holdfast.core.database.unit import Committed, Row, Statement, Unit, Value
from holdfast.core.event.log import EventLog
from holdfast.core.event.projection import Projectors
from holdfast.core.session.projector import SESSION_PROJECTORS
from holdfast.core.session.store import SessionStore
from holdfast.schema.codec import decode_any
from holdfast.schema.event import EventEnvelope
from holdfast.schema.manifest import MANIFEST, Manifest
from holdfast.schema.model import ModelRef
from holdfast.schema.record import Record
from holdfast.schema.session import RecordTime, Session, SessionRecord
from holdfast.schema.session_event import Provider, SessionCreated, StepStarted, Synthetic, ToolCalled, ToolInputStarted
from holdfast.schema.session_message import AssistantMessage, Part, SessionMessage

SES = "ses_one"
ASSISTANT = "msg_assistant"
NASTY = 'quote " backslash \\ newline \n nul \x00 line \u2028 ünï 🌊 {"json": [1]} \'sql\' $.path'
"""Text that any layer of quoting could spoil."""
MODEL = ModelRef(id="m", provider_id="p")
PROJECT: dict[str, Value] = {"id": "prj_1", "worktree": "/w", "vcs": "git", "time_created": 1}
ENSURE_PROJECT = Statement("project.ensure", PROJECT)


def record(session_id: str = SES, **changes: Any) -> SessionRecord:
    fields: dict[str, Any] = {
        "id": session_id,
        "slug": "quiet-kelp",
        "project_id": "prj_1",
        "directory": "/w/here",
        "title": "A title",
        "version": "1.2.3",
        "time": RecordTime(created=10, updated=11),
    }
    return SessionRecord(**fields | changes)


class Story:
    """What happens to one Session. Everything goes through the log; everything is read back from the tables."""

    def __init__(self, database: OpenedDatabase, log: EventLog, session_id: str = SES) -> None:
        self.database = database
        self.log = log
        self.store = SessionStore(database)
        self.session_id = session_id

    async def begin(self, **changes: Any) -> Committed:
        info = record(self.session_id, **changes)
        return await self.log.publish(SessionCreated(session_id=self.session_id, info=info), before=[ENSURE_PROJECT])

    async def tell(self, kind: type[Record], *, at: int = 1_000, **fields: Any) -> Committed:
        return await self.log.publish(kind(timestamp=at, session_id=self.session_id, **fields))

    async def note(self, number: int) -> Committed:
        """A small public event."""
        return await self.tell(Synthetic, message_id=f"msg_{self.session_id}_{number}", text=str(number))

    async def step(self, message_id: str = ASSISTANT, *, at: int = 1_000) -> Committed:
        return await self.tell(StepStarted, at=at, assistant_message_id=message_id, agent="build", model=MODEL)

    async def say(self, kind: type[Record], *, at: int = 1_000, **fields: Any) -> Committed:
        """An event of the one assistant message that most tests need."""
        return await self.tell(kind, at=at, assistant_message_id=ASSISTANT, **fields)

    async def call(self, call_id: str, given: dict[str, Any]) -> None:
        """A tool call that is running."""
        await self.say(ToolInputStarted, call_id=call_id, name="read")
        await self.say(ToolCalled, call_id=call_id, tool="read", input=given, provider=Provider(executed=False))

    async def session(self) -> Session:
        return await self.store.get(self.session_id)

    async def message(self, message_id: str) -> SessionMessage:
        return (await self.store.message(self.session_id, message_id)).decode()

    async def assistant(self, message_id: str = ASSISTANT) -> AssistantMessage:
        message = await self.message(message_id)
        assert isinstance(message, AssistantMessage)
        return message

    async def part(self) -> Part:
        (part,) = (await self.assistant()).content
        return part

    async def message_ids(self) -> list[str]:
        return [item.id for item in await self.store.messages(self.session_id, order="asc", limit=1000)]

    async def projections(self) -> dict[str, list[Row]]:
        return await projections(self.database, self.session_id)

    async def epoch(self) -> list[Any]:
        """Operational state: set here as a turn would."""
        texts = "insert into context_text values ('b', 'baseline'), ('s', '{}') on conflict do nothing"
        raw(self.database.path, texts)
        return raw(
            self.database.path,
            "insert into session_context_epoch (session_id, baseline_id, snapshot_id, baseline_seq)"
            " values (?, 'b', 's', 0)",
            (self.session_id,),
        )

    async def epochs(self) -> int:
        return int(raw(self.database.path, "select count(*) from session_context_epoch")[0][0])


async def projections(database: OpenedDatabase, session_id: str) -> dict[str, list[Row]]:
    return {table: await database.fetch_large(f"projection.{table}", {"id": session_id}) for table in PROJECTIONS}


def raw(path: Path, sql: str, params: Sequence[Value] = ()) -> list[tuple[Any, ...]]:
    """Past the runtime, straight into the store."""
    with STORES.rows(path) as run:
        return run(sql, *params)


class Opened(NamedTuple):
    database: OpenedDatabase
    log: EventLog


@asynccontextmanager
async def opened(
    path: Path,
    *,
    manifest: Manifest = MANIFEST,
    projectors: Projectors = SESSION_PROJECTORS,
    project: bool = False,
    seed: int = 99,
) -> AsyncIterator[Opened]:
    """Another runtime's database and log, with its own clock and chance."""
    database = STORES.open(path)
    log = EventLog(database, manifest, projectors, Ids(SystemClock(), random.Random(seed)))
    try:
        if project:
            await database.submit(Unit("project", local=(ENSURE_PROJECT,)))
        yield Opened(database, log)
    finally:
        await log.close()
        database.close()


class Follower:
    """A tail in the hands of a test. Every wait ends, in a failure if need be."""

    def __init__(self, tail: AsyncGenerator[list[EventEnvelope], None]) -> None:
        self._tail = tail
        self._upcoming: asyncio.Future[list[EventEnvelope]] | None = None

    async def start(self) -> asyncio.Future[list[EventEnvelope]]:
        """Begin to read; what is stored already has been read when this returns."""
        if self._upcoming is None:
            self._upcoming = asyncio.ensure_future(anext(self._tail))
            await asyncio.sleep(0)
        return self._upcoming

    async def batch(self) -> list[EventEnvelope]:
        upcoming = await self.start()
        try:
            async with asyncio.timeout(5):
                return await upcoming
        finally:
            self._upcoming = None

    async def take(self, count: int) -> list[EventEnvelope]:
        events: list[EventEnvelope] = []
        while len(events) < count:
            events += await self.batch()
        return events

    async def close(self) -> None:
        if self._upcoming is not None:
            self._upcoming.cancel()
            await asyncio.wait([self._upcoming])
        await self._tail.aclose()


@asynccontextmanager
async def follow(log: EventLog, aggregate_id: str = SES, *, after: int = -1) -> AsyncIterator[Follower]:
    follower = Follower(cast("AsyncGenerator[list[EventEnvelope], None]", log.tail(aggregate_id, after=after)))
    try:
        yield follower
    finally:
        await follower.close()


def without_polling(database: OpenedDatabase) -> None:
    """Commits of other processes are not looked for, so that only the signal inside this one can wake a tail."""
    database.version = lambda: -1  # type: ignore[method-assign]


def seqs(events: Sequence[EventEnvelope]) -> list[int]:
    return [event.durable.seq for event in events if event.durable is not None]


def data(event: EventEnvelope) -> Any:
    return decode_any(event.data)
