"""Preparing a turn: everything that one provider request needs, resolved at one boundary.

Invariants
- Input is promoted only once agent, model and baseline are there; whatever is missing leaves it pending.
- Agent and model of a turn come from one state of the configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.context.errors import ContextSnapshotDecodeError
from holdfast.core.plugin.request import RequestDraft
from holdfast.core.runner.history import Frame
from holdfast.core.runner.lowering import lower
from holdfast.core.session.errors import AgentUnavailable, Interrupted
from holdfast.llm.request import Generation, HttpOverlay, SystemPart, choice, update
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from holdfast.core.catalog.catalog import ResolvedModel
    from holdfast.core.context.epoch import Epoch
    from holdfast.core.context.turn_context import TurnContext
    from holdfast.core.runner.drain_scope import DrainScope
    from holdfast.core.runner.services import RunnerServices
    from holdfast.core.runner.settings import SessionSettings
    from holdfast.core.session.inbox import Boundary
    from holdfast.core.tool.registry import Materialized
    from holdfast.llm.stream import Prepared
    from holdfast.schema.agent import Agent
    from holdfast.schema.session import Session

LAST_STEP = (
    "You have used all the steps you were given. Tools are off until the user writes again. Answer now, in text only: "
    "say that the step limit was reached, what is done, what is left, and what you recommend to do next."
)


class ReadyTurn(Frozen):
    """Everything resolved for one provider request."""

    session: Session
    agent: Agent
    resolved: ResolvedModel
    frame: Frame
    prepared: Prepared
    tools: Materialized
    settings: SessionSettings


class Preparation:
    def __init__(self, services: RunnerServices, scope: DrainScope, *, recovers_epoch: bool) -> None:
        """`recovers_epoch` begins a new epoch where the stored one cannot be decoded; a person asked for that."""
        self._sessions = services.sessions
        self._models = services.models
        self._tools = services.tools
        self._here = services.here
        self._scope = scope
        self._state = scope.state
        self._recovers_epoch = recovers_epoch
        self._frame: Frame | None = None

    async def again(self) -> ReadyTurn:
        """The same turn over another history. Everything is read again, and nothing is promoted."""
        return await self.turn((await self._scope.cache.read()).session, None)

    async def turn(self, session: Session, boundary: Boundary | None) -> ReadyTurn:
        """`session` is as it was at this boundary. Input for the boundary is promoted."""
        scope, state, here = self._scope, self._state, self._here
        scope.interrupt.check()
        if session.location != here.location:
            raise Interrupted  # moved: the destination's runner continues, and the input is still pending
        await here.refresh()
        await self._models.catalog.ready()
        agent = self.agent(session.id, session.agent)  # no await until the model is resolved: one configuration
        resolved = self._models.catalog.resolve(session.id, session.model, agent)
        state.sampled = (agent.id, resolved.ref)
        state.allowance.steps = agent.steps
        epoch, context = await self._epoch(session, agent, resolved, boundary)
        tools = self.offered(agent, without=context.hidden_tools())
        frame = self._framed(session, agent, resolved, epoch, tools)
        if self._models.hooks:
            frame = await self._hooked(frame)
        prepared = await scope.history.request(frame, state.answer, scope.cache.revision)
        return ReadyTurn(session, agent, resolved, frame, prepared, tools, here.settings())

    def agent(self, session_id: str, name: str | None) -> Agent:
        """The named agent, or the default one."""
        selection = self._here.agents.select(name)
        if selection.agent is None:
            raise AgentUnavailable(session_id, selection.id)
        return selection.agent

    def offered(self, agent: Agent, *, without: frozenset[str] = frozenset()) -> Materialized:
        return self._tools.registry.materialize(agent.permissions, fences=agent.fences, without=without)

    async def _epoch(
        self, session: Session, agent: Agent, resolved: ResolvedModel, boundary: Boundary | None
    ) -> tuple[Epoch, TurnContext]:
        """The Session's epoch as of this turn, and the context that was observed. Input is promoted once there is an
        epoch."""
        scope, state, epochs = self._scope, self._state, self._sessions.epochs
        begin = epochs.initialize
        if state.epoch is None:
            try:
                state.epoch = await epochs.load(session.id)
            except ContextSnapshotDecodeError:
                if not self._recovers_epoch:
                    raise
                begin = epochs.recover
        known = state.epoch
        if known is None:
            context = self._here.context.compose(session, agent, resolved)
            state.epoch = await begin(session.id, context.system, scope.outbox)
            await self._promote(boundary)
            return state.epoch, context
        await self._promote(boundary)
        context = self._here.context.compose(session, agent, resolved)
        state.epoch = await epochs.prepare(known, context.system, scope.outbox, compaction_seq=state.checkpoint_seq)
        if state.epoch is not known:
            scope.cache.messages_added()
        return state.epoch, context

    async def _promote(self, boundary: Boundary | None) -> None:
        scope, sessions = self._scope, self._sessions
        if boundary is not None and await sessions.inbox.promote(scope.session_id, boundary, scope.outbox):
            scope.cache.messages_added()
            self._state.allowance.renew()
            self._state.turns = 0
        if not scope.lease.taken:
            await sessions.ownership.take(scope.lease)

    def _framed(
        self, session: Session, agent: Agent, resolved: ResolvedModel, epoch: Epoch, tools: Materialized
    ) -> Frame:
        """The same object as before while nothing in it has changed."""
        state, last_step = self._state, self._state.allowance.last_step
        overlay = resolved.overlay(session.id)
        system = (agent.system or resolved.family_text, epoch.baseline)
        # No tool is offered on the last step; protocols that refuse a history with calls and no list still get one.
        listless = last_step and resolved.model.route.protocol.id.startswith("openai")
        frame = Frame(
            agent=agent.id,
            ref=resolved.ref,
            model=resolved.model,
            system=tuple(SystemPart(text=text) for text in system if text),
            tools=() if listless else tools.definitions,
            tool_choice=choice("none") if last_step else None,
            generation=overlay.generation,
            options=overlay.options,
            http=HttpOverlay(body=overlay.body or None, headers=session_headers(session, overlay.headers)),
            baseline_seq=epoch.baseline_seq,
            checkpoint_seq=state.checkpoint_seq,
            pruned_seq=state.pruned_seq,
            closing=(update(LAST_STEP),) if last_step else (),
            media=state.media_refused_by != resolved.ref,
        )
        if self._frame is None or self._frame != frame:
            self._frame = frame
        return self._frame

    async def _hooked(self, frame: Frame) -> Frame:
        """What plugins change about this one request; its conversation and tools they can only read."""
        session_id = self._scope.session_id
        await self._scope.outbox.commit()
        rows = await self._sessions.store.active_history(session_id)
        draft = RequestDraft(
            session_id=session_id,
            agent=frame.agent,
            provider_id=frame.ref.provider_id,
            model_id=frame.ref.id,
            messages=lower((row.decode() for row in rows), frame.ref),
            tools=frame.tools,
            headers=frame.http.headers or {},
            generation=frame.generation or Generation(),
            options=frame.options or {},
        )
        changed = await self._models.hooks.apply(draft)
        return frame.replace(
            system=(*frame.system, *(SystemPart(text=text) for text in changed.system if text)),
            generation=changed.generation if changed.generation != Generation() else None,
            options=changed.options or None,
            http=HttpOverlay(body=frame.http.body, headers=changed.headers),
            hooked=True,
        )


def session_headers(session: Session, configured: dict[str, str]) -> dict[str, str]:
    """Every request of a Session carries its id, so that gateways can route all of them to one place."""
    parent = {"x-parent-session-id": session.parent_id} if session.parent_id else {}
    return {**configured, "x-session-affinity": session.id, "X-Session-Id": session.id, **parent}
