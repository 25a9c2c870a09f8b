"""A unit on its way through a writer thread, and how its caller is answered."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from holdfast.core.database.unit import Committed, Unit
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Outcome = Committed | Exception

log = logging.getLogger(__name__)


class Job(Frozen):
    """`committed` runs on the loop before the caller is answered, in commit order, even if the caller was cancelled."""

    unit: Unit
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Committed]
    committed: Callable[[Committed], None] | None


def answer(answers: Sequence[tuple[Job, Outcome]]) -> None:
    """Answer callers from another thread, in this order."""
    for loop in {job.loop for job, _ in answers}:
        mine = [item for item in answers if item[0].loop is loop]
        try:
            loop.call_soon_threadsafe(_answer, mine)
        except RuntimeError:
            # The loop is closed, so nobody can be answered; the commits are valid.
            log.debug("a loop closed before %d commits were answered", len(mine))


def _answer(answers: Sequence[tuple[Job, Outcome]]) -> None:
    for job, outcome in answers:
        if isinstance(outcome, Committed) and job.committed is not None:
            try:
                job.committed(outcome)
            except asyncio.CancelledError:
                job.future.cancel()
        if job.future.done():
            continue
        if isinstance(outcome, Committed):
            job.future.set_result(outcome)
        else:
            job.future.set_exception(outcome)
            job.future.exception()  # marks the exception as retrieved: the caller may await it later, or never
