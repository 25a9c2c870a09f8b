"""The drain of one Session: promote, take turns, until nothing more is owed.

Invariants
- A request is rebuilt at most once per turn after a compaction; a rebuilt turn promotes nothing and costs no step.
- A drain that starts finds out first what an earlier one left, whichever process that was. What it cannot continue by
  itself stays as it is, and queued input waits behind it.
- Once input was promoted, a drain ends with a record of how that ended: a step, a failed step, an interruption. Input
  that asks for no answer is promoted in its order, and nothing is owed for it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.core.agent.agents import BUILD
from holdfast.core.database.errors import StorageError
from holdfast.core.database.unit import Statement
from holdfast.core.runner.assigned_model import assigned_model
from holdfast.core.runner.fitting import Fitting
from holdfast.core.runner.interrupted_work import close_interrupted_work
from holdfast.core.runner.left_work import recovery_decided
from holdfast.core.runner.preparation import Preparation
from holdfast.core.runner.sending import Sending
from holdfast.core.runner.task_prompts import task_call
from holdfast.core.runner.titles import AGENT as TITLE
from holdfast.core.runner.turn_options import NO_OPTIONS, asks_nothing
from holdfast.core.session.activity import Cause, described, goes_on_by_itself
from holdfast.core.session.answer_outcome import TURN_INTERRUPTED
from holdfast.core.session.errors import BudgetReached, Interrupted, TurnLimitReached, UnfinishedWork
from holdfast.schema.deferred import deferred
from holdfast.schema.model import ModelRef
from holdfast.schema.session_event import ActivityEnded, ActivitySuspended

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Sequence

    from holdfast.core.runner import compaction, shell_messages
    from holdfast.core.runner.drain_scope import DrainScope
    from holdfast.core.runner.preparation import ReadyTurn
    from holdfast.core.runner.services import RunnerServices
    from holdfast.core.session.activity import Activity
    from holdfast.core.session.stored_activity import ResumableCall
    from holdfast.core.session.stored_messages import OpenCall
    from holdfast.core.session.stored_sessions import Boundary, SessionAtBoundary
    from holdfast.core.session.stored_start import DrainStart, LeftOpen
    from holdfast.llm.event import ToolCall
    from holdfast.schema.session import Session
    from holdfast.schema.turn_event import RecoveryDecided
else:
    compaction = deferred("holdfast.core.runner.compaction")
    shell_messages = deferred("holdfast.core.runner.shell_messages")

DID_NOT_FIT = "the request did not fit"
NO_MODEL = ModelRef(id="unknown", provider_id="unknown")
"""In the record of a turn that failed before anything was chosen."""


class Drain:
    def __init__(
        self,
        services: RunnerServices,
        scope: DrainScope,
        *,
        forced: bool = False,
        cause: Cause | None = None,
        start: DrainStart | None = None,
    ) -> None:
        """`forced` continues from history even if nothing waits; `cause` is why, if that was a decision about what an
        earlier process left. `start` is what the drain starts from, if that was read and nobody has committed since."""
        self._services = services
        self._store = services.sessions.store
        self._scope = scope
        self._state = scope.state
        self._session_id = scope.session_id
        self._forced = forced
        self._cause = cause
        self._read_start = start
        self._preparation = Preparation(services, scope, recovers_epoch=forced)
        self._sending = Sending(services, scope, self._preparation)
        self._fitting = Fitting(services, scope)
        self._attempted = False
        """Whether this drain continues what another one left, and has completed no step yet."""

    async def run(self) -> None:
        start = await self._start()
        left, seen = start.activity, start.seen
        if left is None:
            self._state.task_prompts = False
            if self._forced or seen.steer or seen.queue:
                async with self._begun(start):
                    await self._recorded(seen, None, ())
            return
        calls = await self._waiting_calls(left) if start.open.calls else []
        # A prompt that was pending when the process died decides nothing: only one that came later does.
        prompted = seen.steer_asks and await self._store.prompted_since(
            self._session_id, -1 if left.decision_seq is None else left.decision_seq
        )
        answered = any(found.answered for found in calls)
        if prompted and not any(found.answered and not found.task for found in calls):
            calls = [found for found in calls if found.task]  # it ends the wait for a person, not that for a child
        waiting, paused = seen.queue or seen.steer, await self._scope.spending.paused()
        if not (self._forced or prompted or answered or paused or (waiting and goes_on_by_itself(left))):
            return  # queued input, and input that asks for no answer, waits behind the decision
        if not (calls and all(found.task for found in calls)):  # waiting for a child ends no process
            decided = () if paused else (self._decided(left, prompted=prompted, answered=answered),)
            await self._count_attempt(*decided)
        async with self._begun(start, keep=[found.call.key for found in calls], goes_on=not prompted):
            await self._recorded(seen, left, [found.call for found in calls])

    async def compact(self, instructions: str | None) -> None:
        """Compact now, whatever the estimate says, and take no turn."""
        async with self._begun_alone():
            await self._fitting.compact(await self._preparation.again(), instructions)

    async def shell(self, command: str, message_id: str) -> None:
        """Run a command of a person as a message of the conversation, and take no turn."""
        async with self._begun_alone():
            await shell_messages.ShellMessages(self._services, self._scope).run(command, message_id)

    # -- begin and end -------------------------------------------------------------------------------------------

    async def _start(self) -> DrainStart:
        """What the drain starts from, as of some moment after the lease was looked at: until then another process may
        have worked on the Session."""
        start, cache = self._read_start, self._scope.cache
        if start is None:
            budgets = self._services.sessions.budgets.revision > 0
            start = await self._store.drain_start(
                self._session_id, self._services.sessions.clock.now(), budgets=budgets
            )
        cache.take(start.seen)
        cache.take_instructions(start.seen.instructions_seq, start.entries)
        return start

    @asynccontextmanager
    async def _begun(
        self,
        start: DrainStart,
        *,
        keep: Collection[tuple[str, str]] = (),
        goes_on: bool = False,
    ) -> AsyncIterator[None]:
        """What an earlier drain left open is closed first, except for the calls in `keep`; at the end everything staged
        is on disk."""
        state, here = self._state, self._services.here
        if start.last_dispatch is not None:
            self._sending.restore(start.last_dispatch)
        state.checkpoint_seq = start.checkpoint_seq
        state.options = start.options or NO_OPTIONS
        state.stored_epoch = start.epoch
        self._scope.history.expects_files = start.has_attachments and start.checkpoint_seq < 0
        sent = start.last_dispatch is not None and start.seen.session.fork is None
        default = None if sent else here.settings().budget  # that is for a root that has sent nothing
        await self._scope.spending.begin(self._scope.outbox, default, start.budget_revision, start.budgets)
        await self._close_interrupted(start.activity, start.open, keep=keep, goes_on=goes_on)
        here.context.begin(start.seen.session, start.discovered, len(start.line) - 1)
        try:
            yield
        finally:
            await self._sending.finish()
            await self._services.tools.requests.settled(self._session_id)
            await self._scope.outbox.commit()
            await self._scope.spending.finish()

    @asynccontextmanager
    async def _begun_alone(self) -> AsyncIterator[None]:
        """For work that takes no turn. Raises UnfinishedWork where beginning would end a turn that was left open."""
        start = await self._start()
        if start.activity is not None and start.activity.turn is not None:
            raise UnfinishedWork(self._session_id, described(start.activity))
        async with self._begun(start):
            if not self._scope.lease.taken:
                await self._services.sessions.ownership.take(self._scope.lease)
            yield

    async def _recorded(self, seen: SessionAtBoundary, left: Activity | None, calls: Sequence[OpenCall]) -> None:
        """Take turns, and record how that ended if it did not end by itself."""
        try:
            await self._turns(seen, left, calls)
        except Interrupted:
            await self._stopped()
            raise
        except BudgetReached as reached:
            await self._forget_attempts()  # what is owed waits, and did not fail
            await self._scope.spending.pause(self._scope.outbox, reached)
        except StorageError:
            raise  # nothing can be recorded; the next drain finds out
        except Exception as error:
            await self._failed(error)
            raise

    async def _stopped(self) -> None:
        """An interruption ends what was owed; a shutdown only suspends it."""
        outbox = self._scope.outbox
        await outbox.commit()
        if not self._scope.interrupt.suspending:
            await self._name_unfinished()
        owed = await self._store.activity(self._session_id)
        if owed is None:
            return
        now = self._services.sessions.clock.now()
        if not self._scope.interrupt.suspending:
            ended = ActivityEnded(timestamp=now, session_id=self._session_id, reason=TURN_INTERRUPTED)
            await outbox.commit(ended)
            return
        await self._forget_attempts()  # an orderly end: this work did not end the process
        if owed.turn is None and not owed.suspended:  # with a turn, a call waits for a person, and waits on
            await outbox.commit(ActivitySuspended(timestamp=now, session_id=self._session_id))

    async def _failed(self, error: Exception) -> None:
        """Whatever input was promoted and has no end: this is how it ended."""
        outbox = self._scope.outbox
        await outbox.commit()
        await self._name_unfinished()
        owed = await self._store.activity(self._session_id)
        if owed is None:
            return
        message = str(error) or type(error).__name__
        if owed.turn is not None:
            found = await self._store.left_open(self._session_id)
            await self._close_interrupted(owed, found, ends=message, because=message)
            return
        session = await self._store.get(self._session_id)
        agent, model = self._state.sampled or (session.agent or BUILD, session.model or NO_MODEL)
        self._sending.publisher(agent, model).fail(message)
        await outbox.commit()

    async def _close_interrupted(
        self,
        left: Activity | None,
        found: LeftOpen,
        *,
        keep: Collection[tuple[str, str]] = (),
        goes_on: bool = False,
        ends: str | None = None,
        because: str = TURN_INTERRUPTED,
    ) -> None:
        services, lease = self._services, self._scope.lease
        await close_interrupted_work(
            services.sessions,
            self._session_id,
            lease,
            left,
            found,
            beside=self._scope.spending.settlement,
            keep=keep,
            goes_on=goes_on,
            ends=ends,
            because=because,
        )
        await services.tools.requests.abandon(found.requests, lease, keep)

    async def _waiting_calls(self, left: Activity) -> list[ResumableCall]:
        """The calls of the open step that wait for a person or a child."""
        answer = left.turn.message_id if left.turn is not None else None
        waiting = await self._store.resumable_calls(self._session_id)
        return [found for found in waiting if found.call.message_id == answer]

    def _decided(self, left: Activity, *, prompted: bool, answered: bool) -> RecoveryDecided:
        """The record of why this drain continues what an earlier process left."""
        cause = self._cause or Cause("person")
        decided = recovery_decided(left, self._services.sessions.clock.now(), cause, "continue", left.attempts + 1)
        if prompted or answered or not self._forced:
            decided = replace(decided, by="prompt" if prompted else "answer" if answered else "wake", policy=None)
        return decided

    async def _count_attempt(self, *decided: RecoveryDecided) -> None:
        """On disk before anything else happens: the work itself may be what ends processes."""
        count = Statement("attempt.count", {"session_id": self._session_id})
        await self._scope.outbox.publish(*decided, local=(count,))
        self._attempted = True

    async def _forget_attempts(self) -> None:
        if self._attempted:
            self._attempted = False
            forget = Statement("attempt.forget", {"session_id": self._session_id})
            await self._scope.outbox.publish(local=(forget,))

    # -- turns ---------------------------------------------------------------------------------------------------

    async def _turns(self, seen: SessionAtBoundary, left: Activity | None, calls: Sequence[OpenCall]) -> None:
        """`seen` is the Session when the drain began. `left` is what an earlier drain owed, and `calls` are the
        calls of that which waited for a person or a child."""
        cache, allowance = self._scope.cache, self._state.allowance
        boundary: Boundary | None = "steer" if seen.steer else "queue" if seen.queue and left is None else None
        if left is not None and left.turn is not None and calls:
            continues = (await self._sending.resume(seen.session, left.turn, calls)).continues
        else:
            continues = await self._boundary(seen, boundary, owed=self._forced or left is not None)
        await self._forget_attempts()
        while True:
            seen = await cache.read()
            if continues or seen.steer:
                boundary = "steer" if seen.steer else None
                allowance.step += 1
            elif seen.queue:
                boundary = "queue"
                allowance.renew()
            else:
                return
            self._scope.interrupt.check_boundary()
            self._check_cap(boundary)
            continues = await self._boundary(seen, boundary, owed=continues)

    async def _boundary(self, seen: SessionAtBoundary, boundary: Boundary | None, *, owed: bool) -> bool:
        """Whether the model is owed another turn. `owed`: a turn is taken even if no input asks for one. `seen` is the
        Session at this boundary."""
        session, inputs = seen.session, seen.due(boundary) if boundary is not None else []
        if boundary is not None and not owed and all(asks_nothing(item.prompt) for item in inputs):
            await self._preparation.promote_only(session, inputs)
            return False
        await self._scope.spending.check(self._scope.outbox)
        ready = await self._preparation.turn(session, inputs, owed=owed or boundary is None)
        if ready is None:
            return False
        if calls := await self._task_calls():
            return (await self._sending.call(ready, calls)).continues
        return await self._turn(ready)

    async def _task_calls(self) -> list[ToolCall]:
        """Calls that give the prompts of commands to subagents, before the model answers."""
        state = self._state
        if not state.task_prompts:
            return []
        await self._scope.outbox.commit()
        found = await self._store.task_prompts(self._session_id)
        state.task_prompts = False
        return [task_call(prompt) for prompt in found]

    async def _turn(self, ready: ReadyTurn) -> bool:
        preparation, sending, fitting = self._preparation, self._sending, self._fitting
        if not fitting.fits(ready) and await fitting.prune(ready):
            ready = await preparation.again()
        compacted = not fitting.fits(ready) and await fitting.make_room(ready)
        if compacted:
            ready = await preparation.again()
        turn, outcome = await sending.send(ready)
        if outcome.overflow is not None:
            fitting.refused(ready, outcome.overflow)
            sending.abandon(DID_NOT_FIT)
            report = compaction.Report(compacted=False) if compacted else await fitting.summarise(ready)
            if not report.compacted:
                await turn.give_up(outcome.overflow)
                return False
            ready = await preparation.again()
            turn, outcome = await sending.send(ready)
            if outcome.overflow is not None:
                fitting.refused(ready, outcome.overflow)
                await turn.give_up(outcome.overflow)
                return False
        self._state.turns += 1
        if not outcome.continues:
            self._want_title(ready.session)
        return outcome.continues

    def _check_cap(self, boundary: Boundary | None) -> None:
        cap = self._services.here.settings().turns
        if cap is not None and boundary is None and self._state.allowance.steps is None and self._state.turns >= cap:
            raise TurnLimitReached(self._session_id, cap)

    async def _name_unfinished(self) -> None:
        """Give a Session a title whose first exchange did not end well."""
        if self._services.here.settings().titles:
            await self._services.sessions.titles.name_after_prompt(await self._store.get(self._session_id))

    def _want_title(self, session: Session) -> None:
        here = self._services.here
        if here.settings().titles:
            models = self._services.models
            model = assigned_model(TITLE, session, here.agents, models.catalog)
            self._services.sessions.titles.want(session, model, models.hooks)
