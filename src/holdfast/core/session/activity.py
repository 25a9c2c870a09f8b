"""What a Session owes: input was promoted, and the last step for it has not ended. How far it came, and what is done
about it when its process has gone.

Invariants
- Work of which nothing was sent that is not recorded to its end continues under every policy.
- A call that may have started is never executed again. Under the policies `ask` and `safe` a person decides before the
  model is asked again after such a call.
- A process continues the same work at most `MOST_ATTEMPTS` times without progress."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from holdfast.schema.frozen import Frozen
from holdfast.schema.insight import InterruptedActivity, UnsettledCall
from holdfast.schema.session import Tokens  # noqa: TC001 - msgspec reads the annotations of rows

if TYPE_CHECKING:
    from holdfast.schema.insight import Stage
    from holdfast.schema.model import ModelRef

RecoveryPolicy = Literal["ask", "safe", "always", "abandon"]
Decision = Literal["continue", "person", "abandon", "wait"]
"""What becomes of work that a process left: the model is asked, a person decides, it is closed, or the answer to a
request is waited for."""

MOST_ATTEMPTS = 3
"""How often in a row processes continue the same work by themselves; it may be what ends them."""

HELD = 1_000_000
"""As the number of attempts: the Session came with a bundle, and no process continues it by itself."""

UNSENT = ("promoted", "compacting", "between")
"""Stages in which nothing has been sent that is not recorded to its end."""

WHAT: dict[Stage, str] = {
    "promoted": "the prompt was taken up and not yet sent to the model",
    "compacting": "older history was being summarised; the prompt was not yet sent to the model",
    "between": "a step was complete, and the next one was not yet sent to the model",
    "dispatched": "the turn was sent, and no answer was recorded",
    "answering": "the turn broke off after it had begun to answer",
    "waiting": "a tool call waits for a person",
    "subagent": "a tool call waits for a subagent",
}
SHOWN_CALLS = 3
COMMAND_CHARACTERS = 100


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
    """How often a process continued it after another one had left it, without progress."""
    decision_seq: int | None = None
    """The sequence of the decision that left it to a person, or to the answer to a request."""
    calls: tuple[UnsettledCall, ...] = ()
    """The calls of the open step that may have started and have no outcome."""


class Cause(Frozen):
    """Why a process continues work that another one left."""

    by: Literal["policy", "person"]
    policy: RecoveryPolicy | None = None
    """None where work continues under every policy."""


def stage_of(activity: Activity) -> Stage:
    if activity.turn is None:
        return "compacting" if activity.compacting else "between" if activity.between else "promoted"
    if activity.turn.message_id is None:
        return "dispatched"
    return "subagent" if activity.delegates else "waiting" if activity.asks else "answering"


def goes_on_by_itself(activity: Activity) -> bool:
    """Whether a process continues it under every policy."""
    return activity.attempts < MOST_ATTEMPTS and _continues_always(activity)


def decide(activity: Activity, policy: RecoveryPolicy) -> Decision:
    """The decision of a process that finds this work without a living process."""
    if is_held(activity):
        return "person"
    if stage_of(activity) == "waiting":
        return "wait"
    if not _continues_always(activity):
        if policy == "abandon":
            return "abandon"
        if policy == "ask" or (policy == "safe" and activity.calls):
            return "person"
    return "continue" if activity.attempts < MOST_ATTEMPTS else "person"


def is_held(activity: Activity) -> bool:
    """Whether it came with a bundle, and nobody has decided about it."""
    return activity.attempts >= HELD


def needs_decision(activity: Activity) -> bool:
    """Whether it was left to a person: no process continues it, and no answer to a request does."""
    if stage_of(activity) == "waiting":
        return False
    undecided = activity.decision_seq is not None and not _continues_always(activity)
    return activity.attempts >= MOST_ATTEMPTS or undecided


def is_continued(activity: Activity) -> bool:
    """Whether a process that finds this does something about it at once, without an answer or the decision of a
    person."""
    return not needs_decision(activity) and stage_of(activity) != "waiting"


def described(activity: Activity) -> InterruptedActivity:
    stage, turn = stage_of(activity), activity.turn
    what = WHAT[stage]
    if activity.calls:
        what += f"; nobody knows whether {_named(activity.calls)} had an effect"
    return InterruptedActivity(
        session_id=activity.session_id,
        seq=activity.seq,
        stage=stage,
        since=activity.since,
        suspended=activity.suspended,
        safe=not activity.calls,
        decision=needs_decision(activity),
        what=f"stopped by a shutdown: {what}" if activity.suspended else what,
        next=_next(activity, stage),
        agent=turn.agent if turn else None,
        model=turn.model if turn else None,
        attempt=turn.attempt if turn else None,
        message_id=turn.message_id if turn else None,
        dispatched=turn.dispatched if turn else None,
        calls=activity.calls,
    )


def _continues_always(activity: Activity) -> bool:
    stage = stage_of(activity)
    return activity.suspended or stage in UNSENT or (stage == "subagent" and not activity.calls)


def _named(calls: tuple[UnsettledCall, ...]) -> str:
    names = [f"{call.tool} `{_short(call.command)}`" if call.command else call.tool for call in calls[:SHOWN_CALLS]]
    more = len(calls) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


def _short(command: str) -> str:
    line = " ".join(command.split())
    return line if len(line) <= COMMAND_CHARACTERS else line[: COMMAND_CHARACTERS - 1] + "…"


def _next(activity: Activity, stage: Stage) -> str:
    if stage == "waiting":
        return "an answer executes it; a new prompt ends it"
    if goes_on_by_itself(activity):
        return "a server goes on with it by itself"
    ways = f"`holdfast sessions recover {activity.session_id} --continue`, or --abandon, decides"
    if not needs_decision(activity):
        return f"a server decides by `holdfast.recovery`; {ways} before"
    if is_held(activity):
        return f"it came with a bundle; {ways}"
    if activity.attempts >= MOST_ATTEMPTS:
        return f"it was tried {activity.attempts} times and did not come to its end; {ways}"
    return ways
