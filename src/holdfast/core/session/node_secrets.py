"""How nodes of one database identify themselves to each other: by secrets that are stored in it.

Invariants
- A secret is never sent. A node sends a token that is made of the secret and of the id of the node it calls, so that
  whoever sees one can use it for that node only, and no longer than the secret is accepted.
- A new secret is made once a day. It is used when every node has had time to read it, and accepted for another day
  after the next one was made.
- Ages come from the statement that reads them: on a database server they are in the server's time."""

from __future__ import annotations

import hmac
import secrets
import time
from hashlib import sha256
from typing import TYPE_CHECKING

from holdfast.core.database.unit import Statement, Unit
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from holdfast.core.clock import Clock, Ids
    from holdfast.core.database.database import Database
    from holdfast.core.database.unit import Value

AGGREGATE = "node_secret"
REFRESH_SECONDS = 30.0
SETTLED = 2 * REFRESH_SECONDS * 1000
"""The age from which a secret is used, in milliseconds."""
LIFETIME = 24 * 60 * 60 * 1000
ACCEPTED = 2 * LIFETIME


class _Secret(Frozen):
    id: str
    secret: str
    age: int


class NodeSecrets:
    def __init__(self, database: Database, ids: Ids, clock: Clock) -> None:
        self._database = database
        self._ids = ids
        self._clock = clock
        self._known: list[_Secret] = []
        """Newest first."""
        self._read: float | None = None

    async def refresh(self) -> None:
        """Read the secrets, and make one if the newest is old, unless that was done a moment ago."""
        if self._read is not None and time.monotonic() - self._read < REFRESH_SECONDS:
            return
        self._known = await self._all()
        if not self._known or self._known[0].age >= LIFETIME:
            await self._make()
            self._known = await self._all()
        self._read = time.monotonic()

    def token(self, node_id: str) -> str:
        """What identifies this process to a node. Call `refresh` before."""
        settled = [known for known in self._known if known.age >= SETTLED]
        return _token((settled or self._known[-1:])[0].secret, node_id)

    def admits(self, token: str, node_id: str) -> bool:
        """Whether a token was made for this node."""
        given = token.encode(errors="replace")
        return any([hmac.compare_digest(_token(known.secret, node_id).encode(), given) for known in self._known])

    async def _all(self) -> list[_Secret]:
        found = await self._database.fetch("node_secret.all", {"now": self._clock.now()}, into=_Secret)
        return [secret for secret in found if secret.age < ACCEPTED]

    async def _make(self) -> None:
        now = self._clock.now()
        made: dict[str, Value] = {
            "id": self._ids.of("sec"),
            "secret": secrets.token_hex(32),
            "now": now,
            "lifetime": LIFETIME,
        }
        statements = (
            Statement("node_secret.make", made),
            Statement("node_secret.forget", {"now": now, "accepted": ACCEPTED}),
        )
        await self._database.submit(Unit(AGGREGATE, local=statements))


def _token(secret: str, node_id: str) -> str:
    return hmac.new(secret.encode(), node_id.encode(), sha256).hexdigest()
