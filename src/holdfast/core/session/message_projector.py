"""Projections of messages other than inputs and answers: system and shell messages, and checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core.database.unit import Statement
from holdfast.core.session.input_errors import MessageIdInUse
from holdfast.core.session.lineage import leave_out
from holdfast.core.session.projected_rows import message
from holdfast.schema import session_event as ev
from holdfast.schema.codec import encode_text

if TYPE_CHECKING:
    from holdfast.core.database.unit import Value
    from holdfast.core.event.projection import Projected, Projector
    from holdfast.schema.record import Record


def context_updated(event: Projected) -> tuple[Statement, ...]:
    return (message(event, event.data.message_id, "system", {"text": event.data.text}),)


def shell_started(event: Projected) -> tuple[Statement, ...]:
    data: ev.ShellStarted = event.data
    content = {"callID": data.call_id, "command": data.command, "output": ""}
    id: dict[str, Value] = {"id": data.message_id}
    claimed = {**id, "session_id": data.session_id}
    return (
        Statement("message.exists", id, found=False, error=MessageIdInUse),
        Statement("inbox.exists", id, found=False, error=MessageIdInUse),
        Statement("inbox.claim", {**claimed, "timestamp": data.timestamp}, operational=True),
        message(event, data.message_id, "shell", content),
        Statement("inbox.unclaim", claimed, operational=True),
    )


def shell_ended(event: Projected) -> tuple[Statement, ...]:
    data: ev.ShellEnded = event.data
    patch: dict[str, Any] = {"output": data.output, "time": {"completed": data.timestamp}}
    if data.exit is not None:
        patch["exit"] = data.exit
    return (
        Statement(
            "message.end_shell",
            {
                "session_id": data.session_id,
                "call_id": data.call_id,
                "timestamp": data.timestamp,
                "patch": encode_text(patch),
            },
        ),
    )


def compaction_started(event: Projected) -> tuple[Statement, ...]:
    return (_compacting(event.data, event.data.timestamp),)


def compaction_ended(event: Projected) -> tuple[Statement, ...]:
    data: ev.CompactionEnded = event.data
    content = {"reason": data.reason, "summary": data.text, "recent": data.recent}
    return (message(event, data.message_id, "compaction", content), _compacting(data, None))


def compaction_failed(event: Projected) -> tuple[Statement, ...]:
    return (_compacting(event.data, None),)


def compaction_undone(event: Projected) -> tuple[Statement, ...]:
    data: ev.CompactionUndone = event.data
    return (
        *leave_out(data.session_id, data.message_id, data.message_seq),
        Statement("session.clear_epoch", {"id": data.session_id}, operational=True),
    )


MESSAGE_PROJECTORS: dict[type[Record], Projector] = {
    ev.ContextUpdated: context_updated,
    ev.ShellStarted: shell_started,
    ev.ShellEnded: shell_ended,
    ev.CompactionStarted: compaction_started,
    ev.CompactionEnded: compaction_ended,
    ev.CompactionFailed: compaction_failed,
    ev.CompactionUndone: compaction_undone,
}


def _compacting(data: ev.SessionPayload, since: int | None) -> Statement:
    return Statement("session.set_compacting", {"id": data.session_id, "since": since})
