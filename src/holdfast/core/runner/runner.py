"""The drain of one Session: promote, take turns, until nothing more is owed. One runner per Location.

Invariants
- Input is promoted only once agent, model and baseline are there; whatever is missing leaves it pending.
- A turn is dispatched durably before the provider is called, in one commit with the end of the turn before it.
- A request is rebuilt at most once per turn, after a compaction; a rebuilt turn promotes nothing and costs no step.
- A drain that starts finds out first what an earlier one left, whoever that was. What it cannot go on with alone stays
  as it is, and queued input waits behind it.
- Once input was promoted, a drain ends with a record of how that ended: a step, a failed step, an interruption."""

from __future__ import annotations

from contextlib import asynccontextmanager
from operator import is_
from typing import TYPE_CHECKING, Self

from msgspec.structs import replace

from holdfast.core.agent.agents import BUILD
from holdfast.core.context.errors import ContextSnapshotDecodeError
from holdfast.core.database.errors import StorageError
from holdfast.core.database.unit import Statement
from holdfast.core.plugin.request import RequestDraft
from holdfast.core.runner.allowance import Allowance
from holdfast.core.runner.budget import Estimate, Window, total_input
from holdfast.core.runner.compaction import Compaction, Reason, Report, Summariser, plan
from holdfast.core.runner.history import Frame, History
from holdfast.core.runner.interrupted_work import close_interrupted_work
from holdfast.core.runner.lowering import lower
from holdfast.core.runner.outbox import Outbox
from holdfast.core.runner.prefix import Prefix
from holdfast.core.runner.pruning import prune_point
from holdfast.core.runner.publish import TurnOf, TurnPublisher, stored_tokens
from holdfast.core.runner.retries import reported
from holdfast.core.runner.stillness import Stillness
from holdfast.core.runner.trees import StepSnapshots
from holdfast.core.runner.turn import TURN_INTERRUPTED, Outcome, Turn
from holdfast.core.session.activity import goes_on_by_itself
from holdfast.core.session.errors import (
    CompactionFailed,
    InputExceedsWindow,
    Interrupted,
    NothingToCompact,
    TurnLimitReached,
)
from holdfast.core.session.transcript import tokens
from holdfast.llm.event import ToolCall
from holdfast.llm.pace import Pace
from holdfast.llm.request import Generation, HttpOverlay, SystemPart, choice, update
from holdfast.schema.codec import decoder
from holdfast.schema.frozen import Frozen
from holdfast.schema.ids import MessageID
from holdfast.schema.model import ModelRef
from holdfast.schema.session_event import ActivityEnded, ActivitySuspended, TurnAbandoned
from holdfast.schema.session_message import ToolPart, ToolRunning

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Sequence

    from holdfast.core.catalog.catalog import ResolvedModel
    from holdfast.core.context.epoch import Epoch
    from holdfast.core.context.turn_context import TurnContext
    from holdfast.core.runner.settings import SessionSettings
    from holdfast.core.runner.surroundings import Surroundings
    from holdfast.core.session.activity import Activity, OpenTurn
    from holdfast.core.session.inbox import Boundary
    from holdfast.core.session.interrupt import Interrupt
    from holdfast.core.session.ownership import Lease
    from holdfast.core.session.store import Glance, OpenCall
    from holdfast.core.tool.registry import Materialized
    from holdfast.llm.errors import LLMError
    from holdfast.llm.event import ProviderError
    from holdfast.llm.stream import Prepared
    from holdfast.schema.agent import Agent
    from holdfast.schema.session import Session
    from holdfast.schema.session_message import AssistantMessage

LAST_STEP = (
    "You have used all the steps you were given. Tools are off until the user writes again. Answer now, in text only: "
    "say that the step limit was reached, what is done, what is left, and what you recommend to do next."
)


ABANDONED = "abandoned"
NO_MODEL = ModelRef(id="unknown", provider_id="unknown")
"""In the record of a turn that failed before anything was chosen."""
DID_NOT_FIT = "the request did not fit"
MEDIA_REFUSED = "the provider refused the request, which held media"


class Ready(Frozen):
    """A turn that only has to be sent."""

    session: Session
    agent: Agent
    resolved: ResolvedModel
    frame: Frame
    prepared: Prepared
    tools: Materialized
    settings: SessionSettings


class _Framed(Frozen):
    """A frame, and the very objects it was made of: most turns differ in their conversation alone."""

    made_of: tuple[object, ...]
    frame: Frame


class Runner:
    def __init__(self, around: Surroundings) -> None:
        self._around = around

    async def drain(self, session_id: str, lease: Lease, interrupt: Interrupt, *, forced: bool = False) -> None:
        await _Drain(self._around, session_id, lease, interrupt, forced=forced).drain()

    async def abandon(self, session_id: str, lease: Lease, interrupt: Interrupt) -> None:
        """Close what an earlier drain left open, and no more."""
        async with _Drain(self._around, session_id, lease, interrupt).begun(ends=ABANDONED):
            pass

    async def compact(self, session_id: str, lease: Lease, interrupt: Interrupt, instructions: str | None) -> None:
        """Compact now, whatever the estimate says, and take no turn."""
        async with _Drain(self._around, session_id, lease, interrupt).begun() as drain:
            await drain.compact(instructions)


class _Drain:
    def __init__(
        self, around: Surroundings, session_id: str, lease: Lease, interrupt: Interrupt, *, forced: bool = False
    ) -> None:
        self._around = around
        self._forced = forced
        self._session_id = session_id
        self._lease = lease
        self._interrupt = interrupt
        self._outbox = Outbox(lease, around.location)
        self._history = History(around.store, session_id)
        self._estimate = Estimate()
        self._allowance = Allowance(None)
        self._turns = 0
        self._epoch: Epoch | None = None
        self._checkpoint_seq = -1
        self._pruned_seq = -1
        self._refused_by: ModelRef | None = None
        """The model whose provider refused a request with media."""
        self._answer: AssistantMessage | None = None
        self._prefix = Prefix(None, reverted=False)
        self._trees = StepSnapshots(around.snapshots, self._outbox, session_id, around.clock)
        self._still = False
        self._seen: Glance | None = None
        self._framed: _Framed | None = None
        self._sampled: tuple[str, ModelRef] | None = None
        """The agent and the model of the turn that is being prepared."""

    async def drain(self) -> None:
        left = await self._around.store.activity(self._session_id)
        if left is None:
            async with self.begun():
                await self.run()
            return
        written_on = (await self._around.store.glance(self._session_id)).steer
        calls = [] if written_on else await self._around.store.resumable_calls(self._session_id)
        if not (self._forced or written_on or goes_on_by_itself(left) or any(found.answered for found in calls)):
            return  # queued input waits behind the decision
        async with self.begun(keep=[found.call.call_id for found in calls], goes_on=not written_on):
            await self.run(left, [found.call for found in calls])
            if left.attempts:
                await self._forget_attempts()

    @asynccontextmanager
    async def begun(
        self, *, keep: Collection[str] = (), goes_on: bool = False, ends: str | None = None
    ) -> AsyncIterator[Self]:
        """What an earlier drain left open is closed first, but for the calls in `keep`; at the end everything staged is
        on disk."""
        with self._around.log.signals.follow(self._session_id) as flag:
            self._stillness = Stillness(flag, self._outbox)
            last = await self._around.store.last_dispatch(self._session_id)
            if last is not None:
                self._pruned_seq = last.event.pruned_seq
                self._prefix = Prefix(last.event, reverted=last.reverted)
                self._around.learned.restore(last.event)
            self._checkpoint_seq = await self._around.store.checkpoint_seq(self._session_id)
            await close_interrupted_work(
                self._around, self._session_id, self._lease, keep=keep, goes_on=goes_on, ends=ends
            )
            try:
                yield self
            finally:
                await self._trees.finish()
                await self._around.requests_settled(self._session_id)
                await self._outbox.commit()

    async def run(self, left: Activity | None = None, calls: Sequence[OpenCall] = ()) -> None:
        """`left` is what an earlier drain owed, and `calls` are those of its calls that waited for a person."""
        try:
            await self._run(left, calls)
        except Interrupted:
            await self._stopped()
            raise
        except StorageError:
            raise  # nothing can be recorded; the next drain finds out
        except Exception as error:
            await self._failed(error)
            raise

    async def _run(self, left: Activity | None, calls: Sequence[OpenCall]) -> None:
        seen = await self._glance()
        boundary: Boundary | None = "steer" if seen.steer else "queue" if seen.queue and left is None else None
        if left is not None and left.turn is not None and calls:
            continues = await self._resume(seen.session, left.turn, calls)
        else:
            continues = await self._turn(seen.session, boundary)
        while True:
            seen = await self._glance()
            if continues or seen.steer:
                boundary = "steer" if seen.steer else None
                self._allowance.step += 1
            elif seen.queue:
                boundary = "queue"
                self._allowance.renew()
            else:
                return
            self._check_cap(boundary)
            continues = await self._turn(seen.session, boundary)

    async def _stopped(self) -> None:
        """An interruption ends what was owed; a shutdown only suspends it."""
        await self._outbox.commit()
        owed = await self._around.store.activity(self._session_id)
        if owed is None:
            return
        now = self._around.clock.now()
        if not self._interrupt.suspending:
            ended = ActivityEnded(timestamp=now, session_id=self._session_id, reason=TURN_INTERRUPTED)
            await self._outbox.commit(ended)
        elif owed.turn is None and not owed.suspended:  # with a turn, a call waits for a person, and waits on
            await self._outbox.commit(ActivitySuspended(timestamp=now, session_id=self._session_id))

    async def _failed(self, error: Exception) -> None:
        """Whatever input was promoted and has no end: this is how it ended."""
        around = self._around
        await self._outbox.commit()
        owed = await around.store.activity(self._session_id)
        if owed is None:
            return
        message = str(error) or type(error).__name__
        if owed.turn is not None:
            await close_interrupted_work(around, self._session_id, self._lease, ends=message, because=message)
            return
        session = await around.store.get(self._session_id)
        agent, model = self._sampled or (session.agent or BUILD, session.model or NO_MODEL)
        of = TurnOf(self._session_id, around.location, agent, model)
        TurnPublisher(around.log, self._outbox, of, around.ids, around.clock, lambda tokens: 0.0).fail(message)
        await self._outbox.commit()

    async def _forget_attempts(self) -> None:
        await self._outbox.commit(local=(Statement("attempt.forget", {"session_id": self._session_id}),))

    async def _resume(self, session: Session, turn: OpenTurn, calls: Sequence[OpenCall]) -> bool:
        """Execute what waited for a person when its process ended, and end its step."""
        around = self._around
        await around.catalog.ready()
        agent = around.agent(replace(session, agent=turn.agent))
        self._allowance.steps = agent.steps
        tools = around.tools.materialize(agent.permissions, fences=agent.fences, last_step=False)
        of = TurnOf(self._session_id, around.location, turn.agent, turn.model)
        publisher = TurnPublisher(around.log, self._outbox, of, around.ids, around.clock, lambda tokens: 0.0)
        publisher.adopt(MessageID(turn.message_id or ""), map(_waiting_call, calls))
        outcome = await self._new_turn(of, publisher, tools, around.settings()).resume()
        await self._outbox.commit()  # the history is read back
        self._answer = None
        return outcome.continues

    async def _glance(self) -> Glance:
        """The Session, and what waits. As long as nobody else records anything, the last look still holds."""
        if self._seen is None or self._seen.steer or self._seen.queue or not self._stillness.holds:
            self._still = False
            self._stillness.begin()
            self._seen = await self._around.store.glance(self._session_id)
        else:
            self._still = True
        return self._seen

    # -- one turn ------------------------------------------------------------------------------------------------

    async def _turn(self, session: Session, boundary: Boundary | None) -> bool:
        """Whether the model is owed another turn. `session` is as it was at this boundary."""
        ready = await self._prepare(session, boundary)
        if not self._fits(ready) and await self._prune(ready):
            ready = await self._rebuild()
        compacted = not self._fits(ready) and await self._make_room(ready)
        if compacted:
            ready = await self._rebuild()
        turn, outcome = await self._send(ready)
        if outcome.overflow is not None:
            self._learn(ready, outcome.overflow)
            self._outbox.stage(self._abandoned(DID_NOT_FIT))
            report = Report(compacted=False) if compacted else await self._summarise(ready)
            if not report.compacted:
                await turn.give_up(outcome.overflow)
                return False
            ready = await self._rebuild()
            turn, outcome = await self._send(ready)
            if outcome.overflow is not None:
                self._learn(ready, outcome.overflow)
                await turn.give_up(outcome.overflow)
                return False
        self._turns += 1
        if not outcome.continues:
            self._around.settled(ready.session)
        return outcome.continues

    def _abandoned(self, reason: str) -> TurnAbandoned:
        return TurnAbandoned(timestamp=self._around.clock.now(), session_id=self._session_id, reason=reason)

    async def _rebuild(self) -> Ready:
        """The same turn again, over another history: everything is looked at anew, and nothing is promoted."""
        return await self._prepare((await self._glance()).session, None)

    async def _prepare(self, session: Session, boundary: Boundary | None) -> Ready:
        around = self._around
        self._interrupt.check()
        if session.location != around.location:
            raise Interrupted  # moved: the destination's runner takes it from here, the input is still pending
        await around.refresh()
        await around.catalog.ready()
        agent = around.agent(session)  # no await from here to the model: both are of one configuration
        resolved = around.catalog.resolve(self._session_id, session.model, agent)
        self._sampled = (agent.id, resolved.ref)
        epoch, context = await self._open_epoch(session, agent, resolved)
        await self._promote(boundary, agent)
        if context is None:
            context = around.context(session, agent, resolved)
            epoch = await around.epochs.prepare(
                epoch, context.system, self._outbox, around.location, compaction_seq=self._checkpoint_seq
            )
            self._still = self._still and epoch is self._epoch
            self._epoch = epoch
        settings = around.settings()
        tools = around.tools.materialize(
            agent.permissions,
            fences=agent.fences,
            without=context.hidden_tools(),
            last_step=self._allowance.last_step,
        )
        frame = self._frame(session, agent, resolved, epoch, tools)
        if around.hooks:
            frame = await self._hooked(frame)
        prepared = await self._history.request(frame, self._answer, still=self._still and self._stillness.holds)
        return Ready(session, agent, resolved, frame, prepared, tools, settings)

    async def _open_epoch(
        self, session: Session, agent: Agent, resolved: ResolvedModel
    ) -> tuple[Epoch, TurnContext | None]:
        """The Session's epoch, and the context if it begins with this turn, which then has nothing to reconcile."""
        around = self._around
        begin = around.epochs.initialize
        if self._epoch is None:
            try:
                self._epoch = await around.epochs.load(self._session_id)
            except ContextSnapshotDecodeError:
                if not self._forced:
                    raise
                begin = around.epochs.recover  # a person asked for another try
        if self._epoch is not None:
            return self._epoch, None
        context = around.context(session, agent, resolved)
        self._epoch = await begin(self._session_id, context.system, self._outbox, around.location)
        return self._epoch, context

    async def _promote(self, boundary: Boundary | None, agent: Agent) -> None:
        around = self._around
        self._allowance.steps = agent.steps
        if boundary is not None:
            promoted = await around.inbox.promote(self._session_id, boundary, self._outbox, around.location)
            if promoted:
                self._still = False
                self._allowance.renew()
                self._turns = 0
        if not self._lease.taken:
            await around.ownership.take(self._lease)

    def _frame(
        self, session: Session, agent: Agent, resolved: ResolvedModel, epoch: Epoch, tools: Materialized
    ) -> Frame:
        last_step = self._allowance.last_step
        media = self._refused_by != resolved.ref
        made_of = (
            media,
            agent,
            resolved,
            epoch,
            tools.definitions,
            last_step,
            self._checkpoint_seq,
            self._pruned_seq,
            session.parent_id,
        )
        if self._framed is not None and all(map(is_, self._framed.made_of, made_of)):
            return self._framed.frame
        system = (agent.system or resolved.family_text, epoch.baseline)
        # No tool is offered on the last step; protocols that refuse a history with calls and no list still get one.
        listless = last_step and resolved.model.route.protocol.id.startswith("openai")
        overlay = resolved.overlay(self._session_id)
        frame = Frame(
            agent=agent.id,
            ref=resolved.ref,
            model=resolved.model,
            system=tuple(SystemPart(text=text) for text in system if text),
            tools=() if listless else tools.definitions,
            tool_choice=choice("none") if last_step else None,
            generation=overlay.generation,
            options=overlay.options,
            http=HttpOverlay(body=overlay.body or None, headers=_headers(session, overlay.headers)),
            baseline_seq=epoch.baseline_seq,
            checkpoint_seq=self._checkpoint_seq,
            pruned_seq=self._pruned_seq,
            closing=(update(LAST_STEP),) if last_step else (),
            media=media,
        )
        self._framed = _Framed(made_of, frame)
        return frame

    async def _hooked(self, frame: Frame) -> Frame:
        """What plugins change about this one request; its conversation and tools they can only read."""
        await self._outbox.commit()
        rows = await self._around.store.active_history(self._session_id)
        draft = RequestDraft(
            session_id=self._session_id,
            agent=frame.agent,
            provider_id=frame.ref.provider_id,
            model_id=frame.ref.id,
            messages=lower((row.decode() for row in rows), frame.ref),
            tools=frame.tools,
            headers=frame.http.headers or {},
            generation=frame.generation or Generation(),
            options=frame.options or {},
        )
        changed = await self._around.hooks.apply(draft)
        return frame.replace(
            system=(*frame.system, *(SystemPart(text=text) for text in changed.system if text)),
            generation=changed.generation if changed.generation != Generation() else None,
            options=changed.options or None,
            http=HttpOverlay(body=frame.http.body, headers=changed.headers),
            hooked=True,
        )

    async def _send(self, ready: Ready) -> tuple[Turn, Outcome]:
        """Once; and if the provider refuses a request with media, once more with notes in their place. As long as this
        drain goes on with this model, it gets no more of them. The next drain tries again."""
        turn, outcome = await self._attempt(ready)
        if outcome.refused is None:
            return turn, outcome
        self._outbox.stage(self._abandoned(MEDIA_REFUSED))
        self._refused_by = ready.resolved.ref
        return await self._attempt(await self._rebuild())

    async def _attempt(self, ready: Ready) -> tuple[Turn, Outcome]:
        around = self._around
        of = TurnOf(self._session_id, around.location, ready.agent.id, ready.resolved.ref)
        price = ready.resolved.price
        publisher = TurnPublisher(around.log, self._outbox, of, around.ids, around.clock, price)
        turn = self._new_turn(of, publisher, ready.tools, ready.settings)
        if ready.settings.snapshots:
            self._trees.begin()
        learned = around.learned.of(ready.resolved.ref)
        dispatched = self._prefix.dispatch(
            ready.frame, self._session_id, around.clock.now(), attempt=1, learned=learned
        )
        self._outbox.submit(dispatched)  # the turn waits for it, while it makes its request ready
        retry = reported(around.log, self._outbox, of, around.clock)
        self._answer = None
        try:
            outcome = await turn.run(around.transport, ready.prepared, retry, self._trees.before_step)
        finally:
            if publisher.message_id is not None and publisher.called:
                self._trees.after_step(publisher.message_id, looked_only=ready.tools.look_only(publisher.tools))
        self._answer = publisher.answer.message
        if publisher.finish is not None:
            used = stored_tokens(publisher.finish.usage)
            self._estimate.learn(used, self._history.characters)
            around.learned.answered(ready.resolved.ref, total_input(used))
        return turn, outcome

    def _new_turn(self, of: TurnOf, publisher: TurnPublisher, tools: Materialized, settings: SessionSettings) -> Turn:
        around = self._around

        async def asking() -> set[str]:
            return {found.call.call_id for found in await around.store.resumable_calls(self._session_id)}

        return Turn(
            of,
            publisher,
            self._outbox,
            tools,
            around.authorizer,
            self._interrupt,
            self._allowance,
            settings.limits,
            settings.answer,
            Pace(lambda: around.ownership.executing > 1),
            asking=asking,
            has_media=self._history.has_media,
        )

    # -- making room ---------------------------------------------------------------------------------------------

    def _fits(self, ready: Ready) -> bool:
        """As far as is known. What does not fit is made smaller first, if configuration lets it."""
        room = self._window(ready).room
        return not ready.settings.compaction.auto or room is None or self._estimate.of(self._history.characters) <= room

    def _window(self, ready: Ready) -> Window:
        limit = ready.resolved.limit
        asked = ready.frame.generation.max_tokens if ready.frame.generation else None
        learned = self._around.learned.of(ready.resolved.ref)
        return Window(limit.context, asked or limit.output, ready.settings.compaction.buffer, learned)

    def _learn(self, ready: Ready, refusal: LLMError | ProviderError) -> None:
        self._around.learned.refused(ready.resolved.ref, refusal, self._estimate.of(self._history.characters))

    async def _make_room(self, ready: Ready) -> bool:
        """Whether older history gave way. Open input that no compaction can make fit is refused. The learned limit has
        no say in that: only its provider knows whether it still holds."""
        context = ready.resolved.limit.context
        await self._outbox.commit()  # the history is read back
        asked = await self._smallest(ready)
        if 0 < context < asked:
            model = f"{ready.resolved.ref.provider_id}/{ready.resolved.ref.id}"
            raise InputExceedsWindow(self._session_id, asked=asked, room=context, model=model)
        return (await self._summarise(ready)).compacted

    async def _smallest(self, ready: Ready) -> int:
        """The estimate of the request without any older history."""
        opened = await self._history.input_characters(ready.frame)
        return tokens(self._history.frame_characters + opened) if opened else 0

    async def _prune(self, ready: Ready) -> bool:
        """Whether old tool results were left out of the request from now on."""
        if not ready.settings.compaction.prune:
            return False
        await self._outbox.commit()  # the history is read back
        point = await prune_point(self._around.store, self._session_id, self._pruned_seq)
        if point is None:
            return False
        self._pruned_seq = point
        self._estimate.forget()
        return True

    async def _summarise(self, ready: Ready, instructions: str | None = None, *, manual: bool = False) -> Report:
        around = self._around
        by = self._summariser(ready)
        await self._outbox.commit()
        history = [row.decode() for row in await around.store.active_history(self._session_id)]
        opened = {row.id for row in await around.store.open_input(self._session_id)}
        keep = ready.settings.compaction.keep_tokens
        if (room := self._window(ready).room) is not None and not manual:
            keep = max(0, min(keep, room - await self._smallest(ready) - by.allowed))
        chosen = plan(history, keep, by.room, instructions, open_input=opened, notes_tokens=by.allowed)
        if chosen is None:
            if manual:
                raise NothingToCompact(self._session_id)
            return Report(compacted=False)
        compaction = Compaction(
            self._session_id,
            around.location,
            around.log,
            self._outbox,
            around.transport,
            around.ids,
            around.clock,
            around.epochs.metrics,
        )
        reason: Reason = "manual" if manual else "auto"
        report = await compaction.attempt(chosen, by, reason, self._interrupt, instructions)
        if report.compacted:
            self._checkpoint_seq = await around.store.checkpoint_seq(self._session_id)
            self._answer = None
            self._estimate.forget()
        return report

    def _summariser(self, ready: Ready) -> Summariser:
        """The model that was chosen for summaries, with what its own requests carry; else the turn's."""
        other = self._around.summary_model(ready.session)
        if other is None:
            http = HttpOverlay(body=ready.frame.http.body, headers=ready.frame.http.headers)
            return Summariser.of(ready.resolved, self._window(ready).known, http, ready.frame.options)
        overlay = other.overlay(self._session_id)
        http = HttpOverlay(body=overlay.body or None, headers=_headers(ready.session, overlay.headers))
        window = Window(other.limit.context, other.limit.output, 0, self._around.learned.of(other.ref))
        return Summariser.of(other, window.known, http, overlay.options)

    async def compact(self, instructions: str | None) -> None:
        if not self._lease.taken:
            await self._around.ownership.take(self._lease)
        ready = await self._rebuild()
        report = await self._summarise(ready, instructions, manual=True)
        if not report.compacted:
            raise CompactionFailed(self._session_id, report.reason or "unknown")

    # -- details -------------------------------------------------------------------------------------------------

    def _check_cap(self, boundary: Boundary | None) -> None:
        cap = self._around.settings().turns
        if cap is not None and boundary is None and self._allowance.steps is None and self._turns >= cap:
            raise TurnLimitReached(self._session_id, cap)


def _waiting_call(call: OpenCall) -> ToolCall:
    part: ToolPart = decoder(ToolPart).decode(call.data)
    given = part.state.input if isinstance(part.state, ToolRunning) else {}
    return ToolCall(id=call.call_id, name=part.name, input=given)


def _headers(session: Session, configured: dict[str, str]) -> dict[str, str]:
    parent = {"x-parent-session-id": session.parent_id} if session.parent_id else {}
    return {**configured, "x-session-affinity": session.id, "X-Session-Id": session.id, **parent}
