"""Handlers of `protocol/extensions.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core.context.view import request_context as view
from holdfast.core.project.directory import canonical_directory
from holdfast.protocol.extensions import Generated
from holdfast.server.locations import existing_location

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.protocol import extensions as protocol
    from holdfast.schema.insight import CheckpointInfo, InterruptedActivity, Outcome, RequestContextView, WaitInfo
    from holdfast.schema.prompt import Admission
    from holdfast.schema.session import Session
    from holdfast.schema.todo import Todo
    from holdfast.server.types import ApiCall


async def pending(call: ApiCall) -> Sequence[Admission]:
    return await call.runtime.sessions.pending(call.params.session_id)


async def withdraw(call: ApiCall) -> None:
    await call.runtime.sessions.withdraw(call.params.session_id, call.params.message_id)


async def rename(call: ApiCall) -> Session:
    return await call.runtime.sessions.rename(call.params.session_id, call.payload.title)


async def archive(call: ApiCall) -> Session:
    return await call.runtime.sessions.archive(call.params.session_id, archived=call.payload.archived is not False)


async def delete(call: ApiCall) -> None:
    keep = call.query.children == "keep"
    await call.runtime.sessions.delete(call.params.session_id, keep_children=keep)


async def move(call: ApiCall) -> None:
    payload: protocol.MovePayload = call.payload
    destination = existing_location(payload.directory, None, kind="Payload")
    await call.runtime.sessions.move(
        call.params.session_id, destination.directory, move_changes=payload.move_changes is True
    )


async def waits(call: ApiCall) -> Sequence[WaitInfo]:
    return await call.runtime.sessions.waits(call.params.session_id)


async def interrupted(call: ApiCall) -> Sequence[InterruptedActivity]:
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


async def recover(call: ApiCall) -> None:
    await call.runtime.sessions.recover(call.params.session_id, call.payload.decision)


async def outcome(call: ApiCall) -> Outcome:
    return await call.while_connected(call.runtime.sessions.outcome(call.params.session_id), also_stopping=True)


async def run(call: ApiCall) -> Outcome:
    return await call.runtime.sessions.run_to_outcome(call.params.session_id)


async def checkpoint(call: ApiCall) -> CheckpointInfo | None:
    return await call.runtime.sessions.checkpoint(call.params.session_id)


async def undo_compaction(call: ApiCall) -> None:
    await call.runtime.sessions.undo_compaction(call.params.session_id)


async def request_context(call: ApiCall) -> RequestContextView:
    return await view(call.runtime.epochs, call.runtime.database, call.params.session_id)


async def generate(call: ApiCall) -> Generated:
    work = call.runtime.one_shot.generate(call.params.session_id, call.payload.prompt)
    return Generated(text=await call.while_connected(work))


async def todos(call: ApiCall) -> Sequence[Todo]:
    return await call.runtime.todos.get(call.params.session_id)


async def read(call: ApiCall) -> dict[str, dict[str, dict[str, float]]]:
    return call.runtime.metrics.read()


async def document(call: ApiCall) -> dict[str, Any]:
    from holdfast.protocol.openapi import document

    return document()
