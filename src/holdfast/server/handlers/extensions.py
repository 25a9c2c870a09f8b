"""Answers `protocol/extensions.py`, name for name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core.context.view import request_context as view
from holdfast.core.project.directory import canonical_directory
from holdfast.server.locations import existing_location

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.protocol import extensions as protocol
    from holdfast.schema.insight import CheckpointInfo, InterruptedActivity, Outcome, RequestContextView, WaitInfo
    from holdfast.schema.prompt import Admission
    from holdfast.schema.session import Session
    from holdfast.schema.todo import Todo
    from holdfast.server.types import Call


async def pending(call: Call) -> Sequence[Admission]:
    return await call.runtime.sessions.pending(call.params.session_id)


async def withdraw(call: Call) -> None:
    await call.runtime.sessions.withdraw(call.params.session_id, call.params.message_id)


async def rename(call: Call) -> Session:
    return await call.runtime.sessions.rename(call.params.session_id, call.payload.title)


async def archive(call: Call) -> Session:
    return await call.runtime.sessions.archive(call.params.session_id, archived=call.payload.archived is not False)


async def delete(call: Call) -> None:
    await call.runtime.sessions.delete(call.params.session_id)


async def move(call: Call) -> None:
    payload: protocol.MovePayload = call.payload
    destination = existing_location(payload.directory, None, kind="Payload")
    await call.runtime.sessions.move(
        call.params.session_id, destination.directory, move_changes=payload.move_changes is True
    )


async def waits(call: Call) -> Sequence[WaitInfo]:
    return await call.runtime.sessions.waits(call.params.session_id)


async def interrupted(call: Call) -> Sequence[InterruptedActivity]:
    query: protocol.InterruptedQuery = call.query
    found = await call.runtime.sessions.interrupted()
    if query.directory is None:
        return found
    directory = canonical_directory(query.directory)
    sessions = [await call.runtime.store.find(activity.session_id) for activity in found]
    return [
        activity
        for activity, session in zip(found, sessions, strict=True)
        if session is not None and session.location.directory == directory
    ]


async def recover(call: Call) -> None:
    await call.runtime.sessions.recover(call.params.session_id, call.payload.decision)


async def outcome(call: Call) -> Outcome:
    return await call.runtime.sessions.outcome(call.params.session_id)


async def run(call: Call) -> Outcome:
    return await call.runtime.sessions.run_to_outcome(call.params.session_id)


async def checkpoint(call: Call) -> CheckpointInfo | None:
    return await call.runtime.sessions.checkpoint(call.params.session_id)


async def undo_compaction(call: Call) -> None:
    await call.runtime.sessions.undo_compaction(call.params.session_id)


async def request_context(call: Call) -> RequestContextView:
    return await view(call.runtime.epochs, call.runtime.database, call.params.session_id)


async def todos(call: Call) -> Sequence[Todo]:
    return await call.runtime.todos.get(call.params.session_id)


async def read(call: Call) -> dict[str, dict[str, dict[str, float]]]:
    return call.runtime.metrics.read()


async def document(call: Call) -> dict[str, Any]:
    from holdfast.protocol.openapi import document

    return document()
