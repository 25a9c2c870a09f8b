"""Who did what: in a Session, and to the server."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec.structs import replace

from holdfast.protocol.endpoint import Endpoint, endpoint
from holdfast.protocol.scope import SAFE, of_session
from holdfast.schema.audit import AuditEntry
from holdfast.schema.record import Record


class AuditQuery(Record):
    after: Annotated[int, msgspec.Meta(ge=0, le=SAFE)] | None = None
    """How many entries were read before."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=1_000)] | None = None
    """200 by default."""


ENDPOINTS: tuple[Endpoint, ...] = tuple(
    replace(endpoint, extension=True)
    for endpoint in (
        *of_session(
            endpoint(
                "sessions.audit",
                "GET /audit",
                "holdfast.session.audit",
                "Who admitted, answered and changed what in the Session and its descendants, oldest first.",
                role="read",
                query=AuditQuery,
                history=AuditEntry,
                handler="audit.of_session",
            ),
        ),
        endpoint(
            "system.audit",
            "GET /api/audit",
            "holdfast.audit",
            "Who changed what outside of Sessions through a server: tokens, configuration, credentials, MCP servers, "
            "terminals, deleted and imported Sessions. Oldest first.",
            role="admin",
            query=AuditQuery,
            history=AuditEntry,
            handler="audit.of_server",
        ),
    )
)
