"""What a process left open: found, told as it is, and continued where the policy says so.

Invariants
- Nothing is inferred from a wake or a read. Work continues because of a decision, which is recorded in the log before
  anything else happens.
- What is left to a person is recorded too. Until it is, no surface asks a person about it."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

from holdfast.core.background_tasks import BackgroundTasks
from holdfast.core.database.unit import Statement, Unit
from holdfast.core.runner.left_work import recovery_decided
from holdfast.core.session.activity import (
    Cause,
    decide,
    described,
    goes_on_by_itself,
    is_continued,
    is_held,
    needs_decision,
    stage_of,
)
from holdfast.core.session.errors import AlreadyAnswered, AlreadyDecided
from holdfast.core.session.stored_trees import by_tree
from holdfast.schema.codec import encode
from holdfast.schema.frozen import Frozen
from holdfast.schema.live_event import ErrorInfo, SessionError
from holdfast.schema.session_event import PermissionReplied

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from holdfast.core.database.database import Database
    from holdfast.core.database.unit import Value
    from holdfast.core.runner.services import SessionServices
    from holdfast.core.runtime.execution import Execution
    from holdfast.core.runtime.sign_in_forms import SignInForms
    from holdfast.core.session.activity import Activity, Decision, RecoveryPolicy
    from holdfast.core.session.stored_trees import StoredTrees
    from holdfast.core.session.tasks import Tasks
    from holdfast.schema.insight import InterruptedActivity
    from holdfast.schema.location import Location

DECIDED: dict[Decision, str] = {
    "continue": "it is continued",
    "person": "a person decides with `holdfast sessions recover {id} --continue`, or --abandon",
    "abandon": "it is closed",
    "wait": "it waits for the answer",
}

log = logging.getLogger(__name__)


class _OwnedRequest(Frozen):
    id: str
    session_id: str
    owner_id: str
    locked: int | None


class Recovery:
    """One per process: finds what other processes left, says so, and does what was decided."""

    def __init__(
        self,
        services: SessionServices,
        database: Database,
        execution: Execution,
        tasks: Tasks,
        trees: StoredTrees,
        policy: Callable[[Location], Awaitable[RecoveryPolicy]],
        sign_ins: SignInForms,
    ) -> None:
        self._sign_ins = sign_ins
        self._log = services.log
        self._database = database
        self._store = services.store
        self._execution = execution
        self._tasks = tasks
        self._trees = trees
        self._ownership = services.ownership
        self._clock = services.clock
        self._policy = policy
        self._continuing = BackgroundTasks()
        execution.look_after = self.look_after

    async def interrupted(self) -> list[InterruptedActivity]:
        """Everything that a Session owes and no living process works on, unless it waits for a budget: tree by tree,
        each from its root down."""
        return await by_tree(self._trees, [described(activity) for activity in await self._left_unpaused()])

    async def undecided(self) -> list[InterruptedActivity]:
        """Of the same, what goes on only if a person decides so."""
        found = [described(activity) for activity in await self._left_unpaused() if needs_decision(activity)]
        return await by_tree(self._trees, found)

    async def start(self) -> None:
        """At the start of a host: decide about everything that was left. Then inputs whose wake was lost, and results
        of background tasks. A Session whose Location cannot be opened any more stays as it is, and keeps nobody else
        back. Requests whose callers ended with their process are closed; forms whose sign-in happened meanwhile are
        answered."""
        await self._close_requests()
        await self._sign_ins.start()
        for activity in await self._left():
            await self._act_on(activity)
        await self._execution.recover_wakes()
        await self._tasks.deliver_all()

    async def take_over(self, leased: Collection[str], mine: Callable[[str], bool], *, first: bool) -> None:
        """While a host runs: what processes left that have just ended, of those Sessions that are this node's turn.
        `leased` are the Sessions that they executed. What was left to a person is left alone. `first`: nobody's turn
        was before, so that what concerns no single Session is done too."""
        if first:
            await self._close_requests()
        for activity in await self._left():
            session_id = activity.session_id
            if mine(session_id) and (session_id in leased or await self._is_continued(activity)):
                await self._act_on(activity)
        await self._execution.recover_wakes(mine=mine)
        if first:
            await self._tasks.deliver_all()

    async def look_after(self, session_id: str) -> None:
        """Decide about what was left in one Session. Returns when whatever is continued has ended."""
        activity = await self._store.activity(session_id)
        if activity is None or self._execution.here(session_id):
            return
        if await self._ownership.elsewhere(session_id) is None:
            await self._act_on(activity, named=True, joining=True)

    async def _is_continued(self, activity: Activity) -> bool:
        return is_continued(activity) and await self._store.pause(activity.session_id) is None

    async def decide(self, session_id: str, decision: Literal["continue", "abandon", "policy"]) -> None:
        """A decision about a Session, and about whatever was left below it, deepest first: the word of a person, or as
        the policy says. Continuing is an explicit run from history: the broken turn is recorded as such first, so
        nothing is sent twice without anyone knowing. What waits for a person below it goes on waiting. Abandoning lets
        follow what is pending. Where nothing is owed any more, nothing happens."""
        await self._store.get(session_id)
        below = await self._left_below(session_id)
        if decision == "policy":
            left = [activity for activity in await self._left() if activity.session_id == session_id]
            for activity in (*below, *left):
                await self._act_on(activity, named=True)
            return
        if decision == "continue":
            goes_on = [activity.session_id for activity in below if stage_of(activity) != "waiting"]
            owes = await self._store.activity(session_id) is not None
            for id in (*goes_on, *((session_id,) if owes or not goes_on else ())):
                forget = Statement("attempt.forget", {"session_id": id})
                await self._database.submit(Unit(id, local=(forget,)))
                self._continue(id, Cause("person"))
            return
        with self._tasks.quietly(session_id, *await self._trees.member_ids(session_id)):
            for activity in below:
                await self._execution.abandon(activity.session_id, Cause("person"))
            await self._execution.abandon(session_id, Cause("person"))
        await self._execution.recover_wakes(mine={session_id, *(left.session_id for left in below)}.__contains__)

    async def _left_below(self, session_id: str) -> list[Activity]:
        """What was left in the descendants of a Session, deepest first."""
        ids = await self._trees.deepest_first(session_id)
        if len(ids) < 2:
            return []
        left = {activity.session_id: activity for activity in await self._left()}
        return [left[id] for id in ids[:-1] if id in left]

    async def close(self) -> None:
        await self._continuing.close()

    async def _close_requests(self) -> None:
        for request in await self._database.fetch("request.owned", {}, into=_OwnedRequest):
            session = await self._store.find(request.session_id)
            if session is None or self._ownership.lives(request.owner_id, request.locked):
                continue
            replied = PermissionReplied(
                timestamp=self._clock.now(),
                session_id=request.session_id,
                request_id=request.id,
                reply="reject",
                cause="interrupted",
            )
            with suppress(AlreadyAnswered):
                await self._log.publish(replied, location=session.location)

    async def _left(self) -> list[Activity]:
        activities = await self._store.activities()
        elsewhere = set(await self._ownership.all_elsewhere()) if activities else set()
        return [
            activity
            for activity in activities
            if activity.session_id not in elsewhere and not self._execution.here(activity.session_id)
        ]

    async def _left_unpaused(self) -> list[Activity]:
        left = await self._left()
        key = {"ids": encode([activity.session_id for activity in left]).decode()}
        paused = {str(row[0]) for row in await self._database.fetch_large("tree.pauses", key)} if left else set()
        return [activity for activity in left if activity.session_id not in paused]

    async def _act_on(self, activity: Activity, *, named: bool = False, joining: bool = False) -> None:
        """Decide, and do it; with `joining` until whatever is continued has ended. `named`: somebody asked for this
        Session, wherever it is."""
        try:
            cause = await self._act(activity, named)
        except Exception as error:  # noqa: BLE001 - one Session's trouble is not the host's
            log.warning("%s stays as it was left: %s: %s", activity.session_id, type(error).__name__, error)
            return
        if cause is not None and joining:
            await self._run(activity.session_id, cause)
        elif cause is not None:
            self._continue(activity.session_id, cause)

    async def _act(self, activity: Activity, named: bool) -> Cause | None:
        """Decide about work that no process executes, and do it, unless it is continued: then returns why."""
        session_id = activity.session_id
        session = await self._store.find(session_id)
        if session is None or not (named or self._execution.placement.recovers(session.location)):
            return None
        status = described(activity)
        # Also where nothing is open any more: what a call waited for was answered while no process executed Sessions.
        if status.stage in ("waiting", "answering") and await self._store.answered_calls(session_id):
            self._execution.wake(session_id)
            return None
        policy = await self._policy_of(activity, session.location)
        decision = decide(activity, policy or "safe")
        asked = f" (holdfast.recovery: {policy})" if policy is not None else ""
        log.warning("session %s: %s; %s%s", session_id, status.what, DECIDED[decision].format(id=session_id), asked)
        cause = Cause("policy", policy)
        if decision == "continue":
            return cause
        if decision == "abandon":
            await self._execution.abandon(session_id, cause)
            return None
        await self._leave(activity, decision, cause, session.location)
        if decision == "person":
            self._show(status, session.location)
        return None

    async def _policy_of(self, activity: Activity, location: Location) -> RecoveryPolicy | None:
        """The setting of a Location; None where it is not asked. What cannot be read leaves the decision to a
        person."""
        if is_held(activity) or goes_on_by_itself(activity) or stage_of(activity) == "waiting":
            return None
        try:
            return await self._policy(location)
        except Exception as error:  # noqa: BLE001 - the configuration is broken, or the directory is gone
            log.warning("%s: holdfast.recovery is unknown: %s: %s", activity.session_id, type(error).__name__, error)
            return "ask"

    async def _leave(self, activity: Activity, decision: Decision, cause: Cause, location: Location) -> None:
        """Record once that the work is left to a person, or to the answer to a request. Prompts that are pending now
        do not decide about it; later ones do. An answer is waited for without a record where no prompt is pending."""
        session_id = activity.session_id
        if activity.decision_seq is not None or is_held(activity):
            return
        if decision == "wait" and not await self._store.prompted_since(session_id, -1):
            return
        decided = recovery_decided(activity, self._clock.now(), cause, decision, activity.attempts)
        key: dict[str, Value] = {"session_id": session_id, "activity_seq": activity.seq}
        undecided = Statement("activity.is_undecided", key, found=True, error=AlreadyDecided)
        with suppress(AlreadyDecided):
            await self._log.publish(decided, location=location, before=(undecided,))

    def _continue(self, session_id: str, cause: Cause) -> None:
        self._continuing.start(self._run(session_id, cause), f"recover {session_id}")

    async def _run(self, session_id: str, cause: Cause) -> None:
        try:
            await self._execution.resume(session_id, cause)
        except Exception as error:  # noqa: BLE001 - the drain reported it; nobody waits here
            log.debug("continuing %s ended: %s", session_id, error)

    def _show(self, status: InterruptedActivity, location: Location) -> None:
        data = {"message": f"Work was left unfinished: {status.what}; a person decides", "stage": status.stage}
        info = ErrorInfo(name="TurnInterrupted", data={**data, "dispatched": status.dispatched})
        self._log.announce(SessionError(session_id=status.session_id, error=info), location=location)
