"""Signs browsers in and out, and tells who calls.

Invariants
- A caller is admitted by Basic credentials, or by the cookie and the key of one sign-in together. A cookie goes to
  every port of a host, so alone it admits to nothing; nor does the key.
- A sign-in is good with the password that it was made with. A password that a server generated for one start counts as
  the same as that of the next start: nobody chose to change it.
- A code signs in once, whatever failed before: it cannot be guessed, so that failures do not count."""

from __future__ import annotations

import asyncio
import hmac
from hashlib import scrypt
from typing import TYPE_CHECKING, Annotated

import msgspec

from holdfast.core.database.errors import StorageError
from holdfast.schema.codec import encode
from holdfast.schema.exceptions import InvalidRequest, Unauthorized
from holdfast.schema.record import Record
from holdfast.server.auth import KEY, WRONG_CREDENTIALS
from holdfast.server.types import HttpReply
from holdfast.server.web.assets import NOT_KEPT
from holdfast.server.web.throttle import Throttle

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.page_access.page_access import PageAccess
    from holdfast.server.auth import Access, Credentials
    from holdfast.server.head import Head
    from holdfast.server.types import Scope
    from holdfast.server.web.stream_ends import StreamEnds

COOKIE = "holdfast_"
COOKIE_SECONDS = 400 * 24 * 3600
SAME_NAME = 5
"""Cookies of one name that are looked at: other servers on the host can add some."""
GENERATED = "generated"
WRONG_PASSWORD = "This is not the password of the server."
WRONG_CODE = "This code was used before or has expired. `holdfast web` makes a new one."
NO_PASSWORD = "This server asks for no password."

Secret = Annotated[str, msgspec.Meta(max_length=1_000)]


class SignInPayload(Record):
    """One of both is given."""

    password: Secret | None = None
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


class SignIns:
    def __init__(self, page_access: PageAccess, access: Access) -> None:
        self._stored = page_access
        self._access = access
        self._throttle = Throttle()
        self._credential: str | None = None

    async def caller(self, head: Head) -> str | None:
        """The id of the caller's sign-in, or None for one with other credentials or where none are needed. Raises
        Unauthorized."""
        if self._access.authorizes(head.query, head.headers):
            return None
        if (key := head.headers.get(KEY)) is not None:
            for cookie in await self._cookies(head.headers):
                found = await self._stored.sign_ins.verified(await self._made_with(), cookie, key)
                if found is not None:
                    return found
        raise Unauthorized(WRONG_CREDENTIALS)

    async def seems_signed_in(self, headers: Mapping[str, str]) -> bool:
        """Whether the caller has the cookie of a sign-in, which is all that a browser sends for a document. While the
        database cannot be read, any cookie of ours counts: the page then shows what is wrong."""
        if self._access.credentials is None or COOKIE not in headers.get("cookie", ""):
            return False
        try:
            credential, cookies = await self._made_with(), await self._cookies(headers)
            return any([await self._stored.sign_ins.has_cookie(credential, cookie) for cookie in cookies])
        except StorageError:
            return True

    async def sign_in(self, scope: Scope, headers: Mapping[str, str], payload: SignInPayload) -> HttpReply:
        """Raises Unauthorized and TooManyAttempts."""
        credentials = self._access.credentials
        if credentials is None:
            raise InvalidRequest(NO_PASSWORD)
        if payload.code is not None:
            if not await self._stored.codes.use(payload.code):
                raise Unauthorized(WRONG_CODE)
        else:
            await self._check_password(scope, credentials, payload.password or "")
        made = await self._stored.sign_ins.make(await self._made_with(), headers.get("user-agent", ""))
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
        ends.sign_out(sign_in)

    async def list(self, current: str | None) -> list[SignInInfo]:
        if self._access.credentials is None:
            return []
        return [
            SignInInfo(id=each.id, created=each.created, seen=each.seen, agent=each.agent, current=each.id == current)
            for each in await self._stored.sign_ins.all(await self._made_with())
        ]

    async def valid(self) -> set[str]:
        """The ids of all that there are."""
        return {each.id for each in await self.list(None)}

    async def _check_password(self, scope: Scope, credentials: Credentials, password: str) -> None:
        async with self._throttle.attempt(scope) as failed:
            if not hmac.compare_digest(password.encode(errors="replace"), credentials.password.encode()):
                failed()
                raise Unauthorized(WRONG_PASSWORD)

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
