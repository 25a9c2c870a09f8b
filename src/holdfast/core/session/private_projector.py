"""The projections of what a Session records besides its conversation: dispatches, withdrawn inputs, attachments, todos,
discovered instructions, and what it asks of a person. Private events; the public ones are in projector.py."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.core.database.unit import Statement, Value
from holdfast.core.session.errors import AlreadyAnswered, AlreadyTaken, InputNotPending, UnknownBoundary
from holdfast.schema import session_event as ev
from holdfast.schema.codec import encode_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.event.projection import Projected, Projector
    from holdfast.schema.record import Record


def input_withdrawn(event: Projected) -> tuple[Statement, ...]:
    data: ev.InputWithdrawn = event.data
    row = {"session_id": data.session_id, "id": data.message_id}
    promoted = partial(InputNotPending, data.session_id, data.message_id)
    return (
        Statement("inbox.withdraw", row, changes=1, error=promoted),
        Statement("inbox.woken", {"id": data.message_id}, operational=True),
    )


def attachment_stored(event: Projected) -> tuple[Statement, ...]:
    data: ev.AttachmentStored = event.data
    kinds = {"text": data.text, "data": data.data, "note": data.note}
    kind, content = next(((kind, content) for kind, content in kinds.items() if content is not None), ("note", ""))
    row: dict[str, Value] = {
        "session_id": data.session_id,
        "message_id": data.message_id,
        "index": data.index,
        "mime": data.mime,
        "kind": kind,
        "content": content,
    }
    return (Statement("attachment.insert", row),)


def instruction_discovered(event: Projected) -> tuple[Statement, ...]:
    data: ev.InstructionDiscovered = event.data
    place = {"directory": data.location.directory, "workspace_id": data.location.workspace_id or ""}
    return tuple(
        Statement("instruction.discover", {"session_id": data.session_id, **place, "path": path}) for path in data.paths
    )


def turn_dispatched(event: Projected) -> tuple[Statement, ...]:
    data: ev.TurnDispatched = event.data
    row: dict[str, Value] = {
        "session_id": data.session_id,
        "agent": data.agent,
        "model": encode_text(data.model),
        "attempt": data.attempt,
        "timestamp": data.timestamp,
    }
    return (Statement("turn.dispatch", row), Statement("activity.dispatch", _moment(data)))


def turn_abandoned(event: Projected) -> tuple[Statement, ...]:
    return (end_turn(event.data),)


def activity_ended(event: Projected) -> tuple[Statement, ...]:
    return (end_activity(event.data),)


def activity_suspended(event: Projected) -> tuple[Statement, ...]:
    return (Statement("activity.suspend", _moment(event.data)),)


def compaction_undone(event: Projected) -> tuple[Statement, ...]:
    data: ev.CompactionUndone = event.data
    row = {"session_id": data.session_id, "message_id": data.message_id}
    return (
        Statement("message.undo_compaction", row, changes=1, error=UnknownBoundary),
        Statement("session.clear_epoch", {"id": data.session_id}, operational=True),
    )


def todos_replaced(event: Projected) -> tuple[Statement, ...]:
    data: ev.TodosReplaced = event.data
    rows: list[dict[str, Value]] = [
        {
            "session_id": data.session_id,
            "position": position,
            "content": todo.content,
            "status": todo.status,
            "priority": todo.priority,
            "timestamp": data.timestamp,
        }
        for position, todo in enumerate(data.todos)
    ]
    clear = Statement("todo.clear", {"session_id": data.session_id})
    return (clear, *(Statement("todo.insert", row) for row in rows))


def permission_asked(event: Projected) -> tuple[Statement, ...]:
    return (_request(event.data, "permission", event.data.agent),)


def permission_replied(event: Projected) -> tuple[Statement, ...]:
    data: ev.PermissionReplied = event.data
    given = {"reply": data.reply, "message": data.message, "cause": data.cause}
    return (_answered(data, {key: value for key, value in given.items() if value is not None}),)


def request_taken(event: Projected) -> tuple[Statement, ...]:
    row = {"session_id": event.data.session_id, "id": event.data.request_id}
    return (Statement("request.take", row, changes=1, error=AlreadyTaken),)


def question_asked(event: Projected) -> tuple[Statement, ...]:
    return (_request(event.data, "question", None),)


def question_replied(event: Projected) -> tuple[Statement, ...]:
    return (_answered(event.data, {"answers": event.data.answers}),)


def question_rejected(event: Projected) -> tuple[Statement, ...]:
    return (_answered(event.data, {"rejected": event.data.cause or "person"}),)


PRIVATE_PROJECTORS: dict[type[Record], Projector] = {
    ev.InputWithdrawn: input_withdrawn,
    ev.AttachmentStored: attachment_stored,
    ev.InstructionDiscovered: instruction_discovered,
    ev.TurnDispatched: turn_dispatched,
    ev.TurnAbandoned: turn_abandoned,
    ev.ActivityEnded: activity_ended,
    ev.ActivitySuspended: activity_suspended,
    ev.RequestTaken: request_taken,
    ev.CompactionUndone: compaction_undone,
    ev.TodosReplaced: todos_replaced,
    ev.PermissionAsked: permission_asked,
    ev.PermissionReplied: permission_replied,
    ev.QuestionAsked: question_asked,
    ev.QuestionReplied: question_replied,
    ev.QuestionRejected: question_rejected,
}


def end_turn(data: ev.SessionPayload) -> Statement:
    return Statement("turn.end", {"session_id": data.session_id})


def begin_activity(data: ev.SessionPayload) -> Statement:
    return Statement("activity.begin", _moment(data))


def end_activity(data: ev.SessionPayload) -> Statement:
    return Statement("activity.end", {"session_id": data.session_id})


def _moment(data: ev.SessionPayload) -> dict[str, Value]:
    return {"session_id": data.session_id, "timestamp": data.timestamp}


def _request(data: ev.PermissionAsked | ev.QuestionAsked, kind: str, agent: str | None) -> Statement:
    row: dict[str, Value] = {
        "session_id": data.session_id,
        "id": data.request.id,
        "kind": kind,
        "agent": agent,
        "data": encode_text(data.request),
        "timestamp": data.timestamp,
        "resumable": int(data.resumable is True),
    }
    return Statement("request.insert", row)


def _answered(
    data: ev.PermissionReplied | ev.QuestionReplied | ev.QuestionRejected, reply: Mapping[str, Any]
) -> Statement:
    row = {"session_id": data.session_id, "id": data.request_id, "reply": encode_text(reply)}
    return Statement("request.reply", row, changes=1, error=AlreadyAnswered)
