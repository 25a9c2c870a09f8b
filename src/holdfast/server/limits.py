"""Keeps a server within its limits. Each check costs the same however much there is.

Invariants
- What runs goes on: only new requests, streams, inputs and Sessions are refused.
- The owner's programs on this machine and other nodes are not limited in their requests and streams, so that somebody
  can still look and clean up.
- Sessions are counted once a minute and after a refusal, and in between by what this server adds: with several
  processes the limit may be exceeded by what they add in a minute."""

from __future__ import annotations

import math
import time
from collections import Counter, OrderedDict
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from holdfast.schema.exceptions import InsufficientStorage, TooManyRequests

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from holdfast.core.config.limits import ServerLimits
    from holdfast.protocol.endpoint import Adding
    from holdfast.server.caller import Caller
    from holdfast.server.disk_floor import DiskFloor

UNLIMITED = frozenset(("local", "node"))
OWNERS = frozenset(("password", "page", "anyone"))
"""Callers whose requests are not counted: they can change the limits as well."""
CREDENTIALS = 10_000
"""Callers whose requests are remembered."""
SHARE = 20
"""One token has at most this part of the streams."""
BODIES = 4
"""Bodies of the largest size that one token may be sending at once."""
BODY_SECONDS = 5
FOLLOWER_SECONDS = 10
COUNT_SECONDS = 60.0
RECOUNT_SECONDS = 1.0


class Limiting:
    def __init__(
        self,
        limits: ServerLimits,
        *,
        disk: DiskFloor,
        count_sessions: Callable[[], Awaitable[int]],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits = limits
        self._disk = disk
        self._count_sessions = count_sessions
        self._now = now
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Requests that each caller may still send, and when that was computed; the longest unused first."""
        self._followers: Counter[str] = Counter()
        self._arriving: Counter[str] = Counter()
        """Bytes of bodies that are being read."""
        self._sessions: tuple[int, float] | None = None

    def check_rate(self, caller: Caller) -> None:
        """Count one request. Raises TooManyRequests."""
        if caller.name in UNLIMITED or caller.name in OWNERS:
            return
        now, limits = self._now(), self._limits
        left, then = self._buckets.pop(caller.name, (float(limits.burst), now))
        left = min(float(limits.burst), left + (now - then) * limits.requests_per_second)
        allowed = left >= 1
        self._buckets[caller.name] = (left - 1 if allowed else left, now)
        if len(self._buckets) > CREDENTIALS:
            self._buckets.popitem(last=False)
        if not allowed:
            wait = math.ceil((1 - left) / limits.requests_per_second)
            raise TooManyRequests(
                f"{caller.name} sends more than {limits.requests_per_second:g} requests a second. Try again in {wait} "
                "s, or follow a stream in place of asking again and again.",
                retry_after=wait,
            )

    def follow(self, caller: Caller) -> Callable[[], None]:
        """Count one stream; what is returned is called once when it has ended. Raises TooManyRequests."""
        if caller.name in UNLIMITED:
            return lambda: None
        most = self._limits.followers
        if self._followers.total() >= most:
            raise TooManyRequests(
                f"The server has {most} open streams, which is its limit. Close some, try again in "
                f"{FOLLOWER_SECONDS} s, or raise `holdfast.limits.followers`.",
                retry_after=FOLLOWER_SECONDS,
            )
        share = most if caller.name in OWNERS else max(1, most // SHARE)
        if self._followers[caller.name] >= share:
            raise TooManyRequests(
                f"{caller.name} has {share} open streams, which is the limit of one token. Close some.",
                retry_after=FOLLOWER_SECONDS,
            )
        self._followers[caller.name] += 1

        def ended() -> None:
            self._followers[caller.name] -= 1
            if self._followers[caller.name] <= 0:
                del self._followers[caller.name]

        return ended

    @contextmanager
    def reading(self, caller: Caller) -> Iterator[Callable[[int], None]]:
        """Around the reading of a body. What is yielded counts bytes that were kept, and raises TooManyRequests."""
        most = BODIES * self._limits.body_bytes
        kept = 0

        def keep(size: int) -> None:
            nonlocal kept
            kept += size
            self._arriving[caller.name] += size
            if self._arriving[caller.name] > most and caller.name not in UNLIMITED | OWNERS:
                raise TooManyRequests(
                    f"{caller.name} sends more than {most:,} bytes at once. Send large bodies one after the other.",
                    retry_after=BODY_SECONDS,
                )

        try:
            yield keep
        finally:
            self._arriving[caller.name] -= kept
            if self._arriving[caller.name] <= 0:
                del self._arriving[caller.name]

    @asynccontextmanager
    async def adding(self, what: Adding) -> AsyncIterator[None]:
        """Around a request that adds input or a Session. Raises InsufficientStorage."""
        await self._check_disk()
        if what == "session":
            await self._check_sessions()
            self._add_sessions(1)
        try:
            yield
        except BaseException:
            if what == "session":
                self._add_sessions(-1)
            raise

    async def _check_disk(self) -> None:
        space = await self._disk.space()
        if space.is_low:
            raise InsufficientStorage(
                f"The disk of the server has {space}. Free some space; what runs continues.", limit="disk_floor_bytes"
            )

    async def _check_sessions(self) -> None:
        most = self._limits.sessions
        if most is None:
            return
        known, now = self._sessions, self._now()
        allowed = COUNT_SECONDS if known is not None and known[0] < most else RECOUNT_SECONDS
        if known is None or now - known[1] >= allowed:
            known = self._sessions = (await self._count_sessions(), now)
        if known[0] >= most:
            raise InsufficientStorage(
                f"The server has {known[0]} Sessions, and its limit is {most} (`holdfast.limits.sessions`). Delete "
                "some, or go on in one of them.",
                limit="sessions",
            )

    def _add_sessions(self, number: int) -> None:
        if self._sessions is not None:
            self._sessions = (self._sessions[0] + number, self._sessions[1])
