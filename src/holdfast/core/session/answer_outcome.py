"""How an activity ended, as its last answer tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from holdfast.schema.insight import Outcome

if TYPE_CHECKING:
    from holdfast.schema.session_message import AssistantMessage

TURN_INTERRUPTED = "Provider turn interrupted"
TURN_SUSPENDED = "Suspended: the process was shut down"


def ending_of(
    error: str | None, finish: str | None, *, rejected: bool
) -> Literal["completed", "failed", "interrupted"]:
    """How an activity ended, by the error and the finish of its newest answer, and whether that was rejected."""
    if error is not None:
        # A suspended one is interrupted as well: nobody went on after the shutdown.
        return "interrupted" if error in (TURN_INTERRUPTED, TURN_SUSPENDED) else "failed"
    return "interrupted" if finish in (None, "tool-calls") or rejected else "completed"


def outcome_of_answer(answer: AssistantMessage, pending: int = 0) -> Outcome:
    """How an activity ended whose newest answer this is, and that is not owed anything any more."""
    error = answer.error
    ending = ending_of(error.message if error else None, answer.finish, rejected=answer.rejected is not None)
    message = error.message if error is not None else TURN_INTERRUPTED if ending == "interrupted" else None
    code = error.code if error is not None else None
    return Outcome(type=ending, message_id=answer.id, error=message, code=code, pending=pending)
