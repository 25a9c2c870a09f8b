"""Projections of an answer: its message, and one row for each text, reasoning and tool part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from holdfast.core.database.unit import Statement, Value
from holdfast.core.session.projected_rows import (
    break_off,
    end_activity,
    end_inputs,
    end_turn,
    json_or_none,
    message,
    usage_row,
)
from holdfast.schema import session_event as ev
from holdfast.schema.codec import encode_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.event.projection import Projected, Projector
    from holdfast.schema.record import Record
    from holdfast.schema.session import Tokens


def step_started(event: Projected) -> tuple[Statement, ...]:
    data: ev.StepStarted = event.data
    snapshot = {"start": data.snapshot} if data.snapshot is not None else None
    content = {"agent": data.agent, "model": data.model, "snapshot": snapshot}
    return (
        Statement("message.close_newest_assistant", {"session_id": data.session_id, "timestamp": data.timestamp}),
        message(event, data.assistant_message_id, "assistant", content),
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
        **({"rejected": data.rejected} if data.rejected is not None else {}),
    }
    usage = _step_usage(data, data.cost, data.tokens)
    step = {"session_id": data.session_id, "message_id": data.assistant_message_id}
    ended = [_end_step(data, patch), usage, end_turn(data)]
    if data.structured is not UNSET:
        value = Statement("message.set_structured", {**step, "value": encode_text(data.structured)})
        return (*ended, value, *end_activity(data))
    if data.rejected is not None:
        return tuple(ended)  # the model still owes the answer
    return (*ended, Statement("activity.step_ended", step), end_inputs(data))


def step_failed(event: Projected) -> tuple[Statement, ...]:
    data: ev.StepFailed = event.data
    patch: dict[str, Any] = {"time": {"completed": data.timestamp}, "finish": "error", "error": data.error}
    if data.cost is None or data.tokens is None:
        return (_end_step(data, patch), *break_off(data), *end_activity(data))
    return (
        _end_step(data, {**patch, "cost": data.cost, "tokens": data.tokens}),
        _step_usage(data, data.cost, data.tokens),
        end_turn(data),
        *end_activity(data),
    )


def snapshot_captured(event: Projected) -> tuple[Statement, ...]:
    data: ev.SnapshotCaptured = event.data
    return (_end_step(data, {"snapshot": {"end": data.snapshot, "files": data.files}}),)


def text_started(event: Projected) -> tuple[Statement, ...]:
    data: ev.TextStarted = event.data
    return _part(data, "text", data.text_id, {"type": "text", "id": data.text_id, "text": ""})


def text_ended(event: Projected) -> tuple[Statement, ...]:
    data: ev.TextEnded = event.data
    ended = Statement("part.end_text", {**_target(data, data.text_id), "text": data.text})
    return (ended, *_broken_off(data, "text", data.text_id))


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
    row = {"text": data.text, "metadata": json_or_none(data.provider_metadata)}
    ended = Statement("part.end_reasoning", {**_target(data, data.reasoning_id), **row})
    return (ended, *_broken_off(data, "reasoning", data.reasoning_id))


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


ANSWER_PROJECTORS: dict[type[Record], Projector] = {
    ev.StepStarted: step_started,
    ev.StepEnded: step_ended,
    ev.StepFailed: step_failed,
    ev.SnapshotCaptured: snapshot_captured,
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
}


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


def _step_usage(data: ev.StepPayload, cost: float, tokens: Tokens) -> Statement:
    row = {**usage_row(data, cost, tokens), "message_id": data.assistant_message_id}
    return Statement("session.add_step_usage", row)


def _part(
    data: ev.StepPayload, kind: str, key: str, content: Mapping[str, Any], *, status: str | None = None
) -> tuple[Statement, ...]:
    place = {"session_id": data.session_id, "message_id": data.assistant_message_id, "kind": kind, "key": key}
    add = Statement("part.add", {**place, "status": status, "data": encode_text(content)})
    return (Statement("part.supersede", place), add)


def _broken_off(data: ev.TextEnded | ev.ReasoningEnded, kind: str, key: str) -> tuple[Statement, ...]:
    if not data.broken_off:
        return ()
    place = {"session_id": data.session_id, "message_id": data.assistant_message_id, "kind": kind, "key": key}
    return (Statement("part.break_off", place),)


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
        "metadata": json_or_none(provider.metadata),
        "state": encode_text(state),
    }
