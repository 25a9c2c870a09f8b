"""Sign-ins of the page, as rows of the database: every node knows them, and they outlive a restart.

Invariants
- A sign-in has two random halves, a cookie and a key. Only their hashes are stored, and both are needed.
- It is good with the credential that it was made with, the server's password or a token, until it was not used for
  `LIFETIME`.
- There are at most `MOST` of the password and `MOST_OF_TOKEN` of each token; a further one replaces the one of the same
  credential that was not used for longest. So nobody with a token can sign others out."""

from __future__ import annotations

import hmac
import logging
from typing import TYPE_CHECKING

from holdfast.core.database.errors import StorageError
from holdfast.core.database.unit import Statement, Unit
from holdfast.core.page_access.token import hashed, new_token
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from holdfast.core.clock import Clock, Ids
    from holdfast.core.database.database import Database
    from holdfast.core.database.unit import Committed, Value

AGGREGATE = "page_sign_in"
MOST = 100
MOST_OF_TOKEN = 10
LIFETIME = 30 * 24 * 60 * 60 * 1000
"""In milliseconds without use."""
SEEN_EVERY = 60 * 1000
"""How often its use is recorded at most, in milliseconds."""
AGENT_CHARACTERS = 200
TOKEN = "token:"

log = logging.getLogger(__name__)


class NewSignIn(Frozen):
    id: str
    cookie: str
    key: str


class StoredSignIn(Frozen):
    id: str
    created: int
    seen: int
    agent: str
    token_id: str | None
    token: str | None
    """The name of the token that it was made with, if it was."""


class VerifiedSignIn(Frozen):
    id: str
    credential: str


class _Found(Frozen):
    id: str
    key: str
    credential: str
    seen: int


def credential_of_token(id: str) -> str:
    """What is stored as the credential of a sign-in that was made with a token."""
    return f"{TOKEN}{id}"


def token_of(credential: str) -> str | None:
    """The id of the token that a sign-in was made with, if it was."""
    return credential.removeprefix(TOKEN) if credential.startswith(TOKEN) else None


class PageSignIns:
    """The `credential` of a sign-in says with which password or token it was made."""

    def __init__(self, database: Database, ids: Ids, clock: Clock) -> None:
        self._database = database
        self._ids = ids
        self._clock = clock

    async def make(self, credential: str, agent: str) -> NewSignIn:
        """`agent` is what the browser calls itself."""
        made = NewSignIn(self._ids.of("sgn"), new_token(), new_token())
        now = self._clock.now()
        row: dict[str, Value] = {
            "id": made.id,
            "cookie": hashed(made.cookie),
            "key": hashed(made.key),
            "credential": credential,
            "agent": agent[:AGENT_CHARACTERS],
            "now": now,
        }
        most = MOST if token_of(credential) is None else MOST_OF_TOKEN
        trim = Statement("page_sign_in.trim", {"credential": credential, "since": now - LIFETIME, "most": most})
        await self._database.submit(Unit(AGGREGATE, local=(Statement("page_sign_in.insert", row), trim)))
        return made

    async def with_cookie(self, cookie: str) -> VerifiedSignIn | None:
        """The sign-in that the cookie belongs to. Alone it admits to nothing."""
        found = await self._find(cookie)
        return VerifiedSignIn(found.id, found.credential) if found is not None else None

    async def verified(self, cookie: str, key: str) -> VerifiedSignIn | None:
        """The sign-in with this cookie and this key. Whether its credential is still good is not looked at."""
        found = await self._find(cookie)
        if found is None or not hmac.compare_digest(found.key, hashed(key)):
            return None
        self._see(found)
        return VerifiedSignIn(found.id, found.credential)

    async def all(self, credential: str) -> Sequence[StoredSignIn]:
        """Those of a password and of all tokens, oldest first."""
        key: dict[str, Value] = {"credential": credential, "since": self._since, "now": self._clock.now()}
        return await self._database.fetch("page_sign_in.list", key, into=StoredSignIn)

    async def remove(self, id: str) -> None:
        await self._database.submit(Unit(AGGREGATE, local=(Statement("page_sign_in.remove", {"id": id}),)))

    @property
    def _since(self) -> int:
        return self._clock.now() - LIFETIME

    async def _find(self, cookie: str) -> _Found | None:
        params: dict[str, Value] = {"cookie": hashed(cookie), "since": self._since}
        rows = await self._database.fetch("page_sign_in.find", params, into=_Found)
        return rows[0] if rows else None

    def _see(self, found: _Found) -> None:
        """Record the use without waiting for it: a request does not fail because this cannot be written."""
        now = self._clock.now()
        if now - found.seen >= SEEN_EVERY:
            seen = Statement("page_sign_in.see", {"id": found.id, "now": now})
            self._database.submit(Unit(AGGREGATE, local=(seen,))).add_done_callback(_note_failure)


def _note_failure(written: asyncio.Future[Committed]) -> None:
    if not written.cancelled() and isinstance(error := written.exception(), StorageError):
        log.warning("the use of a sign-in was not recorded: %s", error)
