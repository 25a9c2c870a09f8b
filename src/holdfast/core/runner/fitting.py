"""Making a request fit the model's window: estimates, learned limits, pruning, compaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.runner.assigned_model import assigned_model
from holdfast.core.runner.budget import Window
from holdfast.core.runner.preparation import cache_id, session_headers
from holdfast.core.runner.retries import reported
from holdfast.core.runner.spending import Expected
from holdfast.core.session.errors import CompactionFailed, InputExceedsWindow, NothingToCompact
from holdfast.core.session.transcript import join, tokens
from holdfast.llm.request import HttpOverlay
from holdfast.schema.deferred import deferred

if TYPE_CHECKING:
    from holdfast.core.runner import compaction as compacting
    from holdfast.core.runner import pruning
    from holdfast.core.runner.compaction import Reason, Report, Summariser
    from holdfast.core.runner.drain_scope import DrainScope
    from holdfast.core.runner.preparation import ReadyTurn
    from holdfast.core.runner.services import RunnerServices
    from holdfast.llm.errors import LLMError
    from holdfast.llm.event import ProviderError
else:
    compacting = deferred("holdfast.core.runner.compaction")
    pruning = deferred("holdfast.core.runner.pruning")


class Fitting:
    def __init__(self, services: RunnerServices, scope: DrainScope) -> None:
        self._sessions = services.sessions
        self._models = services.models
        self._here = services.here
        self._scope = scope
        self._state = scope.state

    def fits(self, ready: ReadyTurn) -> bool:
        """By the estimate. Always true where nothing is known, or where configuration forbids to compact."""
        room = self._window(ready).room
        return not ready.settings.compaction.auto or room is None or self._estimated <= room

    def refused(self, ready: ReadyTurn, refusal: LLMError | ProviderError) -> None:
        """The provider refused the request for its length: remember what that says about the model's window."""
        self._models.learned.refused(ready.resolved.ref, refusal, self._estimated)

    async def prune(self, ready: ReadyTurn) -> bool:
        """Whether old tool results are left out of the request from now on."""
        if not ready.settings.compaction.prune:
            return False
        await self._scope.outbox.commit()  # the history is read back
        point = await pruning.prune_point(self._sessions.store, self._scope.session_id, self._state.pruned_seq)
        if point is None:
            return False
        self._state.pruned_seq = point
        self._state.estimate.forget()
        return True

    async def make_room(self, ready: ReadyTurn) -> bool:
        """Whether older history was summarised. Open input that cannot fit even alone is refused. The learned limit is
        not asked for that: only the provider knows whether it still holds."""
        context = ready.resolved.limit.context
        await self._scope.outbox.commit()  # the history is read back
        asked = await self._smallest(ready)
        if 0 < context < asked:
            model = f"{ready.resolved.ref.provider_id}/{ready.resolved.ref.id}"
            raise InputExceedsWindow(self._scope.session_id, asked=asked, room=context, model=model)
        return (await self.summarise(ready)).compacted

    async def compact(self, ready: ReadyTurn, instructions: str | None) -> None:
        """By hand: whatever the estimate says."""
        report = await self.summarise(ready, instructions, manual=True)
        if not report.compacted:
            raise CompactionFailed(self._scope.session_id, report.reason or "unknown")

    async def summarise(self, ready: ReadyTurn, instructions: str | None = None, *, manual: bool = False) -> Report:
        sessions, session_id, outbox = self._sessions, self._scope.session_id, self._scope.outbox
        by = self._summariser(ready)
        await outbox.commit()
        history = [row.decode() for row in await sessions.store.active_history(session_id)]
        opened = {row.id for row in await sessions.store.open_input(session_id)}
        keep = ready.settings.compaction.keep_tokens
        if (room := self._window(ready).room) is not None and not manual:
            keep = max(0, min(keep, room - await self._smallest(ready) - by.allowed))
        chosen = compacting.plan(history, keep, by.room, instructions, open_input=opened, notes_tokens=by.allowed)
        if chosen is None:
            if manual:
                raise NothingToCompact(session_id)
            return compacting.Report(compacted=False)
        asked = sum(tokens(len(join(items))) for items in chosen.passes)
        await self._scope.spending.reserve(outbox, lambda: Expected.estimated(asked, by.allowed, by.price))
        retry = reported(sessions.log, outbox, session_id, self._here.location, sessions.clock)
        retry = retry.replace(limits=ready.settings.limits.retry)
        transport, hooks = self._models.transport, self._models.hooks
        compaction = compacting.Compaction(session_id, self._here.location, sessions, outbox, transport, retry, hooks)
        reason: Reason = "manual" if manual else "auto"
        report = await compaction.attempt(chosen, by, reason, self._scope.interrupt, instructions)
        if report.compacted:
            self._state.checkpoint_seq = await sessions.store.checkpoint_seq(session_id)
            self._state.answer = None
            self._state.estimate.forget()
        return report

    @property
    def _estimated(self) -> int:
        return self._state.estimate.of(self._scope.history.characters)

    def _window(self, ready: ReadyTurn) -> Window:
        limit = ready.resolved.limit
        asked = ready.frame.generation.max_tokens if ready.frame.generation else None
        learned = self._models.learned.of(ready.resolved.ref)
        return Window(limit.context, asked or limit.output, ready.settings.compaction.buffer, learned)

    async def _smallest(self, ready: ReadyTurn) -> int:
        """The estimate of the request without any older history."""
        opened = await self._scope.history.input_characters(ready.frame)
        return tokens(self._scope.history.frame_characters + opened) if opened else 0

    def _summariser(self, ready: ReadyTurn) -> Summariser:
        """The model of the `compaction` agent, with what its own requests carry; otherwise the turn's own."""
        other = assigned_model(compacting.AGENT, ready.session, self._here.agents, self._models.catalog)
        if other is None:
            http = HttpOverlay(body=ready.frame.http.body, headers=ready.frame.http.headers)
            return compacting.Summariser.of(ready.resolved, self._window(ready).known, http, ready.frame.options)
        overlay = other.overlay(cache_id(ready.session))
        http = HttpOverlay(body=overlay.body or None, headers=session_headers(ready.session, overlay.headers))
        window = Window(other.limit.context, other.limit.output, 0, self._models.learned.of(other.ref))
        return compacting.Summariser.of(other, window.known, http, overlay.options)
