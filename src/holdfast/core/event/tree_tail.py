"""Follows the events of a Session and of its descendants, also of those that are created later.

Invariants
- There is one subscription, and nothing that waits or polls for a single Session: an idle Session costs an entry in a
  set.
- Each durable event of a Session comes once and in order. New events of different Sessions come in the order in which
  they were announced; those that a replay begins with come Session by Session, parents first.
- A cursor is a position of the log of all Sessions. It is told with an event after which everything up to there has
  been told. Continuing after it repeats what came after the cursor, and leaves nothing out. A cursor may be older than
  one that was told before: positions have no order that holds for every store."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.event.block import block_of_delta, block_of_end
from holdfast.core.event.log import LIVE_MARK
from holdfast.core.event.position import cursor_at, is_position, position_of
from holdfast.core.event.stored_event import Position, read_page
from holdfast.schema.codec import decoder, encode
from holdfast.schema.event import EventEnvelope
from holdfast.schema.frozen import Frozen
from holdfast.schema.live_event import TreeConnected
from holdfast.schema.manifest import MANIFEST
from holdfast.schema.record import Record

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence

    from holdfast.core.clock import Ids
    from holdfast.core.database.database import Database
    from holdfast.core.database.unit import Value
    from holdfast.core.event.block import Block
    from holdfast.core.event.bus import Announcement
    from holdfast.core.event.log import Holding
    from holdfast.core.event.relay import Relay

CAPACITY = 2_048
"""Events that wait for a slow reader: those of several Sessions at work."""
CREATED = "session.created"
STORED_TYPES = frozenset(
    key for key, definition in MANIFEST.stored.items() if definition.announced and definition.written
)
"""Durable events that are told: the public ones, and those about the record of a Session."""
TYPES = frozenset(definition.type for definition in MANIFEST.latest.values() if definition.announced)


class Members:
    """The Sessions of a tree. Until the tree was read, creations are kept aside."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._aside: list[tuple[str, str]] | None = []

    def adopt(self, ids: Iterable[str]) -> list[str]:
        """Take the tree as it was read, and what was created meanwhile. Returns all."""
        found = list(ids)
        self._ids.update(found)
        aside, self._aside = self._aside or [], None
        for child_id, parent_id in aside:
            if parent_id in self._ids and child_id not in self._ids:
                self._ids.add(child_id)
                found.append(child_id)
        return found

    def accepts(self, announcement: Announcement) -> bool:
        id = announcement.aggregate_id
        if id in self._ids:
            return True
        if announcement.type != CREATED or id is None:
            return False
        parent_id = _parent(announcement.wire)
        if parent_id is None:
            return False
        if self._aside is not None:
            self._aside.append((id, parent_id))
            return False
        if parent_id not in self._ids:
            return False
        self._ids.add(id)
        return True


class TreeTail:
    def __init__(
        self, database: Database, relay: Relay, ids: Ids, members: Callable[[str], Awaitable[list[str]]]
    ) -> None:
        """`members` reads the ids of a tree, parents first."""
        self._database = database
        self._relay = relay
        self._ids = ids
        self._members = members

    async def follow(
        self, session_id: str, *, after: str | None, replay: bool, holding: Holding = nullcontext
    ) -> AsyncIterator[list[bytes]]:
        """Encoded events, live ones marked: all durable ones, or those after a cursor, or none without `replay`; then
        `session.tree.connected`; then new ones. `holding` as for `EventLog.tail`. Raises SubscriberOverflow when the
        reader falls behind."""
        reached: dict[str, int] = {}
        if after is None and replay:
            # Before the subscription, so that a long history does not fill its buffer.
            for id in await self._members(session_id):
                async for rows in self._pages(id, reached, holding):
                    yield [encode(row) for row in rows]
        members = Members()
        async with self._relay.observe(TYPES, capacity=CAPACITY, accepts=members.accepts) as subscription:
            announced = self._relay.reached
            cursor = await self._position()
            from_cursor = cursor if after is None and not replay else self._given(after)
            ids = members.adopt(await self._members(session_id))
            ended: set[Block | None] = set()
            if from_cursor is not None:
                ids = await self._moved(from_cursor, ids, reached)
            async for rows in self._all(ids, reached, holding):
                ended |= {block_of_end(row.type, row.data) for row in rows}
                yield [encode(row) for row in rows]
            yield [_with_cursor(self._connected(session_id), self._cursor(cursor))]
            while batch := await subscription.next():
                if self._relay.reached != announced:
                    cursor = announced = self._relay.reached
                if chosen := _new(batch, reached, ended):
                    chosen[-1] = _with_cursor(chosen[-1], self._cursor(cursor))
                    yield chosen

    async def _all(
        self, ids: Sequence[str], reached: dict[str, int], holding: Holding
    ) -> AsyncIterator[list[EventEnvelope]]:
        for id in ids:
            async for rows in self._pages(id, reached, holding):
                yield rows

    async def _pages(self, id: str, reached: dict[str, int], holding: Holding) -> AsyncIterator[list[EventEnvelope]]:
        """The events of one Session after the one that was reached."""
        exhausted = False
        while not exhausted:
            async with holding():
                rows, exhausted = await read_page(self._database, id, after=reached.get(id, -1))
                if rows:
                    reached[id] = rows[-1].seq
                if told := [row.envelope(id) for row in rows if row.type in STORED_TYPES]:
                    yield told

    async def _moved(self, position: str, ids: Sequence[str], reached: dict[str, int]) -> list[str]:
        """Those of these Sessions that have events after a position. Notes which events they had up to it."""
        key: dict[str, Value] = {"position": position, "ids": encode(list(ids)).decode()}
        rows = await self._database.fetch_large("tree.moved_since", key, into=_Moved)
        reached.update({row.aggregate_id: row.reached for row in rows if row.reached is not None})
        return [row.aggregate_id for row in rows]

    async def is_cursor(self, given: str) -> bool:
        """Whether this store could have told such a cursor."""
        position = self._given(given)
        return position is not None and is_position(position, await self._position())

    def _cursor(self, position: str) -> str:
        return cursor_at(position, self._database.identity())

    def _given(self, cursor: str | None) -> str | None:
        return None if cursor is None else position_of(cursor, self._database.identity())

    async def _position(self) -> str:
        (reached,) = await self._database.fetch("event.position", {}, into=Position)
        return reached.position

    def _connected(self, session_id: str) -> bytes:
        data = msgspec.Raw(encode(TreeConnected(session_id=session_id)))
        event = EventEnvelope(id=self._ids.event(), type="session.tree.connected", data=data)
        return LIVE_MARK + encode(event)[1:]


def _new(batch: Sequence[Announcement], reached: dict[str, int], ended: set[Block | None]) -> list[bytes]:
    """Those of a batch that were not told before. A delta whose block has ended would come after its end."""
    chosen = []
    for item in batch:
        if item.seq is None:
            if not (item.type.endswith(".delta") and ended and _block(item) in ended):
                chosen.append(LIVE_MARK + item.wire[1:])
        elif item.seq > reached.get(item.aggregate_id or "", -1):
            reached[item.aggregate_id or ""] = item.seq
            chosen.append(item.wire)
    return chosen


def _with_cursor(wire: bytes, cursor: str) -> bytes:
    return b'{"cursor":"%s",%s' % (cursor.encode(), wire[1:])


def _block(item: Announcement) -> Block | None:
    event: EventEnvelope = decoder(EventEnvelope).decode(item.wire)
    return block_of_delta(event.type, event.data)


class _Info(Record):
    parent_id: str | None = None


class _Created(Record):
    info: _Info


class _CreatedEvent(Record):
    data: _Created


def _parent(wire: bytes) -> str | None:
    created: _CreatedEvent = decoder(_CreatedEvent).decode(wire)
    return created.data.info.parent_id


class _Moved(Frozen):
    """A Session with events after a position. `reached` is None if all are."""

    aggregate_id: str
    reached: int | None
