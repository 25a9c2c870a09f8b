"""Limits guesses: five failures a minute for each address.

Invariants
- An attempt beyond the limit is refused before its secret is looked at.
- Callers of this machine have one address, that of their owner and of a proxy in front of the server. They are slowed
  down, not refused: after five failures each attempt takes a second, and few are made at a time. So another program of
  the machine cannot keep its owner out.
- At most `ADDRESSES` are remembered; a further one replaces the one whose last failure is the oldest."""

from __future__ import annotations

import asyncio
import math
import time
from contextlib import asynccontextmanager
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, ClassVar

from holdfast.schema.errors import PublicError
from holdfast.schema.exceptions import ApiError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from holdfast.server.types import Scope

FAILURES = 5
SECONDS = 60.0
ADDRESSES = 10_000
DELAY_SECONDS = 1.0
AT_A_TIME = 8
IN_MEMORY = "in memory"
"""The address of a caller that has none: a program in the same process, or one on the local socket."""


class TooManyAttemptsError(PublicError):
    status: ClassVar[int] = 429
    retry_after: int
    """In seconds."""


class TooManyAttempts(ApiError):
    """The address has failed too often in the last minute."""

    struct = TooManyAttemptsError

    def __init__(self, retry_after: int) -> None:
        super().__init__(f"Too many failed attempts from this address. Try again in {retry_after} s.")
        self.retry_after = retry_after


class Throttle:
    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._failures: dict[str, list[float]] = {}
        """When each address failed within the last minute; in the order of their last failures."""
        self._slowed = 0

    @asynccontextmanager
    async def attempt(self, scope: Scope) -> AsyncIterator[Callable[[], None]]:
        """Around one attempt; what it yields is called if the attempt fails. Raises TooManyAttempts."""
        address, local = _address(scope)
        failures = self._recent(address)
        if len(failures) < FAILURES:
            yield lambda: self._failed(address)
            return
        if not local:
            raise TooManyAttempts(math.ceil(failures[-FAILURES] + SECONDS - self._now()))
        if self._slowed >= AT_A_TIME:
            raise TooManyAttempts(math.ceil(DELAY_SECONDS))
        self._slowed += 1
        try:
            await asyncio.sleep(DELAY_SECONDS)
            yield lambda: self._failed(address)
        finally:
            self._slowed -= 1

    def _recent(self, address: str) -> list[float]:
        oldest = self._now() - SECONDS
        return [when for when in self._failures.get(address, ()) if when > oldest]

    def _failed(self, address: str) -> None:
        failures = [*self._recent(address), self._now()][-FAILURES:]
        self._failures.pop(address, None)
        if len(self._failures) >= ADDRESSES:
            del self._failures[next(iter(self._failures))]
        self._failures[address] = failures


def _address(scope: Scope) -> tuple[str, bool]:
    """Where the caller is, and whether that is this machine. Of an IPv6 address the network counts: whoever has one has
    all of its addresses."""
    client = scope.get("client")
    if not client:
        return IN_MEMORY, True
    try:
        found = ip_address(client[0].partition("%")[0])
    except ValueError:
        return client[0], False
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is None:
            return str(int(found) >> 64) if not found.is_loopback else "::1", found.is_loopback
        found = found.ipv4_mapped
    return str(found), found.is_loopback
