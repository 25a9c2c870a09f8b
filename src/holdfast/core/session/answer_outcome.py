"""How an activity ended, by its last answer and by the event that ended it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from holdfast.schema.frozen import Frozen
from holdfast.schema.insight import Outcome

if TYPE_CHECKING:
    from holdfast.schema.session_message import AssistantMessage

TURN_INTERRUPTED = "Provider turn interrupted"
TURN_SUSPENDED = "Suspended: the process was shut down"
ACTIVITY_ABANDONED = "abandoned"
LAST_STEP_REACHED = "all steps were used"
IMPORTED = "imported"
INTERRUPTIONS = (TURN_INTERRUPTED, ACTIVITY_ABANDONED, LAST_STEP_REACHED, IMPORTED)
"""Reasons for which an activity ends that are no failures."""


class AnswerEnd(Frozen):
    """The end of a Session's newest answer."""

    seq: int
    id: str
    error: str | None
    code: str | None
    finish: str | None
    rejected: str | None

    def outcome(self) -> Outcome:
        ending = ending_of(self.error, self.finish, rejected=self.rejected is not None)
        message = self.error or (TURN_INTERRUPTED if ending == "interrupted" else None)
        return Outcome(type=ending, message_id=self.id, error=message, code=self.code)


class EndMark(Frozen):
    """An event that ended an activity, or the revert that took its end away."""

    seq: int
    reason: str | None
    """None for a revert."""
    promoted: int | None
    """The sequence of the promotion of the newest input before it."""


class ActivityEnd(Frozen):
    """The newest things that say how the last activity of a Session ended."""

    id: str
    answer: AnswerEnd | None
    ended: EndMark | None

    def outcome(self) -> Outcome:
        """An event that ended the activity counts unless a later answer, or the answer of the same activity, says it
        as well."""
        answer, ended = self.answer, self.ended
        if ended is None or ended.reason is None or (answer is not None and answer.seq > ended.seq):
            return answer.outcome() if answer is not None else Outcome(type="idle")
        answered = answer is not None and answer.seq > (-1 if ended.promoted is None else ended.promoted)
        if answer is not None and answered and (answer.error is not None or ended.reason in INTERRUPTIONS):
            return answer.outcome()
        message_id = answer.id if answer is not None and answered else None
        if ended.reason in INTERRUPTIONS:
            return Outcome(type="interrupted", message_id=message_id, error=TURN_INTERRUPTED)
        return Outcome(type="failed", message_id=message_id, error=ended.reason)


def ending_of(
    error: str | None, finish: str | None, *, rejected: bool
) -> Literal["completed", "failed", "interrupted"]:
    """How an activity ended, by the error and the finish of its newest answer, and whether that was rejected."""
    if error is not None:
        # A suspended one is interrupted as well: nobody went on after the shutdown.
        return "interrupted" if error in (TURN_INTERRUPTED, TURN_SUSPENDED) else "failed"
    return "interrupted" if finish in (None, "tool-calls") or rejected else "completed"


def outcome_of_answer(answer: AssistantMessage) -> Outcome:
    """How an activity ended whose newest answer this is, and that is not owed anything any more."""
    error = answer.error
    return AnswerEnd(
        seq=0,
        id=answer.id,
        error=error.message if error is not None else None,
        code=error.code if error is not None else None,
        finish=answer.finish,
        rejected=answer.rejected,
    ).outcome()
