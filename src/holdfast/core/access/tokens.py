"""Tokens, as rows of the database.

Invariants
- A token is random. Only its hash is stored, so that nobody finds it in a backup.
- It is looked up for every request: a token that was revoked or has expired is refused at once by every node.
- Revoking also removes the sign-ins of the page that were made with it, in the same commit."""

from __future__ import annotations

import json
import logging
from functools import partial
from typing import TYPE_CHECKING

from holdfast.core.database.errors import StorageError
from holdfast.core.database.unit import Statement, Unit
from holdfast.core.page_access.sign_ins import credential_of_token
from holdfast.core.page_access.token import hashed, new_token
from holdfast.schema.access import TOKEN_PREFIX, NewToken, Role, TokenInfo
from holdfast.schema.exceptions import Conflict, InvalidRequest, NotFound
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from holdfast.core.clock import Clock, Ids
    from holdfast.core.database.database import Database
    from holdfast.core.database.unit import Committed, Value

AGGREGATE = "access_token"
MOST = 1_000
SEEN_EVERY = 60 * 1000
"""How often its use is recorded at most, in milliseconds."""
RESERVED = frozenset(("anyone", "link", "local", "node", "page", "password"))
"""Names of callers without a token."""

log = logging.getLogger(__name__)


class _Stored(Frozen):
    id: str
    name: str
    role: Role
    projects: str
    created: int
    expires: int | None
    seen: int | None

    def info(self) -> TokenInfo:
        return TokenInfo(
            id=self.id,
            name=self.name,
            role=self.role,
            projects=tuple(json.loads(self.projects)),
            created=self.created,
            expires=self.expires,
            seen=self.seen,
        )


class AccessTokens:
    def __init__(self, database: Database, ids: Ids, clock: Clock) -> None:
        self._database = database
        self._ids = ids
        self._clock = clock

    async def create(self, name: str, role: Role, *, seconds: int | None, projects: Sequence[str]) -> NewToken:
        """`projects` are canonical directories. Raises InvalidRequest and Conflict."""
        if name.lower() in RESERVED:
            names = ", ".join(sorted(RESERVED))
            raise InvalidRequest(f"{name!r} is the name of callers without a token ({names})", field="name")
        if projects and role == "admin":
            raise InvalidRequest("An admin can do everything, and cannot be limited to projects", field="projects")
        now = self._clock.now()
        made = TokenInfo(
            id=self._ids.of("tok"),
            name=name,
            role=role,
            projects=tuple(projects),
            created=now,
            expires=now + seconds * 1000 if seconds is not None else None,
        )
        secret = TOKEN_PREFIX + new_token()
        row: dict[str, Value] = {
            "id": made.id,
            "name": name,
            "hash": hashed(secret),
            "role": role,
            "projects": json.dumps(made.projects),
            "now": now,
            "expires": made.expires,
        }
        taken, full = partial(_taken, name), partial(Conflict, f"There are {MOST} tokens. Revoke some first.")
        statements = (
            Statement("access_token.expire", {"name": name, "now": now}),
            Statement("access_token.named", {"name": name}, found=False, error=taken),
            Statement("access_token.insert", {**row, "most": MOST}, changes=1, error=full),
        )
        await self._database.submit(Unit(AGGREGATE, local=statements))
        return NewToken(token=secret, info=made)

    async def verified(self, token: str) -> TokenInfo | None:
        """The token with this secret, unless it was revoked or has expired."""
        found = await self._one("access_token.find", {"hash": hashed(token)})
        if found is not None:
            self._see(found)
        return found

    async def get(self, id: str) -> TokenInfo | None:
        """The token with this id, unless it was revoked or has expired."""
        return await self._one("access_token.get", {"id": id})

    async def all(self) -> list[TokenInfo]:
        """By name, expired ones too."""
        return [row.info() for row in await self._database.fetch("access_token.list", {}, into=_Stored)]

    async def valid(self) -> list[TokenInfo]:
        """Those that can be used."""
        now = self._clock.now()
        return [token for token in await self.all() if token.expires is None or token.expires > now]

    async def revoke(self, name: str) -> TokenInfo:
        """Raises NotFound."""
        found = await self._database.fetch("access_token.by_name", {"name": name}, into=_Stored)
        if not found:
            raise NotFound(f"There is no token {name!r}. `holdfast token list` lists them.")
        revoked = found[0].info()
        removed = (
            Statement("access_token.remove", {"id": revoked.id}),
            Statement("page_sign_in.remove_made_with", {"credential": credential_of_token(revoked.id)}),
        )
        await self._database.submit(Unit(AGGREGATE, local=removed))
        return revoked

    async def _one(self, query: str, key: dict[str, Value]) -> TokenInfo | None:
        rows = await self._database.fetch(query, {**key, "now": self._clock.now()}, into=_Stored)
        return rows[0].info() if rows else None

    def _see(self, found: TokenInfo) -> None:
        """Record the use without waiting for it: a request does not fail because this cannot be written."""
        now = self._clock.now()
        if now - (found.seen or 0) >= SEEN_EVERY:
            seen = Statement("access_token.see", {"id": found.id, "now": now})
            self._database.submit(Unit(AGGREGATE, local=(seen,))).add_done_callback(_note_failure)


def _taken(name: str) -> Conflict:
    return Conflict(f"There is a token {name!r} already. `holdfast token revoke {name}` removes it.", resource="token")


def _note_failure(written: asyncio.Future[Committed]) -> None:
    if not written.cancelled() and isinstance(error := written.exception(), StorageError):
        log.warning("the use of a token was not recorded: %s", error)
