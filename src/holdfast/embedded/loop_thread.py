"""An event loop in a thread of its own, for callers that have none or must not stop theirs."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.client.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")

CLOSED = "the host is not open"
OWN_THREAD = "a blocking call from the host's own loop would wait for itself; use the asynchronous client there"


class LoopThread:
    def __init__(self) -> None:
        self._thread: threading.Thread | None = None

    @property
    def running(self) -> bool:
        return self._thread is not None

    def start(self) -> None:
        running = threading.Event()
        self._thread = threading.Thread(target=asyncio.run, args=(self._main(running),), name="holdfast", daemon=True)
        self._thread.start()
        running.wait()

    def close(self) -> None:
        if self._thread is not None:
            thread, self._thread = self._thread, None
            self._loop.call_soon_threadsafe(self._stopped.set)
            thread.join()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Its result. A caller that is torn away, as by Ctrl-C, takes its call with it."""
        if self._thread is None:
            work.close()
            raise ClientError("Transport", CLOSED)
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError(OWN_THREAD)
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except CancelledError as error:
            raise ClientError("Transport", CLOSED) from error
        finally:
            future.cancel()

    def post(self, work: Coroutine[Any, Any, object]) -> None:
        """Without waiting, from any thread; once the loop is gone there is nothing left to do."""
        if self._thread is None:
            work.close()
        else:
            asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, work: Callable[[], T]) -> T:
        """An ordinary function where the loop's own state is safe to touch."""
        if self._thread is None or threading.current_thread() is self._thread:
            return work()

        async def there() -> T:
            return work()

        return self.run(there())

    async def _main(self, running: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        running.set()
        await self._stopped.wait()
