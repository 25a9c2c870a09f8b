"""The read side of Sessions: one per process. Messages leave as stored JSON; nothing is decoded on the way out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import msgspec

from holdfast.core.filesystem.content import Content
from holdfast.core.session.activity import Activity, OpenTurn
from holdfast.core.session.errors import MessageNotFound, MessageUndecodable, SessionNotFound
from holdfast.schema.codec import decode_any, decode_message, decoder, encode
from holdfast.schema.frozen import Frozen
from holdfast.schema.location import Location
from holdfast.schema.model import DEFAULT_VARIANT, ModelRef
from holdfast.schema.prompt import Admission, Prompt
from holdfast.schema.session import CacheTokens, RecordTime, Revert, Session, SessionRecord, SessionTime, Tokens
from holdfast.schema.session_event import TurnDispatched

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.database.database import Database
    from holdfast.core.database.unit import Row
    from holdfast.core.filesystem.content import Kind
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
    archived: bool | None = None


class SessionAnchor(msgspec.Struct, frozen=True):
    id: str
    time: Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)]
    direction: Direction


class StoredMessage(Frozen):
    """`wire` is the whole message as JSON."""

    seq: int
    id: str
    wire: bytes
    session_id: str

    def decode(self) -> SessionMessage:
        try:
            return decode_message(self.wire)
        except msgspec.DecodeError as error:
            raise MessageUndecodable(self.session_id, self.id) from error


class OpenCall(Frozen):
    """A tool call that has no settlement."""

    message_id: str
    call_id: str
    data: bytes

    @property
    def key(self) -> tuple[str, str]:
        """Providers may repeat a call id in another message."""
        return self.message_id, self.call_id


class Glance(Frozen):
    """A Session, whether a steer or a queued input waits, and the last sequence of its log, in one read."""

    session: Session
    steer: bool
    queue: bool
    head: int


class Dispatch(Frozen):
    """The newest dispatch of a Session, and whether a revert came after it."""

    event: TurnDispatched
    reverted: bool


class ResumableCall(Frozen):
    call: OpenCall
    answered: bool


class Blocked(Frozen):
    since: int
    name: str
    message: str


class SessionStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, session_id: str) -> Session | None:
        rows = await self._database.fetch("session.get", {"id": session_id})
        return _session(rows[0]) if rows else None

    async def record(self, session_id: str) -> SessionRecord | None:
        """Everything the row is made of, as the events that replace it carry it."""
        rows = await self._database.fetch("session.record", {"id": session_id})
        return _record(rows[0]) if rows else None

    async def get(self, session_id: str) -> Session:
        session = await self.find(session_id)
        if session is None:
            raise SessionNotFound(session_id)
        return session

    async def glance(self, session_id: str) -> Glance:
        """What a boundary needs to know."""
        rows = await self._database.fetch("session.glance", {"id": session_id})
        if not rows:
            raise SessionNotFound(session_id)
        *row, steer, queue, head = _untyped(rows[0])
        return Glance(_session(tuple(row)), bool(steer), bool(queue), head)

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
                "archived": chosen.archived,
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
        messages = [_message(row, session_id) for row in rows]
        return messages[::-1] if backwards else messages

    async def message(self, session_id: str, message_id: str) -> StoredMessage:
        rows = await self._database.fetch("message.get", {"session_id": session_id, "message_id": message_id})
        if not rows:
            raise MessageNotFound(session_id, message_id)
        return _message(rows[0], session_id)

    async def active_history(self, session_id: str) -> list[StoredMessage]:
        """The messages currently selected as model history, in the order of the request: what is newer than the newest
        checkpoint follows it, after the input that was open when the checkpoint was made."""
        rows = await self._database.fetch_large("message.active", {"session_id": session_id})
        history = [_message(row, session_id) for row in rows]
        place = next((index for index, row in enumerate(rows) if row[2] == "compaction"), None)
        if place is not None:
            history[place + 1 : place + 1] = await self.open_input(session_id, before=history[place].seq)
        return history

    async def open_input(self, session_id: str, *, before: int = AFTER_ALL) -> list[StoredMessage]:
        """The newest input of the user as it stood before a position, unless it has a complete answer there."""
        rows = await self._database.fetch_large("message.open_input", {"session_id": session_id, "before": before})
        return [_message(row, session_id) for row in rows]

    async def history_after(self, session_id: str, seq: int, held: str | None = None) -> list[StoredMessage]:
        """Messages newer than one that is already known as model history. Of `held` only its place is told."""
        rows = await self._database.fetch("message.after", {"session_id": session_id, "after": seq, "held": held})
        return [_message(row, session_id) for row in rows]

    async def attachments(self, session_id: str) -> dict[tuple[str, int], Content]:
        """What was behind the files of prompts, by message and position."""
        rows = await self._database.fetch_large("attachment.list", {"session_id": session_id})
        return {
            (str(row[0]), int(str(row[1]))): Content(cast("Kind", row[3]), str(row[2]), str(row[4])) for row in rows
        }

    async def checkpoint_seq(self, session_id: str) -> int:
        """Of the newest checkpoint; -1 without any."""
        rows = await self._database.fetch("message.checkpoint", {"session_id": session_id})
        return int(str(rows[0][0])) if rows and rows[0][0] is not None else -1

    async def newest_checkpoint(self, session_id: str) -> StoredMessage | None:
        seq = await self.checkpoint_seq(session_id)
        if seq < 0:
            return None
        rows = await self.messages(session_id, order="desc", limit=1, anchor=seq + 1)
        return rows[0] if rows else None

    async def open_turn(self, session_id: str) -> OpenTurn | None:
        """The dispatched turn that has no end."""
        rows = await self._database.fetch("turn.of", {"session_id": session_id})
        return _open_turn(*_untyped(rows[0])) if rows else None

    async def activity(self, session_id: str) -> Activity | None:
        """What this Session owes, whoever works on it."""
        rows = await self._database.fetch("activity.of", {"session_id": session_id})
        return _activity(rows[0]) if rows else None

    async def activities(self, limit: int = 1000) -> list[Activity]:
        """What all Sessions owe, whoever works on it."""
        return [_activity(row) for row in await self._database.fetch("activity.all", {"limit": limit})]

    async def blocked(self, session_id: str) -> Blocked | None:
        """Why pending input cannot start, as far as somebody tried."""
        rows = await self._database.fetch("blocked.of", {"session_id": session_id})
        return Blocked(*_untyped(rows[0])) if rows else None

    async def answered_calls(self, session_id: str) -> bool:
        """Whether a call waits whose last request was answered, and nobody has taken the answer."""
        return any(found.answered for found in await self.resumable_calls(session_id))

    async def resumable_calls(self, session_id: str) -> list[ResumableCall]:
        """Calls without settlement that wait for a person and have started nothing."""
        found = []
        for call in await self.open_calls(session_id):
            key = {"session_id": session_id, "message_id": call.message_id, "call_id": call.call_id}
            rows = await self._database.fetch("request.of_call", key)
            if rows:
                *_, reply, resumable, taken = rows[-1]
                if resumable and not taken:
                    found.append(ResumableCall(call, answered=reply is not None))
        return found

    async def last_dispatch(self, session_id: str) -> Dispatch | None:
        rows = await self._database.fetch("turn.last_dispatch", {"session_id": session_id})
        if not rows:
            return None
        data, reverted = rows[0]
        return Dispatch(decoder(TurnDispatched).decode(str(data)), bool(reverted))

    async def dangling_compaction(self, session_id: str) -> str | None:
        """The attempt that was started and never ended."""
        rows = await self._database.fetch("turn.dangling_compaction", {"session_id": session_id})
        return str(rows[0][0]) if rows else None

    async def open_calls(self, session_id: str) -> list[OpenCall]:
        rows = await self._database.fetch("message.unsettled_tools", {"session_id": session_id})
        return [OpenCall(str(message), str(call), str(data).encode()) for message, call, data in rows]

    async def admission(self, message_id: str) -> Admission | None:
        rows = await self._database.fetch("inbox.get", {"id": message_id})
        return admission(rows[0]) if rows else None

    async def is_withdrawn(self, message_id: str) -> bool:
        return bool(await self._database.fetch("inbox.is_withdrawn", {"id": message_id}))

    async def pending(self, session_id: str, delivery: str, *, cutoff: int, limit: int) -> list[Admission]:
        rows = await self._database.fetch(
            "inbox.next", {"session_id": session_id, "delivery": delivery, "cutoff": cutoff, "limit": limit}
        )
        return [admission(row) for row in rows]

    async def all_pending(self, session_id: str) -> list[Admission]:
        """Everything that was admitted and neither promoted nor withdrawn, oldest first."""
        return [admission(row) for row in await self._database.fetch("inbox.pending", {"session_id": session_id})]

    async def wakes(self, session_id: str) -> frozenset[str]:
        """Pending inputs that were admitted to be started, by whichever process."""
        rows = await self._database.fetch("inbox.wakes", {"session_id": session_id})
        return frozenset(str(row[0]) for row in rows)

    async def passed_over(self, input_ids: Iterable[str]) -> bool:
        """Whether drains went on without these inputs, which then wait for somebody's decision."""
        return all([await self._database.fetch("inbox.passed_over", {"id": id}) for id in input_ids])

    async def lost_wakes(self, limit: int) -> list[str]:
        """Sessions whose pending input was to be woken."""
        return [str(row[0]) for row in await self._database.fetch("inbox.lost_wakes", {"limit": limit})]

    async def waiting(self, session_id: str) -> frozenset[str]:
        """Of which deliveries something waits."""
        rows = await self._database.fetch("inbox.waiting", {"session_id": session_id})
        return frozenset(str(row[0]) for row in rows)


def _open_turn(agent: str, model: str, attempt: int, message_id: str | None, dispatched: int) -> OpenTurn:
    return OpenTurn(agent, decoder(ModelRef).decode(model), attempt, message_id, dispatched)


def _activity(row: Row) -> Activity:
    session_id, seq, since, suspended, compacting, newest, *turn, asks, attempts = _untyped(row)
    return Activity(
        session_id=session_id,
        seq=seq,
        since=since,
        suspended=bool(suspended),
        compacting=compacting is not None,
        between=newest == "assistant",
        turn=None if turn[0] is None else _open_turn(*turn),
        asks=bool(asks),
        attempts=attempts,
    )


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


def _message(row: Row, session_id: str) -> StoredMessage:
    seq, id, kind, data, parts = row
    assert isinstance(seq, int)
    assert isinstance(data, bytes)
    wire = b'{"id":%s,"type":"%s",%s' % (encode(str(id)), str(kind).encode(), data[1:])
    if kind == "assistant":
        assert parts is None or isinstance(parts, bytes)
        wire = b'%s,"content":[%s]}' % (wire[:-1], parts or b"")
    return StoredMessage(seq, str(id), wire, session_id)


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


def _record(row: Row) -> SessionRecord:
    (
        id,
        slug,
        project_id,
        workspace_id,
        directory,
        path,
        parent_id,
        share_url,
        additions,
        deletions,
        files,
        diffs,
        metadata,
        cost,
        tokens_input,
        tokens_output,
        tokens_reasoning,
        tokens_cache_read,
        tokens_cache_write,
        title,
        agent,
        model,
        version,
        created,
        updated,
        compacting,
        archived,
        permission,
        revert,
    ) = _untyped(row)
    summary = {"additions": additions, "deletions": deletions, "files": files, "diffs": _json(diffs)}
    return SessionRecord(
        id=id,
        slug=slug,
        project_id=project_id,
        workspace_id=workspace_id,
        directory=directory,
        path=path,
        parent_id=parent_id,
        share={"url": share_url} if share_url is not None else None,
        summary={key: value for key, value in summary.items() if value is not None} or None,
        metadata=_json(metadata),
        cost=cost,
        tokens=Tokens(
            input=tokens_input,
            output=tokens_output,
            reasoning=tokens_reasoning,
            cache=CacheTokens(read=tokens_cache_read, write=tokens_cache_write),
        ),
        title=title,
        agent=agent,
        model=decoder(ModelRef).decode(model) if model else None,
        version=version,
        time=RecordTime(created=created, updated=updated, compacting=compacting, archived=archived),
        permission=_json(permission),
        revert=decoder(Revert).decode(revert) if revert else None,
    )


def _json(stored: str | None) -> Any:
    return decode_any(stored) if stored is not None else None


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
