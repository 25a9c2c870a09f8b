"""How an activity ended, as its last answer tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.schema.insight import Outcome

if TYPE_CHECKING:
    from holdfast.schema.session_message import AssistantMessage

TURN_INTERRUPTED = "Provider turn interrupted"
TURN_SUSPENDED = "Suspended: the process was shut down"


def outcome_of_answer(answer: AssistantMessage, pending: int = 0) -> Outcome:
    """How an activity ended whose newest answer this is, and that is not owed anything any more."""
    if answer.error is not None:
        message = answer.error.message
        stopped = message in (TURN_INTERRUPTED, TURN_SUSPENDED)  # nobody went on after the shutdown
        return Outcome(
            type="interrupted" if stopped else "failed",
            message_id=answer.id,
            error=message,
            code=answer.error.code,
            pending=pending,
        )
    if answer.finish == "tool-calls" or answer.finish is None or answer.rejected is not None:
        return Outcome(type="interrupted", message_id=answer.id, error=TURN_INTERRUPTED, pending=pending)
    return Outcome(type="completed", message_id=answer.id, pending=pending)
