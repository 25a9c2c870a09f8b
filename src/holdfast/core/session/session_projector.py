"""Projections of the Session's own row: its record, agent, model, Location, usage, revert, todos and instructions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.database.database import PROJECTIONS
from holdfast.core.database.unit import Statement, Value
from holdfast.core.session.budget_projector import budget_deleted, budget_released
from holdfast.core.session.errors import SessionIdInUse, UnknownBoundary
from holdfast.core.session.lineage import SHARED, Boundary, forget, release_all, remove_after, taken_over
from holdfast.core.session.projected_rows import (
    end_activity,
    json_or_none,
    message,
    usage_row,
)
from holdfast.schema import session_event as ev
from holdfast.schema.codec import encode_text
from holdfast.schema.fork_event import LineageShortened, SessionForked
from holdfast.schema.session import NO_TOKENS, SessionRecord

if TYPE_CHECKING:
    from holdfast.core.event.projection import Projected, Projector
    from holdfast.schema.record import Record


def session_created(event: Projected) -> tuple[Statement, ...]:
    info = event.data.info
    own = () if info.fork is not None else (Statement("lineage.begin", {"session_id": info.id}),)
    return (
        Statement("session.exists", {"id": info.id}, found=False, error=SessionIdInUse),
        Statement("session.insert", _session_row(info)),
        *own,
    )


def session_forked(event: Projected) -> tuple[Statement, ...]:
    return taken_over(event.data)


def session_updated(event: Projected) -> tuple[Statement, ...]:
    info = event.data.info
    released = budget_released(info.id) if info.parent_id is None else ()
    return (Statement("session.overwrite", _session_row(info)), *released)


def session_deleted(event: Projected) -> tuple[Statement, ...]:
    session_id = event.data.session_id
    key = {"id": session_id}
    # Spelled out, not left to foreign keys: those rest during a rebuild.
    return (
        Statement("session.clear_epoch", key, operational=True),
        Statement("context.forget_changes", key, operational=True),
        Statement("inbox.forget_wakes", {"session_id": session_id}, operational=True),
        Statement("partial.forget", key, operational=True),
        Statement("deleted.insert", _deleted_row(event.data.info), operational=True),
        *budget_deleted(session_id),
        *release_all(session_id),
        *(Statement(f"projection.clear_{table}", key) for table in PROJECTIONS[::-1] if table not in SHARED),
        *forget(session_id),
    )


def agent_switched(event: Projected) -> tuple[Statement, ...]:
    data: ev.AgentSwitched = event.data
    return (
        Statement("session.set_agent", {"id": data.session_id, "agent": data.agent, "timestamp": data.timestamp}),
        message(event, data.message_id, "agent-switched", {"agent": data.agent}),
    )


def model_switched(event: Projected) -> tuple[Statement, ...]:
    data: ev.ModelSwitched = event.data
    return (
        Statement(
            "session.set_model", {"id": data.session_id, "model": encode_text(data.model), "timestamp": data.timestamp}
        ),
        message(event, data.message_id, "model-switched", {"model": data.model}),
    )


def moved(event: Projected) -> tuple[Statement, ...]:
    data: ev.Moved = event.data
    return (
        Statement(
            "session.move",
            {
                "id": data.session_id,
                "directory": data.location.directory,
                "workspace_id": data.location.workspace_id,
                "path": data.subdirectory or "",
                "timestamp": data.timestamp,
            },
        ),
        # Nothing may promote at the destination before a full baseline was built there.
        Statement("session.clear_epoch", {"id": data.session_id}, operational=True),
    )


def usage_recorded(event: Projected) -> tuple[Statement, ...]:
    data: ev.UsageRecorded = event.data
    return (Statement("session.add_usage", usage_row(data, data.cost, data.tokens)),)


def revert_staged(event: Projected) -> tuple[Statement, ...]:
    return (_revert(event.data, encode_text(event.data.revert)),)


def revert_cleared(event: Projected) -> tuple[Statement, ...]:
    return (_revert(event.data, None),)


def revert_committed(event: Projected) -> tuple[Statement, ...]:
    data: ev.RevertCommitted = event.data
    if data.before:
        return (*end_activity(data), _revert(data, None))
    boundary: Boundary = {"session_id": data.session_id, "message_id": data.message_id, "after": None}
    return (
        Statement("message.boundary", boundary, found=True, error=UnknownBoundary),
        *remove_after(boundary),
        *end_activity(data),
        _revert(data, None),
    )


def lineage_shortened(event: Projected) -> tuple[Statement, ...]:
    data: LineageShortened = event.data
    boundary: Boundary = {"session_id": data.session_id, "message_id": None, "after": data.through_seq}
    return (Statement("lineage.covers", boundary, found=True, error=UnknownBoundary), *remove_after(boundary))


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


def instruction_discovered(event: Projected) -> tuple[Statement, ...]:
    data: ev.InstructionDiscovered = event.data
    place = {"directory": data.location.directory, "workspace_id": data.location.workspace_id or ""}
    return tuple(
        Statement("instruction.discover", {"session_id": data.session_id, **place, "path": path}) for path in data.paths
    )


def instruction_entry_put(event: Projected) -> tuple[Statement, ...]:
    data: ev.InstructionEntryPut = event.data
    row: dict[str, Value] = {"session_id": data.session_id, "key": data.key, "value": bytes(data.value).decode()}
    return (Statement("instruction_entry.put", row), _instructions_changed(data))


def instruction_entry_removed(event: Projected) -> tuple[Statement, ...]:
    data: ev.InstructionEntryRemoved = event.data
    row = {"session_id": data.session_id, "key": data.key}
    return (Statement("instruction_entry.remove", row), _instructions_changed(data))


RECORD_PROJECTORS: dict[type[Record], Projector] = {
    ev.SessionCreated: session_created,
    SessionForked: session_forked,
    ev.SessionUpdated: session_updated,
    ev.SessionDeleted: session_deleted,
    ev.AgentSwitched: agent_switched,
    ev.ModelSwitched: model_switched,
    ev.Moved: moved,
    ev.UsageRecorded: usage_recorded,
    ev.RevertStaged: revert_staged,
    ev.RevertCleared: revert_cleared,
    ev.RevertCommitted: revert_committed,
    LineageShortened: lineage_shortened,
    ev.TodosReplaced: todos_replaced,
    ev.InstructionDiscovered: instruction_discovered,
    ev.InstructionEntryPut: instruction_entry_put,
    ev.InstructionEntryRemoved: instruction_entry_removed,
}


def _instructions_changed(data: ev.SessionPayload) -> Statement:
    return Statement("session.instructions_changed", {"id": data.session_id, "timestamp": data.timestamp})


def _revert(data: ev.SessionPayload, revert: str | None) -> Statement:
    return Statement("session.set_revert", {"id": data.session_id, "revert": revert, "timestamp": data.timestamp})


def _deleted_row(info: SessionRecord) -> dict[str, Value]:
    return {
        "id": info.id,
        "parent_id": info.parent_id,
        "source_id": info.fork.session_id if info.fork is not None else None,
        "time_updated": info.time.updated,
    }


def _session_row(info: SessionRecord) -> dict[str, Value]:
    tokens = info.tokens or NO_TOKENS
    summary = info.summary or {}
    return {
        "id": info.id,
        "project_id": info.project_id,
        "workspace_id": info.workspace_id,
        "parent_id": info.parent_id,
        "slug": info.slug,
        "directory": info.directory,
        "path": info.path,
        "title": info.title,
        "version": info.version,
        "share_url": (info.share or {}).get("url"),
        "summary_additions": summary.get("additions"),
        "summary_deletions": summary.get("deletions"),
        "summary_files": summary.get("files"),
        "summary_diffs": json_or_none(summary.get("diffs")),
        "metadata": json_or_none(info.metadata),
        "cost": float(info.cost or 0),
        "tokens_input": tokens.input,
        "tokens_output": tokens.output,
        "tokens_reasoning": tokens.reasoning,
        "tokens_cache_read": tokens.cache.read,
        "tokens_cache_write": tokens.cache.write,
        "revert": json_or_none(info.revert),
        "permission": json_or_none(info.permission),
        "agent": info.agent,
        "model": json_or_none(info.model),
        "time_created": info.time.created,
        "time_updated": info.time.updated,
        "time_compacting": info.time.compacting,
        "time_archived": info.time.archived,
        "time_pinned": info.time.pinned,
        "fork": json_or_none(info.fork),
    }
