"""One-shot answers: one model call on the settled history of a Session. The conversation and its activity stay as they
are; only what the call cost is recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.catalog.prices import cache_savings
from holdfast.core.context.system_context import initialize, observe
from holdfast.core.location.settings import session_settings
from holdfast.core.runner.lowering import has_files, lower, pruned
from holdfast.core.runner.preparation import cache_id, session_headers
from holdfast.core.runner.publish import stored_tokens
from holdfast.core.session.attachments import TEXT_BYTES
from holdfast.core.session.errors import AgentUnavailable, GenerationFailed
from holdfast.core.session.input_errors import PromptTooLarge
from holdfast.llm.errors import LLMError
from holdfast.llm.request import HttpOverlay, make_request, user
from holdfast.llm.route.retry import Retry
from holdfast.llm.stream import generate
from holdfast.schema.session_event import UsageRecorded
from holdfast.schema.session_message import AssistantMessage, ShellMessage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from holdfast.core.catalog.catalog import ResolvedModel
    from holdfast.core.location.service_map import ServiceMap
    from holdfast.core.location.services import LocationServices
    from holdfast.core.runner.services import SessionServices
    from holdfast.llm.request import Message, Request
    from holdfast.llm.response import Response
    from holdfast.llm.route.transport import Transport
    from holdfast.schema.agent import Agent
    from holdfast.schema.session import Session
    from holdfast.schema.session_message import SessionMessage


class OneShotAnswers:
    """One per process."""

    def __init__(
        self,
        sessions: SessionServices,
        locations: ServiceMap[LocationServices],
        transport: Transport,
        environment: Mapping[str, str],
    ) -> None:
        self._log = sessions.log
        self._store = sessions.store
        self._epochs = sessions.epochs
        self._clock = sessions.clock
        self._budgets = sessions.budgets
        self._locations = locations
        self._transport = transport
        self._environment = environment

    async def generate(self, session_id: str, prompt: str) -> str:
        """The model's answer to `prompt`, without tools. Does not wait for a running turn. May be cancelled at any
        time. Raises GenerationFailed, BudgetReached, or what keeps the Session's agent or model from being used."""
        if len(prompt.encode("utf-8", "replace")) > TEXT_BYTES:
            raise PromptTooLarge(session_id, "prompt", "its text", TEXT_BYTES)
        session = await self._store.get(session_id)
        await self._budgets.check(session_id)
        async with self._locations.use(session.location) as services:
            await services.catalog.ready()
            selection = services.agents.select(session.agent)
            if selection.agent is None:
                raise AgentUnavailable(session_id, selection.id)
            resolved = services.catalog.resolve(session_id, session.model, selection.agent)
            baseline = await self._baseline(services, session, selection.agent, resolved)
            messages = await self._history(session_id, resolved)
            request = _request(session, selection.agent, resolved, baseline, (*messages, user(prompt)))
            request = await services.request_hooks.change(
                request, "generate", session_id=session_id, agent=selection.agent.id, model=resolved.ref
            )
            limits = session_settings(services.config.current, self._environment).limits
            try:
                answer = await generate(self._transport, resolved.model, request, retry=Retry(limits=limits.retry))
            except LLMError as error:
                raise GenerationFailed(session_id, error.message) from error
        await self._record_usage(session, resolved, answer)
        if answer.error is not None:
            raise GenerationFailed(session_id, answer.error.message)
        return answer.text

    async def _baseline(
        self, services: LocationServices, session: Session, agent: Agent, resolved: ResolvedModel
    ) -> str:
        """The Session's own baseline, or before its first turn the one that it would begin with."""
        epoch = await self._epochs.load(session.id)
        if epoch is not None:
            return epoch.baseline
        entries = await self._store.instruction_entries(session.id)
        context = services.context.compose(session, agent, resolved, entries)
        return initialize(await observe(context.system, self._epochs.metrics)).baseline

    async def _history(self, session_id: str, resolved: ResolvedModel) -> tuple[Message, ...]:
        """As turns see it: without the bodies of tool results that were pruned."""
        last = await self._store.last_dispatch(session_id)
        pruned_seq = last.event.pruned_seq if last is not None else -1
        rows = await self._store.active_history(session_id)
        shown = (pruned(row.decode()) if row.seq <= pruned_seq else row.decode() for row in rows)
        settled = list(_settled(shown))
        kept = await self._store.attachments(session_id) if any(map(has_files, settled)) else {}
        return lower(settled, resolved.ref, kept)

    async def _record_usage(self, session: Session, resolved: ResolvedModel, answer: Response) -> None:
        if answer.usage is None:
            return
        used = stored_tokens(answer.usage)
        spent = UsageRecorded(
            timestamp=self._clock.now(),
            session_id=session.id,
            purpose="generate",
            cost=resolved.price(used),
            tokens=used,
            model=resolved.ref,
            saved=cache_savings(resolved.price, used),
        )
        counted = await self._budgets.settlement(session.id)
        await self._log.publish(spent, location=session.location, local=counted)


def _settled(history: Iterable[SessionMessage]) -> Iterable[SessionMessage]:
    """The messages before the first one that is still being written."""
    for message in history:
        if isinstance(message, AssistantMessage | ShellMessage) and message.time.completed is None:
            return
        yield message


def _request(
    session: Session, agent: Agent, resolved: ResolvedModel, baseline: str, messages: tuple[Message, ...]
) -> Request:
    overlay = resolved.overlay(cache_id(session))
    return make_request(
        system=[text for text in (agent.system or resolved.family_text, baseline) if text],
        messages=messages,
        generation=overlay.generation,
        provider_options=overlay.options,
        http=HttpOverlay(body=overlay.body or None, headers=session_headers(session, overlay.headers)),
    )
