"""Forking a Session: a new one that shares its conversation up to a boundary. No message is copied.

Invariants
- A fork is one commit of its own log; the source is not written. It is refused and tried again if messages were taken
  away from the source, or its epoch changed, after they were read.
- Shared messages are complete: an answer without its end, an open call and a running command are left out, and so is
  whatever follows them.
- The fork begins without inputs, requests, revert and usage, and is idle."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from holdfast.core.database.errors import Moved
from holdfast.core.database.unit import Statement
from holdfast.core.session.errors import EmptySession, MessageNotFound, SessionNotFound
from holdfast.core.session.records import ATTEMPTS, existing, fork_title
from holdfast.schema.fork_event import LineageSegment, SessionForked, TakenInstruction
from holdfast.schema.frozen import Frozen
from holdfast.schema.location import Location
from holdfast.schema.session import NO_TOKENS, Fork, ForkBoundary, RecordTime, SessionRecord
from holdfast.schema.session_event import SessionCreated
from holdfast.schema.todo import Todo
from holdfast.schema.version import __version__

if TYPE_CHECKING:
    from holdfast.core.clock import Clock, Ids
    from holdfast.core.context.epoch import Epochs
    from holdfast.core.database.database import Database
    from holdfast.core.database.unit import Value
    from holdfast.core.event.log import EventLog
    from holdfast.core.session.store import SessionStore
    from holdfast.schema.session import Session


class Forks:
    def __init__(
        self, log: EventLog, store: SessionStore, database: Database, epochs: Epochs, ids: Ids, clock: Clock
    ) -> None:
        self._log = log
        self._store = store
        self._database = database
        self._epochs = epochs
        self._ids = ids
        self._clock = clock

    async def fork(self, source_id: str, before: str | None = None) -> Session:
        """The new Session. `before` is the first message that it does not share; None shares all that is complete,
        up to the message of a staged revert. Raises SessionNotFound, MessageNotFound or EmptySession."""
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return await self._attempt(source_id, before)
            except Moved:
                if attempt == ATTEMPTS:
                    raise
        raise AssertionError("the last attempt raises")

    async def _attempt(self, source_id: str, before: str | None) -> Session:
        head = await self._log.latest(source_id)
        source = await self._store.record(source_id)
        if source is None:
            raise SessionNotFound(source_id)
        cut = await self._cut(source, before, head)
        session_id, now = self._ids.session(), self._clock.now()
        forked = await self._forked(source, session_id, cut.through, now)
        created = SessionCreated(session_id=session_id, info=_record(source, session_id, self._ids.slug(), cut, now))
        gone: dict[str, Value] = {"session_id": source_id, "head": head}
        unchanged = Statement("fork.source_changed", gone, found=False, error=partial(Moved, source_id))
        await self._log.publish(
            created,
            forked,
            location=forked.location,
            before=(existing(source_id), unchanged),
            local=await self._epochs.take_over(source_id, session_id, cut.through),
            locks=(source_id,),
            shares_lineage=True,
        )
        return await self._store.get(session_id)

    async def _cut(self, source: SessionRecord, before: str | None, head: int) -> _Cut:
        """Where the shared history ends."""
        excluded = await self._first_excluded(source, before)
        unfinished = await self._message("fork.unfinished", session_id=source.id)
        if unfinished is not None and (excluded is None or unfinished.seq < excluded.seq):
            excluded = unfinished
        through = head if excluded is None else excluded.seq - 1
        last = await self._message("fork.newest", session_id=source.id, through=through)
        if excluded is not None and (excluded.id == before or (last is None and before is not None)):
            return _Cut(through, ForkBoundary(type="before", message_id=excluded.id))
        if last is None:
            raise EmptySession(source.id)
        return _Cut(through, ForkBoundary(type="through", message_id=last.id))

    async def _first_excluded(self, source: SessionRecord, before: str | None) -> _Message | None:
        if before is not None:
            place = await self._store.place(source.id, before)
            if place is None:
                raise MessageNotFound(source.id, before)
            return _Message(place.seq, before)
        if source.revert is None:
            return None
        boundary = await self._store.place(source.id, source.revert.message_id)
        if boundary is None:
            return None
        if source.revert.before:
            return _Message(boundary.seq, source.revert.message_id)
        return await self._message("fork.next", session_id=source.id, after=boundary.seq)

    async def _forked(self, source: SessionRecord, session_id: str, through: int, now: int) -> SessionForked:
        """What is taken over from the source, as of a sequence."""
        location = Location(directory=source.directory, workspace_id=source.workspace_id)
        key: dict[str, Value] = {"session_id": source.id, "through": through}
        place: dict[str, Value] = {"directory": location.directory, "workspace_id": location.workspace_id or ""}
        segments = await self._database.fetch("lineage.of", key, into=LineageSegment)
        instructions = await self._database.fetch("fork.instructions", {**key, **place}, into=TakenInstruction)
        todos = await self._database.fetch("fork.todos", key, into=_TodoRow)
        return SessionForked(
            timestamp=now,
            session_id=session_id,
            source_id=source.id,
            through_seq=through,
            segments=tuple(segments),
            location=location,
            instructions=tuple(instructions),
            todos=tuple(Todo(content=row.content, status=row.status, priority=row.priority) for row in todos),
            todos_seq=todos[0].seq if todos else None,
        )

    async def _message(self, statement: str, **key: Value) -> _Message | None:
        rows = await self._database.fetch(statement, key, into=_Message)
        return rows[0] if rows else None


class _Message(Frozen):
    seq: int
    id: str


class _Cut(Frozen):
    through: int
    """The last sequence of the source that the fork shares."""
    boundary: ForkBoundary


class _TodoRow(Frozen):
    content: str
    status: str
    priority: str
    seq: int


def _record(source: SessionRecord, session_id: str, slug: str, cut: _Cut, now: int) -> SessionRecord:
    root_id = source.fork.root_id if source.fork is not None else source.id
    return SessionRecord(
        id=session_id,
        slug=slug,
        project_id=source.project_id,
        workspace_id=source.workspace_id,
        directory=source.directory,
        path=source.path,
        cost=0.0,
        tokens=NO_TOKENS,
        title=fork_title(source.title, now),
        agent=source.agent,
        model=source.model,
        version=__version__,
        time=RecordTime(created=now, updated=now),
        permission=source.permission,
        fork=Fork(session_id=source.id, boundary=cut.boundary, root_id=root_id, through_seq=cut.through),
    )
