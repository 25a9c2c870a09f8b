"""Closing what earlier processes left of a Session, without a drain.

Invariants
- Everything is rows: no Location is opened, so a Session can be closed whose directory or configuration is broken.
- The open requests of the Session's calls are declined in the commit that closes the calls. A process that dies finds
  both or neither, and no call that was declined this way is executed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.runner.interrupted_work import close_interrupted_work
from holdfast.core.runner.outbox import Outbox
from holdfast.core.runner.spending import Spending
from holdfast.core.session.activity import stage_of
from holdfast.core.session.answer_outcome import ACTIVITY_ABANDONED
from holdfast.core.session.declined_requests import declined
from holdfast.core.session.errors import AlreadyAnswered
from holdfast.schema.turn_event import RecoveryDecided

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.runner.services import SessionServices
    from holdfast.core.session.activity import Activity, Cause
    from holdfast.core.session.ownership import Lease
    from holdfast.schema.location import Location

TRIES = 20
"""How often the Session is read again because somebody answered a request meanwhile."""


def recovery_decided(activity: Activity, now: int, cause: Cause, decision: str, attempt: int) -> RecoveryDecided:
    """The record of a decision about this work."""
    turn = activity.turn
    return RecoveryDecided(
        timestamp=now,
        session_id=activity.session_id,
        decision=decision,  # type: ignore[arg-type]
        by=cause.by,
        policy=cause.policy,
        stage=stage_of(activity),
        attempt=attempt,
        calls=tuple(call.id for call in activity.calls),
        cost_unknown=turn is not None and turn.attempt > 0 and turn.used is None,
    )


class LeftWork:
    """One per process."""

    def __init__(self, sessions: SessionServices) -> None:
        self._sessions = sessions

    async def close(
        self,
        session_id: str,
        location: Location,
        lease: Lease,
        told: Mapping[tuple[str, str], str],
        *,
        cause: Cause | None = None,
        reason: str = ACTIVITY_ABANDONED,
    ) -> None:
        """Record as broken off what an earlier drain left open, under its lease. `told` is what the model is told about
        calls, by message and call id. `cause` says who decided, if it was a decision."""
        sessions = self._sessions
        spending = Spending(sessions.budgets, sessions.store, sessions.clock, session_id)
        await sessions.budgets.refresh()
        await spending.begin(Outbox(lease), None, sessions.budgets.revision, None)
        for attempt in range(1, TRIES + 1):
            left, found = await sessions.store.activity(session_id), await sessions.store.left_open(session_id)
            now = sessions.clock.now()
            requests = list(declined(found.requests, session_id, now))
            decided = [] if cause is None or left is None else [recovery_decided(left, now, cause, "abandon", 0)]
            try:
                await close_interrupted_work(
                    sessions,
                    session_id,
                    lease,
                    left,
                    found,
                    beside=spending.settlement,
                    ends=reason,
                    told=told,
                    before=(*decided, *(durable for durable, _ in requests)),
                )
            except AlreadyAnswered:
                if attempt == TRIES:
                    raise
                continue
            for _, live in requests:
                sessions.log.announce(live, location=location)
            break
        await spending.finish()
