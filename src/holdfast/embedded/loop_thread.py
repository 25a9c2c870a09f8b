"""An event loop in its own thread, for callers without a loop or whose loop must not block."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.client.errors import ClientError
from holdfast.embedded.asgi_transport import CLOSED

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from concurrent.futures import Future

T = TypeVar("T")

OWN_THREAD = "a blocking call inside the host's own event loop would never return; use the asynchronous client there"


class LoopThread:
    """Usable from any thread. Work that is submitted before `close` runs or is cancelled; later work is refused."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        # Excludes submitting from closing. Reentrant: a finalizer may submit while this thread holds the lock.
        self._lock = threading.RLock()

    @property
    def running(self) -> bool:
        return self._thread is not None

    def start(self) -> None:
        running = threading.Event()
        self._thread = threading.Thread(target=asyncio.run, args=(self._main(running),), name="holdfast", daemon=True)
        self._thread.start()
        running.wait()

    def close(self) -> None:
        with self._lock:
            thread, self._thread = self._thread, None
            if thread is not None:
                self._loop.call_soon_threadsafe(self._stopped.set)
        if thread is not None:
            thread.join()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the work and return its result. An exception in the caller, such as Ctrl-C, cancels the work."""
        future = self.begin(work)
        try:
            return future.result()
        except CancelledError as error:
            raise ClientError("Transport", CLOSED) from error
        finally:
            future.cancel()

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start the work and return its future."""
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError(OWN_THREAD)
        future = self._hand_over(work)
        if future is None:
            raise ClientError("Transport", CLOSED)
        return future

    def post(self, work: Coroutine[Any, Any, object]) -> None:
        """Start the work without waiting; after `close` do nothing."""
        self._hand_over(work)

    def call(self, work: Callable[[], T]) -> T:
        """Call a function in the loop's thread and return its result."""
        if self._thread is None or threading.current_thread() is self._thread:
            return work()

        async def there() -> T:
            return work()

        return self.run(there())

    def _hand_over(self, work: Coroutine[Any, Any, T]) -> Future[T] | None:
        with self._lock:
            if self._thread is not None:
                return asyncio.run_coroutine_threadsafe(work, self._loop)
        work.close()
        return None

    async def _main(self, running: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        running.set()
        await self._stopped.wait()
