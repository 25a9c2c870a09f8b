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
        self._grace = grace
        self._fired: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._open: set[asyncio.Future[Any]] = set()
        self._abandoned: set[asyncio.Future[Any]] = set()

    def fire(self) -> None:
        self.requested = True
        if not self._fired.done():
            self._fired.set_result(None)
        for task in tuple(self._open):
            task.cancel()

    def check(self) -> None:
        """Raise if an interruption was asked for; for places where nothing is half done."""
        if self.requested:
            raise Interrupted

    async def cancellable(self, work: Coroutine[Any, Any, T], *, name: str) -> T | Stop:
        """Run work that may be cut: the provider stream, the summary call, a tool's own execution."""
        if self.requested:
            work.close()
            return STOPPED
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._open.add(task)
        try:
            either: set[asyncio.Future[Any]] = {task, self._fired}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                await asyncio.wait({task}, timeout=self._grace)
        finally:
            self._open.discard(task)
        if not task.done():
            log.warning("%s did not stop within %.1f s and was left behind", task.get_name(), self._grace)
            self._abandoned.add(task)
            task.add_done_callback(self._forget)
            return ABANDONED
        return STOPPED if task.cancelled() else task.result()

    def _forget(self, task: asyncio.Future[Any]) -> None:
        self._abandoned.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("work that had been left behind failed: %r", error)
