"""Keeping Sessions, and removing them for good."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec.structs import replace

from holdfast.protocol.endpoint import Endpoint, endpoint
from holdfast.protocol.scope import of_session
from holdfast.schema.errors import ConflictError, SessionNotFoundError
from holdfast.schema.ids import SessionIDField
from holdfast.schema.record import Record
from holdfast.schema.retention import PurgeReport
from holdfast.schema.session import Session


class PurgePayload(Record):
    sessions: Annotated[tuple[SessionIDField, ...], msgspec.Meta(min_length=1, max_length=100)]
    """Roots of trees, existing or deleted. Forks of them are named too, or the purge is refused."""


class PinPayload(Record):
    pinned: bool | None = None


ENDPOINTS: tuple[Endpoint, ...] = tuple(
    replace(endpoint, extension=True, handler=f"retention.{endpoint.name}")
    for endpoint in (
        *of_session(
            endpoint(
                "sessions.pin",
                "POST /pin",
                "holdfast.session.pin",
                "Say that retention must not remove a Session, or with `pinned: false` that it may.",
                role="prompt",
                payload=PinPayload,
                data=Session,
            ),
        ),
        endpoint(
            "sessions.purge",
            "POST /api/session/purge",
            "holdfast.session.purge",
            "Interrupt Sessions and remove them for good with everything below them: events, messages, attachments, "
            "managed files, isolated copies and file snapshots that no other Session needs. Repeating it completes a "
            "purge that broke off.",
            role="admin",
            payload=PurgePayload,
            data=PurgeReport,
            errors=(ConflictError, SessionNotFoundError),
        ),
    )
)
