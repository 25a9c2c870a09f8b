"""Operations that OpenCode does not have, on unused paths."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec.structs import replace

from holdfast.protocol.endpoint import Endpoint, endpoint
from holdfast.protocol.scope import MessagePath, of_session
from holdfast.schema.errors import ConflictError, MessageNotFoundError, ServiceUnavailableError, UnknownError
from holdfast.schema.insight import CheckpointInfo, InterruptedActivity, Outcome, RequestContextView, WaitInfo
from holdfast.schema.prompt import Admission
from holdfast.schema.record import Record
from holdfast.schema.session import Session
from holdfast.schema.todo import Todo


class RenamePayload(Record):
    title: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class ArchivePayload(Record):
    archived: bool | None = None


class DeleteQuery(Record):
    children: Literal["delete", "keep"] | None = None
    """`keep`: the children become Sessions without a parent. They are deleted by default, deepest first."""


class MovePayload(Record):
    directory: str
    move_changes: bool | None = None


class InterruptedQuery(Record):
    directory: str | None = None
    """Only Sessions of this directory."""


class GeneratePayload(Record):
    prompt: Annotated[str, msgspec.Meta(min_length=1)]


class Generated(Record):
    text: str


class RecoverPayload(Record):
    decision: Literal["continue", "abandon", "policy"]
    """`policy` decides as the setting `holdfast.recovery` says."""


_OF_SESSION = of_session(
    endpoint(
        "sessions.pending",
        "GET /pending",
        "holdfast.session.pending",
        "Admitted inputs that are not part of the conversation yet, oldest first.",
        role="read",
        data=list[Admission],
    ),
    endpoint(
        "sessions.withdraw",
        "DELETE /pending/{messageID}",
        "holdfast.session.withdraw",
        "Withdraw a pending input. Repeating it is fine; a promoted input is a conflict.",
        role="prompt",
        params=MessagePath,
        errors=(MessageNotFoundError, ConflictError),
    ),
    endpoint(
        "sessions.rename",
        "POST /rename",
        "holdfast.session.rename",
        "Set the title of a Session.",
        role="prompt",
        payload=RenamePayload,
        data=Session,
    ),
    endpoint(
        "sessions.archive",
        "POST /archive",
        "holdfast.session.archive",
        "Archive a Session, or restore it with `archived: false`.",
        role="prompt",
        payload=ArchivePayload,
        data=Session,
    ),
    endpoint(
        "sessions.delete",
        "DELETE",
        "holdfast.session.delete",
        "Interrupt a Session and delete it, with its children, or with `children=keep` without them. Repeating it "
        "completes a deletion that broke off.",
        role="admin",
        recorded=True,
        query=DeleteQuery,
        errors=(ConflictError,),
    ),
    endpoint(
        "sessions.move",
        "POST /move",
        "holdfast.session.move",
        "Move a Session to another directory of its project, optionally with its uncommitted changes.",
        role="admin",
        payload=MovePayload,
        errors=(ConflictError,),
    ),
    endpoint(
        "sessions.waits",
        "GET /waits",
        "holdfast.session.waits",
        "What a Session currently waits for, since when, and what ends the wait.",
        role="read",
        data=list[WaitInfo],
    ),
    endpoint(
        "sessions.recover",
        "POST /recover",
        "holdfast.session.recover",
        "Continue or abandon a turn whose process ended, and whatever was left in the Sessions below, deepest first.",
        role="prompt",
        recorded=True,
        payload=RecoverPayload,
    ),
    endpoint(
        "sessions.outcome",
        "POST /outcome",
        "holdfast.session.outcome",
        "Wait until the Session is idle and return how its last activity ended.",
        role="read",
        data=Outcome,
    ),
    endpoint(
        "sessions.run",
        "POST /run",
        "holdfast.session.run",
        "Continue from history, or join the running activity; returns how it ended.",
        role="prompt",
        data=Outcome,
    ),
    endpoint(
        "sessions.checkpoint",
        "GET /checkpoint",
        "holdfast.session.checkpoint",
        "The newest compaction and the messages it replaced, or null.",
        role="read",
        data=CheckpointInfo | None,
    ),
    endpoint(
        "sessions.undo_compaction",
        "POST /checkpoint/undo",
        "holdfast.session.checkpoint.undo",
        "Undo the newest compaction, if nothing has followed it.",
        role="prompt",
        errors=(ConflictError,),
    ),
    endpoint(
        "sessions.request_context",
        "GET /request-context",
        "holdfast.session.requestContext",
        "The System Context of a Session: its baseline, its sources and later changes.",
        role="read",
        data=RequestContextView,
        errors=(UnknownError,),
    ),
    endpoint(
        "sessions.generate",
        "POST /generate",
        "v2.session.generate",
        "One answer of the Session's model on the settled history, without tools; nothing is added to the "
        "conversation. A caller that disconnects ends it.",
        role="prompt",
        payload=GeneratePayload,
        data=Generated,
        errors=(ConflictError, ServiceUnavailableError),
    ),
    endpoint(
        "sessions.todos", "GET /todo", "holdfast.session.todos", "The model's to-do list.", role="read", data=list[Todo]
    ),
)

_OF_INSTANCE = (
    endpoint(
        "sessions.interrupted",
        "GET /api/session/interrupted",
        "holdfast.session.interrupted",
        "Unfinished work of Sessions that no process executes: its progress, since when, and what happens next.",
        role="read",
        query=InterruptedQuery,
        data=list[InterruptedActivity],
    ),
    endpoint(
        "metrics.read",
        "GET /api/metrics",
        "holdfast.metrics.read",
        "Counts, sums and maximum values since the start, by name and source. Numbers only.",
        role="read",
        data=dict[str, dict[str, dict[str, float]]],
    ),
    endpoint(
        "openapi.document",
        "GET /openapi.json",
        "holdfast.openapi.document",
        "This API as an OpenAPI document.",
        role="read",
        checks_projects=True,
        bare=dict[str, Any],
    ),
)

ENDPOINTS: tuple[Endpoint, ...] = tuple(
    replace(endpoint, extension=True, handler=f"extensions.{endpoint.name}")
    for endpoint in (*_OF_INSTANCE, *_OF_SESSION)
)
