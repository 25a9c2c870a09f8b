"""Operations that OpenCode does not have, on unused paths."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec.structs import replace

from holdfast.protocol.endpoint import Endpoint, endpoint
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


class RecoverPayload(Record):
    decision: Literal["continue", "abandon"]


_OF_SESSION = of_session(
    endpoint(
        "sessions.pending",
        "GET /pending",
        "holdfast.session.pending",
        "Inputs that were admitted and are not part of the conversation yet, oldest first.",
        data=list[Admission],
    ),
    endpoint(
        "sessions.withdraw",
        "DELETE /pending/{messageID}",
        "holdfast.session.withdraw",
        "Take a pending input back. Again is fine; a promoted one is a conflict.",
        params=MessagePath,
        errors=(MessageNotFoundError, ConflictError),
    ),
    endpoint(
        "sessions.rename",
        "POST /rename",
        "holdfast.session.rename",
        "Give a Session a title.",
        payload=RenamePayload,
        data=Session,
    ),
    endpoint(
        "sessions.archive",
        "POST /archive",
        "holdfast.session.archive",
        "Put a Session away, or with `archived: false` take it out again.",
        payload=ArchivePayload,
        data=Session,
    ),
    endpoint(
        "sessions.delete",
        "DELETE",
        "holdfast.session.delete",
        "Stop what runs and remove a Session from every view.",
    ),
    endpoint(
        "sessions.move",
        "POST /move",
        "holdfast.session.move",
        "Move a Session to another directory of its project, with its uncommitted changes if wanted.",
        payload=MovePayload,
        errors=(ConflictError,),
    ),
    endpoint(
        "sessions.waits",
        "GET /waits",
        "holdfast.session.waits",
        "For what a Session waits right now, since when, and what ends that.",
        data=list[WaitInfo],
    ),
    endpoint(
        "sessions.recover",
        "POST /recover",
        "holdfast.session.recover",
        "Continue after a turn that broke off with its process, or let it be.",
        payload=RecoverPayload,
    ),
    endpoint(
        "sessions.outcome",
        "POST /outcome",
        "holdfast.session.outcome",
        "Wait until nothing executes the session, and say how its last activity ended.",
        data=Outcome,
    ),
    endpoint(
        "sessions.run",
        "POST /run",
        "holdfast.session.run",
        "Go on from history, at least once, or join what runs; returns when that has ended, and how.",
        data=Outcome,
    ),
    endpoint(
        "sessions.checkpoint",
        "GET /checkpoint",
        "holdfast.session.checkpoint",
        "The newest compaction and what it replaced, or nothing.",
        data=CheckpointInfo | None,
    ),
    endpoint(
        "sessions.undo_compaction",
        "POST /checkpoint/undo",
        "holdfast.session.checkpoint.undo",
        "Let the model read again what the newest compaction replaced, while nothing followed it.",
        errors=(ConflictError,),
    ),
    endpoint(
        "sessions.request_context",
        "GET /request-context",
        "holdfast.session.requestContext",
        "What the model is told about its surroundings: the baseline, its sources, and what changed since.",
        data=RequestContextView,
        errors=(UnknownError,),
    ),
    endpoint(
        "sessions.todos",
        "GET /todo",
        "holdfast.session.todos",
        "The list of things to do that the model keeps.",
        data=list[Todo],
    ),
)

_OF_INSTANCE = (
    endpoint(
        "sessions.interrupted",
        "GET /api/session/interrupted",
        "holdfast.session.interrupted",
        "What sessions owe and no process works on: how far it came, since when, and what comes of it.",
        data=list[InterruptedActivity],
    ),
    endpoint(
        "metrics.read",
        "GET /api/metrics",
        "holdfast.metrics.read",
        "Counts, sums and largest values since the start, by name and source. Never a text.",
        data=dict[str, dict[str, dict[str, float]]],
    ),
    endpoint(
        "openapi.document",
        "GET /openapi.json",
        "holdfast.openapi.document",
        "This API as an OpenAPI document.",
        bare=dict[str, Any],
    ),
)

ENDPOINTS: tuple[Endpoint, ...] = tuple(
    replace(endpoint, extension=True, handler=f"extensions.{endpoint.name}")
    for endpoint in (*_OF_INSTANCE, *_OF_SESSION)
)
