"""Runs plugin code with a time limit: synchronous code in its own thread, asynchronous code as a task. The caller never
waits longer than the limit, even if the code ignores cancellation."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")


async def bounded(work: Callable[[], T], seconds: float, *, late: Callable[[T], None] | None = None) -> T:
    """Run `work` in a thread. Raises TimeoutError; a late result is passed to `late`. Uses a daemon thread, because
    executor threads are joined when the loop closes."""
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
        result: T | None = None
        error: Exception | None = None
        try:
            result = work()
        except SystemExit:
            error = RuntimeError("it tried to end the process")
        except StopIteration:
            error = RuntimeError("it raised StopIteration")  # a future cannot hold StopIteration
        except Exception as failed:  # noqa: BLE001 - handed to the caller
            error = failed
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(answer, result, error)

    threading.Thread(target=run, name="plugin", daemon=True).start()
    async with asyncio.timeout(seconds):
        return await done


class BoundedCalls:
    """Calls functions and waits for awaitables up to a limit. A task that ignores its cancellation is kept until it
    ends."""

    def __init__(self) -> None:
        self._overdue: set[asyncio.Future[None]] = set()

    async def call(self, function: Callable[[T], Awaitable[None] | None], given: T, seconds: float) -> None:
        """Raises TimeoutError, or what it raises."""
        if inspect.iscoroutinefunction(function):
            await self.wait(function(given), seconds)
        elif inspect.isawaitable(waiting := await bounded(lambda: function(given), seconds)):
            await self.wait(waiting, seconds)

    async def wait(self, waiting: Awaitable[None], seconds: float) -> None:
        """Raises TimeoutError, or what it raises."""
        task = asyncio.ensure_future(waiting)
        try:
            await asyncio.wait({task}, timeout=seconds)
        finally:
            if not task.done():
                self._overdue.add(task)
                task.add_done_callback(self._forget)
                task.cancel()
        if not task.done():
            raise TimeoutError
        if task.cancelled():
            raise RuntimeError("it cancelled itself")
        task.result()

    def _forget(self, task: asyncio.Future[None]) -> None:
        self._overdue.discard(task)
        if not task.cancelled():
            task.exception()  # marks the exception as retrieved
