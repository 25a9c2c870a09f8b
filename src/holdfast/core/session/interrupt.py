"""Interruption without cancelling a drain: it may enter only inside `cancellable`, everything else is ordinary code.

Invariants
- Nobody cancels a drain's task. `fire` cancels only what runs inside `cancellable` at that moment.
- A result that exists when the interruption arrives is used, so success and its settlement cannot be torn apart.
- Work that does not stop within the grace is left behind and named; the drain goes on."""

from __future__ import annotations

import asyncio
import logging
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeVar

from holdfast.core.session.errors import Interrupted

if TYPE_CHECKING:
    from collections.abc import Coroutine

GRACE_SECONDS = 5.0

T = TypeVar("T")
log = logging.getLogger(__name__)


class Stop(Enum):
    STOPPED = "stopped"
    ABANDONED = "abandoned"


STOPPED: Final = Stop.STOPPED
ABANDONED: Final = Stop.ABANDONED


class Interrupt:
    """One per execution."""

    def __init__(self, grace: float = GRACE_SECONDS) -> None:
        self.requested = False
        self.suspending = False
        """Whether the process is shutting down; the next process continues the interrupted work."""
        self.stop_at_boundary = False
        """Whether the drain is to end between two turns, as a shutdown ends it; the turn itself comes to its end."""
        self._grace = grace
        self._loop = asyncio.get_running_loop()
        self._open: dict[asyncio.Task[Any], tuple[asyncio.Future[None], float]] = {}
        """Running tasks that may be cancelled, each with a future that ends with the task or with its grace period."""
        self._abandoned: set[asyncio.Task[Any]] = set()

    def fire(self, *, suspend: bool = False) -> None:
        """Firing again changes nothing for work that is stopping: it may have something to clean up."""
        if self.requested:
            self.suspending = self.suspending and suspend
            return
        self.requested, self.suspending = True, suspend
        for task in tuple(self._open):
            self._cancel(task)

    def check(self) -> None:
        """Raise Interrupted if an interruption was requested. Call it only where no work is half done."""
        if self.requested:
            raise Interrupted

    def check_boundary(self) -> None:
        """Raise Interrupted if the drain is to end here. Call it between two turns."""
        if self.stop_at_boundary:
            self.fire(suspend=True)
            self.check()

    async def cancellable(
        self, work: Coroutine[Any, Any, T], *, name: str, grace: float | None = None, begun: bool = False
    ) -> T | Stop:
        """Run work that an interruption may cancel: the provider stream, the summary call, a tool's execution,
        a shell message. `grace` is for work that needs longer to stop. Work that has `begun` in an earlier process is
        run up to its first wait even after an interruption: it has something to stop."""
        grace = self._grace if grace is None else grace
        if self.requested and (self.suspending or not begun):
            work.close()
            return STOPPED
        task = self._loop.create_task(work, name=name)
        if begun:
            await asyncio.sleep(0)  # a task that is cancelled before it was run does nothing
        over = self._loop.create_future()
        self._open[task] = over, grace
        task.add_done_callback(lambda _: _resolve(over))
        if self.requested:
            self._cancel(task)
        try:
            await over
        finally:
            del self._open[task]
        if not task.done():
            log.warning("%s did not stop within %.1f s and was left behind", task.get_name(), grace)
            self._abandoned.add(task)
            task.add_done_callback(self._forget)
            return ABANDONED
        return STOPPED if task.cancelled() else task.result()

    def _cancel(self, task: asyncio.Task[Any]) -> None:
        over, grace = self._open[task]
        task.cancel()
        timer = self._loop.call_later(grace, _resolve, over)
        over.add_done_callback(lambda _: timer.cancel())

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._abandoned.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("work that had been left behind failed: %r", error)


def _resolve(over: asyncio.Future[None]) -> None:
    if not over.done():
        over.set_result(None)
