"""The Session operations."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from holdfast.protocol.endpoint import Endpoint, Envelope
from holdfast.protocol.inputs import LocationInput, ModelInput, WorkspaceIDField
from holdfast.protocol.scope import SAFE, MessagePath, of_session
from holdfast.protocol.unsupported import UnsupportedBesideCommand, UnsupportedBesidePrompt
from holdfast.schema.errors import (
    CommandNotFoundError,
    ConflictError,
    InvalidCursorError,
    MessageNotFoundError,
    ServiceUnavailableError,
    UnknownError,
)
from holdfast.schema.ids import MessageIDField, SessionIDField
from holdfast.schema.prompt import Admission, AgentInput, Delivery, FileInput, PromptInput
from holdfast.schema.record import Record
from holdfast.schema.session import Revert, Session, SessionActive
from holdfast.schema.session_message import SessionMessage
from holdfast.schema.typed_event import DurableEvent, Event

Order = Literal["asc", "desc"]


class ListQuery(Record):
    workspace: WorkspaceIDField | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=SAFE)] | None = None
    order: Order | None = None
    search: str | None = None
    directory: str | None = None
    project: str | None = None
    subpath: str | None = None
    archived: bool | None = None
    """Only those that were put away, or only those that were not; without it, both."""
    cursor: str | None = None


CHECKED = "x-holdfast-checked"
"""With it, a Session is created only with an agent and a model that exist. Without it, whatever the contract accepts is
accepted, and what is wrong keeps its input from starting."""


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


class CommandPayload(Record):
    id: MessageIDField | None = None
    command: str
    arguments: str | None = None
    files: tuple[FileInput, ...] | None = None
    agents: tuple[AgentInput, ...] | None = None
    delivery: Delivery | None = None
    resume: bool | None = None


class SwitchAgentPayload(Record):
    agent: str


class SwitchModelPayload(Record):
    model: ModelInput


class StagePayload(Record):
    message_id: MessageIDField
    files: bool | None = None


class MessagesQuery(Record):
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] | None = None
    order: Order | None = None
    cursor: str | None = None


class HistoryQuery(Record):
    limit: Annotated[int, msgspec.Meta(ge=1, le=100)] | None = None
    after: Annotated[int, msgspec.Meta(ge=0, le=SAFE)] | None = None


class EventsQuery(Record):
    after: Annotated[int, msgspec.Meta(ge=0, le=SAFE)] | None = None
    live: bool | None = None
    """Whether live events of the Session come too: marked, without a sequence, and not replayed. A comment in the
    stream says when they begin."""
    replay: bool | None = None
    """False begins with the next event, unless `after` or `Last-Event-ID` names another position."""


_OF_SESSION: tuple[Endpoint, ...] = (
    Endpoint(
        group="sessions",
        name="get",
        operation="v2.session.get",
        method="GET",
        path="",
        summary="One Session.",
        envelope=Envelope.DATA,
        success=Session,
    ),
    Endpoint(
        group="sessions",
        name="switch_agent",
        operation="v2.session.switchAgent",
        method="POST",
        path="/agent",
        summary="Let another agent speak, from the next turn on.",
        envelope=Envelope.VOID,
        payload=SwitchAgentPayload,
    ),
    Endpoint(
        group="sessions",
        name="switch_model",
        operation="v2.session.switchModel",
        method="POST",
        path="/model",
        summary="Use another model, from the next turn on. The one already selected changes nothing.",
        envelope=Envelope.VOID,
        payload=SwitchModelPayload,
    ),
    Endpoint(
        group="sessions",
        name="prompt",
        operation="v2.session.prompt",
        method="POST",
        path="/prompt",
        summary="Admit a prompt durably and wake the Session, unless `resume` is false.",
        envelope=Envelope.DATA,
        payload=PromptPayload,
        unsupported=UnsupportedBesidePrompt,
        success=Admission,
        errors=(ConflictError,),
    ),
    Endpoint(
        group="sessions",
        name="command",
        operation="v2.session.command",
        method="POST",
        path="/command",
        summary="Expand a command of the Session's Location and admit the result as a prompt. Shell commands of its "
        "template need permission like those of an agent. A caller that disconnects before the admission ends it.",
        envelope=Envelope.DATA,
        payload=CommandPayload,
        unsupported=UnsupportedBesideCommand,
        success=Admission,
        errors=(CommandNotFoundError, ConflictError, ServiceUnavailableError),
        extension=True,
        handlers="commands",
    ),
    Endpoint(
        group="sessions",
        name="compact",
        operation="v2.session.compact",
        method="POST",
        path="/compact",
        summary="Summarise older history now. Takes no turn.",
        envelope=Envelope.VOID,
        errors=(ConflictError, ServiceUnavailableError),
    ),
    Endpoint(
        group="sessions",
        name="wait",
        operation="v2.session.wait",
        method="POST",
        path="/wait",
        summary="Return once the Session is idle and every prompt that was to start it has been handled.",
        envelope=Envelope.VOID,
        errors=(ServiceUnavailableError,),
    ),
    Endpoint(
        group="sessions",
        name="stage_revert",
        operation="v2.session.revert.stage",
        method="POST",
        path="/revert/stage",
        summary="Put the files back to where they were at a message; the conversation stays until it is committed.",
        envelope=Envelope.DATA,
        payload=StagePayload,
        success=Revert,
        errors=(MessageNotFoundError, UnknownError),
    ),
    Endpoint(
        group="sessions",
        name="clear_revert",
        operation="v2.session.revert.clear",
        method="POST",
        path="/revert/clear",
        summary="Take a staged revert back.",
        envelope=Envelope.VOID,
        errors=(UnknownError,),
    ),
    Endpoint(
        group="sessions",
        name="commit_revert",
        operation="v2.session.revert.commit",
        method="POST",
        path="/revert/commit",
        summary="Remove what came after the staged message from the conversation.",
        envelope=Envelope.VOID,
    ),
    Endpoint(
        group="sessions",
        name="context",
        operation="v2.session.context",
        method="GET",
        path="/context",
        summary="The messages selected as model history, oldest first.",
        envelope=Envelope.DATA,
        success=list[SessionMessage],
        errors=(UnknownError,),
    ),
    Endpoint(
        group="sessions",
        name="history",
        operation="v2.session.history",
        method="GET",
        path="/history",
        summary="A finite page of durable events after a sequence.",
        envelope=Envelope.HISTORY,
        query=HistoryQuery,
        success=DurableEvent,
    ),
    Endpoint(
        group="sessions",
        name="events",
        operation="v2.session.events",
        method="GET",
        path="/event",
        summary="Durable events after a sequence, then new ones as they are committed; with `live`, live events too.",
        envelope=Envelope.STREAM,
        query=EventsQuery,
        success=Event,
    ),
    Endpoint(
        group="sessions",
        name="interrupt",
        operation="v2.session.interrupt",
        method="POST",
        path="/interrupt",
        summary="Stop what runs and return once it has ended and is recorded.",
        envelope=Envelope.VOID,
    ),
    Endpoint(
        group="sessions",
        name="message",
        operation="v2.session.message",
        method="GET",
        path="/message/{messageID}",
        summary="One message.",
        envelope=Envelope.DATA,
        params=MessagePath,
        success=SessionMessage,
        errors=(MessageNotFoundError,),
    ),
    Endpoint(
        group="sessions",
        name="messages",
        operation="v2.session.messages",
        method="GET",
        path="/message",
        summary="A page of messages, newest first unless asked otherwise.",
        envelope=Envelope.PAGE,
        query=MessagesQuery,
        success=SessionMessage,
        errors=(InvalidCursorError, UnknownError),
    ),
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
        errors=(ConflictError,),
        headers=((CHECKED, "1"),),
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
    *map(of_session, _OF_SESSION),
)
