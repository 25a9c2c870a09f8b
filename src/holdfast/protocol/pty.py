"""The terminals of a Location. `connect` is a WebSocket that sends output and receives input."""

from __future__ import annotations

from typing import Annotated

import msgspec

from holdfast.protocol.endpoint import Endpoint, LocationQuery, endpoint
from holdfast.protocol.scope import SAFE, at_location
from holdfast.schema.errors import ForbiddenError, PtyNotFoundError, ServiceUnavailableError
from holdfast.schema.pty import Pty, PtyIDField, PtySize, PtyTicket
from holdfast.schema.record import Record

Title = Annotated[str, msgspec.Meta(max_length=1_024)]


class PtyPath(Record):
    pty_id: PtyIDField


class CreatePtyPayload(Record):
    command: str | None = None
    args: tuple[str, ...] | None = None
    cwd: str | None = None
    title: Title | None = None
    env: dict[str, str] | None = None


class UpdatePtyPayload(Record):
    title: Title | None = None
    size: PtySize | None = None


class ConnectQuery(LocationQuery):
    cursor: Annotated[int, msgspec.Meta(ge=-1, le=SAFE)] | None = None
    """Position from which output is sent; -1 sends only new output."""
    ticket: str | None = None


ENDPOINTS: tuple[Endpoint, ...] = at_location(
    endpoint(
        "ptys.list",
        "GET /api/pty",
        "v2.pty.list",
        "The terminals of a Location, including exited ones that were not removed.",
        role="admin",
        location=list[Pty],
    ),
    endpoint(
        "ptys.create",
        "POST /api/pty",
        "v2.pty.create",
        "Start a terminal.",
        role="admin",
        payload=CreatePtyPayload,
        location=Pty,
        errors=(ServiceUnavailableError,),
    ),
    endpoint(
        "ptys.get",
        "GET /api/pty/{ptyID}",
        "v2.pty.get",
        "One terminal, with its exit code once it has exited.",
        role="admin",
        params=PtyPath,
        location=Pty,
        errors=(PtyNotFoundError,),
    ),
    endpoint(
        "ptys.update",
        "PUT /api/pty/{ptyID}",
        "v2.pty.update",
        "Change the title or the size of a terminal.",
        role="admin",
        recorded=False,
        params=PtyPath,
        payload=UpdatePtyPayload,
        location=Pty,
        errors=(PtyNotFoundError,),
    ),
    endpoint(
        "ptys.remove",
        "DELETE /api/pty/{ptyID}",
        "v2.pty.remove",
        "End and remove a terminal.",
        role="admin",
        params=PtyPath,
        errors=(PtyNotFoundError,),
    ),
    endpoint(
        "ptys.connect_token",
        "POST /api/pty/{ptyID}/connect-token",
        "v2.pty.connectToken",
        "A ticket that authorizes one connection without credentials.",
        role="admin",
        params=PtyPath,
        location=PtyTicket,
        errors=(ForbiddenError, PtyNotFoundError),
        headers=(("x-opencode-ticket", "1"),),
    ),
    endpoint(
        "ptys.connect",
        "GET /api/pty/{ptyID}/connect",
        "v2.pty.connect",
        "A WebSocket to a terminal: retained output, a cursor, then new output.",
        role="admin",
        params=PtyPath,
        query=ConnectQuery,
        bare=bool,
        errors=(ForbiddenError, PtyNotFoundError),
        socket=True,
    ),
)
