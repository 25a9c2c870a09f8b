"""Signs browsers in and out, and tells who calls.

Invariants
- A page is admitted by the cookie and the key of one sign-in together. A cookie goes to every port of a host, so alone
  it admits to nothing; nor does the key.
- A sign-in is good with the password that it was made with. A password that a server generated for one start counts as
  the same as that of the next start: nobody chose to change it.
- A sign-in that was made with a token has its role, and is good as long as the token is.
- A code signs in once, whatever failed before: it cannot be guessed, so that failures do not count."""

from __future__ import annotations

import asyncio
import hmac
from hashlib import scrypt
from typing import TYPE_CHECKING, Annotated

import msgspec

from holdfast.core.database.errors import StorageError
from holdfast.core.page_access.sign_ins import credential_of_token, token_of
from holdfast.schema.access import TOKEN_PREFIX
from holdfast.schema.codec import encode
from holdfast.schema.exceptions import Forbidden, InvalidRequest, Unauthorized
from holdfast.schema.record import Record
from holdfast.server.auth import KEY, WRONG_CREDENTIALS
from holdfast.server.types import HttpReply
from holdfast.server.web.assets import NOT_KEPT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.core.access.tokens import AccessTokens
    from holdfast.core.page_access.page_access import PageAccess
    from holdfast.core.page_access.sign_ins import VerifiedSignIn
    from holdfast.server.auth import Access, Credentials
    from holdfast.server.head import Head
    from holdfast.server.stream_ends import StreamEnds
    from holdfast.server.throttle import Throttle
    from holdfast.server.types import Scope

COOKIE = "holdfast_"
COOKIE_SECONDS = 400 * 24 * 3600
SAME_NAME = 5
"""Cookies of one name that are looked at: other servers on the host can add some."""
GENERATED = "generated"
WRONG_PASSWORD = "This is not the password of the server."
WRONG_CODE = "This code was used before or has expired. `holdfast web` makes a new one."
NO_PASSWORD = "This server asks for no password."
LIMITED = "The token {name} is limited to projects, and the page shows all of them. Use it with other clients."

Secret = Annotated[str, msgspec.Meta(max_length=1_000)]


class SignInPayload(Record):
    """One of both is given."""

    password: Secret | None = None
    """That of the server, or a token."""
    code: Secret | None = None


class SignedIn(Record):
    id: str
    key: str
    """The half of the sign-in that the page keeps."""


class SignInInfo(Record):
    id: str
    created: int
    seen: int
    agent: str
    current: bool
    """Whether it is the caller's."""
    token: str | None = None
    """The name of the token that it was made with."""


class SignIns:
    def __init__(
        self, page_access: PageAccess, access: Access, tokens: Callable[[], AccessTokens], throttle: Throttle
    ) -> None:
        self._stored = page_access
        self._access = access
        self._tokens = tokens
        self._throttle = throttle
        self._credential: str | None = None

    async def verified(self, head: Head) -> VerifiedSignIn:
        """The sign-in of the caller. Whether its token is still good is not looked at. Raises Unauthorized."""
        if (key := head.headers.get(KEY)) is not None:
            for cookie in await self._cookies(head.headers):
                found = await self._stored.sign_ins.verified(cookie, key)
                if found is not None and await self._is_ours(found):
                    return found
        raise Unauthorized(WRONG_CREDENTIALS)

    async def seems_signed_in(self, headers: Mapping[str, str]) -> bool:
        """Whether the caller has the cookie of a sign-in, which is all that a browser sends for a document. While the
        database cannot be read, any cookie of ours counts: the page then shows what is wrong."""
        if self._access.credentials is None or COOKIE not in headers.get("cookie", ""):
            return False
        try:
            found = [await self._stored.sign_ins.with_cookie(cookie) for cookie in await self._cookies(headers)]
            return any([each is not None and await self._is_good(each) for each in found])
        except StorageError:
            return True

    async def sign_in(self, scope: Scope, headers: Mapping[str, str], payload: SignInPayload) -> HttpReply:
        """Raises Unauthorized and TooManyAttempts."""
        credentials = self._access.credentials
        if credentials is None:
            raise InvalidRequest(NO_PASSWORD)
        made_with = await self._checked(scope, credentials, payload)
        made = await self._stored.sign_ins.make(made_with, headers.get("user-agent", ""))
        secure = scope.get("scheme") == "https" or headers.get("origin", "").startswith("https://")
        cookie = await self._set_cookie(made.cookie, secure=secure)
        return HttpReply(200, encode(SignedIn(id=made.id, key=made.key)), headers=[cookie, *NOT_KEPT])

    async def sign_out(self, sign_in: str | None, ends: StreamEnds) -> HttpReply:
        if sign_in is not None:
            await self.revoke(sign_in, ends)
        return HttpReply(204, b"", headers=[await self._set_cookie("", secure=False)])

    async def revoke(self, sign_in: str, ends: StreamEnds) -> None:
        """Unknown ids are accepted."""
        await self._stored.sign_ins.remove(sign_in)
        ends.end(sign_in)

    async def list(self, current: str | None) -> list[SignInInfo]:
        if self._access.credentials is None:
            return []
        return [
            SignInInfo(
                id=each.id,
                created=each.created,
                seen=each.seen,
                agent=each.agent,
                current=each.id == current,
                token=each.token,
            )
            for each in await self._stored.sign_ins.all(await self._made_with())
        ]

    async def valid(self) -> set[str]:
        """The ids of all that there are."""
        return {each.id for each in await self.list(None)}

    async def _checked(self, scope: Scope, credentials: Credentials, payload: SignInPayload) -> str:
        """With what the sign-in is made. Raises Unauthorized, TooManyAttempts, and Forbidden for a limited token."""
        if payload.code is not None:
            if not await self._stored.codes.use(payload.code):
                raise Unauthorized(WRONG_CODE)
            return await self._made_with()
        password = payload.password or ""
        async with self._throttle.attempt(scope) as failed:
            token = await self._tokens().verified(password) if password.startswith(TOKEN_PREFIX) else None
            if token is not None:
                if token.projects:
                    raise Forbidden(LIMITED.format(name=token.name))
                return credential_of_token(token.id)
            if not hmac.compare_digest(password.encode(errors="replace"), credentials.password.encode()):
                failed()
                raise Unauthorized(WRONG_PASSWORD)
        return await self._made_with()

    async def _is_ours(self, found: VerifiedSignIn) -> bool:
        return token_of(found.credential) is not None or found.credential == await self._made_with()

    async def _is_good(self, found: VerifiedSignIn) -> bool:
        token_id = token_of(found.credential)
        return await self._tokens().get(token_id) is not None if token_id is not None else await self._is_ours(found)

    async def _made_with(self) -> str:
        """What tells this server's password from others. A slow hash, because it is stored and people choose passwords
        that can be guessed."""
        credentials = self._access.credentials
        assert credentials is not None
        if credentials.generated:
            return GENERATED
        if self._credential is None:
            secret, salt = f"{credentials.user}:{credentials.password}".encode(), await self._stored.instance()
            made = await asyncio.to_thread(scrypt, secret, salt=salt.encode(), n=2**14, r=8, p=1, dklen=32)
            self._credential = made.hex()
        return self._credential

    async def _set_cookie(self, value: str, *, secure: bool) -> tuple[bytes, bytes]:
        """A browser keeps the cookie for as long as it may: the database knows when the sign-in ends. One without a
        value is removed."""
        age = COOKIE_SECONDS if value else 0
        name = COOKIE + await self._stored.instance()
        text = f"{name}={value}; Max-Age={age}; Path=/; HttpOnly; SameSite=Strict{'; Secure' if secure else ''}"
        return b"set-cookie", text.encode()

    async def _cookies(self, headers: Mapping[str, str]) -> tuple[str, ...]:
        if COOKIE not in headers.get("cookie", ""):
            return ()
        name = COOKIE + await self._stored.instance()
        pairs = (pair.strip().partition("=") for pair in headers["cookie"].split(";"))
        return tuple(value for key, _, value in pairs if key == name)[:SAME_NAME]
