"""Declining open requests of a Session that no process executes: as rows, so that no Location has to be opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.schema import live_event as live
from holdfast.schema import session_event as ev
from holdfast.schema.codec import decoder
from holdfast.schema.form import Form
from holdfast.schema.permission import PermissionRequest
from holdfast.schema.question import QuestionRequest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.session.stored_activity import OpenRequest
    from holdfast.schema.record import Record


def declined(requests: Sequence[OpenRequest], session_id: str, now: int) -> Iterator[tuple[Record, Record]]:
    """The durable and the live event for each request that a tool call made. Requests of other callers end with their
    callers."""
    for row in requests:
        match row.kind:
            case "permission":
                permission: PermissionRequest = decoder(PermissionRequest).decode(row.data)
                if permission.source is not None:
                    yield _permission(permission, session_id, now)
            case "question":
                question: QuestionRequest = decoder(QuestionRequest).decode(row.data)
                if question.tool is not None:
                    yield _question(question, session_id, now)
            case "form":
                form: Form = decoder(Form).decode(row.data)
                if form.tool is not None:
                    yield _form(form, session_id, now)


def _permission(request: PermissionRequest, session_id: str, now: int) -> tuple[Record, Record]:
    return (
        ev.PermissionReplied(
            timestamp=now, session_id=session_id, request_id=request.id, reply="reject", cause="interrupted"
        ),
        live.PermissionRepliedLive(
            session_id=session_id, request_id=request.id, reply="reject", ancestors=request.ancestors
        ),
    )


def _question(request: QuestionRequest, session_id: str, now: int) -> tuple[Record, Record]:
    return (
        ev.QuestionRejected(timestamp=now, session_id=session_id, request_id=request.id, cause="interrupted"),
        live.QuestionRejectedLive(session_id=session_id, request_id=request.id, ancestors=request.ancestors),
    )


def _form(request: Form, session_id: str, now: int) -> tuple[Record, Record]:
    return (
        ev.FormCancelled(timestamp=now, session_id=session_id, request_id=request.id, cause="interrupted"),
        live.FormCancelledLive(id=request.id, session_id=session_id, ancestors=request.ancestors),
    )
