"""Tickets: what lets a browser open one WebSocket, which can carry no credentials of its own.

Invariants
- A ticket is good once, for `LIFETIME_SECONDS`, and only for the claim it was issued for.
- An attempt with another claim leaves it as it was."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING

from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.schema.location import Location

LIFETIME_SECONDS = 60
LIMIT = 10_000


class Claim(Frozen):
    pty_id: str
    location: Location


class _Issued(Frozen):
    claim: Claim
    expires: float


class Tickets:
    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._issued: dict[str, _Issued] = {}

    def issue(self, claim: Claim) -> str:
        self._expire()
        ticket = str(uuid.uuid4())
        self._issued[ticket] = _Issued(claim, self._now() + LIFETIME_SECONDS)
        return ticket

    def holds(self, ticket: str, pty_id: str) -> bool:
        """Whether it is good for this terminal, in whatever Location; it stays so."""
        issued = self._issued.get(ticket)
        return issued is not None and issued.claim.pty_id == pty_id and issued.expires > self._now()

    def consume(self, ticket: str, claim: Claim) -> bool:
        """Whether it lets its bearer in; if so, it never will again."""
        issued = self._issued.get(ticket)
        if issued is None or issued.claim != claim or issued.expires <= self._now():
            return False
        del self._issued[ticket]
        return True

    def _expire(self) -> None:
        """They are kept in the order in which they expire. Beyond the limit the oldest give way."""
        now = self._now()
        while self._issued:
            oldest = next(iter(self._issued))
            if self._issued[oldest].expires > now and len(self._issued) < LIMIT:
                return
            del self._issued[oldest]
