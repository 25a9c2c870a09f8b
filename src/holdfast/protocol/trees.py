"""Operations on the tree of a Session: the Session, its children, and so on."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec.structs import replace

from holdfast.protocol.endpoint import Endpoint, endpoint
from holdfast.protocol.scope import of_session
from holdfast.schema.errors import InvalidCursorError
from holdfast.schema.record import Record
from holdfast.schema.tree import SessionTree
from holdfast.schema.typed_event import Event


class TreeQuery(Record):
    limit: Annotated[int, msgspec.Meta(ge=1, le=2_000)] | None = None
    """How many Sessions are told; 500 by default. The deepest ones are left out."""


class TreeEventsQuery(Record):
    after: str | None = None
    """The `cursor` of an event: the stream continues after it. A durable event may come again, with the same sequence.
    """
    replay: bool | None = None
    """False begins with the next event, unless `after` or `Last-Event-ID` names a cursor."""


ENDPOINTS: tuple[Endpoint, ...] = tuple(
    replace(endpoint, extension=True, handler=f"trees.{endpoint.name}")
    for endpoint in of_session(
        endpoint(
            "sessions.tree",
            "GET /tree",
            "holdfast.session.tree",
            "The Session and its descendants: what each does, waits for and has used, and the sums over those below.",
            role="read",
            query=TreeQuery,
            data=SessionTree,
        ),
        endpoint(
            "sessions.tree_events",
            "GET /tree/events",
            "holdfast.session.tree.events",
            "Durable and live events of the Session and its descendants, also of those that are created later. "
            "`session.tree.connected` marks where new events begin.",
            role="read",
            query=TreeEventsQuery,
            stream=Event,
            errors=(InvalidCursorError,),
        ),
    )
)
