"""The followed Session of a page: its entries as its log grows, and the text that is being written.

Invariants
- Entries reach a sequence: everything up to it was sent, nothing after it is needed to understand them.
- The entry of a message is sent before live text of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from holdfast.core.session.stored_conversation import StoredConversation
from holdfast.schema.view import Caught, Entries, Gone, Reset
from holdfast.server.conversation import Conversation
from holdfast.server.web.changes import Changes
from holdfast.server.web.frames import framed
from holdfast.server.web.live_text import LiveText

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from holdfast.core.event.bus import Announcement, Subscription
    from holdfast.core.runtime.runtime import Runtime
    from holdfast.schema.rendered import TextFormat

PAGE = 200
FAR_BEHIND = 2_000
"""Events that are caught up with. Who is further behind loads the conversation again."""
HOLDING_SECONDS = 0.01
HOLDING_LOOKS = 300


class Followed:
    def __init__(self, runtime: Runtime, session_id: str, form: TextFormat = "html") -> None:
        self._runtime = runtime
        self.session_id = session_id
        self._stored = StoredConversation(runtime.database)
        self._conversation = Conversation(runtime, form)
        self._live = LiveText(form)
        self._seq = -1
        self._head = -1
        self._asking: dict[str, str] = {}
        """The messages of open requests."""
        self._placed: set[str] = set()
        """Messages with live text whose entries the page has."""
        self.holding = False
        """Whether live text waits for the entry of its message."""
        self.gone = False

    async def head(self) -> int:
        """The last sequence. Blocks that start after it are seen from their beginning."""
        self._head = await self._runtime.log.latest(self.session_id)
        return self._head

    async def catch_up(self, after: int | None) -> AsyncIterator[bytes]:
        """What changed since a sequence. Without one nothing did."""
        if await self._runtime.store.find(self.session_id) is None:
            self.gone = True
            yield framed(Gone())
            return
        self._seq = self._head if after is None else min(after, self._head)
        self._asking = {id: message for (message, _), id in (await self._stored.requests(self.session_id)).items()}
        if self._head - self._seq > FAR_BEHIND:
            self._seq = self._head
            yield framed(Reset())
        while True:
            frames, more = await self._next()
            if frames:
                yield frames
            if not more:
                break
        if not self.gone:
            yield framed(Caught(seq=self._seq))

    async def join(self, subscription: Subscription) -> list[Announcement]:
        """Begin with live text. Returns announcements that are not part of what was taken over.

        What this process has announced is read in the same moment in which the buffer is emptied. Deltas that it has
        announced and that the relay still holds would come twice, so this waits for them."""
        for _ in range(HOLDING_LOOKS):
            if not self._runtime.log.relay.is_holding(self.session_id):
                break
            await asyncio.sleep(HOLDING_SECONDS)
        return self._live.restore(self._runtime.open_answers.of(self.session_id), subscription.take())

    async def durable(self) -> bytes:
        """Frames for all new events."""
        pieces = []
        more = True
        while more and not self.gone:
            frames, more = await self._next()
            pieces.append(frames)
        return b"".join(pieces)

    async def live(self, batch: Sequence[Announcement]) -> bytes:
        """Frames for deltas."""
        before = b""
        if self._live.unknown(batch):
            before = await self.durable()
            for name in self._live.unknown(batch):
                message_id = name[1] or await self._stored.shell(self.session_id, name[2])
                if message_id:
                    self._live.open(name, message_id)
        self._live.add(batch)
        return before + await self._text()

    async def _text(self) -> bytes:
        """Frames for live text that was not sent. A block may be open here before its start is on disk."""
        before, held = b"", self._live.unplaced(self._placed)
        if held:
            stored = {id for id in held if await self._runtime.store.place(self.session_id, id) is not None}
            before = await self.durable()  # afterwards: it has the entries of all that were stored
            self._placed |= stored
            held -= self._placed
        self.holding = bool(held)
        return before + b"".join(map(framed, self._live.take(held)))

    async def _next(self) -> tuple[bytes, bool]:
        """Frames for a page of events, and whether there are more."""
        rows = await self._stored.events(self.session_id, after=self._seq, limit=PAGE)
        if not rows:
            return b"", False
        changes = Changes()
        changes.add(rows)
        self._seq = rows[-1].seq
        more = len(rows) == PAGE
        if changes.started and self._seq > self._head:
            fresh = Changes()
            fresh.add(row for row in rows if row.seq > self._head)
            self._live.start(fresh.started)
        self._live.end(changes.ended)
        session = await self._runtime.store.find(self.session_id)
        if session is None or changes.gone:
            self.gone = True
            return framed(Gone()), False
        await self._add_named_elsewhere(changes)
        if changes.reset:
            return framed(Reset()), more
        entries = await self._conversation.changed(session, changes.messages, changes.marks)
        if changes.started:
            self._placed = {entry.id for entry in entries}  # an answer follows the one before
        return framed(Entries(seq=self._seq, entries=tuple(entries))) if entries else b"", more

    async def _add_named_elsewhere(self, changes: Changes) -> None:
        """Messages that events changed without naming them."""
        for call_id in changes.shells:
            if (message_id := await self._stored.shell(self.session_id, call_id)) is not None:
                changes.messages[message_id] = None
        self._asking.update(changes.asked)
        for request_id in changes.answered:
            if (asking := self._asking.pop(request_id, None)) is not None:
                changes.messages[asking] = None
