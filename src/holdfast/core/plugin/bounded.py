"""Running a stranger's synchronous code: in a thread of its own, which nobody waits for beyond the bound."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


async def bounded(work: Callable[[], T], seconds: float, *, late: Callable[[T], None] | None = None) -> T:
    """Raises TimeoutError; a result that comes afterwards goes to `late`. A daemon thread, not one of the loop's
    executor: those are joined when the loop closes."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def answer(result: T | None, error: Exception | None) -> None:
        if done.done():
            if error is None and late is not None:
                late(result)  # type: ignore[arg-type]
        elif error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        try:
            result, error = work(), None
        except Exception as failed:  # noqa: BLE001 - handed to the caller
            result, error = None, failed
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is there to hear it
            loop.call_soon_threadsafe(answer, result, error)

    threading.Thread(target=run, name="plugin", daemon=True).start()
    async with asyncio.timeout(seconds):
        return await done
