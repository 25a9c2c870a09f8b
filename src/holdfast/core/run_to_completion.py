"""Work that a cancellation may not cut in two: it is delivered when the work has ended."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


async def run_to_completion(work: Coroutine[Any, Any, T]) -> T:
    running = asyncio.ensure_future(work)
    cancelled = await until_done(running)
    if cancelled is None:
        return running.result()
    if not running.cancelled():
        running.exception()  # seen: nobody is left to hear of a failure
    raise cancelled


async def until_done(work: asyncio.Future[Any]) -> asyncio.CancelledError | None:
    """However often the waiting one is cancelled meanwhile; the last time, for the caller to raise."""
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait((work,))
        except asyncio.CancelledError as error:
            cancelled = error
    return cancelled
