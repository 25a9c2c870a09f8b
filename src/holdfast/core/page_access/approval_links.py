"""Links with which a person answers one permission request once, without signing in.

Invariants
- A link is bound to one request, and its token is stored as a hash.
- One that somebody made with an access token works no longer than that token.
- It is used up in the commit that records the answer: either both happened or neither did. So of several answers with
  one link at most one counts, also if they arrive at several nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.database.unit import Statement, Unit
from holdfast.core.page_access.token import hashed, new_token
from holdfast.schema.exceptions import NotFound
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from holdfast.core.clock import Clock
    from holdfast.core.database.database import Database
    from holdfast.core.database.unit import Value

AGGREGATE = "approval_link"
LIFETIME_SECONDS = 15 * 60
MOST = 20
"""Links of one request. A further one replaces the one that expires first."""
UNUSABLE = (
    "This link cannot be used: it was used before, it has expired, or its request was answered in another way. "
    "`holdfast sessions link` makes a new one."
)


class LinkUnusable(NotFound):
    """The link was used, has expired or never existed, or its request is not open. They are not told apart."""

    def __init__(self) -> None:
        super().__init__(UNUSABLE)


class NewLink(Frozen):
    token: str
    expires: int


class LinkedRequest(Frozen):
    session_id: str
    """The Session that asks."""
    request_id: str
    agent: str | None
    since: int


class ApprovalLinks:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def make(
        self, session_id: str, request_id: str, seconds: int | None = None, *, token_id: str | None = None
    ) -> NewLink:
        """`token_id` is the access token of whoever makes it, if they have one."""
        now = self._clock.now()
        made = NewLink(new_token(), now + (seconds or LIFETIME_SECONDS) * 1000)
        row: dict[str, Value] = {
            "token": hashed(made.token),
            "session_id": session_id,
            "request_id": request_id,
            "expires": made.expires,
            "token_id": token_id,
        }
        statements = (
            Statement("approval_link.expire", {"now": now}),
            Statement("approval_link.insert", row),
            Statement("approval_link.trim", {"request_id": request_id, "most": MOST}),
        )
        await self._database.submit(Unit(AGGREGATE, local=statements))
        return made

    async def find(self, token: str) -> LinkedRequest:
        """What the link is for. Raises LinkUnusable. The link stays."""
        rows = await self._database.fetch("approval_link.get", self._key(token), into=LinkedRequest)
        if not rows:
            raise LinkUnusable
        return rows[0]

    def use(self, token: str) -> Statement:
        """Uses the link up in the commit that it becomes part of, which fails with LinkUnusable if that was done
        before."""
        return Statement("approval_link.use", self._key(token), changes=1, error=LinkUnusable)

    def _key(self, token: str) -> dict[str, Value]:
        return {"token": hashed(token), "now": self._clock.now()}
