"""What all endpoints of a Session, or of a Location, have in common."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.protocol.endpoint import Endpoint, EndpointScope, LocationQuery
from holdfast.schema.errors import SessionNotFoundError
from holdfast.schema.ids import MessageIDField, SessionIDField
from holdfast.schema.record import Record

SAFE = 2**53 - 1
"""The largest integer that all JSON parsers read exactly."""


class SessionPath(Record):
    session_id: SessionIDField


class MessagePath(Record):
    session_id: SessionIDField
    message_id: MessageIDField


def of_session(*endpoints: Endpoint) -> tuple[Endpoint, ...]:
    """Endpoints below a Session; their paths are relative to it."""
    return tuple(
        replace(
            endpoint,
            path=f"/api/session/{{sessionID}}{endpoint.path}",
            params=endpoint.params or SessionPath,
            errors=(*endpoint.errors, SessionNotFoundError),
            scope=EndpointScope.SESSION,
        )
        for endpoint in endpoints
    )


def at_location(*endpoints: Endpoint) -> tuple[Endpoint, ...]:
    """Endpoints of a Location, which the query or the headers select."""
    return tuple(
        replace(endpoint, query=endpoint.query or LocationQuery, scope=EndpointScope.LOCATION) for endpoint in endpoints
    )
