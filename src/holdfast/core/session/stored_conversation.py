"""Reads of what surrounds the messages of a Session: numbers of turns, how inputs came, marks, open requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.event.stored_event import EventRow
from holdfast.schema.codec import encode_text
from holdfast.schema.frozen import Frozen
from holdfast.schema.prompt import Delivery  # noqa: TC001 - msgspec reads the annotations of rows

if TYPE_CHECKING:
    from collections.abc import Collection

    from holdfast.core.database.database import Database
    from holdfast.core.database.unit import Value

MARKS = 500
"""Marks between two messages, or of one page."""


class InputRow(Frozen):
    id: str
    delivery: Delivery
    admitted: int


class _Request(Frozen):
    id: str
    message_id: str | None
    call_id: str | None


class _Place(Frozen):
    id: str
    seq: int


class StoredConversation:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def inputs(self, ids: Collection[str]) -> dict[str, InputRow]:
        if not ids:
            return {}
        rows = await self._database.fetch("conversation.inputs", {"ids": encode_text([*ids])}, into=InputRow)
        return {row.id: row for row in rows}

    async def places(self, ids: Collection[str]) -> dict[str, int]:
        """The sequences of messages that still exist."""
        rows = await self._database.fetch("conversation.places", {"ids": encode_text([*ids])}, into=_Place)
        return {row.id: row.seq for row in rows}

    async def marks(self, session_id: str, *, after: int, before: int) -> list[EventRow]:
        """Events between two sequences that a page shows among the messages, oldest first."""
        key: dict[str, Value] = {"session_id": session_id, "after": after, "before": before, "limit": MARKS}
        return (await self._database.fetch("conversation.marks", key, into=EventRow))[::-1]

    async def requests(self, session_id: str) -> dict[tuple[str, str], str]:
        """The open requests of tool calls, by message and call."""
        rows = await self._database.fetch("conversation.requests", {"session_id": session_id}, into=_Request)
        return {(row.message_id, row.call_id): row.id for row in rows if row.message_id and row.call_id}

    async def shell(self, session_id: str, call_id: str) -> str | None:
        """The shell message of a command."""
        key: dict[str, Value] = {"session_id": session_id, "call_id": call_id}
        rows = await self._database.fetch("conversation.shell", key)
        return str(rows[0][0]) if rows else None

    async def events(self, session_id: str, *, after: int, limit: int) -> list[EventRow]:
        """Durable events after a sequence, private ones included."""
        key: dict[str, Value] = {"aggregate_id": session_id, "after": after, "limit": limit}
        return await self._database.fetch("event.page", key, into=EventRow)
