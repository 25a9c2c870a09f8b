"""The projections of a Session: one pure function per event type, from payload to named statements.

Rows are added, or one small row is patched; the cost of an event does not depend on the length of turn or Session."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from holdfast.core.database.database import PROJECTIONS
from holdfast.core.database.unit import Statement, Value
from holdfast.core.session.errors import LifecycleConflict, MessageIdInUse, SessionIdInUse, UnknownBoundary
from holdfast.core.session.private_projector import (
    PRIVATE_PROJECTORS,
    begin_activity,
    end_activity,
    end_turn,
)
from holdfast.schema import session_event as ev
from holdfast.schema.codec import encode_text
from holdfast.schema.session import NO_TOKENS, SessionRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.event.projection import Projected, Projector, Projectors
    from holdfast.schema.record import Record


def session_created(event: Projected) -> tuple[Statement, ...]:
    info = event.data.info
    return (
        Statement("session.exists", {"id": info.id}, found=False, error=SessionIdInUse),
        Statement("session.insert", _session_row(info)),
    )


def session_updated(event: Projected) -> tuple[Statement, ...]:
    return (Statement("session.overwrite", _session_row(event.data.info)),)


def session_deleted(event: Projected) -> tuple[Statement, ...]:
    key = {"id": event.data.session_id}
    # Spelled out, not left to foreign keys: those rest during a rebuild.
    return (
        Statement("session.clear_epoch", key, operational=True),
        Statement("inbox.forget_wakes", {"session_id": event.data.session_id}, operational=True),
        *(Statement(f"projection.clear_{table}", key) for table in PROJECTIONS[::-1]),
    )


def agent_switched(event: Projected) -> tuple[Statement, ...]:
    data: ev.AgentSwitched = event.data
    return (
        Statement("session.set_agent", {"id": data.session_id, "agent": data.agent, "timestamp": data.timestamp}),
        _message(event, data.message_id, "agent-switched", {"agent": data.agent}),
    )


def model_switched(event: Projected) -> tuple[Statement, ...]:
    data: ev.ModelSwitched = event.data
    return (
        Statement(
            "session.set_model", {"id": data.session_id, "model": encode_text(data.model), "timestamp": data.timestamp}
        ),
        _message(event, data.message_id, "model-switched", {"model": data.model}),
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


def prompt_admitted(event: Projected) -> tuple[Statement, ...]:
    data: ev.PromptAdmitted = event.data
    return (
        Statement("message.exists", {"id": data.message_id}, found=False, error=MessageIdInUse),
        Statement("inbox.exists", {"id": data.message_id}, found=False, error=MessageIdInUse),
        Statement("inbox.insert", _inbox_row(data)),
    )


def prompted(event: Projected) -> tuple[Statement, ...]:
    data: ev.Prompted = event.data
    row = _inbox_row(data)
    content = {"text": data.prompt.text, "files": data.prompt.files, "agents": data.prompt.agents}
    return (
        Statement("inbox.adopt", row),
        Statement("inbox.promote", row, changes=1, error=partial(LifecycleConflict, data.message_id)),
        Statement("inbox.woken", {"id": data.message_id}, operational=True),
        Statement("blocked.clear", {"session_id": data.session_id}, operational=True),
        _message(event, data.message_id, "user", content),
        begin_activity(data),
    )


def context_updated(event: Projected) -> tuple[Statement, ...]:
    return (_message(event, event.data.message_id, "system", {"text": event.data.text}),)


def synthetic(event: Projected) -> tuple[Statement, ...]:
    data: ev.Synthetic = event.data
    return (_message(event, data.message_id, "synthetic", {"sessionID": data.session_id, "text": data.text}),)


def shell_started(event: Projected) -> tuple[Statement, ...]:
    data: ev.ShellStarted = event.data
    content = {"callID": data.call_id, "command": data.command, "output": ""}
    return (_message(event, data.message_id, "shell", content),)


def shell_ended(event: Projected) -> tuple[Statement, ...]:
    data: ev.ShellEnded = event.data
    patch = {"output": data.output, "time": {"completed": data.timestamp}}
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


def step_started(event: Projected) -> tuple[Statement, ...]:
    data: ev.StepStarted = event.data
    snapshot = {"start": data.snapshot} if data.snapshot is not None else None
    content = {"agent": data.agent, "model": data.model, "snapshot": snapshot}
    return (
        Statement("message.close_newest_assistant", {"session_id": data.session_id, "timestamp": data.timestamp}),
        _message(event, data.assistant_message_id, "assistant", content),
        Statement("message.note_assistant", {"session_id": data.session_id}),
        Statement("turn.answer", {"session_id": data.session_id, "message_id": data.assistant_message_id}),
    )


def step_ended(event: Projected) -> tuple[Statement, ...]:
    data: ev.StepEnded = event.data
    snapshot = {key: value for key, value in (("end", data.snapshot), ("files", data.files)) if value is not None}
    patch = {
        "time": {"completed": data.timestamp},
        "finish": data.finish,
        "cost": data.cost,
        "tokens": data.tokens,
        **({"snapshot": snapshot} if snapshot else {}),
    }
    usage = {**_usage(data), "message_id": data.assistant_message_id}
    step = {"session_id": data.session_id, "message_id": data.assistant_message_id}
    return (
        _end_step(data, patch),
        Statement("session.add_step_usage", usage),
        end_turn(data),
        Statement("activity.step_ended", step),
    )


def step_failed(event: Projected) -> tuple[Statement, ...]:
    data: ev.StepFailed = event.data
    patch = {"time": {"completed": data.timestamp}, "finish": "error", "error": data.error}
    return (_end_step(data, patch), end_turn(data), end_activity(data))


def text_started(event: Projected) -> tuple[Statement, ...]:
    data: ev.TextStarted = event.data
    return _part(data, "text", data.text_id, {"type": "text", "id": data.text_id, "text": ""})


def text_ended(event: Projected) -> tuple[Statement, ...]:
    data: ev.TextEnded = event.data
    return (Statement("part.end_text", {**_target(data, data.text_id), "text": data.text}),)


def reasoning_started(event: Projected) -> tuple[Statement, ...]:
    data: ev.ReasoningStarted = event.data
    content = {
        "type": "reasoning",
        "id": data.reasoning_id,
        "text": "",
        **({"providerMetadata": data.provider_metadata} if data.provider_metadata is not None else {}),
        "time": {"created": data.timestamp},
    }
    return _part(data, "reasoning", data.reasoning_id, content)


def reasoning_ended(event: Projected) -> tuple[Statement, ...]:
    data: ev.ReasoningEnded = event.data
    row = {"text": data.text, "metadata": _json_or_none(data.provider_metadata)}
    return (Statement("part.end_reasoning", {**_target(data, data.reasoning_id), **row}),)


def tool_input_started(event: Projected) -> tuple[Statement, ...]:
    data: ev.ToolInputStarted = event.data
    content = {
        "type": "tool",
        "id": data.call_id,
        "name": data.name,
        "state": {"status": "pending", "input": ""},
        "time": {"created": data.timestamp},
    }
    return _part(data, "tool", data.call_id, content, status="pending")


def tool_input_ended(event: Projected) -> tuple[Statement, ...]:
    data: ev.ToolInputEnded = event.data
    return (Statement("part.tool_input", {**_target(data, data.call_id), "text": data.text}),)


def tool_called(event: Projected) -> tuple[Statement, ...]:
    data: ev.ToolCalled = event.data
    state = {"status": "running", "input": data.input, "structured": {}, "content": []}
    row = {"provider": encode_text(data.provider), "state": encode_text(state)}
    return (Statement("part.tool_called", {**_target(data, data.call_id), **row}),)


def tool_progress(event: Projected) -> tuple[Statement, ...]:
    data: ev.ToolProgress = event.data
    row = {"structured": encode_text(data.structured), "content": encode_text(data.content)}
    return (Statement("part.tool_progress", {**_target(data, data.call_id), **row}),)


def tool_success(event: Projected) -> tuple[Statement, ...]:
    data: ev.ToolSuccess = event.data
    state = {
        "status": "completed",
        "structured": data.structured,
        "content": data.content,
        **({"outputPaths": data.output_paths} if data.output_paths is not None else {}),
        **({"result": data.result} if data.result is not UNSET else {}),
    }
    return (Statement("part.tool_success", {**_target(data, data.call_id), **_settled(data.provider, state)}),)


def tool_failed(event: Projected) -> tuple[Statement, ...]:
    data: ev.ToolFailed = event.data
    state = {
        "status": "error",
        "error": data.error,
        **({"result": data.result} if data.result is not UNSET else {}),
    }
    return (Statement("part.tool_failed", {**_target(data, data.call_id), **_settled(data.provider, state)}),)


def compaction_started(event: Projected) -> tuple[Statement, ...]:
    return (_compacting(event.data, event.data.timestamp),)


def compaction_ended(event: Projected) -> tuple[Statement, ...]:
    data: ev.CompactionEnded = event.data
    content = {"reason": data.reason, "summary": data.text, "recent": data.recent}
    return (_message(event, data.message_id, "compaction", content), _compacting(data, None))


def compaction_failed(event: Projected) -> tuple[Statement, ...]:
    return (_compacting(event.data, None),)


def usage_recorded(event: Projected) -> tuple[Statement, ...]:
    return (Statement("session.add_usage", _usage(event.data)),)


def revert_staged(event: Projected) -> tuple[Statement, ...]:
    return (_revert(event.data, encode_text(event.data.revert)),)


def revert_cleared(event: Projected) -> tuple[Statement, ...]:
    return (_revert(event.data, None),)


def revert_committed(event: Projected) -> tuple[Statement, ...]:
    data: ev.RevertCommitted = event.data
    boundary = {"session_id": data.session_id, "message_id": data.message_id}
    return (
        Statement("message.in_session", boundary, found=True, error=UnknownBoundary),
        # What the model was told after the boundary, it is not told any more.
        Statement("session.clear_epoch_after", boundary, operational=True),
        Statement("inbox.delete_after", boundary),
        Statement("part.delete_after", boundary),
        Statement("message.delete_after", boundary),
        end_activity(data),
        _revert(data, None),
    )


def snapshot_captured(event: Projected) -> tuple[Statement, ...]:
    data: ev.SnapshotCaptured = event.data
    return (_end_step(data, {"snapshot": {"end": data.snapshot, "files": data.files}}),)


_PROJECTORS: dict[type[Record], Projector] = {
    ev.SessionCreated: session_created,
    ev.SessionUpdated: session_updated,
    ev.SessionDeleted: session_deleted,
    ev.AgentSwitched: agent_switched,
    ev.ModelSwitched: model_switched,
    ev.Moved: moved,
    ev.PromptAdmitted: prompt_admitted,
    ev.Prompted: prompted,
    ev.ContextUpdated: context_updated,
    ev.Synthetic: synthetic,
    ev.ShellStarted: shell_started,
    ev.ShellEnded: shell_ended,
    ev.StepStarted: step_started,
    ev.StepEnded: step_ended,
    ev.StepFailed: step_failed,
    ev.TextStarted: text_started,
    ev.TextEnded: text_ended,
    ev.ReasoningStarted: reasoning_started,
    ev.ReasoningEnded: reasoning_ended,
    ev.ToolInputStarted: tool_input_started,
    ev.ToolInputEnded: tool_input_ended,
    ev.ToolCalled: tool_called,
    ev.ToolProgress: tool_progress,
    ev.ToolSuccess: tool_success,
    ev.ToolFailed: tool_failed,
    ev.CompactionStarted: compaction_started,
    ev.CompactionEnded: compaction_ended,
    ev.CompactionFailed: compaction_failed,
    ev.UsageRecorded: usage_recorded,
    ev.RevertStaged: revert_staged,
    ev.RevertCleared: revert_cleared,
    ev.RevertCommitted: revert_committed,
    ev.SnapshotCaptured: snapshot_captured,
}
SESSION_PROJECTORS: Projectors = _PROJECTORS | PRIVATE_PROJECTORS


def _message(event: Projected, id: str, kind: str, content: Mapping[str, Any]) -> Statement:
    data = event.data
    header = {key: value for key, value in content.items() if value is not None}
    header["time"] = {"created": data.timestamp}
    if event.metadata:
        header["metadata"] = event.metadata
    return Statement(
        "message.insert",
        {
            "session_id": data.session_id,
            "id": id,
            "type": kind,
            "timestamp": data.timestamp,
            "data": encode_text(header),
        },
    )


def _end_step(data: ev.StepPayload, patch: Mapping[str, Any]) -> Statement:
    return Statement(
        "message.end_step",
        {
            "session_id": data.session_id,
            "message_id": data.assistant_message_id,
            "timestamp": data.timestamp,
            "patch": encode_text(patch),
        },
    )


def _usage(data: ev.StepEnded | ev.UsageRecorded) -> dict[str, Value]:
    return {
        "id": data.session_id,
        "timestamp": data.timestamp,
        "cost": data.cost,
        "input": data.tokens.input,
        "output": data.tokens.output,
        "reasoning": data.tokens.reasoning,
        "cache_read": data.tokens.cache.read,
        "cache_write": data.tokens.cache.write,
    }


def _compacting(data: ev.SessionPayload, since: int | None) -> Statement:
    return Statement("session.set_compacting", {"id": data.session_id, "since": since})


def _part(
    data: ev.StepPayload, kind: str, key: str, content: Mapping[str, Any], *, status: str | None = None
) -> tuple[Statement, ...]:
    place = {"session_id": data.session_id, "message_id": data.assistant_message_id, "kind": kind, "key": key}
    add = Statement("part.add", {**place, "status": status, "data": encode_text(content)})
    return (Statement("part.supersede", place), add)


def _target(data: ev.StepPayload, key: str) -> dict[str, Value]:
    return {
        "session_id": data.session_id,
        "message_id": data.assistant_message_id,
        "key": key,
        "timestamp": data.timestamp,
    }


def _settled(provider: ev.Provider, state: Mapping[str, Any]) -> dict[str, Value]:
    return {
        "executed": int(provider.executed),
        "metadata": _json_or_none(provider.metadata),
        "state": encode_text(state),
    }


def _revert(data: ev.SessionPayload, revert: str | None) -> Statement:
    return Statement("session.set_revert", {"id": data.session_id, "revert": revert, "timestamp": data.timestamp})


def _inbox_row(data: ev.PromptAdmitted | ev.Prompted) -> dict[str, Value]:
    return {
        "session_id": data.session_id,
        "id": data.message_id,
        "prompt": encode_text(data.prompt),
        "delivery": data.delivery,
        "timestamp": data.timestamp,
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
        "summary_diffs": _json_or_none(summary.get("diffs")),
        "metadata": _json_or_none(info.metadata),
        "cost": float(info.cost or 0),
        "tokens_input": tokens.input,
        "tokens_output": tokens.output,
        "tokens_reasoning": tokens.reasoning,
        "tokens_cache_read": tokens.cache.read,
        "tokens_cache_write": tokens.cache.write,
        "revert": _json_or_none(info.revert),
        "permission": _json_or_none(info.permission),
        "agent": info.agent,
        "model": _json_or_none(info.model),
        "time_created": info.time.created,
        "time_updated": info.time.updated,
        "time_compacting": info.time.compacting,
        "time_archived": info.time.archived,
    }


def _json_or_none(value: Any) -> str | None:
    return None if value is None else encode_text(value)
