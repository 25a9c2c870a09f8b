"""Runs work to completion despite cancellation of the caller."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


async def run_to_completion(work: Coroutine[Any, Any, T]) -> T:
    """Run the work to its end; re-raise a cancellation of the caller only afterwards."""
    running = asyncio.ensure_future(work)
    cancelled = await until_done(running)
    if cancelled is None:
        return running.result()
    if not running.cancelled():
        running.exception()  # marks a failure as retrieved
    raise cancelled


async def until_done(work: asyncio.Future[Any]) -> asyncio.CancelledError | None:
    """Wait for the future, ignoring cancellations. Returns the last one, for the caller to raise."""
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait((work,))
        except asyncio.CancelledError as error:
            cancelled = error
    return cancelled
