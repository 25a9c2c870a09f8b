"""Endpoints of a Session and of a Location: what all of one kind share, said once."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.protocol.endpoint import Endpoint, LocationQuery, Scope
from holdfast.schema.errors import SessionNotFoundError
from holdfast.schema.ids import MessageIDField, SessionIDField
from holdfast.schema.record import Record

SAFE = 2**53 - 1
"""The largest number that every JSON reader gets right."""


class SessionPath(Record):
    session_id: SessionIDField


class MessagePath(Record):
    session_id: SessionIDField
    message_id: MessageIDField


def of_session(endpoint: Endpoint) -> Endpoint:
    """Its path is written from the Session on."""
    return replace(
        endpoint,
        path=f"/api/session/{{sessionID}}{endpoint.path}",
        params=endpoint.params or SessionPath,
        errors=(*endpoint.errors, SessionNotFoundError),
        scope=Scope.SESSION,
    )


def at_location(endpoint: Endpoint) -> Endpoint:
    return replace(endpoint, query=endpoint.query or LocationQuery, scope=Scope.LOCATION)
