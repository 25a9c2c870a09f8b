"""Events as they are stored, and in the forms in which they leave the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from holdfast.core.event.author import without_name
from holdfast.schema.codec import decoder
from holdfast.schema.event import DurablePosition, EventEnvelope, SerializedEvent
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from holdfast.core.database.database import Database
    from holdfast.core.database.unit import Value

PAGE = 200
"""Most events of a page for a follower."""
FEW = 8
PAGE_BYTES = 256 * 1024
"""A page ends with the event that reaches this size. A slow reader holds one page in memory."""


class EventRow(Frozen):
    """A row of the log. `type` is the stored type, version included."""

    seq: int
    id: str
    type: str
    data: bytes
    metadata: str | None

    def envelope(self, aggregate_id: str) -> EventEnvelope:
        """As clients get it."""
        type_, _, version = self.type.rpartition(".")
        return EventEnvelope(
            id=self.id,
            type=type_,
            durable=DurablePosition(aggregate_id=aggregate_id, seq=self.seq, version=int(version)),
            metadata=without_name(self._metadata()),
            data=msgspec.Raw(self.data),
        )

    def serialized(self, aggregate_id: str) -> SerializedEvent:
        """As another log takes it."""
        return SerializedEvent(
            id=self.id,
            type=self.type,
            seq=self.seq,
            aggregate_id=aggregate_id,
            data=msgspec.Raw(self.data),
            metadata=self._metadata(),
        )

    def _metadata(self) -> dict[str, Any] | None:
        return None if self.metadata is None else decoder(dict[str, Any]).decode(self.metadata)


class EventPage(NamedTuple):
    """Stored events in order, private ones included."""

    rows: list[EventRow]
    exhausted: bool
    """Whether there were no more."""


async def read_page(database: Database, aggregate_id: str, *, after: int, limit: int = PAGE) -> EventPage:
    """Read the events after a sequence: at most `limit`, and no more once they have `PAGE_BYTES` together, but for the
    first `FEW`. A follower that has caught up needs one read."""
    key: dict[str, Value] = {"aggregate_id": aggregate_id, "after": after, "limit": min(FEW, limit)}
    rows = await database.fetch("event.page", key, into=EventRow)
    if len(rows) < FEW:
        return EventPage(rows, exhausted=len(rows) < limit)
    key |= {"after": rows[-1].seq, "limit": limit - FEW}
    size, count = sum(len(row.data) for row in rows), 0
    following = await database.fetch("event.sizes", key)
    while count < len(following) and size < PAGE_BYTES:
        size += int(str(following[count][0]))
        count += 1
    if count:
        rows += await database.fetch("event.page", {**key, "limit": count}, into=EventRow)
    return EventPage(rows, exhausted=count == len(following) < limit - FEW)


class Head(Frozen):
    """The last sequence of an aggregate, and who may replay into it."""

    seq: int
    owner_id: str | None


class Position(Frozen):
    """How far the log of all aggregates reaches. See `position.py`."""

    position: str


class NewEvents(Frozen):
    """An aggregate with new events: their sequences, and the position after all that was found with them."""

    aggregate_id: str
    first: int
    last: int
    position: str
