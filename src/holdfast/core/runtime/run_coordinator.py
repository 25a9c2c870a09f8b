"""Serialises execution per key. A small generic algorithm; it knows nothing of Sessions or models.

Invariants
- At most one drain per key at any time; different keys run side by side.
- A wake is never lost: it starts a drain, or is followed by one that began looking after it. The flag is cleared before
  a drain looks, and nothing is awaited between a drain's end and the decision whether another follows.
- Callers wait, they never own: cancelling a waiter changes nothing for anyone else.
- A key is active from the moment it is registered until its entry settles, however that happens."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from holdfast.core.event.author import without_author
from holdfast.core.session.errors import Interrupted
from holdfast.core.session.interrupt import Interrupt

K = TypeVar("K", bound=Hashable)

Drain = Callable[[K, bool, Interrupt], Awaitable[None]]


class _Entry(Generic[K]):
    def __init__(self, key: K, done: asyncio.Future[None]) -> None:
        self.key = key
        self.done = done
        self.interrupt = Interrupt()
        self.wake = False
        self.stopping = False
        self.wake_after = False
        self.run_after: asyncio.Future[None] | None = None


class RunCoordinator(Generic[K]):
    def __init__(self, drain: Drain[K]) -> None:
        self._drain = drain
        self._entries: dict[K, _Entry[K]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def wake(self, key: K) -> None:
        """There may be work. Idle: drain, unforced. Active: one more drain afterwards, however often this is called."""
        entry = self._entries.get(key)
        if self._closed:
            return
        if entry is None:
            self._start(key, force=False)
        elif entry.stopping:
            entry.wake_after = True
        else:
            entry.wake = True

    async def run(self, key: K) -> None:
        """Idle: drain, forced. Active: join. While an interruption cleans up: drain, forced, after that."""
        if self._closed:
            raise Interrupted
        entry = self._entries.get(key)
        if entry is None:
            entry = self._start(key, force=True)
        elif entry.stopping:
            if entry.run_after is None:
                entry.run_after = _quiet_future()
            await asyncio.shield(entry.run_after)
            return
        await asyncio.shield(entry.done)

    async def wait(self, key: K, seconds: float | None = None) -> None:
        """Returns when the key has no drain, or after this time; a drain's failure is not the waiter's."""
        while (entry := self._entries.get(key)) is not None:
            done, _ = await asyncio.wait({entry.done}, timeout=seconds)
            if not done:
                return

    async def interrupt(self, key: K) -> None:
        """Stop the current execution, drop the follow-up asked for before, and return once it has cleaned up."""
        entry = self._entries.get(key)
        if entry is None:
            return
        self._stop(entry)
        await asyncio.wait({entry.done})

    def active(self) -> tuple[K, ...]:
        return tuple(self._entries)

    async def close(self) -> None:
        """Stop everything at the nearest safe point and wait for it. Nothing starts afterwards."""
        self._closed = True
        for entry in tuple(self._entries.values()):
            self._stop(entry, suspend=True)
        if self._tasks:
            await asyncio.wait(self._tasks)

    def stop_at_boundaries(self) -> None:
        """Let each drain end where nothing is half done. Those that began since are not concerned."""
        for entry in self._entries.values():
            entry.interrupt.stop_at_boundary = True

    def _stop(self, entry: _Entry[K], *, suspend: bool = False) -> None:
        if not entry.stopping:
            entry.stopping = True
            entry.wake = False
            entry.interrupt.fire(suspend=suspend)

    def _start(self, key: K, *, force: bool, done: asyncio.Future[None] | None = None) -> _Entry[K]:
        entry = _Entry(key, done or _quiet_future())
        self._entries[key] = entry
        work = self._own(entry, force)
        task = asyncio.get_running_loop().create_task(work, name=f"drain {key}", context=without_author())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return entry

    async def _own(self, entry: _Entry[K], force: bool) -> None:
        failure: BaseException | None = None
        try:
            while True:
                entry.wake = False
                await self._drain(entry.key, force, entry.interrupt)
                force = False
                if entry.stopping or not entry.wake:
                    break
                await asyncio.sleep(0)  # a drain that keeps waking itself must not starve the loop
        except asyncio.CancelledError:
            failure = Interrupted()
        except Exception as error:  # noqa: BLE001 - whatever ends a drain is its waiters' outcome
            failure = error
        # No await from here on: leave the map, start the successor and settle the waiters in one step.
        if entry.stopping and failure is None:
            failure = Interrupted()
        del self._entries[entry.key]
        self._follow(entry)
        if entry.done.done():
            return
        if failure is None:
            entry.done.set_result(None)
        else:
            entry.done.set_exception(failure)

    def _follow(self, entry: _Entry[K]) -> None:
        if self._closed:
            if entry.run_after is not None:
                entry.run_after.set_exception(Interrupted())
        elif entry.run_after is not None:
            self._start(entry.key, force=True, done=entry.run_after)
        elif entry.wake_after or entry.wake:
            self._start(entry.key, force=False)


def _quiet_future() -> asyncio.Future[None]:
    """A future whose failure counts as seen even if nobody waits for it."""
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    future.add_done_callback(lambda settled: settled.cancelled() or settled.exception())
    return future
