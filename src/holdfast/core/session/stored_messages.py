"""Reads of messages. A message leaves as its stored JSON; it is not decoded here."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.filesystem.content import Content, Kind
from holdfast.core.session.errors import MessageNotFound, MessageUndecodable
from holdfast.schema.codec import decode_message, encode
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from holdfast.core.database.database import Reads
    from holdfast.core.database.unit import Value
    from holdfast.core.session.stored_sessions import Direction, Order
    from holdfast.schema.session_message import SessionMessage

BEFORE_ALL = -1
AFTER_ALL = 2**62


class StoredMessage(Frozen):
    """`wire` is the whole message as JSON."""

    seq: int
    id: str
    wire: bytes
    session_id: str
    owner_id: str
    """The Session that it was made in; a fork shares messages of others."""

    def decode(self) -> SessionMessage:
        try:
            return decode_message(self.wire)
        except msgspec.DecodeError as error:
            raise MessageUndecodable(self.session_id, self.id) from error


class MessagePlace(Frozen):
    seq: int
    owner_id: str

    def shared_seq(self, session_id: str) -> int | None:
        """The sequence, unless the message is the Session's own. Events of a Session name its own messages by id; those
        of others may be gone when its projections are rebuilt."""
        return self.seq if self.owner_id != session_id else None


class OpenCall(Frozen):
    """A tool call that has no settlement."""

    message_id: str
    call_id: str
    data: bytes

    @property
    def key(self) -> tuple[str, str]:
        """Providers may repeat a call id in another message."""
        return self.message_id, self.call_id


class OpenShell(Frozen):
    """A shell message whose command has not ended."""

    call_id: str
    command: str
    since: int


class StoredMessages:
    def __init__(self, database: Reads) -> None:
        self._database = database

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
            into=_MessageRow,
        )
        messages = [row.message(session_id) for row in rows]
        return messages[::-1] if backwards else messages

    async def message(self, session_id: str, message_id: str) -> StoredMessage:
        key = {"session_id": session_id, "message_id": message_id}
        rows = await self._database.fetch("message.get", key, into=_MessageRow)
        if not rows:
            raise MessageNotFound(session_id, message_id)
        return rows[0].message(session_id)

    async def place(self, session_id: str, message_id: str) -> MessagePlace | None:
        """Where a message stands, if the Session shows it."""
        key = {"session_id": session_id, "message_id": message_id}
        rows = await self._database.fetch("message.place", key, into=MessagePlace)
        return rows[0] if rows else None

    async def active_history(self, session_id: str, checkpoint_seq: int = -1) -> list[StoredMessage]:
        """The model's history in the order of the request: the newest checkpoint, the input that was open when it was
        made, then everything newer. `checkpoint_seq` is where that checkpoint is thought to be: what belongs to it is
        then read at the same time."""
        if checkpoint_seq < 0:
            rows, opened = await self._active(session_id), None
        else:
            rows, opened = await asyncio.gather(
                self._active(session_id), self.open_input(session_id, before=checkpoint_seq)
            )
        history = [row.message(session_id) for row in rows]
        place = next((index for index, row in enumerate(rows) if row.type == "compaction"), None)
        if place is not None:
            if opened is None or history[place].seq != checkpoint_seq:
                opened = await self.open_input(session_id, before=history[place].seq)
            history[place + 1 : place + 1] = opened
        return history

    async def _active(self, session_id: str) -> list[_MessageRow]:
        return await self._database.fetch_large("message.active", {"session_id": session_id}, into=_MessageRow)

    async def open_input(self, session_id: str, *, before: int = AFTER_ALL) -> list[StoredMessage]:
        """The newest input of the user before a position, unless it has a complete answer there."""
        key: dict[str, Value] = {"session_id": session_id, "before": before}
        rows = await self._database.fetch_large("message.open_input", key, into=_MessageRow)
        return [row.message(session_id) for row in rows]

    async def history_after(self, session_id: str, seq: int, held: str | None = None) -> list[StoredMessage]:
        """Messages newer than a sequence. The message `held` comes without its content."""
        key: dict[str, Value] = {"session_id": session_id, "after": seq, "held": held}
        rows = await self._database.fetch("message.after", key, into=_MessageRow)
        return [row.message(session_id) for row in rows]

    async def attachments(self, session_id: str) -> dict[tuple[str, int], Content]:
        """The stored content of attached files, by message and position."""
        rows = await self._database.fetch_large("attachment.list", {"session_id": session_id}, into=_AttachmentRow)
        return {(row.message_id, row.idx): Content(row.kind, row.mime, row.content) for row in rows}

    async def checkpoint_seq(self, session_id: str) -> int:
        """The sequence of the newest checkpoint; -1 without any."""
        rows = await self._database.fetch("message.checkpoint", {"session_id": session_id}, into=SeqRow)
        return rows[0].seq if rows else -1

    async def newest_checkpoint(self, session_id: str) -> StoredMessage | None:
        seq = await self.checkpoint_seq(session_id)
        if seq < 0:
            return None
        rows = await self.messages(session_id, order="desc", limit=1, anchor=seq + 1)
        return rows[0] if rows else None

    async def open_calls(self, session_id: str) -> list[OpenCall]:
        """Tool calls that have no settlement, oldest first."""
        return await self._database.fetch("message.unsettled_tools", {"session_id": session_id}, into=OpenCall)

    async def open_shell(self, session_id: str) -> OpenShell | None:
        rows = await self._database.fetch("message.open_shell", {"session_id": session_id}, into=OpenShell)
        return rows[0] if rows else None


class _MessageRow(Frozen):
    seq: int
    id: str
    type: str
    owner_id: str
    data: bytes
    parts: bytes | None

    def message(self, session_id: str) -> StoredMessage:
        wire = b'{"id":%s,"type":"%s",%s' % (encode(self.id), self.type.encode(), self.data[1:])
        if self.type == "assistant":
            wire = b'%s,"content":[%s]}' % (wire[:-1], self.parts or b"")
        return StoredMessage(self.seq, self.id, wire, session_id, self.owner_id)


class _AttachmentRow(Frozen):
    message_id: str
    idx: int
    mime: str
    kind: Kind
    content: str


class SeqRow(Frozen):
    seq: int
