"""Statements and rows that several projectors of a Session share."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.core.database.unit import Statement, Value
from holdfast.core.session.errors import SessionNotFound
from holdfast.schema.codec import encode_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.event.projection import Projected
    from holdfast.schema import session_event as ev
    from holdfast.schema.session import Tokens


def message(event: Projected, id: str, kind: str, content: Mapping[str, Any]) -> Statement:
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
        changes=1,
        error=partial(SessionNotFound, data.session_id),
    )


def end_turn(data: ev.SessionPayload) -> Statement:
    return Statement("turn.end", {"session_id": data.session_id})


def break_off(data: ev.SessionPayload) -> tuple[Statement, ...]:
    """The open turn, if there is one, ends without an answer that was counted."""
    return Statement("session.count_turn", {"session_id": data.session_id}), end_turn(data)


def begin_activity(data: ev.SessionPayload) -> Statement:
    return Statement("activity.begin", moment(data))


def end_activity(data: ev.SessionPayload) -> tuple[Statement, ...]:
    return Statement("activity.end", {"session_id": data.session_id}), end_inputs(data)


def end_inputs(data: ev.SessionPayload) -> Statement:
    """Unless an activity goes on."""
    return Statement("inbox.end", {"session_id": data.session_id})


def moment(data: ev.SessionPayload) -> dict[str, Value]:
    return {"session_id": data.session_id, "timestamp": data.timestamp}


def usage_row(data: ev.SessionPayload, cost: float, tokens: Tokens) -> dict[str, Value]:
    return {
        "id": data.session_id,
        "timestamp": data.timestamp,
        "cost": cost,
        "input": tokens.input,
        "output": tokens.output,
        "reasoning": tokens.reasoning,
        "cache_read": tokens.cache.read,
        "cache_write": tokens.cache.write,
    }


def json_or_none(value: Any) -> str | None:
    return None if value is None else encode_text(value)
