"""The definition of an endpoint."""

from __future__ import annotations

from enum import Enum
from typing import Any, Literal

import msgspec

from holdfast.schema.access import Role
from holdfast.schema.errors import InvalidRequestError, ProjectCopyError, PublicError, UnauthorizedError
from holdfast.schema.record import Record

Adding = Literal["input", "session"]
ErrorClass = type[PublicError] | type[ProjectCopyError]


class Envelope(Enum):
    BARE = "bare"
    """The value itself."""
    DATA = "data"
    """`{data}`; clients unwrap it."""
    LOCATION = "location"
    """`{location, data}`: the value and its Location."""
    PAGE = "page"
    """`{data, cursor: {previous, next}}`."""
    HISTORY = "history"
    """`{data, hasMore}`."""
    VOID = "void"
    """204, no body."""
    STREAM = "stream"
    """Server-sent events, each one JSON document."""
    RAW = "raw"
    """Bytes with their own media type."""


class EndpointScope(Enum):
    INSTANCE = "instance"
    SESSION = "session"
    """Belongs to the Session in its path, which is checked before anything is decoded."""
    LOCATION = "location"
    """Takes its Location from the query or headers; its query is a `LocationQuery`."""
    FORM = "form"
    """Belongs to the Session in its path, or, with `global` in that place, to a Location as above."""


class LocationSelector(Record):
    """The requested Location. Missing parts come from the headers, then from the server."""

    directory: str | None = None
    workspace: str | None = None


class LocationQuery(Record):
    location: LocationSelector | None = None


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    group: str
    """The group's name in clients, as in `client.sessions`."""
    name: str
    """The operation's name in clients, in Python's spelling."""
    operation: str
    method: str
    path: str
    summary: str
    role: Role
    """The least role that a caller needs. There is no default: whoever adds an endpoint decides."""
    envelope: Envelope
    success: Any = None
    """The type inside the envelope; of a stream, that of one element."""
    params: type[Record] | None = None
    query: type[Record] | None = None
    payload: type[Record] | None = None
    unsupported: type[Record] | None = None
    """Known payload fields that are rejected by name unless they are empty."""
    errors: tuple[ErrorClass, ...] = ()
    scope: EndpointScope = EndpointScope.INSTANCE
    extension: bool = False
    """Whether it is an extension of the OpenCode contract."""
    handler: str = ""
    """`module.function` of the server's handler; `group.name` by default."""
    headers: tuple[tuple[str, str], ...] = ()
    """Headers of every request of the generated clients."""
    media_types: tuple[str, ...] = ("application/octet-stream",)
    """Of the bytes in a raw envelope."""
    checks_projects: bool = False
    """Whether a token that is limited to projects may call it though it names neither a Session nor a Location. Its
    handler then refuses what is outside of these projects, or there is nothing of a project in it."""
    adds: Adding | None = None
    """What it adds, which the server refuses when it has reached a limit."""
    recorded: bool | None = None
    """Whether each request is recorded in the audit trail. By default that is so for what changes something as an admin
    outside of a Session; the events of a Session tell themselves who caused them."""
    socket: bool = False
    """Whether clients use a WebSocket; the envelope applies to plain requests."""

    @property
    def is_recorded(self) -> bool:
        if self.recorded is not None:
            return self.recorded
        return self.role == "admin" and self.method != "GET" and self.scope is not EndpointScope.SESSION

    @property
    def declared_errors(self) -> tuple[ErrorClass, ...]:
        return (*self.errors, InvalidRequestError, UnauthorizedError)


def endpoint(client_name: str, route: str, operation: str, summary: str, *, role: Role, **fields: Any) -> Endpoint:
    """An endpoint from `group.name` and `METHOD /path`. The keyword named after an envelope is the type inside it;
    without one the response is empty. All other keywords are fields of Endpoint."""
    group, _, name = client_name.partition(".")
    method, _, path = route.partition(" ")
    envelope = next((kind for kind in Envelope if kind.value in fields), Envelope.VOID)
    success = fields.pop(envelope.value, None)
    return Endpoint(
        group=group,
        name=name,
        method=method,
        path=path,
        operation=operation,
        summary=summary,
        role=role,
        envelope=envelope,
        success=success,
        **fields,
    )
