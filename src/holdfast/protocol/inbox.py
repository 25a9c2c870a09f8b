"""The inbox of a Session, with the paths of OpenCode 2.0."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.protocol.endpoint import Endpoint, endpoint
from holdfast.protocol.scope import of_session
from holdfast.schema.errors import ConflictError, MessageNotFoundError
from holdfast.schema.ids import MessageIDField, SessionIDField
from holdfast.schema.inbox import InboxInput
from holdfast.schema.record import Record


class InboxPath(Record):
    session_id: SessionIDField
    inbox_id: MessageIDField


_OF_SESSION = of_session(
    endpoint(
        "sessions.inbox",
        "GET /inbox",
        "v2.session.inbox.list",
        "Admitted inputs that are not part of the conversation yet, oldest first.",
        role="read",
        data=list[InboxInput],
        handler="inbox.list",
    ),
    endpoint(
        "sessions.cancel_input",
        "DELETE /inbox/{inboxID}",
        "v2.session.inbox.cancel",
        "Withdraw a pending input. A promoted or withdrawn input is a conflict.",
        role="prompt",
        params=InboxPath,
        errors=(MessageNotFoundError, ConflictError),
        handler="inbox.cancel",
    ),
    endpoint(
        "sessions.steer_input",
        "POST /inbox/{inboxID}/steer",
        "v2.session.inbox.steer",
        "Let a queued input join at the next safe boundary, and wake the Session. Any other input is a conflict.",
        role="prompt",
        params=InboxPath,
        errors=(MessageNotFoundError, ConflictError),
        handler="inbox.steer",
    ),
    endpoint(
        "sessions.queue_input",
        "POST /inbox/{inboxID}/queue",
        "v2.session.inbox.queue",
        "Let a pending steer wait until the Session would go idle. Any other input is a conflict.",
        role="prompt",
        params=InboxPath,
        errors=(MessageNotFoundError, ConflictError),
        handler="inbox.queue",
    ),
)

ENDPOINTS: tuple[Endpoint, ...] = tuple(replace(endpoint, extension=True) for endpoint in _OF_SESSION)
