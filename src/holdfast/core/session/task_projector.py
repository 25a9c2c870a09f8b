"""Projections of tasks: the work that tool calls of a Session gave to child Sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.database.unit import Statement, Value
from holdfast.schema.task_event import TaskMoved, TaskStarted

if TYPE_CHECKING:
    from holdfast.core.event.projection import Projected, Projector
    from holdfast.schema.record import Record


def task_started(event: Projected) -> tuple[Statement, ...]:
    data: TaskStarted = event.data
    row: dict[str, Value] = {
        "session_id": data.session_id,
        "message_id": data.assistant_message_id,
        "call_id": data.call_id,
        "child_id": data.child_id,
        "root_id": data.root_id,
        "prompt_id": data.prompt_id,
        "result_id": data.result_id,
        "caller": data.caller,
        "agent": data.agent,
        "description": data.description,
        "background": int(data.background),
        "timestamp": data.timestamp,
    }
    return (Statement("task.insert", row),)


def task_moved(event: Projected) -> tuple[Statement, ...]:
    data: TaskMoved = event.data
    key = {"session_id": data.session_id, "message_id": data.assistant_message_id, "call_id": data.call_id}
    return (Statement("task.move", key),)


TASK_PROJECTORS: dict[type[Record], Projector] = {TaskStarted: task_started, TaskMoved: task_moved}
