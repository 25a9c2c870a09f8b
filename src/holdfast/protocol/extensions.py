"""Operations of our own, on paths that the contract leaves free."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec.structs import replace

from holdfast.protocol.endpoint import Endpoint, Envelope
from holdfast.protocol.scope import MessagePath, of_session
from holdfast.schema.errors import ConflictError, MessageNotFoundError, UnknownError
from holdfast.schema.insight import CheckpointInfo, InterruptedActivity, Outcome, RequestContextView, WaitInfo
from holdfast.schema.prompt import Admission
from holdfast.schema.record import Record
from holdfast.schema.session import Session
from holdfast.schema.todo import Todo


class RenamePayload(Record):
    title: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class ArchivePayload(Record):
    archived: bool | None = None


class MovePayload(Record):
    directory: str
    move_changes: bool | None = None


class InterruptedQuery(Record):
    directory: str | None = None
    """Only Sessions of this directory."""


class RecoverPayload(Record):
    decision: Literal["continue", "abandon"]


_OF_SESSION = (
    Endpoint(
        group="sessions",
        name="pending",
        operation="holdfast.session.pending",
        method="GET",
        path="/pending",
        summary="Inputs that were admitted and are not part of the conversation yet, oldest first.",
        envelope=Envelope.DATA,
        success=list[Admission],
    ),
    Endpoint(
        group="sessions",
        name="withdraw",
        operation="holdfast.session.withdraw",
        method="DELETE",
        path="/pending/{messageID}",
        summary="Take a pending input back. Again is fine; a promoted one is a conflict.",
        params=MessagePath,
        envelope=Envelope.VOID,
        errors=(MessageNotFoundError, ConflictError),
    ),
    Endpoint(
        group="sessions",
        name="rename",
        operation="holdfast.session.rename",
        method="POST",
        path="/rename",
        summary="Give a Session a title.",
        payload=RenamePayload,
        envelope=Envelope.DATA,
        success=Session,
    ),
    Endpoint(
        group="sessions",
        name="archive",
        operation="holdfast.session.archive",
        method="POST",
        path="/archive",
        summary="Put a Session away, or with `archived: false` take it out again.",
        payload=ArchivePayload,
        envelope=Envelope.DATA,
        success=Session,
    ),
    Endpoint(
        group="sessions",
        name="delete",
        operation="holdfast.session.delete",
        method="DELETE",
        path="",
        summary="Stop what runs and remove a Session from every view.",
        envelope=Envelope.VOID,
    ),
    Endpoint(
        group="sessions",
        name="move",
        operation="holdfast.session.move",
        method="POST",
        path="/move",
        summary="Move a Session to another directory of its project, with its uncommitted changes if wanted.",
        payload=MovePayload,
        envelope=Envelope.VOID,
        errors=(ConflictError,),
    ),
    Endpoint(
        group="sessions",
        name="waits",
        operation="holdfast.session.waits",
        method="GET",
        path="/waits",
        summary="For what a Session waits right now, since when, and what ends that.",
        envelope=Envelope.DATA,
        success=list[WaitInfo],
    ),
    Endpoint(
        group="sessions",
        name="recover",
        operation="holdfast.session.recover",
        method="POST",
        path="/recover",
        summary="Continue after a turn that broke off with its process, or let it be.",
        payload=RecoverPayload,
        envelope=Envelope.VOID,
    ),
    Endpoint(
        group="sessions",
        name="outcome",
        operation="holdfast.session.outcome",
        method="POST",
        path="/outcome",
        summary="Wait until nothing executes the session, and say how its last activity ended.",
        envelope=Envelope.DATA,
        success=Outcome,
    ),
    Endpoint(
        group="sessions",
        name="run",
        operation="holdfast.session.run",
        method="POST",
        path="/run",
        summary="Go on from history, at least once, or join what runs; returns when that has ended, and how.",
        envelope=Envelope.DATA,
        success=Outcome,
    ),
    Endpoint(
        group="sessions",
        name="checkpoint",
        operation="holdfast.session.checkpoint",
        method="GET",
        path="/checkpoint",
        summary="The newest compaction and what it replaced, or nothing.",
        envelope=Envelope.DATA,
        success=CheckpointInfo | None,
    ),
    Endpoint(
        group="sessions",
        name="undo_compaction",
        operation="holdfast.session.checkpoint.undo",
        method="POST",
        path="/checkpoint/undo",
        summary="Let the model read again what the newest compaction replaced, while nothing followed it.",
        envelope=Envelope.VOID,
        errors=(ConflictError,),
    ),
    Endpoint(
        group="sessions",
        name="request_context",
        operation="holdfast.session.requestContext",
        method="GET",
        path="/request-context",
        summary="What the model is told about its surroundings: the baseline, its sources, and what changed since.",
        envelope=Envelope.DATA,
        success=RequestContextView,
        errors=(UnknownError,),
    ),
    Endpoint(
        group="sessions",
        name="todos",
        operation="holdfast.session.todos",
        method="GET",
        path="/todo",
        summary="The list of things to do that the model keeps.",
        envelope=Envelope.DATA,
        success=list[Todo],
    ),
)

_OF_INSTANCE = (
    Endpoint(
        group="sessions",
        name="interrupted",
        operation="holdfast.session.interrupted",
        method="GET",
        path="/api/session/interrupted",
        query=InterruptedQuery,
        summary="What sessions owe and no process works on: how far it came, since when, and what comes of it.",
        envelope=Envelope.DATA,
        success=list[InterruptedActivity],
    ),
    Endpoint(
        group="metrics",
        name="read",
        operation="holdfast.metrics.read",
        method="GET",
        path="/api/metrics",
        summary="Counts, sums and largest values since the start, by name and source. Never a text.",
        envelope=Envelope.DATA,
        success=dict[str, dict[str, dict[str, float]]],
    ),
    Endpoint(
        group="openapi",
        name="document",
        operation="holdfast.openapi.document",
        method="GET",
        path="/openapi.json",
        summary="This API as an OpenAPI document.",
        envelope=Envelope.BARE,
        success=dict[str, Any],
    ),
)

ENDPOINTS: tuple[Endpoint, ...] = tuple(
    replace(endpoint, extension=True, handlers="extensions")
    for endpoint in (*_OF_INSTANCE, *map(of_session, _OF_SESSION))
)
