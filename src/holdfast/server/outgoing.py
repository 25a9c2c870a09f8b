"""Bounds what waits in memory for callers that read slowly.

Invariants
- A caller that takes nothing for `STALL_SECONDS` is disconnected, and what waited for it is freed.
- Of stored pages that are on their way to followers, each caller holds at most `CALLER_PAGES` and all together
  `PAGES`; a page has a bounded size. Who has as many waits for one of its own to be taken, and delays nobody else.
- Of other answers, and of frames that are large, the bytes are counted: beyond its share a caller gets an error, and a
  stream of it ends. The owner's programs on this machine and other nodes are not counted."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from holdfast.schema.exceptions import TooManyRequests
from holdfast.server.limits import OWNERS, UNLIMITED

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from holdfast.server.types import Message, Send

STALL_SECONDS = 30.0
CALLER_PAGES, PAGES = 8, 128
SMALL_BYTES = 64 * 1024
"""What is not larger is not counted."""
CALLER_BYTES, BYTES = 64 * 1024 * 1024, 512 * 1024 * 1024
RETRY_SECONDS = 5


class Stalled(ConnectionError):
    """The caller took nothing for a while, and its connection was given up."""


class Outgoing:
    def __init__(self) -> None:
        self._pages = asyncio.Semaphore(PAGES)
        self._own_pages: dict[str, _Share] = {}
        self._bytes: Counter[str] = Counter()

    @asynccontextmanager
    async def page(self, caller: str) -> AsyncIterator[None]:
        """Around one stored page, from before it is read until it was taken. Waits until there is room for it."""
        if caller in UNLIMITED:
            yield
            return
        share = self._own_pages.setdefault(caller, _Share())
        share.users += 1
        try:
            async with share.room, self._pages:
                yield
        finally:
            share.users -= 1
            if not share.users:
                del self._own_pages[caller]

    @contextmanager
    def sending(self, caller: str, size: int) -> Iterator[None]:
        """Around the sending of bytes that are in memory. Raises TooManyRequests."""
        if size <= SMALL_BYTES or caller in UNLIMITED:
            yield
            return
        held = self._bytes[caller]
        if held and ((held + size > CALLER_BYTES and caller not in OWNERS) or self._bytes.total() + size > BYTES):
            raise TooManyRequests(
                f"{caller} is not reading its other answers, which wait in memory. Read or close them first.",
                retry_after=RETRY_SECONDS,
            )
        self._bytes[caller] += size
        try:
            yield
        finally:
            self._bytes[caller] -= size
            if self._bytes[caller] <= 0:
                del self._bytes[caller]


class _Share:
    """The pages that one caller may hold, and how many of its followers use or await one."""

    def __init__(self) -> None:
        self.room = asyncio.Semaphore(CALLER_PAGES)
        self.users = 0


def unstalled(send: Send, abort: Callable[[], None]) -> Send:
    """Sends as `send`, and gives the connection up if the caller takes nothing for `STALL_SECONDS`. Raises Stalled."""

    async def sending(message: Message) -> None:
        try:
            async with asyncio.timeout(STALL_SECONDS):
                await send(message)
        except TimeoutError:
            abort()
            raise Stalled from None

    return sending
