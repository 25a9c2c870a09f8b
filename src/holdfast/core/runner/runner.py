"""Runs the Sessions of one Location: builds a drain for each run and lets it work."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.core.runner.drain import Drain
from holdfast.core.runner.drain_scope import DrainScope, DrainState
from holdfast.core.runner.history import History
from holdfast.core.runner.outbox import Outbox
from holdfast.core.runner.session_cache import SessionCache
from holdfast.core.runner.spending import Spending

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.runner.services import RunnerServices
    from holdfast.core.session.activity import Cause
    from holdfast.core.session.interrupt import Interrupt
    from holdfast.core.session.ownership import Lease
    from holdfast.core.session.stored_start import DrainStart


class Runner:
    def __init__(self, services: RunnerServices) -> None:
        self._services = services

    async def drain(
        self,
        session_id: str,
        lease: Lease,
        interrupt: Interrupt,
        *,
        forced: bool = False,
        cause: Cause | None = None,
        start: DrainStart | None = None,
    ) -> None:
        """`cause` is why a forced drain continues what an earlier process left, if that was decided. `start` is what
        the drain starts from, if that was read after the lease and nobody has committed since."""
        with self._drain(session_id, lease, interrupt, forced=forced, cause=cause, start=start) as drain:
            await drain.run()

    async def compact(self, session_id: str, lease: Lease, interrupt: Interrupt, instructions: str | None) -> None:
        """Compact now, whatever the estimate says, and take no turn."""
        with self._drain(session_id, lease, interrupt) as drain:
            await drain.compact(instructions)

    async def shell(self, session_id: str, lease: Lease, interrupt: Interrupt, command: str, message_id: str) -> None:
        """Run a command of a person as a message of the conversation, and take no turn."""
        with self._drain(session_id, lease, interrupt) as drain:
            await drain.shell(command, message_id)

    @contextmanager
    def _drain(
        self,
        session_id: str,
        lease: Lease,
        interrupt: Interrupt,
        *,
        forced: bool = False,
        cause: Cause | None = None,
        start: DrainStart | None = None,
    ) -> Iterator[Drain]:
        """Everything that lives as long as one drain."""
        sessions, ancestors = self._services.sessions, self._services.tools.authorities.ancestors
        with (
            sessions.log.signals.follow(session_id) as signal,
            sessions.budgets.draining(),
            ancestors.remembered(session_id, start.line if start is not None else ()),
        ):
            spending = Spending(sessions.budgets, sessions.store, sessions.clock, session_id)
            cache = SessionCache(sessions.store, session_id, signal)
            scope = DrainScope(
                session_id=session_id,
                lease=lease,
                interrupt=interrupt,
                outbox=Outbox(lease, cache.committed, spending.settlement),
                cache=cache,
                history=History(sessions.store, session_id),
                spending=spending,
                state=DrainState(),
            )
            yield Drain(self._services, scope, forced=forced, cause=cause, start=start)
