"""Preparing a turn: everything that one provider request needs, resolved at one boundary.

Invariants
- Input is promoted only once agent, model and baseline are there; whatever is missing leaves it pending. Input that
  asks for no answer needs none of them.
- Agent and model of a turn come from one state of the configuration, and from the options of one prompt: the newest in
  the conversation that asks for an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.agent.callable_agents import APPLY_TOOL, TASKS_TOOL, TOOL
from holdfast.core.context.epoch import decode_epoch
from holdfast.core.context.errors import ContextContention, ContextSnapshotDecodeError
from holdfast.core.plugin.request import RequestDraft
from holdfast.core.runner.history import Frame
from holdfast.core.runner.turn_options import asks_nothing, chosen_model, deciding, left_out
from holdfast.core.session.errors import AgentUnavailable, Interrupted
from holdfast.core.session.input_errors import LifecycleConflict
from holdfast.llm.answer_format import AskedFormat, without_thinking
from holdfast.llm.request import Generation, HttpOverlay, SystemPart, choice, update
from holdfast.schema.frozen import Frozen
from holdfast.schema.ids import name_of_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.catalog.catalog import ResolvedModel
    from holdfast.core.catalog.resolved import RequestOverlay
    from holdfast.core.context.epoch import Epoch, FirstEpoch
    from holdfast.core.context.turn_context import TurnContext
    from holdfast.core.runner.drain_scope import DrainScope
    from holdfast.core.runner.services import RunnerServices
    from holdfast.core.runner.settings import SessionSettings
    from holdfast.core.runner.structured import TurnOutput
    from holdfast.core.tool.registry import Materialized
    from holdfast.llm.request import Message, ToolDefinition
    from holdfast.llm.stream import Prepared
    from holdfast.schema.agent import Agent
    from holdfast.schema.prompt import Admission, PromptOptions
    from holdfast.schema.session import Session

LAST_STEP = (
    "You have used all the steps you were given. Tools are off until the user writes again. Answer now, in text only: "
    "say that the step limit was reached, what is done, what is left, and what you recommend to do next."
)
LAST_STEP_ANSWER = (
    "You have used all the steps you were given. All other tools are off until the user writes again. Give the final "
    "answer now, in the form that was asked for."
)


NO_FORMAT = AskedFormat()


class ReadyTurn(Frozen):
    """Everything resolved for one provider request."""

    session: Session
    agent: Agent
    resolved: ResolvedModel
    frame: Frame
    prepared: Prepared
    tools: Materialized
    settings: SessionSettings
    output: TurnOutput | None
    conversation: Sequence[Message] | None = None
    """What plugins made of the stored one, if they changed it."""


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
        ready = await self.turn((await self._scope.cache.read()).session, (), owed=True)
        assert ready is not None
        return ready

    async def turn(self, session: Session, inputs: Sequence[Admission], *, owed: bool) -> ReadyTurn | None:
        """`session` is as it was at this boundary; `inputs` are due and are promoted. None if the model owes no turn,
        and each input that asks for one was withdrawn or put off meanwhile."""
        scope, state, here, catalog = self._scope, self._state, self._here, self._models.catalog
        self._check(session)
        await here.refresh()
        await catalog.ready()
        options = deciding(inputs, state.options)
        # No await until the model is resolved: one configuration.
        agent = self.agent(session.id, options.agent or session.agent)
        resolved = catalog.resolve(session.id, chosen_model(options, session.model, agent, catalog), agent)
        state.sampled = (agent.id, resolved.ref)
        state.allowance.steps = agent.steps
        agent = await self.fenced(session, agent)
        epoch, context, promoted = await self._epoch(session, agent, resolved, inputs)
        if not owed and not promoted:
            return None
        if state.options != options:
            return await self.again()  # the input that decided was withdrawn or put off
        tools = await self.offered(agent, options, epoch.offer, without=context.hidden_tools())
        await state.output.use(state.options.format, self._sessions.store, session.id)
        overlay = resolved.overlay(cache_id(session))
        last_step = state.allowance.last_step
        others = () if last_step else tools.definitions
        output = state.output.ask(resolved.ref, resolved.model, others, overlay.options, last_step=last_step)
        asked = output.asked if output is not None else None
        frame = self._framed(session, agent, resolved, epoch, tools, overlay, asked)
        conversation: Sequence[Message] | None = None
        if self._models.hooks:
            frame, conversation = await self._hooked(frame)
        if conversation is None:
            prepared = await scope.history.request(frame, state.answer, scope.cache.revision)
        else:
            prepared = scope.history.replaced(frame, conversation)
        return ReadyTurn(session, agent, resolved, frame, prepared, tools, here.settings(), output, conversation)

    async def promote_only(self, session: Session, inputs: Sequence[Admission]) -> None:
        """Promote inputs of which none asks for an answer."""
        self._check(session)
        await self._promote(inputs)

    def _check(self, session: Session) -> None:
        self._scope.interrupt.check()
        if session.location != self._here.location:
            raise Interrupted  # moved: the destination's runner continues, and the input is still pending

    def agent(self, session_id: str, name: str | None) -> Agent:
        """The named agent, or the default one."""
        selection = self._here.agents.select(name)
        if selection.agent is None:
            raise AgentUnavailable(session_id, selection.id)
        return selection.agent

    async def fenced(self, session: Session, agent: Agent) -> Agent:
        """The agent with the fences that the ancestors of the Session set."""
        return await self._tools.authorities.fenced(session, agent)

    async def offered(
        self,
        agent: Agent,
        options: PromptOptions,
        offer: str,
        *,
        without: frozenset[str] = frozenset(),
        begun: frozenset[str] = frozenset(),
    ) -> Materialized:
        """The tools that the agent's rules and the prompt leave, and those in `begun`. `offer` is that of the epoch."""
        registry = self._tools.registry
        also = await self._tools.mcp.tools(offer)
        without |= left_out(options.tools, (*registry.names, *(tool.name for tool in also)))
        if TOOL in without:
            without |= {TASKS_TOOL, APPLY_TOOL}
        return registry.materialize(agent.permissions, fences=agent.fences, without=without, begun=begun, also=also)

    async def _epoch(
        self, session: Session, agent: Agent, resolved: ResolvedModel, inputs: Sequence[Admission]
    ) -> tuple[Epoch, TurnContext, bool]:
        """The Session's epoch as of this turn, the context that was observed, and whether input was promoted that asks
        for an answer. Input is promoted once there is an epoch."""
        scope, state, epochs, offer = self._scope, self._state, self._sessions.epochs, self._tools.mcp.offer
        damaged = False
        if state.epoch is None and state.stored_epoch is not None:
            try:
                state.epoch = decode_epoch(session.id, state.stored_epoch)
            except ContextSnapshotDecodeError:
                if not self._recovers_epoch:
                    raise
                damaged = True
        known = state.epoch
        if known is None:
            context = self._here.context.compose(session, agent, resolved, await scope.cache.instructions())
            if damaged:
                state.epoch = await epochs.recover(session.id, context.system, scope.outbox, offer=offer)
                return state.epoch, context, await self._promote(inputs)
            first = await epochs.first(session.id, context.system, offer=offer)
            state.epoch, asked = await self._begin(first, inputs)
            return state.epoch, context, asked
        asked = await self._promote(inputs)
        context = self._here.context.compose(session, agent, resolved, await scope.cache.instructions())
        state.epoch = await epochs.prepare(
            known,
            context.system,
            scope.outbox,
            compaction_seq=state.checkpoint_seq,
            offer=offer,
        )
        if state.epoch is not known:
            scope.cache.messages_added()
        return state.epoch, context, asked

    async def _begin(self, first: FirstEpoch, inputs: Sequence[Admission]) -> tuple[Epoch, bool]:
        """Begin the first epoch and promote, in one commit unless somebody was faster. As `_promote`."""
        epochs, inbox, outbox = self._sessions.epochs, self._sessions.inbox, self._scope.outbox
        if inputs:
            try:
                committed = await inbox.promote_all(inputs, outbox, before=first.statements)
            except (ContextContention, LifecycleConflict):
                pass  # there is an epoch, or an input was withdrawn: one after the other
            else:
                return epochs.begun(first, committed.first - 1), self._note_promoted(inputs)
        return await epochs.begin(first, outbox), await self._promote(inputs)

    async def _promote(self, inputs: Sequence[Admission]) -> bool:
        """Whether an input that asks for an answer is part of the conversation now."""
        asked = self._note_promoted(await self._sessions.inbox.promote(inputs, self._scope.outbox))
        if not self._scope.lease.taken:
            await self._sessions.ownership.take(self._scope.lease)
        return asked

    def _note_promoted(self, promoted: Sequence[Admission]) -> bool:
        """Whether an input among them asks for an answer."""
        scope, state = self._scope, self._state
        asked = not all(asks_nothing(item.prompt) for item in promoted)
        if promoted:
            scope.cache.promoted(promoted)
            scope.history.expects_files |= any(item.prompt.files for item in promoted)
            before, state.options = state.options, deciding(promoted, state.options)
            if state.options is not before:
                state.output.begin(state.options.format)
            state.task_prompts |= any(item.prompt.task is not None for item in promoted)
        if asked:
            state.allowance.renew()
            state.turns = 0
        return asked

    def _framed(
        self,
        session: Session,
        agent: Agent,
        resolved: ResolvedModel,
        epoch: Epoch,
        tools: Materialized,
        overlay: RequestOverlay,
        asked: AskedFormat | None,
    ) -> Frame:
        """The same object as before while nothing in it has changed."""
        state, last_step = self._state, self._state.allowance.last_step
        asked = asked or NO_FORMAT
        last_words = LAST_STEP if asked is NO_FORMAT else LAST_STEP_ANSWER
        closing = (state.options.system, last_words if last_step else None)
        # Only with a tool, which changes the beginning of the request anyway: nothing is gained by closing with it.
        system = (agent.system or resolved.family_text, epoch.baseline, asked.sentence)
        # No tool is offered on the last step; protocols that refuse a history with calls and no list still get one.
        listless = last_step and (asked.tool is not None or resolved.model.route.protocol.id.startswith("openai"))
        frame = Frame(
            agent=agent.id,
            ref=resolved.ref,
            model=resolved.model,
            system=tuple(SystemPart(text=text) for text in system if text),
            tools=with_tool(() if listless else tools.definitions, asked.tool),
            tool_choice=asked.tool_choice or (choice("none") if last_step else None),
            generation=overlay.generation,
            options=without_thinking(resolved.model, overlay.options) if asked.without_thinking else overlay.options,
            http=HttpOverlay(body=overlay.body or None, headers=session_headers(session, overlay.headers)),
            baseline_seq=epoch.baseline_seq,
            checkpoint_seq=state.checkpoint_seq,
            pruned_seq=state.pruned_seq,
            closing=tuple(update(text) for text in closing if text),
            last_step=last_step,
            output=None if asked is NO_FORMAT else asked,
            media=state.media_refused_by != resolved.ref,
            baseline=epoch.baseline,
        )
        if self._frame is None or self._frame != frame:
            self._frame = frame
        return self._frame

    async def _hooked(self, frame: Frame) -> tuple[Frame, Sequence[Message] | None]:
        """What plugins change about this one request, and its conversation if they change that."""
        session_id = self._scope.session_id
        await self._scope.outbox.commit()
        messages = await self._scope.history.conversation(frame, self._state.answer)
        draft = RequestDraft(
            session_id=session_id,
            agent=frame.agent,
            provider_id=frame.ref.provider_id,
            model_id=frame.ref.id,
            messages=messages,
            tools=frame.tools,
            headers=frame.http.headers or {},
            generation=frame.generation or Generation(),
            options=frame.options or {},
        )
        changed = await self._models.hooks.apply(draft)
        if not changed.changed_by:
            return frame, None
        hooked = frame.replace(
            system=(*frame.system, *(SystemPart(text=text) for text in changed.system if text)),
            generation=changed.generation if changed.generation != Generation() else None,
            options=changed.options or None,
            http=HttpOverlay(body=frame.http.body, headers=changed.headers),
            hooks=changed.changed_by,
        )
        return hooked, None if changed.messages is messages else changed.messages


def with_tool(tools: tuple[ToolDefinition, ...], own: ToolDefinition | None) -> tuple[ToolDefinition, ...]:
    """The same object if there is nothing to add."""
    return tools if own is None else (*tools, own)


def session_headers(session: Session, configured: dict[str, str]) -> dict[str, str]:
    """Every request carries the id of its Session, and the one by which gateways route requests with a common prefix to
    one place."""
    parent = {"x-parent-session-id": name_of_id(session.parent_id)} if session.parent_id else {}
    own = name_of_id(session.id)
    return {**configured, "x-session-affinity": cache_id(session), "X-Session-Id": own, **parent}


def cache_id(session: Session) -> str:
    """The id by which providers keep the prefix of requests: a fork shares that of the Session it goes back to."""
    return name_of_id(session.fork.root_id if session.fork is not None else session.id)
