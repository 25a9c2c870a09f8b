"""How nodes of one database identify themselves to each other: by secrets that are stored in it, and by one that is
configured, if there is one.

Invariants
- A secret is never sent. For the live events of a node a token is sent that is made of the secret and of the id of the
  node: whoever sees one can use it for that node only, and no longer than the secret is accepted.
- A request for terminals is signed: for one node, one method and one target, once, within a minute. Time is the age of
  the secret, which the statement that reads it tells: on a database server it is the server's time.
- A new secret is made once a day. It is used when every node has had time to read it, and accepted for another day
  after the next one was made.
- With a configured secret, what is stored in the database is not enough to sign anything."""

from __future__ import annotations

import hmac
import secrets
import time
from collections import OrderedDict
from hashlib import sha256
from typing import TYPE_CHECKING

from holdfast.core.database.unit import Statement, Unit
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.clock import Clock, Ids
    from holdfast.core.database.database import Database
    from holdfast.core.database.unit import Value
    from holdfast.core.session.secret_file import SecretFile

AGGREGATE = "node_secret"
REFRESH_SECONDS = 30.0
SETTLED = 2 * REFRESH_SECONDS * 1000
"""The age from which a secret is used, in milliseconds."""
LIFETIME = 24 * 60 * 60 * 1000
ACCEPTED = 2 * LIFETIME
SIGNED_SECONDS = 60
"""How long a signature is accepted."""


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
        self._seen: OrderedDict[str, float] = OrderedDict()
        """Signatures that were accepted, with the time when they expire."""
        self.file: SecretFile | None = None
        """The configured secrets."""

    async def refresh(self) -> None:
        """Read the secrets, and make one if the newest is old, unless that was done a moment ago."""
        if self._read is not None and time.monotonic() - self._read < REFRESH_SECONDS:
            return
        if self.file is not None:
            self.file.read_again()
        known = await self._all()
        if not known or known[0].age >= LIFETIME:
            await self._make()
            known = await self._all()
        self._known, self._read = known, time.monotonic()

    def token(self, node_id: str) -> str:
        """What identifies this process to a node. Call `refresh` before."""
        return _code(self._keys(self._used)[0], node_id)

    def admits(self, token: str, node_id: str) -> bool:
        """Whether a token was made for this node."""
        return _matches([_code(key, node_id) for key in self._all_keys()], token)

    def sign(self, node_id: str, method: str, target: str) -> str:
        """A signature for one request to a node. Call `refresh` before."""
        used = self._used
        stated = f"{used.id} {self._age(used)} {secrets.token_hex(12)}"
        return f"{stated} {_code(self._keys(used)[0], 'request', node_id, method, target, stated)}"

    def verifies(self, signature: str, node_id: str, method: str, target: str) -> bool:
        """Whether a node signed this request to this node within the last minute, and it is the first of it."""
        stated, _, code = signature.rpartition(" ")
        id, _, age = stated.rpartition(" ")[0].partition(" ")
        used = next((known for known in self._known if known.id == id), None)
        if used is None or not (age.isascii() and age.isdecimal()) or len(age) > 12:
            return False
        if abs(self._age(used) - int(age)) > SIGNED_SECONDS or code in self._seen:
            return False
        if not _matches([_code(key, "request", node_id, method, target, stated) for key in self._keys(used)], code):
            return False
        self._remember(code)
        return True

    def seal(self, text: str) -> str:
        """A code that only nodes of this database can make. It is empty in a process that knows no secret."""
        return _code(self._keys(self._used)[0], "seal", text) if self._known else ""

    def sealed(self, text: str, code: str) -> bool:
        return _matches([_code(key, "seal", text) for key in self._all_keys()], code)

    @property
    def _used(self) -> _Secret:
        """The newest that every node has had time to read."""
        return next((known for known in self._known if known.age >= SETTLED), self._known[-1])

    def _keys(self, known: _Secret) -> list[str]:
        """The keys that a stored secret makes with the configured ones. The first signs."""
        return [known.secret] if self.file is None else [f"{known.secret}\n{line}" for line in self.file.secrets]

    def _all_keys(self) -> Iterator[str]:
        for known in self._known:
            yield from self._keys(known)

    def _age(self, known: _Secret) -> int:
        """In seconds."""
        assert self._read is not None
        return int(known.age / 1000 + time.monotonic() - self._read)

    def _remember(self, code: str) -> None:
        """A signature that is older or younger than this process supposes may be valid for twice the time."""
        now = time.monotonic()
        while self._seen and next(iter(self._seen.values())) < now:
            self._seen.popitem(last=False)
        self._seen[code] = now + 2 * SIGNED_SECONDS + 1

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


def _code(key: str, *parts: str) -> str:
    return hmac.new(key.encode(), "\n".join(parts).encode(), sha256).hexdigest()


def _matches(expected: list[str], given: str) -> bool:
    """Compares with all of them, in constant time."""
    code = given.encode(errors="replace")
    return any([hmac.compare_digest(each.encode(), code) for each in expected])
