"""Single-use tickets for WebSockets, because browsers cannot send credentials with them.

Invariants
- A ticket is valid once, for `LIFETIME_SECONDS`, and only for the claim it was issued for.
- An attempt with another claim does not consume it."""

from __future__ import annotations

import time
import uuid
from collections import OrderedDict
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


class _IssuedTicket(Frozen):
    claim: Claim
    expires: float
    sign_in: str | None


class Tickets:
    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._issued: dict[str, _IssuedTicket] = {}
        self._elsewhere: OrderedDict[str, str] = OrderedDict()
        """The sign-ins for which other nodes issued tickets."""

    def issue(self, claim: Claim, seal: Callable[[str], str] | None = None, *, sign_in: str | None = None) -> str:
        """`seal` makes what is added to the ticket, so that other nodes see who issued it. `sign_in` is that of the
        caller, if it is a page."""
        self._expire()
        ticket = str(uuid.uuid4())
        if seal is not None and (code := seal(ticket)):
            ticket = f"{ticket}.{code}"
        self._issued[ticket] = _IssuedTicket(claim, self._now() + LIFETIME_SECONDS, sign_in)
        return ticket

    def holds(self, ticket: str, pty_id: str) -> bool:
        """Whether it is valid for this terminal, in any Location. Does not consume it."""
        issued = self._issued.get(ticket)
        return issued is not None and issued.claim.pty_id == pty_id and issued.expires > self._now()

    def note(self, ticket: str, sign_in: str) -> None:
        """Remember for which sign-in another node issued a ticket."""
        self._elsewhere[ticket] = sign_in
        if len(self._elsewhere) > LIMIT:
            self._elsewhere.popitem(last=False)

    def sign_in(self, ticket: str) -> str | None:
        """The sign-in of the page that asked for the ticket, as far as this process knows."""
        issued = self._issued.get(ticket)
        return issued.sign_in if issued is not None else self._elsewhere.pop(ticket, None)

    def consume(self, ticket: str, claim: Claim) -> bool:
        """Whether it is valid for this claim. Consumes it if so."""
        issued = self._issued.get(ticket)
        if issued is None or issued.claim != claim or issued.expires <= self._now():
            return False
        del self._issued[ticket]
        return True

    def _expire(self) -> None:
        """Removes expired tickets, and the oldest beyond the limit. They are ordered by expiry."""
        now = self._now()
        while self._issued:
            oldest = next(iter(self._issued))
            if self._issued[oldest].expires > now and len(self._issued) < LIMIT:
                return
            del self._issued[oldest]
