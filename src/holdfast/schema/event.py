"""The envelope of every event, and the definition which binds a type and version to its payload."""

from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.schema.location import Location
from holdfast.schema.record import Record


class DurablePosition(Record):
    """Where a persisted event stands. `seq` is the only cursor there is."""

    aggregate_id: str
    seq: int
    version: int


class EventEnvelope(Record):
    """An event as it travels, its payload not decoded. `durable` is present exactly for persisted events; replayed ones
    carry no `location`. `schema/typed_event.py` has the decoded forms."""

    id: str
    type: str
    durable: DurablePosition | None = None
    location: Location | None = None
    metadata: dict[str, Any] | None = None
    data: msgspec.Raw


class SerializedEvent(Record):
    """One stored event as it travels between databases. `type` is the versioned type."""

    id: str
    type: str
    seq: int
    aggregate_id: str
    data: msgspec.Raw
    metadata: dict[str, Any] | None = None


PayloadClass = type[Record]


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """A type without a version is live-only. A version that is not `written` can still be decoded and replayed;
    `upcast` turns an older version's payload into what the projector of the written one expects."""

    type: str
    payload: PayloadClass
    version: int | None = None
    aggregate: str | None = None
    public: bool = True
    written: bool = True
    announced: bool = True
    """Whether live subscribers hear of it."""
    upcast: Callable[[Any], Record] | None = None

    @property
    def durable(self) -> bool:
        return self.version is not None and self.aggregate is not None

    @property
    def stored_type(self) -> str:
        return f"{self.type}.{self.version}"
