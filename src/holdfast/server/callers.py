"""Finds out who calls: the owner with the password, a token, or a page that is signed in.

Invariants
- A wrong credential is never ignored: whoever presents a token is that token or nobody, also where no password is
  needed.
- Tokens and sign-ins are looked up for each request.
- A password that this server has not admitted before counts as an attempt of its address (`server/throttle.py`). Tokens
  and keys of sign-ins do not: they are random and cannot be guessed."""

from __future__ import annotations

import hmac
import os
from collections import OrderedDict
from typing import TYPE_CHECKING

from holdfast.schema.access import TOKEN_PREFIX
from holdfast.schema.exceptions import Forbidden, Unauthorized
from holdfast.server.auth import KEY, WRONG_CREDENTIALS, given_secret, presented_credential
from holdfast.server.caller import Caller
from holdfast.server.extensions import is_local

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.access.tokens import AccessTokens
    from holdfast.schema.access import Role, TokenInfo
    from holdfast.server.auth import Access
    from holdfast.server.head import Head
    from holdfast.server.throttle import Throttle
    from holdfast.server.types import Scope
    from holdfast.server.web.sign_ins import SignIns

ADMITTED = 64
"""Spellings of the password that were admitted and are remembered, by their digest."""
NAMED = 5
"""Tokens that a refusal names."""
NODE = Caller("node")
WRONG_TOKEN = "This token is unknown, was revoked or has expired. `holdfast token create` makes a new one."


class Callers:
    def __init__(
        self,
        access: Access,
        tokens: Callable[[], AccessTokens],
        sign_ins: Callable[[], SignIns] | None,
        throttle: Throttle,
    ) -> None:
        """`tokens` and `sign_ins` are made at the first use. Without `sign_ins` there is no page. `throttle` is that of
        all doors which take the password."""
        self._access = access
        self._throttle = throttle
        self._admitted: OrderedDict[bytes, None] = OrderedDict()
        self._digest_key = os.urandom(32)
        self._tokens = tokens
        self._sign_ins = sign_ins

    async def identify(self, scope: Scope, head: Head) -> Caller:
        """Raises Unauthorized and TooManyAttempts."""
        access = self._access
        if access.credentials is not None and await self.has_password(scope, head):
            return Caller("local" if _is_near(scope) else "password")
        if (secret := given_secret(head.query, head.headers)) is not None and secret.startswith(TOKEN_PREFIX):
            return await self._with_token(secret)
        if access.credentials is None:
            return Caller("local" if _is_near(scope) else "anyone")
        if self._sign_ins is not None and KEY in head.headers:
            return await self._signed_in(head)
        raise Unauthorized(WRONG_CREDENTIALS)

    async def has_password(self, scope: Scope, head: Head) -> bool:
        """Whether the caller presents the password of the server. Raises TooManyAttempts before it is looked at."""
        credentials = self._access.credentials
        presented = presented_credential(head.query, head.headers)
        if credentials is None or presented is None:
            return False
        digest = hmac.digest(self._digest_key, presented.encode(errors="replace"), "sha256")
        if digest in self._admitted:
            return credentials.admits(head.query, head.headers)
        secret = given_secret(head.query, head.headers)
        if secret is None or (secret.startswith(TOKEN_PREFIX) and not credentials.password.startswith(TOKEN_PREFIX)):
            return False
        async with self._throttle.attempt(scope) as failed:
            if not credentials.admits(head.query, head.headers):
                failed()
                return False
        self._admitted[digest] = None
        if len(self._admitted) > ADMITTED:
            self._admitted.popitem(last=False)
        return True

    async def check_role(self, caller: Caller, role: Role) -> None:
        """Raises Forbidden with the role that is needed, and with who has it."""
        if caller.has(role):
            return
        able = [token.name for token in await self._tokens().valid() if Caller(token.name, token.role).has(role)]
        others = [*able[:NAMED], *(["others"] if len(able) > NAMED else [])]
        owner = "whoever knows the server's password" if self._access.credentials is not None else "the owner"
        holders = ", ".join([*others, owner])
        raise Forbidden(
            f"This needs the role {role}, and {caller.name} has {caller.role}. Who has it: {holders}.", role=role
        )

    async def token(self, secret: str) -> TokenInfo:
        """Raises Unauthorized."""
        found = await self._tokens().verified(secret)
        if found is None:
            raise Unauthorized(WRONG_TOKEN)
        return found

    async def valid(self) -> set[str]:
        """The ids of the tokens and sign-ins that can be used."""
        tokens = {token.id for token in await self._tokens().valid()}
        return tokens | (await self._sign_ins().valid() if self._sign_ins is not None else set())

    async def _with_token(self, secret: str) -> Caller:
        found = await self.token(secret)
        return Caller(found.name, found.role, ends=found.id, token=found.id, projects=found.projects)

    async def _signed_in(self, head: Head) -> Caller:
        from holdfast.core.page_access.sign_ins import token_of  # of the page, which not every server has

        assert self._sign_ins is not None
        verified = await self._sign_ins().verified(head)
        if (token_id := token_of(verified.credential)) is None:
            return Caller("page", ends=verified.id, sign_in=verified.id)
        token = await self._tokens().get(token_id)
        if token is None:
            raise Unauthorized(WRONG_TOKEN)
        return Caller(
            token.name,
            token.role,
            ends=verified.id,
            sign_in=verified.id,
            token=token.id,
            projects=token.projects,
        )


def _is_near(scope: Scope) -> bool:
    """Whether the caller is a program in this process, or one of this user on the private socket."""
    return is_local(scope) or not scope.get("client")
