"""The event envelope, and event definitions, which bind a type and version to a payload."""

from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.schema.location import Location
from holdfast.schema.record import Record


class DurablePosition(Record):
    """The position of a stored event. `seq` is the only cursor."""

    aggregate_id: str
    seq: int
    version: int


class EventEnvelope(Record):
    """An event with its payload not decoded. `durable` is present for stored events only; replayed events have no
    `location`. `schema/typed_event.py` has the decoded forms."""

    id: str
    type: str
    durable: DurablePosition | None = None
    location: Location | None = None
    metadata: dict[str, Any] | None = None
    data: msgspec.Raw
    cursor: str | None = None
    """Only in the stream of a tree: everything up to this position of the log has been told."""


class SerializedEvent(Record):
    """A stored event, as exchanged between databases. `type` includes the version."""

    id: str
    type: str
    seq: int
    aggregate_id: str
    data: msgspec.Raw
    metadata: dict[str, Any] | None = None


PayloadClass = type[Record]


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """The definition of an event type. Without a version it is live-only. A version that is not `written` can still be
    decoded and replayed; `upcast` converts its payload to the written version."""

    type: str
    payload: PayloadClass
    version: int | None = None
    aggregate: str | None = None
    public: bool = True
    written: bool = True
    announced: bool = True
    """Whether live subscribers receive it."""
    attributed: bool = False
    """Whether somebody answers for it: the name of the caller that caused it is part of its metadata."""
    upcast: Callable[[Any], Record] | None = None
    begins_at: Callable[[Any], int | None] | None = None
    """The sequence with which an aggregate begins whose first event has this payload; None stands for 0."""

    @property
    def durable(self) -> bool:
        return self.version is not None and self.aggregate is not None

    @property
    def stored_type(self) -> str:
        return f"{self.type}.{self.version}"
