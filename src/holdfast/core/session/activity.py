"""What a Session owes: input was promoted, and the last step for it has not ended. How far it came, and what is safe to
do about it when its process has gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.schema.frozen import Frozen
from holdfast.schema.insight import InterruptedActivity
from holdfast.schema.session import Tokens  # noqa: TC001 - msgspec reads the annotations of rows

if TYPE_CHECKING:
    from holdfast.schema.insight import Stage
    from holdfast.schema.model import ModelRef

MOST_ATTEMPTS = 3
"""How often in a row processes go on by themselves with the same work; it may be what ends them."""

HELD = 1_000_000
"""As the number of attempts: the Session came with a bundle, and no process goes on with it by itself."""

UNSENT = ("promoted", "compacting", "between")
"""Stages in which nothing has been sent that is not recorded to its end."""
GOES_ON = (*UNSENT, "subagent")
"""Stages from which a process goes on by itself."""

WHAT: dict[Stage, str] = {
    "promoted": "the prompt was taken up and not yet sent to the model",
    "compacting": "older history was being summarised; the prompt was not yet sent to the model",
    "between": "a step was complete, and the next one was not yet sent to the model",
    "dispatched": "the turn was sent, and no answer was recorded",
    "answering": "the turn broke off after it had begun to answer",
    "waiting": "a tool call waits for a person",
    "subagent": "a tool call waits for a subagent",
}


class Used(Frozen):
    """What an answer used."""

    cost: float
    tokens: Tokens


class OpenTurn(Frozen):
    """A turn that was dispatched and has no end. `message_id` is its answer, if that began; `used` is known if the
    answer is complete and its calls ran for long."""

    agent: str
    model: ModelRef
    attempt: int
    message_id: str | None
    dispatched: int
    used: Used | None = None


class Activity(Frozen):
    """What the model of a Session owes."""

    session_id: str
    seq: int
    since: int
    suspended: bool
    compacting: bool
    between: bool
    """Whether the newest message is an answer."""
    turn: OpenTurn | None
    asks: bool
    """Whether anything waits for a person."""
    delegates: bool
    """Whether a call waits for a child."""
    attempts: int
    """How often a process went on with it after another one had left it."""


def stage_of(activity: Activity) -> Stage:
    if activity.turn is None:
        return "compacting" if activity.compacting else "between" if activity.between else "promoted"
    if activity.turn.message_id is None:
        return "dispatched"
    return "subagent" if activity.delegates else "waiting" if activity.asks else "answering"


def goes_on_by_itself(activity: Activity) -> bool:
    return activity.attempts < MOST_ATTEMPTS and (activity.suspended or stage_of(activity) in GOES_ON)


def is_held(activity: Activity) -> bool:
    """Whether it came with a bundle, and nobody has decided about it."""
    return activity.attempts >= HELD


def is_continued(activity: Activity) -> bool:
    """Whether a process that finds this goes on with it at once, without an answer or a decision."""
    return goes_on_by_itself(activity) and stage_of(activity) != "waiting"


def needs_decision(activity: Activity) -> bool:
    """Whether no process goes on with it, and no answer to a request does: a person has to decide."""
    return not goes_on_by_itself(activity) and stage_of(activity) != "waiting"


def described(activity: Activity) -> InterruptedActivity:
    stage, turn = stage_of(activity), activity.turn
    return InterruptedActivity(
        session_id=activity.session_id,
        seq=activity.seq,
        stage=stage,
        since=activity.since,
        suspended=activity.suspended,
        safe=activity.suspended or stage in (*GOES_ON, "waiting"),
        what=f"stopped by a shutdown: {WHAT[stage]}" if activity.suspended else WHAT[stage],
        next=_next(activity, stage),
        agent=turn.agent if turn else None,
        model=turn.model if turn else None,
        attempt=turn.attempt if turn else None,
        message_id=turn.message_id if turn else None,
        dispatched=turn.dispatched if turn else None,
    )


def _next(activity: Activity, stage: Stage) -> str:
    if stage == "waiting":
        return "an answer executes it; a new prompt ends it"
    if goes_on_by_itself(activity):
        return "a server goes on with it by itself"
    decide = f"`holdfast sessions recover {activity.session_id} --continue`, or --abandon, decides"
    if is_held(activity):
        return f"it came with a bundle; {decide}"
    if activity.attempts >= MOST_ATTEMPTS:
        return f"it was tried {activity.attempts} times and did not come to its end; {decide}"
    return decide
