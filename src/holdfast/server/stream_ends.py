"""Ends the streams and sockets of a sign-in or a token that is over.

Invariants
- One that is removed by this process ends its streams at once. Whether another process removed it is looked up soon
  after any commit, and every `CHECK_SECONDS` because tokens expire; only while a stream of one is open.
- The task that looks it up ends with the last such stream, or with `close`."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.core.database.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection
    from contextlib import AbstractContextManager

CHECK_SECONDS = 3.0
APART_SECONDS = 0.25
"""Between two looks, however much is committed."""
REMEMBERED = 1_000
"""Sign-ins and tokens that this process ended: a ticket of one of them may still be on its way."""

log = logging.getLogger(__name__)


class StreamEnd(asyncio.Event):
    """Set when one stream has to end because its sign-in or token has ended. That of another caller is never set."""

    def __init__(self, id: str | None, forget: Callable[[StreamEnd], None]) -> None:
        super().__init__()
        self.id = id
        self._forget = forget

    def close(self) -> None:
        """Called when the stream has ended."""
        self._forget(self)


class StreamEnds:
    def __init__(
        self,
        valid: Callable[[], Awaitable[Collection[str]]],
        watch: Callable[[Callable[[], None]], AbstractContextManager[None]],
    ) -> None:
        """`valid` reads the ids of all sign-ins and tokens that there are; `watch` calls a function after commits of
        all processes."""
        self._valid = valid
        self._watch = watch
        self._open: set[StreamEnd] = set()
        self._checking: asyncio.Task[None] | None = None
        self._due = asyncio.Event()
        self._over: deque[str] = deque(maxlen=REMEMBERED)

    def open(self, id: str | None) -> StreamEnd:
        """For a new stream, of a sign-in, a token or another caller. The stream closes it when it has ended."""
        end = StreamEnd(id, self._forget)
        self._open.add(end)
        if id in self._over:
            end.set()
        elif id is not None:
            self._due.set()  # it may have ended since the caller was asked who it is
            if self._checking is None:
                self._checking = asyncio.get_running_loop().create_task(self._check(), name="holdfast-stream-ends")
        return end

    def end(self, id: str) -> None:
        self._over.append(id)
        self._due.set()  # a token takes its sign-ins with it
        for end in self._open:
            if end.id == id:
                end.set()

    async def close(self) -> None:
        if self._checking is not None:
            self._checking.cancel()
            await asyncio.wait({self._checking})

    def _forget(self, end: StreamEnd) -> None:
        self._open.discard(end)
        if self._checking is not None and not self._ids:
            self._checking.cancel()
            self._checking = None

    @property
    def _ids(self) -> set[str]:
        return {end.id for end in self._open if end.id is not None}

    async def _check(self) -> None:
        with self._watch(self._due.set):
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(CHECK_SECONDS):
                        await self._due.wait()
                self._due.clear()
                asked = self._ids  # a stream that is opened meanwhile may be of a newer one
                try:
                    valid = await self._valid()
                except StorageError as error:
                    log.warning("whether sign-ins and tokens are still valid cannot be read: %s", error)
                else:
                    for gone in asked.difference(valid):
                        self.end(gone)
                await asyncio.sleep(APART_SECONDS)
