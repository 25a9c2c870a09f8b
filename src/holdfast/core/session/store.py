"""The read side of Sessions: one per process. Messages leave as stored JSON; nothing is decoded on the way out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import msgspec

from holdfast.core.session.errors import MessageNotFound, SessionNotFound
from holdfast.schema.codec import decode_message, decoder, encode
from holdfast.schema.location import Location
from holdfast.schema.model import DEFAULT_VARIANT, ModelRef
from holdfast.schema.prompt import Admission, Prompt
from holdfast.schema.session import CacheTokens, Revert, Session, SessionTime, Tokens

if TYPE_CHECKING:
    from holdfast.core.database.database import Database
    from holdfast.core.database.unit import Row
    from holdfast.schema.session_message import SessionMessage

Order = Literal["asc", "desc"]
Direction = Literal["previous", "next"]

BEFORE_ALL = -1
AFTER_ALL = 2**62


class SessionFilter(msgspec.Struct, frozen=True, omit_defaults=True):
    workspace: str | None = None
    search: str | None = None
    directory: str | None = None
    project: str | None = None
    subpath: str | None = None


class SessionAnchor(msgspec.Struct, frozen=True):
    id: str
    time: Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]
    direction: Direction


class StoredMessage(NamedTuple):
    """`wire` is the whole message as JSON."""

    seq: int
    id: str
    wire: bytes

    def decode(self) -> SessionMessage:
        return decode_message(self.wire)


class OpenCall(NamedTuple):
    """A tool call that has no settlement."""

    message_id: str
    call_id: str
    data: bytes


class SessionStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, session_id: str) -> Session | None:
        rows = await self._database.fetch("session.get", {"id": session_id})
        return _session(rows[0]) if rows else None

    async def get(self, session_id: str) -> Session:
        session = await self.find(session_id)
        if session is None:
            raise SessionNotFound(session_id)
        return session

    async def page(
        self, chosen: SessionFilter, *, order: Order, limit: int, anchor: SessionAnchor | None = None
    ) -> list[Session]:
        """Sorted by creation time, then id. `previous` reads against the order and turns the rows back."""
        backwards = anchor is not None and anchor.direction == "previous"
        ascending = (order == "asc") != backwards
        subpath = chosen.subpath.strip("/") if chosen.subpath else None
        rows = await self._database.fetch(
            "session.list_asc" if ascending else "session.list_desc",
            {
                "directory": chosen.directory,
                "project": chosen.project,
                "workspace": chosen.workspace,
                "search": f"%{_like(chosen.search)}%" if chosen.search else None,
                "subpath": subpath,
                "subpath_below": f"{_like(subpath)}/%" if subpath else None,
                "anchor_time": anchor.time if anchor else None,
                "anchor_id": anchor.id if anchor else None,
                "limit": limit,
            },
        )
        sessions = [_session(row) for row in rows]
        return sessions[::-1] if backwards else sessions

    async def messages(
        self, session_id: str, *, order: Order, limit: int, anchor: int | None = None, direction: Direction = "next"
    ) -> list[StoredMessage]:
        """Ordered by the sequence of the event that made each message, never by id or time."""
        backwards = direction == "previous"
        ascending = (order == "asc") != backwards
        if anchor is None:
            anchor = BEFORE_ALL if ascending else AFTER_ALL
        rows = await self._database.fetch(
            "message.page_asc" if ascending else "message.page_desc",
            {"session_id": session_id, "anchor": anchor, "limit": limit},
        )
        messages = [_message(row) for row in rows]
        return messages[::-1] if backwards else messages

    async def message(self, session_id: str, message_id: str) -> StoredMessage:
        rows = await self._database.fetch("message.get", {"session_id": session_id, "message_id": message_id})
        if not rows:
            raise MessageNotFound(session_id, message_id)
        return _message(rows[0])

    async def active_history(self, session_id: str) -> list[StoredMessage]:
        """The messages currently selected as model history, oldest first."""
        rows = await self._database.fetch_large("message.active", {"session_id": session_id})
        return [_message(row) for row in rows]

    async def open_calls(self, session_id: str) -> list[OpenCall]:
        rows = await self._database.fetch("message.unsettled_tools", {"session_id": session_id})
        return [OpenCall(str(message), str(call), str(data).encode()) for message, call, data in rows]

    async def admission(self, message_id: str) -> Admission | None:
        rows = await self._database.fetch("inbox.get", {"id": message_id})
        return admission(rows[0]) if rows else None

    async def pending(self, session_id: str, delivery: str, *, cutoff: int, limit: int) -> list[Admission]:
        rows = await self._database.fetch(
            "inbox.next", {"session_id": session_id, "delivery": delivery, "cutoff": cutoff, "limit": limit}
        )
        return [admission(row) for row in rows]

    async def waiting(self, session_id: str) -> frozenset[str]:
        """Of which deliveries something waits."""
        rows = await self._database.fetch("inbox.waiting", {"session_id": session_id})
        return frozenset(str(row[0]) for row in rows)


def admission(row: Row) -> Admission:
    session_id, id, prompt, delivery, admitted, promoted, created = row
    assert isinstance(admitted, int)
    assert isinstance(created, int)
    assert promoted is None or isinstance(promoted, int)
    return Admission(
        admitted_seq=admitted,
        id=str(id),
        session_id=str(session_id),
        prompt=decoder(Prompt).decode(str(prompt)),
        delivery="queue" if delivery == "queue" else "steer",
        time_created=created,
        promoted_seq=promoted,
    )


def _message(row: Row) -> StoredMessage:
    seq, id, kind, data, parts = row
    assert isinstance(seq, int)
    assert isinstance(data, bytes)
    wire = b'{"id":%s,"type":"%s",%s' % (encode(str(id)), str(kind).encode(), data[1:])
    if kind == "assistant":
        assert parts is None or isinstance(parts, bytes)
        wire = b'%s,"content":[%s]}' % (wire[:-1], parts or b"")
    return StoredMessage(seq, str(id), wire)


def _session(row: Row) -> Session:
    (
        id,
        parent_id,
        project_id,
        agent,
        model,
        cost,
        tokens_input,
        tokens_output,
        tokens_reasoning,
        tokens_cache_read,
        tokens_cache_write,
        time_created,
        time_updated,
        time_archived,
        title,
        directory,
        workspace_id,
        path,
        revert,
    ) = _untyped(row)
    return Session(
        id=id,
        parent_id=parent_id,
        project_id=project_id,
        agent=agent,
        model=_model(model),
        cost=cost,
        tokens=Tokens(
            input=tokens_input,
            output=tokens_output,
            reasoning=tokens_reasoning,
            cache=CacheTokens(read=tokens_cache_read, write=tokens_cache_write),
        ),
        time=SessionTime(created=time_created, updated=time_updated, archived=time_archived),
        title=title,
        location=Location(directory=directory, workspace_id=workspace_id),
        subpath=path or None,
        revert=decoder(Revert).decode(revert) if revert else None,
    )


def _untyped(row: Row) -> tuple[Any, ...]:
    return row


def _model(stored: str | None) -> ModelRef | None:
    """A model stored without a variant reads back with the default one."""
    if stored is None:
        return None
    model: ModelRef = decoder(ModelRef).decode(stored)
    return model if model.variant else ModelRef(id=model.id, provider_id=model.provider_id, variant=DEFAULT_VARIANT)


def _like(text: str | None) -> str:
    return (text or "").replace("\\", "\\\\").replace("%", r"\%").replace("_", r"\_")
