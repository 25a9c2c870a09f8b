"""Sending a prepared turn: dispatch on disk, the provider's answer, tool calls, the trees around the step.

Invariants
- A turn is dispatched durably before the provider is called, in one commit with the end of the turn before it.
- A request that is refused because of its media is sent once more with notes in their place, and one that is refused
  because of how it asks for a structured answer is sent again and asks in another way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.observe.log_context import note_turn
from holdfast.core.runner.budget import total_input
from holdfast.core.runner.prefix import Prefix
from holdfast.core.runner.publish import TurnOf, TurnPublisher
from holdfast.core.runner.retries import reported
from holdfast.core.runner.spending import Expected
from holdfast.core.runner.step_snapshots import StepSnapshots
from holdfast.core.runner.turn import Turn
from holdfast.llm.answer_format import refused_way
from holdfast.llm.event import ToolCall
from holdfast.llm.pace import Pace
from holdfast.schema.codec import decoder
from holdfast.schema.ids import MessageID
from holdfast.schema.session_message import ToolPart, ToolRunning
from holdfast.schema.turn_event import TurnAbandoned

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.runner.drain_scope import DrainScope
    from holdfast.core.runner.preparation import Preparation, ReadyTurn
    from holdfast.core.runner.services import RunnerServices
    from holdfast.core.runner.settings import SessionSettings
    from holdfast.core.runner.structured import TurnOutput
    from holdfast.core.runner.turn import Outcome
    from holdfast.core.session.activity import OpenTurn
    from holdfast.core.session.stored_activity import Dispatch
    from holdfast.core.session.stored_messages import OpenCall
    from holdfast.core.tool.registry import Materialized
    from holdfast.schema.model import ModelRef
    from holdfast.schema.session import Session, Tokens

MEDIA_REFUSED = "the provider refused the request, which held media"
FORMAT_REFUSED = "the provider refused how the request asked for a structured answer"


class Sending:
    def __init__(self, services: RunnerServices, scope: DrainScope, preparation: Preparation) -> None:
        sessions = services.sessions
        self._sessions = sessions
        self._models = services.models
        self._tools = services.tools
        self._here = services.here
        self._scope = scope
        self._state = scope.state
        self._preparation = preparation
        self._prefix = Prefix(None, reverted=False)
        self._trees = StepSnapshots(services.tools.snapshots, scope.outbox, scope.session_id, sessions.clock)

    def restore(self, last: Dispatch) -> None:
        """Go on from what the last dispatch recorded, whichever process made it."""
        self._state.pruned_seq = last.event.pruned_seq
        self._prefix = Prefix(last.event, reverted=last.reverted)
        self._models.learned.restore(last.event)

    async def send(self, ready: ReadyTurn) -> tuple[Turn, Outcome]:
        """After a refusal of media this drain sends no more of them to this model, and after a refusal of how a
        structured answer is asked for it asks in another way. The next drain tries again."""
        turn, outcome = await self._attempt(ready)
        while (refused := outcome.refused) is not None:
            asked, ref = ready.output.asked if ready.output is not None else None, ready.resolved.ref
            way = refused_way(asked, refused.reason, refused.message) if asked is not None else None
            if way is not None:
                self.abandon(FORMAT_REFUSED)
                self._state.output.refuse(ref, way)
            else:
                self.abandon(MEDIA_REFUSED)
                self._state.media_refused_by = ref
            ready = await self._preparation.again()
            turn, outcome = await self._attempt(ready)
        return turn, outcome

    async def call(self, ready: ReadyTurn, calls: Sequence[ToolCall]) -> Outcome:
        """A step with calls that a person asked for. Nothing is sent, but the step is recorded as every other."""
        scope = self._scope
        publisher = self.publisher(ready.agent.id, ready.resolved.ref)
        turn = self._turn(publisher, ready.tools, ready.settings)
        if ready.settings.snapshots:
            self._trees.begin()
        learned, now = self._models.learned.of(ready.resolved.ref), self._sessions.clock.now()
        dispatched = self._prefix.dispatch(ready.frame, scope.session_id, now, 0, learned, ready.conversation)
        scope.outbox.stage(dispatched)
        self._state.answer = None
        try:
            outcome = await turn.call(calls, await self._trees.before_step())
        finally:
            if publisher.message_id is not None:
                self._trees.after_step(publisher.message_id, looked_only=False)
        self._state.answer = publisher.answer.message
        return outcome

    async def resume(self, session: Session, open_turn: OpenTurn, calls: Sequence[OpenCall]) -> Outcome:
        """Execute the calls that waited for a person or a child when their process ended, and end their step."""
        await self._models.catalog.ready()
        agent = await self._preparation.fenced(session, self._preparation.agent(session.id, open_turn.agent))
        self._state.allowance.steps = agent.steps
        tasks = {task.call_id for task in await self._sessions.store.open_tasks(session.id)}
        waiting = [_waiting_call(call) for call in calls]
        begun = frozenset(call.name for call in waiting if call.id in tasks)  # to wait for a child needs no rule
        offer = await self._sessions.epochs.offer(session.id)
        tools = await self._preparation.offered(agent, self._state.options, offer, begun=begun)
        publisher = self.publisher(open_turn.agent, open_turn.model)
        publisher.adopt(MessageID(open_turn.message_id or ""), waiting, open_turn.used)
        output = await self._given_output(session.id, open_turn)
        outcome = await self._turn(publisher, tools, self._here.settings()).resume(output, tasks)
        await self._scope.outbox.commit()  # the history is read back
        self._state.answer = None
        return outcome

    async def _given_output(self, session_id: str, open_turn: OpenTurn) -> TurnOutput | None:
        """The structured answer that an open step has given, beside the calls that wait."""
        store, active = self._sessions.store, self._state.output
        await active.use(self._state.options.format, store, session_id)
        if active.format is None or open_turn.message_id is None:
            return None
        return active.resumed((await store.message(session_id, open_turn.message_id)).decode())

    def abandon(self, reason: str) -> None:
        """Record that the dispatched request leads to no answer."""
        now = self._sessions.clock.now()
        self._scope.outbox.stage(TurnAbandoned(timestamp=now, session_id=self._scope.session_id, reason=reason))

    async def finish(self) -> None:
        await self._trees.finish()

    def publisher(
        self, agent: str, model: ModelRef, price: Callable[[Tokens], float] = lambda used: 0.0
    ) -> TurnPublisher:
        sessions = self._sessions
        of = TurnOf(self._scope.session_id, self._here.location, agent, model)
        return TurnPublisher(sessions.log, self._scope.outbox, of, sessions.ids, sessions.clock, price)

    async def _attempt(self, ready: ReadyTurn) -> tuple[Turn, Outcome]:
        sessions, scope, ref = self._sessions, self._scope, ready.resolved.ref
        note_turn(None)
        publisher = self.publisher(ready.agent.id, ref, ready.resolved.price)
        turn = self._turn(publisher, ready.tools, ready.settings)
        learned = self._models.learned.of(ref)
        now = sessions.clock.now()
        size = scope.history.size(ready.prepared)
        dispatched = self._prefix.dispatch(ready.frame, scope.session_id, now, 1, learned, ready.conversation, size)
        # The turn waits for it, while it makes its request ready.
        await scope.spending.dispatch(scope.outbox, dispatched, lambda: self._expected(ready))
        if ready.settings.snapshots:
            self._trees.begin()
        retry = reported(sessions.log, scope.outbox, scope.session_id, self._here.location, sessions.clock)
        self._state.answer = None
        try:
            before = self._trees.before_step
            with sessions.open_answers.receiving(scope.session_id, publisher):
                outcome = await turn.run(
                    *(self._models.transport, ready.prepared, retry, before, ready.output),
                    lambda: self._answered(publisher),
                )
        finally:
            publisher.close()
            if publisher.message_id is not None and publisher.called:
                self._trees.after_step(publisher.message_id, looked_only=ready.tools.look_only(publisher.tools))
        self._state.answer = publisher.answer.message
        if publisher.told:
            scope.cache.messages_added()
        if publisher.finish is not None:
            self._state.estimate.learn(publisher.used, scope.history.characters)
            self._models.learned.answered(ref, total_input(publisher.used))
        return turn, outcome

    async def _answered(self, publisher: TurnPublisher) -> None:
        spending = self._scope.spending
        if spending.limited and (answered := publisher.answered()) is not None:
            await spending.answered(self._scope.outbox, answered)

    def _expected(self, ready: ReadyTurn) -> Expected:
        """What the request may cost."""
        asked = ready.frame.generation.max_tokens if ready.frame.generation else None
        estimated = self._state.estimate.of(self._scope.history.characters)
        return Expected.estimated(estimated, asked or ready.resolved.limit.output, ready.resolved.price)

    def _turn(self, publisher: TurnPublisher, tools: Materialized, settings: SessionSettings) -> Turn:
        store, session_id = self._sessions.store, self._scope.session_id

        async def asking() -> set[str]:
            waiting = await store.resumable_calls(session_id)
            return {found.call.call_id for found in waiting if found.call.message_id == publisher.message_id}

        return Turn(
            publisher,
            self._scope.outbox,
            tools,
            self._tools.authorizer,
            self._scope.interrupt,
            self._state.allowance,
            settings,
            Pace(lambda: self._sessions.ownership.executing > 1),
            asking=asking,
            has_media=self._scope.history.has_media,
        )


def _waiting_call(call: OpenCall) -> ToolCall:
    part: ToolPart = decoder(ToolPart).decode(call.data)
    given = part.state.input if isinstance(part.state, ToolRunning) else {}
    return ToolCall(id=call.call_id, name=part.name, input=given)
