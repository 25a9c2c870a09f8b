"""Operations of the instance itself: health, its default Location, the live stream."""

from __future__ import annotations

from typing import Literal

from holdfast.protocol.endpoint import Endpoint, Envelope
from holdfast.protocol.scope import at_location
from holdfast.schema.location import LocationInfo
from holdfast.schema.record import Record
from holdfast.schema.typed_event import Event


class Health(Record):
    healthy: Literal[True]


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        group="health",
        name="get",
        operation="v2.health.get",
        method="GET",
        path="/api/health",
        summary="Whether the server answers.",
        envelope=Envelope.BARE,
        success=Health,
    ),
    at_location(
        Endpoint(
            group="location",
            name="get",
            operation="v2.location.get",
            method="GET",
            path="/api/location",
            summary="The Location that a request belongs to.",
            envelope=Envelope.BARE,
            success=LocationInfo,
        )
    ),
    Endpoint(
        group="events",
        name="subscribe",
        operation="v2.event.subscribe",
        method="GET",
        path="/api/event",
        summary="Everything that happens from now on in any process on the database, deltas included. No replay.",
        envelope=Envelope.STREAM,
        success=Event,
    ),
)
