"""Reads of Session rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

import msgspec
from msgspec.structs import replace

from holdfast.core.session.errors import SessionNotFound
from holdfast.schema.codec import decode_any
from holdfast.schema.frozen import Frozen
from holdfast.schema.instruction import InstructionEntry
from holdfast.schema.location import Location
from holdfast.schema.model import DEFAULT_VARIANT, ModelRef
from holdfast.schema.session import CacheTokens, Fork, RecordTime, Revert, Session, SessionRecord, SessionTime, Tokens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.database.database import Reads
    from holdfast.core.database.unit import Row, Value
    from holdfast.schema.prompt import Admission

Order = Literal["asc", "desc"]
Direction = Literal["previous", "next"]
Boundary = Literal["steer", "queue"]
NO_PARENT = "null"
"""In place of the id of a parent: Sessions that have none."""


class SessionFilter(msgspec.Struct, frozen=True, omit_defaults=True):
    workspace: str | None = None
    search: str | None = None
    directory: str | None = None
    project: str | None = None
    subpath: str | None = None
    archived: bool | None = None
    parent: str | None = None
    """The id of the parent, or `null`: Sessions without a parent."""


class SessionAnchor(msgspec.Struct, frozen=True):
    id: str
    time: Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]
    direction: Direction


FIRST = SessionAnchor(id="", time=-1, direction="next")
LAST = SessionAnchor(id="", time=2**53 - 1, direction="next")
"""Before the first page of a list, in ascending and in descending order."""


class SessionAtBoundary(Frozen):
    """A Session, whether a steer or a queued input waits, and the last sequence of its log, in one read. `steers` and
    `queued` are the inputs that wait up to that sequence: the oldest steers, and the oldest queued input."""

    session: Session
    steer: bool
    queue: bool
    steer_asks: bool
    """Whether a steer waits that asks for an answer."""
    instructions_seq: int | None
    """The sequence of the last change of the Session's instruction entries."""
    head: int
    steers: Sequence[Admission] = ()
    queued: Sequence[Admission] = ()

    def due(self, boundary: Boundary) -> list[Admission]:
        """The inputs that a boundary takes, in the order of their promotion: at a queue boundary one queued input, then
        the steers. What was admitted after this was read waits for the next boundary."""
        return [*(self.queued if boundary == "queue" else ()), *self.steers]


class StoredSessions:
    def __init__(self, database: Reads) -> None:
        self._database = database

    async def find(self, session_id: str) -> Session | None:
        rows = await self._database.fetch("session.get", {"id": session_id}, into=SessionRow)
        return rows[0].session() if rows else None

    async def get(self, session_id: str) -> Session:
        session = await self.find(session_id)
        if session is None:
            raise SessionNotFound(session_id)
        return session

    async def asker(self, session_id: str, request_id: str) -> Session | None:
        """The Session that made an open request: this one, or a descendant. None if there is no such request."""
        key: dict[str, Value] = {"session_id": session_id, "id": request_id}
        rows = await self._database.fetch("request.asker", key)
        return await self.find(str(rows[0][0])) if rows else None

    async def form_asker(self, session_id: str, form_id: str) -> Session | None:
        """The Session that made a form, settled or not: this one, or a descendant. None if there is no such form."""
        rows = await self._database.fetch("form.asker", {"session_id": session_id, "id": form_id})
        return await self.find(str(rows[0][0])) if rows else None

    async def instruction_entries(self, session_id: str) -> tuple[InstructionEntry, ...]:
        """The instruction entries of a Session, ordered by key."""
        return entries_of(await self._database.fetch("instruction_entry.list", {"session_id": session_id}))

    async def record(self, session_id: str) -> SessionRecord | None:
        """The whole row, in the form of the events that replace it."""
        rows = await self._database.fetch("session.record", {"id": session_id}, into=_RecordRow)
        return rows[0].record() if rows else None

    async def page(
        self, chosen: SessionFilter, *, order: Order, limit: int, anchor: SessionAnchor | None = None
    ) -> list[Session]:
        """Sorted by creation time, then id. `previous` reads against the order and reverses the rows."""
        backwards = anchor is not None and anchor.direction == "previous"
        ascending = (order == "asc") != backwards
        subpath = chosen.subpath.strip("/") if chosen.subpath else None
        of_parent = chosen.parent not in (None, NO_PARENT)
        since = anchor or (FIRST if ascending else LAST)
        # A filter may have to look at many Sessions before it has found a page, or that there is none.
        filtered = chosen.search or chosen.directory or chosen.project or subpath or chosen.workspace
        fetch = self._database.fetch_large if filtered else self._database.fetch
        rows = await fetch(
            f"session.{'children' if of_parent else 'list'}_{'asc' if ascending else 'desc'}",
            {
                **({"parent": chosen.parent} if of_parent else {"roots": chosen.parent == NO_PARENT}),
                "directory": chosen.directory,
                "project": chosen.project,
                "workspace": chosen.workspace,
                "search": f"%{_like(chosen.search)}%" if chosen.search else None,
                "subpath": subpath,
                "subpath_below": f"{_like(subpath)}/%" if subpath else None,
                "archived": chosen.archived,
                "anchor_time": since.time,
                "anchor_id": since.id,
                "limit": limit,
            },
            into=_ListRow,
        )
        sessions = [replace(row.session(), children=row.children or None) for row in rows]
        return sessions[::-1] if backwards else sessions


class SessionRow(Frozen):
    id: str
    parent_id: str | None
    project_id: str
    agent: str | None
    model: ModelRef | None
    cost: float
    tokens_input: int
    tokens_output: int
    tokens_reasoning: int
    tokens_cache_read: int
    tokens_cache_write: int
    time_created: int
    time_updated: int
    time_archived: int | None
    time_pinned: int | None
    title: str
    directory: str
    workspace_id: str | None
    path: str | None
    revert: Revert | None
    fork: Fork | None

    def session(self) -> Session:
        return Session(
            id=self.id,
            parent_id=self.parent_id,
            project_id=self.project_id,
            agent=self.agent,
            model=_with_variant(self.model),
            cost=self.cost,
            tokens=_tokens(self),
            time=session_time(self),
            title=self.title,
            location=Location(directory=self.directory, workspace_id=self.workspace_id),
            subpath=self.path or None,
            revert=self.revert,
            fork=self.fork,
        )


class Times(Protocol):
    """A row with the times of a Session."""

    @property
    def time_created(self) -> int: ...
    @property
    def time_updated(self) -> int: ...
    @property
    def time_archived(self) -> int | None: ...
    @property
    def time_pinned(self) -> int | None: ...


def session_time(row: Times) -> SessionTime:
    return SessionTime(
        created=row.time_created, updated=row.time_updated, archived=row.time_archived, pinned=row.time_pinned
    )


class _ListRow(SessionRow):
    children: int


class BoundaryRow(SessionRow):
    steer: bool
    queue: bool
    steer_asks: bool
    instructions_seq: int | None
    head: int


class _RecordRow(Frozen):
    id: str
    slug: str
    project_id: str
    workspace_id: str | None
    directory: str
    path: str | None
    parent_id: str | None
    share_url: str | None
    summary_additions: int | None
    summary_deletions: int | None
    summary_files: int | None
    summary_diffs: str | None
    metadata: str | None
    cost: float
    tokens_input: int
    tokens_output: int
    tokens_reasoning: int
    tokens_cache_read: int
    tokens_cache_write: int
    title: str
    agent: str | None
    model: ModelRef | None
    version: str
    time_created: int
    time_updated: int
    time_compacting: int | None
    time_archived: int | None
    time_pinned: int | None
    permission: str | None
    revert: Revert | None
    fork: Fork | None

    def record(self) -> SessionRecord:
        summary = {
            "additions": self.summary_additions,
            "deletions": self.summary_deletions,
            "files": self.summary_files,
            "diffs": _json(self.summary_diffs),
        }
        return SessionRecord(
            id=self.id,
            slug=self.slug,
            project_id=self.project_id,
            workspace_id=self.workspace_id,
            directory=self.directory,
            path=self.path,
            parent_id=self.parent_id,
            share={"url": self.share_url} if self.share_url is not None else None,
            summary={key: value for key, value in summary.items() if value is not None} or None,
            metadata=_json(self.metadata),
            cost=self.cost,
            tokens=_tokens(self),
            title=self.title,
            agent=self.agent,
            model=self.model,
            version=self.version,
            time=RecordTime(
                created=self.time_created,
                updated=self.time_updated,
                compacting=self.time_compacting,
                archived=self.time_archived,
                pinned=self.time_pinned,
            ),
            permission=_json(self.permission),
            revert=self.revert,
            fork=self.fork,
        )


def entries_of(rows: Sequence[Row]) -> tuple[InstructionEntry, ...]:
    return tuple(InstructionEntry(key=str(key), value=decode_any(str(value))) for key, value in rows)


def _tokens(row: SessionRow | _RecordRow) -> Tokens:
    return Tokens(
        input=row.tokens_input,
        output=row.tokens_output,
        reasoning=row.tokens_reasoning,
        cache=CacheTokens(read=row.tokens_cache_read, write=row.tokens_cache_write),
    )


def _with_variant(model: ModelRef | None) -> ModelRef | None:
    """A model that is stored without a variant has the default one."""
    if model is None or model.variant:
        return model
    return ModelRef(id=model.id, provider_id=model.provider_id, variant=DEFAULT_VARIANT)


def _json(stored: str | None) -> Any:
    return decode_any(stored) if stored is not None else None


def _like(text: str | None) -> str:
    return (text or "").replace("\\", "\\\\").replace("%", r"\%").replace("_", r"\_")
