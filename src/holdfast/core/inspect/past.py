"""The Session as it was after one of its events: its log up to there, projected into a temporary database.

Invariants
- Nothing is written to the store, and what is read comes from the log alone, also for messages that are gone by now.
- The temporary database is read with the statements and decoders of the live one.
- Events are read and projected page by page on another thread; at most EVENTS of them, and few calls at once. The
  content of attached files is not read.
- Messages that a fork shares are those of the logs of its sources. Its segments are stored first: so a message stays
  that its source gave up later."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from holdfast.core.database.rehearsal import Rehearsal
from holdfast.core.inspect.errors import NoSuchSequence, TooManyEvents
from holdfast.core.session.stored_inputs import StoredInputs
from holdfast.core.session.stored_messages import StoredMessages
from holdfast.core.session.stored_sessions import StoredSessions
from holdfast.schema.codec import decoder
from holdfast.schema.fork_event import SessionForked
from holdfast.schema.past import PastSession
from holdfast.schema.record import Record
from holdfast.schema.todo import Todo

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from holdfast.core.event.log import EventLog
    from holdfast.core.inspect.stored_log import StoredLog
    from holdfast.schema.event import SerializedEvent
    from holdfast.schema.manifest import Manifest

EVENTS = 200_000
"""The most events that one call replays, with those of Sessions that a fork shares messages of."""
PAGE = 500
AT_ONCE = 2
"""How many calls replay at the same time; others wait. Each holds a conversation in memory."""
FORKED = "session.next.forked.1"
ATTACHED = "session.next.attachment.stored.1"
"""The content of files, which messages only name."""
CAPTURED = "session.next.snapshot.captured.1"
CAPTURES = 20
"""A tree is recorded shortly after its step, maybe after a fork was made. So many are looked at."""


class Past:
    def __init__(self, log: EventLog, manifest: Manifest, stored: StoredLog) -> None:
        self._log = log
        self._stored = stored
        self._types = [type for type in manifest.stored if type != ATTACHED]
        self._places = asyncio.Semaphore(AT_ONCE)

    async def of(self, session_id: str, seq: int, limit: int) -> PastSession:
        """With the newest `limit` messages."""
        entry = await self._stored.entry(session_id, seq)
        async with self._places:
            with Rehearsal() as scratch:
                await self._replay(scratch, session_id, seq)
                return await _read(scratch, session_id, seq, entry.time, limit)

    async def _replay(self, scratch: Rehearsal, session_id: str, seq: int) -> None:
        left = EVENTS
        async for page in self._pages(session_id, seq):
            left = _count(page, left, seq)
            if (fork := next((event for event in page if event.type == FORKED), None)) is not None:
                await self._project(scratch, page[: page.index(fork) + 1])
                left = await self._replay_sources(scratch, fork, left)
                page = page[page.index(fork) + 1 :]
            await self._project(scratch, page)

    async def _replay_sources(self, scratch: Rehearsal, fork: SerializedEvent, left: int) -> int:
        """The Sessions whose messages a fork shares, as far as it shares them. Returns how many events may follow."""
        forked: SessionForked = decoder(SessionForked).decode(fork.data)
        shared: dict[str, int] = {}
        for segment in forked.segments:
            shared[segment.source_id] = max(segment.through_seq, shared.get(segment.source_id, -1))
        for source_id, through in shared.items():
            async for page in self._pages(source_id, through):
                left = _count(page, left, through)
                await self._project(scratch, page)
            captured = await self._log.serialized(source_id, after=through, limit=CAPTURES, types=(CAPTURED,))
            await self._project(scratch, captured)
        return left

    async def _pages(self, session_id: str, through: int) -> AsyncIterator[list[SerializedEvent]]:
        after = -1
        while after < through:
            page = await self._log.serialized(session_id, after=after, limit=PAGE, types=self._types)
            if not page:
                return
            after = page[-1].seq
            yield [event for event in page if event.seq <= through]

    async def _project(self, scratch: Rehearsal, events: Sequence[SerializedEvent]) -> None:
        await scratch.project(map(self._log.projected, events))


async def _read(scratch: Rehearsal, session_id: str, seq: int, time: int, limit: int) -> PastSession:
    session = await StoredSessions(scratch).find(session_id)
    if session is None:
        raise NoSuchSequence(session_id, seq)
    key = {"session_id": session_id}
    newest = await StoredMessages(scratch).messages(session_id, order="desc", limit=limit + 1)
    requests = await scratch.fetch("request.open_of_session", key)
    return PastSession(
        seq=seq,
        time=time,
        session=session,
        messages=tuple(message.decode() for message in reversed(newest[:limit])),
        more=len(newest) > limit,
        pending=tuple(await StoredInputs(scratch).all_pending(session_id)),
        todos=tuple(await scratch.fetch("todo.list", key, into=Todo)),
        requests=tuple(_id(str(data)) for _, data in requests),
    )


class _Request(Record):
    id: str


def _id(data: str) -> str:
    request: _Request = decoder(_Request).decode(data)
    return request.id


def _count(page: Sequence[SerializedEvent], left: int, through: int) -> int:
    if len(page) > left:
        raise TooManyEvents(through + 1, EVENTS)
    return left - len(page)
