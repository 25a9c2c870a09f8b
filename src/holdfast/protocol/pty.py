"""The terminals of a Location. `connect` is a WebSocket: frames of output one way, what is typed the other."""

from __future__ import annotations

from typing import Annotated

import msgspec

from holdfast.protocol.endpoint import Endpoint, Envelope, LocationQuery
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
    """From which position the output is wanted; -1 is only what follows."""
    ticket: str | None = None


ENDPOINTS: tuple[Endpoint, ...] = tuple(
    map(
        at_location,
        (
            Endpoint(
                group="ptys",
                name="list",
                operation="v2.pty.list",
                method="GET",
                path="/api/pty",
                summary="The terminals of a Location, exited ones included until they are removed.",
                envelope=Envelope.LOCATION,
                success=list[Pty],
            ),
            Endpoint(
                group="ptys",
                name="create",
                operation="v2.pty.create",
                method="POST",
                path="/api/pty",
                summary="Start a terminal.",
                payload=CreatePtyPayload,
                envelope=Envelope.LOCATION,
                success=Pty,
                errors=(ServiceUnavailableError,),
            ),
            Endpoint(
                group="ptys",
                name="get",
                operation="v2.pty.get",
                method="GET",
                path="/api/pty/{ptyID}",
                summary="One terminal, with its exit code once it has exited.",
                params=PtyPath,
                envelope=Envelope.LOCATION,
                success=Pty,
                errors=(PtyNotFoundError,),
            ),
            Endpoint(
                group="ptys",
                name="update",
                operation="v2.pty.update",
                method="PUT",
                path="/api/pty/{ptyID}",
                summary="Change the title or the size of a terminal.",
                params=PtyPath,
                payload=UpdatePtyPayload,
                envelope=Envelope.LOCATION,
                success=Pty,
                errors=(PtyNotFoundError,),
            ),
            Endpoint(
                group="ptys",
                name="remove",
                operation="v2.pty.remove",
                method="DELETE",
                path="/api/pty/{ptyID}",
                summary="End a terminal and forget it.",
                params=PtyPath,
                envelope=Envelope.VOID,
                errors=(PtyNotFoundError,),
            ),
            Endpoint(
                group="ptys",
                name="connect_token",
                operation="v2.pty.connectToken",
                method="POST",
                path="/api/pty/{ptyID}/connect-token",
                summary="A ticket with which one connection is let in without credentials.",
                params=PtyPath,
                envelope=Envelope.LOCATION,
                success=PtyTicket,
                errors=(ForbiddenError, PtyNotFoundError),
                headers=(("x-opencode-ticket", "1"),),
            ),
            Endpoint(
                group="ptys",
                name="connect",
                operation="v2.pty.connect",
                method="GET",
                path="/api/pty/{ptyID}/connect",
                summary="A WebSocket on a terminal: its retained output, a cursor, then what follows.",
                params=PtyPath,
                query=ConnectQuery,
                envelope=Envelope.BARE,
                success=bool,
                errors=(ForbiddenError, PtyNotFoundError),
                socket=True,
            ),
        ),
    )
)
