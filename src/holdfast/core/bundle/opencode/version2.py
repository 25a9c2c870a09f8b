"""Messages of OpenCode 2.0, and of our own export: they have the shape of a Session's messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import msgspec
from msgspec.structs import replace

from holdfast.core.bundle.opencode.foreign import derived_id, is_deep, is_id
from holdfast.core.bundle.opencode.newer_shape import LEFT_OUT, in_our_shape
from holdfast.core.bundle.opencode.version1 import UNFINISHED_ANSWER, UNFINISHED_CALL
from holdfast.schema.codec import decoder, encode
from holdfast.schema.session_message import (
    AssistantMessage,
    SessionMessage,
    ToolCompleted,
    ToolError,
    ToolPart,
    ToolPending,
    ToolRunning,
    UnknownError,
)

if TYPE_CHECKING:
    from collections import Counter

    from holdfast.schema.session_message import Part

KNOWN = frozenset(message.type for message in get_args(SessionMessage)) | {"skill", *LEFT_OUT}


class NotConvertible(Exception):
    """Why a message cannot be taken over."""


def converted(raw: msgspec.Raw, session_id: str, lost: Counter[str]) -> SessionMessage | None:
    """The message; None if it is of an unknown kind. Raises NotConvertible if it is not what its kind says."""
    value = msgspec.json.decode(raw)
    if is_deep(value):
        raise NotConvertible("values are nested too deeply")
    if not isinstance(value, dict) or value.get("type") not in KNOWN:
        lost["messages of an unknown kind"] += 1
        return None
    shaped = in_our_shape(value, session_id, lost)
    if shaped is None:
        return None
    try:
        message: SessionMessage = decoder(SessionMessage).decode(encode(shaped))
    except msgspec.ValidationError as error:
        raise NotConvertible(str(error)) from error
    if not is_id("msg", message.id):
        message = replace(message, id=derived_id("msg", max(0, message.time.created), session_id, message.id))
    return _answer(message, lost) if isinstance(message, AssistantMessage) else message


def _answer(message: AssistantMessage, lost: Counter[str]) -> AssistantMessage:
    if message.snapshot is not None:
        lost["snapshots of files"] += 1
    content = tuple(_part(part, lost) for part in message.content)
    if message.time.completed is None and message.error is None:
        lost["ends of unfinished answers"] += 1
        message = replace(message, error=UnknownError(message=UNFINISHED_ANSWER))
    return replace(message, content=content, snapshot=None)


def _part(part: Part, lost: Counter[str]) -> Part:
    if not isinstance(part, ToolPart):
        return part
    if part.time.pruned is not None:
        lost["marks of pruned outputs"] += 1
    state = part.state
    if isinstance(state, (ToolPending, ToolRunning)):
        lost["results of unfinished calls"] += 1
        begun = state if isinstance(state, ToolRunning) else ToolRunning(input={}, structured={}, content=())
        error = UnknownError(message=UNFINISHED_CALL)
        state = ToolError(input=begun.input, structured=begun.structured, content=begun.content, error=error)
    elif isinstance(state, ToolCompleted):
        if state.output_paths:
            lost["files of outputs"] += 1
        if state.attachments:
            lost["attachments of calls"] += 1
        state = replace(state, output_paths=None, attachments=None)
    return replace(part, state=state, time=replace(part.time, pruned=None))
