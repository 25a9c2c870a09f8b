"""Operations of the instance: health, its default Location, the live stream."""

from __future__ import annotations

from typing import Literal

from holdfast.protocol.endpoint import Endpoint, endpoint
from holdfast.protocol.scope import at_location
from holdfast.schema.location import LocationInfo
from holdfast.schema.record import Record
from holdfast.schema.typed_event import Event


class StorageWait(Record):
    """The database cannot be used at present: what was accepted is kept, commits wait, and reads fail after a while."""

    since: int
    """In milliseconds since the epoch."""
    reason: str


class DiskLow(Record):
    """The disk of the data directory has too little space: new input is refused, and what runs continues."""

    free: int
    """In bytes."""
    floor: int
    """The least with which new input is accepted."""


class Health(Record):
    healthy: Literal[True]
    storage: StorageWait | None = None
    """Holdfast's own; left out while the database answers."""
    disk: DiskLow | None = None
    """Holdfast's own; left out while there is space."""


ENDPOINTS: tuple[Endpoint, ...] = (
    endpoint(
        "health.get",
        "GET /api/health",
        "v2.health.get",
        "Whether the server answers.",
        role="read",
        checks_projects=True,
        bare=Health,
        handler="instance.health",
    ),
    *at_location(
        endpoint(
            "location.get",
            "GET /api/location",
            "v2.location.get",
            "The Location that a request belongs to.",
            role="read",
            bare=LocationInfo,
            handler="instance.location",
        )
    ),
    endpoint(
        "events.subscribe",
        "GET /api/event",
        "v2.event.subscribe",
        "New events of all processes on the database, including deltas. No replay.",
        role="read",
        stream=Event,
    ),
)
