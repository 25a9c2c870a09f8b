"""Ordered event buffer of a drain. Staged events travel with the next commit, so that the end of one turn and the
dispatch of the next are one commit, or are committed after 8 ms.

Invariants
- Events reach the log in the order in which they were staged, under the drain's lease.
- `commit` returns only when everything staged before it is on disk; a lost one raises, and nothing after it counts."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.database.unit import Committed, Statement
    from holdfast.core.session.ownership import Lease
    from holdfast.schema.record import Record

SOON_SECONDS = 0.008


def ignore(committed: Committed) -> None:
    pass


def nothing(staged: Sequence[Record]) -> Sequence[Statement]:
    return ()


class Outbox:
    def __init__(
        self,
        lease: Lease,
        committed: Callable[[Committed], None] = ignore,
        beside: Callable[[Sequence[Record]], Sequence[Statement]] = nothing,
    ) -> None:
        """`committed` is called with each commit of events. `beside` gives statements that go with events."""
        self._lease = lease
        self._beside = beside
        self._committed = committed
        self._staged: list[Record] = []
        self._local: list[Statement] = []
        """Statements that go with what is staged."""
        self._submitted: list[asyncio.Future[Committed]] = []
        self._due: asyncio.TimerHandle | None = None

    def stage(self, payload: Record, *local: Statement) -> None:
        """`local` goes in the same commit."""
        self._staged.append(payload)
        self._local.extend(local)

    @property
    def idle(self) -> bool:
        """Whether everything staged so far is on disk."""
        return not self._staged and all(future.done() for future in self._submitted)

    def submit(self, *payloads: Record, local: Sequence[Statement] = ()) -> None:
        """Hand over what is staged, without waiting."""
        self._cancel_due()
        self._staged.extend(payloads)
        if self._staged:
            staged, self._staged = self._staged, []
            beside, self._local = self._local, []
            future = self._handed_over(staged, (*beside, *local))
            future.add_done_callback(self._tell)
            self._submitted.append(future)

    async def commit(self, *payloads: Record, local: Sequence[Statement] = ()) -> Committed | None:
        """Everything so far is on disk, or this raises. What the last commit gave, if there was one."""
        self.submit(*payloads, local=local)
        waiting, self._submitted = self._submitted, []
        committed = None
        for future in waiting:
            committed = await future
        return committed

    async def heard(self) -> None:
        """Everything handed over is on disk, or this raises. Who waits may be cut off, unlike in `commit`: what was
        handed over stays so."""
        while self._submitted:
            first = self._submitted[0]
            try:
                await asyncio.shield(first)
            except Exception:
                self._submitted.remove(first)
                raise
            self._submitted.remove(first)

    async def publish(
        self, *payloads: Record, before: Sequence[Statement] = (), local: Sequence[Statement] = ()
    ) -> Committed:
        """A commit of its own, which may be refused without taking along what is staged: that goes first."""
        self.submit()
        committed = await self._lease.publish(*payloads, before=before, local=(*local, *self._beside(payloads)))
        if payloads:
            self._committed(committed)
        return committed

    def write(self, *statements: Statement) -> asyncio.Future[Committed]:
        """Operational writes in a commit of their own, which nothing needs to wait for. What is staged goes first."""
        self.submit()
        return self._lease.submit(local=statements)

    def soon(self) -> None:
        """Let what is staged wait for the next commit, but not for long."""
        if self._staged and self._due is None:
            self._due = asyncio.get_running_loop().call_later(SOON_SECONDS, self.submit)

    def _handed_over(self, staged: list[Record], local: Sequence[Statement]) -> asyncio.Future[Committed]:
        """What cannot even be handed over fails like a commit: nothing after it counts."""
        try:
            return self._lease.submit(*staged, local=(*local, *self._beside(staged)))
        except Exception as error:  # noqa: BLE001 - whoever commits next is told
            refused: asyncio.Future[Committed] = asyncio.get_running_loop().create_future()
            refused.set_exception(error)
            return refused

    def _tell(self, future: asyncio.Future[Committed]) -> None:
        if not future.cancelled() and future.exception() is None:
            self._committed(future.result())

    def _cancel_due(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None
