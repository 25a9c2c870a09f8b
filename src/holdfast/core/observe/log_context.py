"""Which Session and which turn the running code works for, so that every log record of it can say so.

A drain opens a context, which the tasks that it starts inherit. A turn is named after the message with its answer."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

FIELDS = "holdfast_fields"
"""The attribute of a log record that holds further fields."""


class LogContext:
    """Tasks that a drain has started before a turn began share this object, so they see the turn too."""

    __slots__ = ("session_id", "turn")

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.turn: str | None = None


_CURRENT: ContextVar[LogContext | None] = ContextVar("holdfast_log_context", default=None)


def log_context() -> LogContext | None:
    return _CURRENT.get()


@contextmanager
def working_for(session_id: str) -> Iterator[None]:
    token = _CURRENT.set(LogContext(session_id))
    try:
        yield
    finally:
        _CURRENT.reset(token)


def note_turn(message_id: str | None) -> None:
    if (context := _CURRENT.get()) is not None:
        context.turn = message_id


def fields(**values: Any) -> dict[str, Any]:
    """The `extra` of a log call: values that stand beside the message. None is left out."""
    return {FIELDS: {name: value for name, value in values.items() if value is not None}}
