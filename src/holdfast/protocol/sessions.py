"""The Session operations."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from holdfast.protocol.endpoint import Endpoint, Envelope, Scope
from holdfast.protocol.inputs import LocationInput, ModelInput
from holdfast.schema.errors import (
    ConflictError,
    InvalidCursorError,
    MessageNotFoundError,
    ServiceUnavailableError,
    SessionNotFoundError,
    UnknownError,
)
from holdfast.schema.event import Event
from holdfast.schema.ids import MessageIDField, SessionIDField
from holdfast.schema.prompt import Admission, Delivery, PromptInput
from holdfast.schema.record import Record
from holdfast.schema.session import Session, SessionActive
from holdfast.schema.session_message import SessionMessage

Order = Literal["asc", "desc"]
SAFE = 2**53 - 1
"""The largest number that every JSON reader gets right."""


class SessionPath(Record):
    session_id: SessionIDField


class MessagePath(Record):
    session_id: SessionIDField
    message_id: MessageIDField


class ListQuery(Record):
    workspace: str | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=SAFE)] | None = None
    order: Order | None = None
    search: str | None = None
    directory: str | None = None
    project: str | None = None
    subpath: str | None = None
    cursor: str | None = None


class CreatePayload(Record):
    id: SessionIDField | None = None
    agent: str | None = None
    model: ModelInput | None = None
    location: LocationInput | None = None


class PromptPayload(Record):
    id: MessageIDField | None = None
    prompt: PromptInput
    delivery: Delivery | None = None
    resume: bool | None = None


class MessagesQuery(Record):
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] | None = None
    order: Order | None = None
    cursor: str | None = None


class HistoryQuery(Record):
    limit: Annotated[int, msgspec.Meta(ge=1, le=100)] | None = None
    after: Annotated[int, msgspec.Meta(ge=0, le=SAFE)] | None = None


class EventsQuery(Record):
    after: Annotated[int, msgspec.Meta(ge=0, le=SAFE)] | None = None


def _of_session(
    name: str, operation: str, method: str, tail: str, summary: str, envelope: Envelope, **more: object
) -> Endpoint:
    more.setdefault("params", SessionPath)
    errors = (*more.pop("errors", ()), SessionNotFoundError)  # type: ignore[misc]
    return Endpoint(
        group="sessions",
        name=name,
        operation=f"v2.session.{operation}",
        method=method,
        path=f"/api/session/{{sessionID}}{tail}",
        summary=summary,
        envelope=envelope,
        scope=Scope.SESSION,
        errors=errors,
        **more,  # type: ignore[arg-type]
    )


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        group="sessions",
        name="list",
        operation="v2.session.list",
        method="GET",
        path="/api/session",
        summary="A page of Sessions, newest first unless asked otherwise.",
        query=ListQuery,
        envelope=Envelope.PAGE,
        success=Session,
        errors=(InvalidCursorError,),
    ),
    Endpoint(
        group="sessions",
        name="create",
        operation="v2.session.create",
        method="POST",
        path="/api/session",
        summary="Create a Session, or get the one that has this id already.",
        payload=CreatePayload,
        envelope=Envelope.DATA,
        success=Session,
    ),
    Endpoint(
        group="sessions",
        name="active",
        operation="v2.session.active",
        method="GET",
        path="/api/session/active",
        summary="The Sessions that are executing now.",
        envelope=Envelope.DATA,
        success=dict[str, SessionActive],
    ),
    _of_session("get", "get", "GET", "", "One Session.", Envelope.DATA, success=Session),
    _of_session(
        "prompt",
        "prompt",
        "POST",
        "/prompt",
        "Admit a prompt durably and wake the Session, unless `resume` is false.",
        Envelope.DATA,
        payload=PromptPayload,
        success=Admission,
        errors=(ConflictError,),
    ),
    _of_session(
        "wait",
        "wait",
        "POST",
        "/wait",
        "Return once the Session is idle.",
        Envelope.VOID,
        errors=(ServiceUnavailableError,),
    ),
    _of_session(
        "interrupt",
        "interrupt",
        "POST",
        "/interrupt",
        "Stop what runs and return once it has ended and is recorded.",
        Envelope.VOID,
    ),
    _of_session(
        "context",
        "context",
        "GET",
        "/context",
        "The messages selected as model history, oldest first.",
        Envelope.DATA,
        success=list[SessionMessage],
        errors=(UnknownError,),
    ),
    _of_session(
        "history",
        "history",
        "GET",
        "/history",
        "A finite page of durable events after a sequence.",
        Envelope.HISTORY,
        query=HistoryQuery,
        success=Event,
    ),
    _of_session(
        "events",
        "events",
        "GET",
        "/event",
        "Durable events after a sequence, then new ones as they are committed.",
        Envelope.STREAM,
        query=EventsQuery,
        success=Event,
    ),
    _of_session(
        "messages",
        "messages",
        "GET",
        "/message",
        "A page of messages, newest first unless asked otherwise.",
        Envelope.PAGE,
        query=MessagesQuery,
        success=SessionMessage,
        errors=(InvalidCursorError, UnknownError),
    ),
    _of_session(
        "message",
        "message",
        "GET",
        "/message/{messageID}",
        "One message.",
        Envelope.DATA,
        params=MessagePath,
        success=SessionMessage,
        errors=(MessageNotFoundError,),
    ),
)
