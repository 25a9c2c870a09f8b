"""Projections of what a Session has to do and of what it asks a person. All of these events are private."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core.database.unit import Statement, Value
from holdfast.core.session.errors import (
    AlreadyAnswered,
    AlreadyTaken,
)
from holdfast.core.session.projected_rows import (
    break_off,
    end_activity,
    moment,
)
from holdfast.schema import session_event as ev
from holdfast.schema.codec import encode_text
from holdfast.schema.turn_event import RecoveryDecided, TurnAbandoned, TurnAnswered, TurnDispatched

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.event.projection import Projected, Projector
    from holdfast.schema.record import Record


def turn_dispatched(event: Projected) -> tuple[Statement, ...]:
    data: TurnDispatched = event.data
    row: dict[str, Value] = {
        "session_id": data.session_id,
        "agent": data.agent,
        "model": encode_text(data.model),
        "attempt": data.attempt,
        "timestamp": data.timestamp,
    }
    return (Statement("turn.dispatch", row), Statement("activity.dispatch", moment(data)))


def turn_answered(event: Projected) -> tuple[Statement, ...]:
    data: TurnAnswered = event.data
    used = encode_text({"cost": data.cost, "tokens": data.tokens})
    return (Statement("turn.answered", {"session_id": data.session_id, "used": used}),)


def turn_abandoned(event: Projected) -> tuple[Statement, ...]:
    return break_off(event.data)


def recovery_decided(event: Projected) -> tuple[Statement, ...]:
    """Only work that is left to somebody stays as it is; the events after this one say what becomes of other work."""
    data: RecoveryDecided = event.data
    left = data.decision in ("person", "wait")
    return (Statement("activity.decide", {"session_id": data.session_id}),) if left else ()


def activity_ended(event: Projected) -> tuple[Statement, ...]:
    return end_activity(event.data)


def activity_suspended(event: Projected) -> tuple[Statement, ...]:
    """Also the end of an activity by a failed step, directly before this, is none."""
    key = {"session_id": event.data.session_id}
    return (Statement("activity.suspend", moment(event.data)), Statement("inbox.reopen", key))


def permission_asked(event: Projected) -> tuple[Statement, ...]:
    return (_request(event.data, "permission", event.data.agent),)


def permission_replied(event: Projected) -> tuple[Statement, ...]:
    data: ev.PermissionReplied = event.data
    given = {"reply": data.reply, "message": data.message, "cause": data.cause}
    return _answered(data, {key: value for key, value in given.items() if value is not None})


def question_asked(event: Projected) -> tuple[Statement, ...]:
    return (_request(event.data, "question", None),)


def question_replied(event: Projected) -> tuple[Statement, ...]:
    return _answered(event.data, {"answers": event.data.answers})


def question_rejected(event: Projected) -> tuple[Statement, ...]:
    return _answered(event.data, {"rejected": event.data.cause or "person"})


def form_asked(event: Projected) -> tuple[Statement, ...]:
    return (_request(event.data, "form", None),)


def form_replied(event: Projected) -> tuple[Statement, ...]:
    return _answered(event.data, {"answer": event.data.answer})


def form_cancelled(event: Projected) -> tuple[Statement, ...]:
    """A form that was cancelled without a person has nobody who takes the answer. Its call may go on."""
    data: ev.FormCancelled = event.data
    reply = {"cancelled": data.cause or "person", **({"declined": True} if data.declined else {})}
    if data.cause is None:
        return _answered(data, reply)
    return (*_answered(data, reply), Statement("request.take", {"session_id": data.session_id, "id": data.request_id}))


def request_taken(event: Projected) -> tuple[Statement, ...]:
    row = {"session_id": event.data.session_id, "id": event.data.request_id}
    return (Statement("request.take", row, changes=1, error=AlreadyTaken),)


ACTIVITY_PROJECTORS: dict[type[Record], Projector] = {
    TurnDispatched: turn_dispatched,
    TurnAnswered: turn_answered,
    TurnAbandoned: turn_abandoned,
    RecoveryDecided: recovery_decided,
    ev.ActivityEnded: activity_ended,
    ev.ActivitySuspended: activity_suspended,
    ev.PermissionAsked: permission_asked,
    ev.PermissionReplied: permission_replied,
    ev.QuestionAsked: question_asked,
    ev.QuestionReplied: question_replied,
    ev.QuestionRejected: question_rejected,
    ev.FormAsked: form_asked,
    ev.FormReplied: form_replied,
    ev.FormCancelled: form_cancelled,
    ev.RequestTaken: request_taken,
}


CLOSED = {
    "permission": encode_text({"reply": "reject", "cause": "interrupted"}),
    "question": encode_text({"rejected": "interrupted"}),
    "form": encode_text({"cancelled": "interrupted"}),
}
"""The answer to a request that came from elsewhere: nobody here can give another one."""


def _request(data: ev.PermissionAsked | ev.QuestionAsked | ev.FormAsked, kind: str, agent: str | None) -> Statement:
    row: dict[str, Value] = {
        "session_id": data.session_id,
        "id": data.request.id,
        "kind": kind,
        "agent": agent,
        "data": encode_text(data.request),
        "timestamp": data.timestamp,
        "resumable": int(data.resumable is True),
        "owner": data.owner if isinstance(data, ev.PermissionAsked) else None,
        "closed": CLOSED[kind],
    }
    return Statement("request.insert", row)


def _answered(
    data: ev.PermissionReplied | ev.QuestionReplied | ev.QuestionRejected | ev.FormReplied | ev.FormCancelled,
    reply: Mapping[str, Any],
) -> tuple[Statement, ...]:
    key = {"session_id": data.session_id, "id": data.request_id}
    return (Statement("request.reply", {**key, "reply": encode_text(reply)}, changes=1, error=AlreadyAnswered),)
