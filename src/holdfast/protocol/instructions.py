"""The instruction entries of a Session, with the paths of OpenCode 2.0."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from holdfast.protocol.endpoint import Endpoint, endpoint
from holdfast.protocol.scope import of_session
from holdfast.schema.errors import ConflictError, InstructionEntryValueTooLargeError
from holdfast.schema.ids import SessionIDField
from holdfast.schema.instruction import InstructionEntry, InstructionKey
from holdfast.schema.record import Record


class InstructionPath(Record):
    session_id: SessionIDField
    key: InstructionKey


class InstructionPayload(Record):
    value: Any


_OF_SESSION = of_session(
    endpoint(
        "sessions.instructions",
        "GET /instructions/entries",
        "v2.session.instructions.entry.list",
        "The instruction entries of a Session: facts that its model is told, ordered by key.",
        role="read",
        data=list[InstructionEntry],
        handler="instructions.list",
    ),
    endpoint(
        "sessions.put_instruction",
        "PUT /instructions/entries/{key}",
        "v2.session.instructions.entry.put",
        "Add an instruction entry or replace its value, any JSON. The model is told before its next turn.",
        role="prompt",
        params=InstructionPath,
        payload=InstructionPayload,
        errors=(ConflictError, InstructionEntryValueTooLargeError),
        handler="instructions.put",
    ),
    endpoint(
        "sessions.remove_instruction",
        "DELETE /instructions/entries/{key}",
        "v2.session.instructions.entry.remove",
        "Remove an instruction entry, if it exists. The model is told before its next turn.",
        role="prompt",
        params=InstructionPath,
        handler="instructions.remove",
    ),
)

ENDPOINTS: tuple[Endpoint, ...] = tuple(replace(endpoint, extension=True) for endpoint in _OF_SESSION)
