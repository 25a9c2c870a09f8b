"""The conversation of a Session as entries: reads messages with what surrounds them, and renders them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from holdfast.core.session.errors import MessageNotFound, MessageUndecodable, SessionNotFound
from holdfast.core.session.stored_conversation import StoredConversation
from holdfast.core.session.stored_messages import AFTER_ALL, BEFORE_ALL
from holdfast.schema.session_message import AssistantMessage, ToolPart, ToolPending, ToolRunning, UserMessage
from holdfast.server.render.entries import Surroundings, entry_of
from holdfast.server.render.marks import mark_entries

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.event.stored_event import EventRow
    from holdfast.core.runtime.runtime import Runtime
    from holdfast.core.session.stored_messages import StoredMessage
    from holdfast.schema.past import PastSession
    from holdfast.schema.rendered import Entry, TextFormat
    from holdfast.schema.session import Session
    from holdfast.schema.session_message import SessionMessage

SMALL = 8_000
"""Bytes of messages that are rendered on the loop; more are rendered in a thread."""

Placed = tuple["SessionMessage", int]
"""A message and its sequence."""


class Conversation:
    def __init__(self, runtime: Runtime, form: TextFormat = "html") -> None:
        self._runtime = runtime
        self._form: TextFormat = form
        self._stored = StoredConversation(runtime.database)

    async def entries(self, session: Session, messages: Sequence[StoredMessage]) -> list[Entry]:
        """Entries of messages, in their order. One that cannot be decoded is left out."""
        placed = [(message, stored.seq) for stored in messages if (message := _decoded(stored)) is not None]
        own = {stored.id for stored in messages if stored.owner_id == session.id}
        around = await self._around(session, placed, own)
        size = sum(len(stored.wire) for stored in messages)
        return await _rendered(placed, around, size)

    async def page(
        self, session: Session, messages: Sequence[StoredMessage], *, after: int, before: int
    ) -> list[Entry]:
        """Entries of messages and the marks between two sequences, oldest first."""
        entries = await self.entries(session, sorted(messages, key=lambda message: message.seq))
        rows = await self._stored.marks(session.id, after=after, before=before)
        return merged(entries, mark_entries(rows, ended=before != AFTER_ALL, form=self._form))

    async def changed(self, session: Session, ids: Iterable[str], rows: Sequence[EventRow]) -> list[Entry]:
        """Entries of these messages, as far as the Session shows them, and of new events that are marks."""
        found = []
        for message_id in ids:
            try:
                found.append(await self._runtime.sessions.message(session.id, message_id))
            except (MessageNotFound, SessionNotFound):
                continue
        entries = await self.entries(session, found)
        return merged(entries, mark_entries(rows, ended=False, form=self._form))

    async def past(self, session: Session, past: PastSession) -> list[Entry]:
        """The entries of a conversation as it was, oldest first."""
        places = await self._stored.places([message.id for message in past.messages])
        seq, placed = BEFORE_ALL, []
        for message in past.messages:
            seq = places.get(message.id, seq)  # of one that is gone: where the one before it was
            placed.append((message, seq))
        return await _rendered(placed, Surroundings(directory=session.location.directory, form=self._form), SMALL + 1)

    async def _around(self, session: Session, placed: Sequence[Placed], own: set[str]) -> Surroundings:
        answers = {message.id: seq for message, seq in placed if isinstance(message, AssistantMessage)}
        waits = any(map(_may_wait, (message for message, _ in placed)))
        return Surroundings(
            directory=session.location.directory,
            form=self._form,
            inputs=await self._stored.inputs([message.id for message, _ in placed if isinstance(message, UserMessage)]),
            turns=await self._numbers(session.id, {id: seq for id, seq in answers.items() if id in own}),
            requests=await self._stored.requests(session.id) if waits else {},
        )

    async def _numbers(self, session_id: str, answers: dict[str, int]) -> dict[str, int]:
        """The numbers of the turns of these answers."""
        numbers = await self._runtime.inspection.turns_at(session_id, answers.values())
        return {id: numbers[seq] for id, seq in answers.items() if seq in numbers}


def merged(entries: Sequence[Entry], marks: Iterable[Entry]) -> list[Entry]:
    """In the order of sequences. An entry that a message made replaces a mark with the same id."""
    known = {entry.id for entry in entries}
    return sorted([*entries, *(mark for mark in marks if mark.id not in known)], key=lambda entry: entry.seq)


async def _rendered(placed: Sequence[Placed], around: Surroundings, size: int) -> list[Entry]:
    def render() -> list[Entry]:
        return [entry_of(message, seq, around) for message, seq in placed]

    return render() if size <= SMALL else await asyncio.to_thread(render)


def _decoded(stored: StoredMessage) -> SessionMessage | None:
    try:
        return stored.decode()
    except MessageUndecodable:
        return None


def _may_wait(message: SessionMessage) -> bool:
    if not isinstance(message, AssistantMessage):
        return False
    return any(
        isinstance(part, ToolPart) and isinstance(part.state, ToolPending | ToolRunning) for part in message.content
    )
