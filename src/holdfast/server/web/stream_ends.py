"""Ends the streams and sockets of a sign-in that is over.

Invariants
- A sign-in that is removed by this process ends its streams at once. Whether another node removed it is looked up every
  `CHECK_SECONDS`, only while a stream of a sign-in is open.
- The task that looks it up ends with the last such stream, or with `close`."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING

from holdfast.core.database.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

CHECK_SECONDS = 3.0
REMEMBERED = 1_000
"""Sign-ins that this process ended: a ticket of one of them may still be on its way."""

log = logging.getLogger(__name__)


class StreamEnd(asyncio.Event):
    """Set when one stream has to end because its sign-in has ended. That of another caller is never set."""

    def __init__(self, sign_in: str | None, forget: Callable[[StreamEnd], None]) -> None:
        super().__init__()
        self.sign_in = sign_in
        self._forget = forget

    def close(self) -> None:
        """Called when the stream has ended."""
        self._forget(self)


class StreamEnds:
    def __init__(self, valid: Callable[[], Awaitable[Collection[str]]]) -> None:
        """`valid` reads the ids of all sign-ins that there are."""
        self._valid = valid
        self._open: set[StreamEnd] = set()
        self._checking: asyncio.Task[None] | None = None
        self._over: deque[str] = deque(maxlen=REMEMBERED)

    def open(self, sign_in: str | None) -> StreamEnd:
        """For a new stream, of a sign-in or of another caller. The stream closes it when it has ended."""
        end = StreamEnd(sign_in, self._forget)
        self._open.add(end)
        if sign_in in self._over:
            end.set()
        elif sign_in is not None and self._checking is None:
            self._checking = asyncio.get_running_loop().create_task(self._check(), name="holdfast-sign-ins")
        return end

    def sign_out(self, sign_in: str) -> None:
        self._over.append(sign_in)
        for end in self._open:
            if end.sign_in == sign_in:
                end.set()

    async def close(self) -> None:
        if self._checking is not None:
            self._checking.cancel()
            await asyncio.wait({self._checking})

    def _forget(self, end: StreamEnd) -> None:
        self._open.discard(end)
        if self._checking is not None and not self._signed_in:
            self._checking.cancel()
            self._checking = None

    @property
    def _signed_in(self) -> set[str]:
        return {end.sign_in for end in self._open if end.sign_in is not None}

    async def _check(self) -> None:
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            try:
                valid = await self._valid()
            except StorageError as error:
                log.warning("whether sign-ins are still valid cannot be read: %s", error)
                continue
            for gone in self._signed_in.difference(valid):
                self.sign_out(gone)
