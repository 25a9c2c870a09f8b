"""A Session's own record: creation, agent, model, title, archive time, deletion. Each change is an event. One that
replaces the whole record is refused if anything was recorded meanwhile, and then tried again."""

from __future__ import annotations

import datetime as dt
import re
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.core.database.errors import Moved
from holdfast.core.database.unit import Statement
from holdfast.core.session import errors
from holdfast.core.session.errors import SessionHasChildren, SessionIdInUse, SessionNotFound
from holdfast.core.session.removal import not_shown
from holdfast.schema.budget import Budget  # noqa: TC001 - msgspec reads the annotations
from holdfast.schema.budget_event import BudgetSet
from holdfast.schema.frozen import Frozen
from holdfast.schema.model import DEFAULT_VARIANT
from holdfast.schema.pattern import pattern
from holdfast.schema.session import NO_TOKENS, RecordTime, SessionRecord
from holdfast.schema.session_event import (
    AgentSwitched,
    ModelSwitched,
    RevertCommitted,
    SessionCreated,
    SessionDeleted,
    SessionUpdated,
)
from holdfast.schema.version import __version__

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from holdfast.core.clock import Clock, Ids
    from holdfast.core.database.unit import Value
    from holdfast.core.event.log import EventLog
    from holdfast.core.session.store import SessionStore
    from holdfast.schema.fork_event import LineageShortened
    from holdfast.schema.location import Location
    from holdfast.schema.model import ModelRef
    from holdfast.schema.session import Session

DEFAULT_TITLE = "New session - "
FORKED_TITLE = pattern(r"^(.*) \(fork #(\d{1,9})\)$", re.DOTALL)
TITLE_CHARACTERS = 200
ATTEMPTS = 50


class RevertDecision(Frozen):
    """The events that commit the staged revert, and the condition for them."""

    events: tuple[LineageShortened | RevertCommitted, ...]
    unmoved: Statement


class NewSession(Frozen):
    """What a new Session is made of. Without a title it is unnamed, and gets a generated one later."""

    id: str
    project_id: str
    location: Location
    subpath: str | None
    parent_id: str | None = None
    agent: str | None = None
    model: ModelRef | None = None
    title: str | None = None
    budget: Budget | None = None


class SessionRecords:
    def __init__(
        self,
        log: EventLog,
        store: SessionStore,
        ids: Ids,
        clock: Clock,
        deleted: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        """`deleted` removes what a deleted Session has outside the database."""
        self._log = log
        self._store = store
        self._ids = ids
        self._clock = clock
        self._deleted = deleted

    async def create(self, new: NewSession, before: Sequence[Statement] = ()) -> Session:
        """The new Session, or the one that has this id already, whatever else was asked. The id of a deleted Session is
        refused: its events are still in the log. So is a parent that does not exist. `before` comes first in the
        commit."""
        return await self.add(new, before) or await self._store.get(new.id)

    async def add(self, new: NewSession, before: Sequence[Statement] = ()) -> Session | None:
        """As `create`, but a new Session is not read back."""
        unused = Statement("event.any_of", {"aggregate_id": new.id}, found=False, error=SessionIdInUse)
        parent = (existing(new.parent_id),) if new.parent_id is not None else ()
        created = SessionCreated(session_id=new.id, info=self._new_record(new))
        limits = [BudgetSet(timestamp=self._clock.now(), session_id=new.id, budget=new.budget)] if new.budget else []
        try:
            await self._log.publish(
                created,
                *limits,
                location=new.location,
                before=(*before, unused, *parent),
                locks=(new.parent_id,) if new.parent_id is not None else (),
            )
        except SessionIdInUse as refused:
            known = await self._store.find(new.id)
            if known is None:
                raise errors.SessionDeleted(new.id) from refused
            return known
        return None

    async def switch_agent(self, session_id: str, agent: str) -> None:
        """Select the agent from the next turn on. Selecting the same agent again records it again."""
        session = await self._store.get(session_id)
        switched = AgentSwitched(
            timestamp=self._clock.now(), session_id=session_id, message_id=self._ids.message(), agent=agent
        )
        await self._log.publish(switched, location=session.location, before=(existing(session_id),))

    async def switch_model(self, session_id: str, model: ModelRef) -> None:
        """Select the model from the next turn on. Selecting the same model again does nothing."""
        session = await self._store.get(session_id)
        if session.model is not None and _same(session.model, model):
            return
        switched = ModelSwitched(
            timestamp=self._clock.now(), session_id=session_id, message_id=self._ids.message(), model=model
        )
        await self._log.publish(switched, location=session.location, before=(existing(session_id),))

    async def rename(self, session_id: str, title: str) -> Session:
        return await self._update(session_id, lambda record: replace(record, title=title[:TITLE_CHARACTERS]))

    async def name(self, session_id: str, title: str) -> None:
        """Set a generated title, unless a person has set one."""

        def change(record: SessionRecord) -> SessionRecord | None:
            return replace(record, title=title[:TITLE_CHARACTERS]) if record.title.startswith(DEFAULT_TITLE) else None

        await self._update(session_id, change)

    async def archive(self, session_id: str, *, archived: bool = True) -> Session:
        now = self._clock.now() if archived else None
        return await self._update(session_id, lambda record: replace(record, time=replace(record.time, archived=now)))

    async def pin(self, session_id: str, *, pinned: bool = True) -> Session:
        """Say whether retention must leave the Session alone."""
        now = self._clock.now() if pinned else None
        return await self._update(session_id, lambda record: replace(record, time=replace(record.time, pinned=now)))

    async def delete(
        self, session_id: str, *, purging: bool = False, before: Sequence[Statement] = (), locks: Sequence[str] = ()
    ) -> None:
        """Delete the Session and its projections, except for messages that forks share. Its events stay in the log;
        with `purging` they are marked in the same commit, to be removed. `before` are further conditions of the commit,
        about the Sessions in `locks`. Raises SessionHasChildren, and with `purging` PurgeRefused if a fork shows its
        messages."""
        record = await self._store.record(session_id)
        if record is None:
            raise SessionNotFound(session_id)
        has_children = partial(SessionHasChildren, session_id)
        childless = Statement("tree.has_child", {"id": session_id}, found=False, error=has_children)
        info = replace(record, time=replace(record.time, updated=self._clock.now()))
        deleted = SessionDeleted(session_id=session_id, info=info)
        conditions = (childless, *before, *((not_shown(session_id),) if purging else ()))
        mark = (Statement("purge.mark", {"id": session_id}),) if purging else ()
        await self._log.publish(deleted, before=conditions, local=mark, locks=tuple(locks), shares_lineage=True)
        if self._deleted is not None:
            await self._deleted(session_id)

    async def release(self, session_id: str) -> Session:
        """Make a child a Session without a parent."""
        return await self._update(
            session_id, lambda record: replace(record, parent_id=None) if record.parent_id is not None else None
        )

    def _new_record(self, new: NewSession) -> SessionRecord:
        now = self._clock.now()
        return SessionRecord(
            id=new.id,
            slug=self._ids.slug(),
            project_id=new.project_id,
            workspace_id=new.location.workspace_id,
            directory=new.location.directory,
            path=new.subpath,
            parent_id=new.parent_id,
            cost=0.0,
            tokens=NO_TOKENS,
            title=new.title[:TITLE_CHARACTERS] if new.title else default_title(now),
            agent=new.agent,
            model=new.model,
            version=__version__,
            time=RecordTime(created=now, updated=now),
        )

    async def _update(self, session_id: str, change: Callable[[SessionRecord], SessionRecord | None]) -> Session:
        for attempt in range(1, ATTEMPTS + 1):
            head = await self._log.latest(session_id)
            record = await self._store.record(session_id)
            if record is None:
                raise SessionNotFound(session_id)
            changed = change(record)
            if changed is None:
                break
            info = replace(changed, time=replace(changed.time, updated=self._clock.now()))
            try:
                await self._log.publish(
                    SessionUpdated(session_id=session_id, info=info), before=(unmoved(session_id, head),)
                )
            except Moved:
                if attempt == ATTEMPTS:
                    raise
                continue
            break
        return await self._store.get(session_id)


def default_title(now: int) -> str:
    moment = dt.datetime.fromtimestamp(now / 1000, tz=dt.UTC)
    return f"{DEFAULT_TITLE}{moment:%Y-%m-%dT%H:%M:%S}.{now % 1000:03d}Z"


def fork_title(title: str, now: int) -> str:
    """The title of a fork: `X` gives `X (fork #1)`, which gives `X (fork #2)`. An unnamed Session has unnamed forks."""
    if title.startswith(DEFAULT_TITLE):
        return default_title(now)
    known = FORKED_TITLE.match(title)
    name, number = (known[1], int(known[2])) if known else (title, 0)
    mark = f" (fork #{number + 1})"
    return name[: TITLE_CHARACTERS - len(mark)] + mark


def existing(session_id: str) -> Statement:
    """The condition that the Session exists."""
    return Statement("session.exists", {"id": session_id}, found=True, error=partial(SessionNotFound, session_id))


def unmoved(session_id: str, head: int) -> Statement:
    """The condition that the Session has no events after this sequence."""
    key: dict[str, Value] = {"aggregate_id": session_id, "head": head}
    return Statement("event.head_is", key, found=True, error=partial(Moved, session_id))


def _same(one: ModelRef, other: ModelRef) -> bool:
    def key(ref: ModelRef) -> tuple[str, str, str]:
        return ref.provider_id, ref.id, ref.variant or DEFAULT_VARIANT

    return key(one) == key(other)
