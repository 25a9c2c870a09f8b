"""What a process left open: found, told as it is, and gone on with where nothing can happen twice.

Whatever had not been sent goes on by itself, and so does what a shutdown stopped. A turn that was sent and has no end
may have reached the provider: a person, or a policy, decides about it."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Literal

from holdfast.core.database.unit import Statement, Unit
from holdfast.core.session.runner.publish import HERE, TOOL_INTERRUPTED
from holdfast.core.session.runner.turn import TURN_INTERRUPTED
from holdfast.schema.codec import decoder
from holdfast.schema.insight import InterruptedActivity
from holdfast.schema.live_event import ErrorInfo, SessionError
from holdfast.schema.session_event import (
    ActivityEnded,
    ActivitySuspended,
    CompactionFailed,
    Provider,
    StepFailed,
    ToolFailed,
    TurnAbandoned,
)
from holdfast.schema.session_message import ToolPart, UnknownError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from holdfast.core.database.database import Database
    from holdfast.core.event.log import EventLog
    from holdfast.core.session.execution import Execution
    from holdfast.core.session.ownership import Lease, Ownership
    from holdfast.core.session.runner.surroundings import Surroundings
    from holdfast.core.session.settings import RecoveryPolicy
    from holdfast.core.session.store import Activity, OpenCall, SessionStore
    from holdfast.schema.insight import Stage
    from holdfast.schema.location import Location
    from holdfast.schema.record import Record

log = logging.getLogger(__name__)

COMPACTION_BROKE_OFF = "the process ended before the summary was complete"
MOST_ATTEMPTS = 3
"""How often in a row processes go on by themselves with the same work; it may be what ends them."""

UNSENT = ("promoted", "compacting", "between")
"""Stages in which nothing has been sent that is not recorded to its end."""

WHAT: dict[Stage, str] = {
    "promoted": "the prompt was taken up and not yet sent to the model",
    "compacting": "older history was being summarised; the prompt was not yet sent to the model",
    "between": "a step was complete, and the next one was not yet sent to the model",
    "dispatched": "the turn was sent, and no answer was recorded",
    "answering": "the turn broke off after it had begun to answer",
    "waiting": "a tool call waits for a person; it has started nothing",
}


class Recovery:
    """One per process: finds what other processes left, says so, and does what was decided."""

    def __init__(
        self,
        log: EventLog,
        database: Database,
        store: SessionStore,
        execution: Execution,
        ownership: Ownership,
        policy: Callable[[Location], Awaitable[RecoveryPolicy]],
    ) -> None:
        self._log = log
        self._database = database
        self._store = store
        self._execution = execution
        self._ownership = ownership
        self._policy = policy
        self._continuing: set[asyncio.Task[None]] = set()

    async def interrupted(self) -> list[InterruptedActivity]:
        """Everything that a Session owes and no living process works on."""
        return [described(activity) for activity in await self._left()]

    async def start(self) -> None:
        """At the start of a host: what is safe goes on, the rest is shown, and the policy acts. Then inputs whose wake
        was lost. A Session whose Location cannot be opened any more stays as it is, and keeps nobody else back."""
        for activity in await self._left():
            try:
                await self._act(activity)
            except Exception as error:  # noqa: BLE001 - one Session's trouble is not the host's
                log.warning("%s stays as it was left: %s: %s", activity.session_id, type(error).__name__, error)
        await self._execution.recover_wakes()

    async def decide(self, session_id: str, decision: Literal["continue", "abandon"]) -> None:
        """A person's word on one Session. Continuing is an explicit run from history: the broken turn is recorded as
        such first, so nothing is sent twice without anyone knowing."""
        await self._store.get(session_id)
        if decision == "continue":
            self._continue(session_id)
        else:
            await self._execution.abandon(session_id)

    async def close(self) -> None:
        for task in tuple(self._continuing):
            task.cancel()
        if self._continuing:
            await asyncio.wait(self._continuing)

    async def _left(self) -> list[Activity]:
        return [activity for activity in await self._store.activities() if not await self._worked_on(activity)]

    async def _worked_on(self, activity: Activity) -> bool:
        session_id = activity.session_id
        return self._execution.here(session_id) or await self._ownership.elsewhere(session_id) is not None

    async def _act(self, activity: Activity) -> None:
        session_id = activity.session_id
        session = await self._store.find(session_id)
        if session is None:
            return
        status = described(activity)
        log.warning("session %s: %s; %s", session_id, status.what, status.next)
        if status.stage == "waiting":
            if await self._store.answered_calls(session_id):
                self._execution.wake(session_id)
            return
        if goes_on_by_itself(activity):
            count = Statement("attempt.count", {"session_id": session_id})
            await self._database.submit(Unit(session_id, local=(count,)))
            self._continue(session_id)
            return
        self._show(status, session.location)
        policy = await self._policy(session.location)
        # Where output or a call was recorded, going on alone could repeat what already happened.
        if policy == "continue" and status.stage == "dispatched" and activity.attempts < MOST_ATTEMPTS:
            self._continue(session_id)
        elif policy == "abandon":
            await self._execution.abandon(session_id)

    def _continue(self, session_id: str) -> None:
        task = asyncio.get_running_loop().create_task(self._run(session_id), name=f"recover {session_id}")
        self._continuing.add(task)
        task.add_done_callback(self._continuing.discard)

    async def _run(self, session_id: str) -> None:
        try:
            await self._execution.run(session_id)
        except Exception as error:  # noqa: BLE001 - the drain reported it; nobody waits here
            log.debug("continuing %s ended: %s", session_id, error)

    def _show(self, status: InterruptedActivity, location: Location) -> None:
        data = {"message": f"Work was left unfinished: {status.what}; {status.next}", "stage": status.stage}
        info = ErrorInfo(name="TurnInterrupted", data={**data, "dispatched": status.dispatched})
        self._log.announce(SessionError(session_id=status.session_id, error=info), location=location)


def stage_of(activity: Activity) -> Stage:
    if activity.turn is None:
        return "compacting" if activity.compacting else "between" if activity.between else "promoted"
    if activity.turn.message_id is None:
        return "dispatched"
    return "waiting" if activity.asks else "answering"


def goes_on_by_itself(activity: Activity) -> bool:
    return activity.attempts < MOST_ATTEMPTS and (activity.suspended or stage_of(activity) in UNSENT)


def described(activity: Activity) -> InterruptedActivity:
    stage, turn = stage_of(activity), activity.turn
    return InterruptedActivity(
        session_id=activity.session_id,
        seq=activity.seq,
        stage=stage,
        since=activity.since,
        suspended=activity.suspended,
        safe=activity.suspended or stage in (*UNSENT, "waiting"),
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
    if activity.attempts >= MOST_ATTEMPTS:
        return f"it was tried {activity.attempts} times and did not come to its end; {decide}"
    return decide


async def close_what_broke_off(
    around: Surroundings,
    session_id: str,
    lease: Lease,
    *,
    keep: Collection[str] = (),
    goes_on: bool = False,
    ends: str | None = None,
    because: str = TURN_INTERRUPTED,
) -> None:
    """Calls, the step, a compaction and requests of an earlier drain whose outcome nobody knows. Calls in `keep` go on
    waiting, and with them their step. `goes_on` says that the model is asked again, by this process or by the next
    one; `ends` says why nothing more is owed."""
    store, now = around.store, around.clock.now()
    open_calls = [call for call in await store.open_calls(session_id) if call.call_id not in keep]
    events: list[Record] = [_failed(call, session_id, now) for call in open_calls]
    turn = await store.open_turn(session_id)
    if keep:
        pass
    elif turn is not None and turn.message_id is not None:
        events.append(
            StepFailed(
                timestamp=now,
                session_id=session_id,
                assistant_message_id=turn.message_id,
                error=UnknownError(message=because),
            )
        )
        if goes_on:
            events.append(ActivitySuspended(timestamp=now, session_id=session_id))
    elif turn is not None:
        events.append(TurnAbandoned(timestamp=now, session_id=session_id, reason=TURN_INTERRUPTED))
    if (attempt := await store.dangling_compaction(session_id)) is not None:
        error = UnknownError(message=COMPACTION_BROKE_OFF)
        events.append(CompactionFailed(timestamp=now, session_id=session_id, message_id=attempt, error=error))
    if ends is not None and await store.activity(session_id) is not None:
        events.append(ActivityEnded(timestamp=now, session_id=session_id, reason=ends))
    if events:
        await lease.publish(*events, location=around.location)
    await around.abandon_requests(session_id, lease, keep)


def _failed(call: OpenCall, session_id: str, now: int) -> ToolFailed:
    part: ToolPart = decoder(ToolPart).decode(call.data)
    return ToolFailed(
        timestamp=now,
        session_id=session_id,
        assistant_message_id=call.message_id,
        call_id=call.call_id,
        error=UnknownError(message=TOOL_INTERRUPTED),
        provider=Provider(executed=part.provider.executed) if part.provider else HERE,
    )
