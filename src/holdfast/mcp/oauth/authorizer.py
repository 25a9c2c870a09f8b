"""Authorizes the requests to one MCP server and decides what follows from its refusals.

Invariants
- A credential of another server is never used.
- Of all requests, Locations and processes one renews a credential at a time. The new one is stored before it is used,
  and cancellation cannot come between.
- A token that the server refuses right after it was issued is not renewed again: the credential is removed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NoReturn, Protocol

from holdfast.mcp.errors import Challenge, McpError, NeedsAuthorization
from holdfast.mcp.oauth.challenge import read_challenge
from holdfast.mcp.oauth.errors import Forbidden, TokenRefused, oauth_failure
from holdfast.mcp.oauth.scope import Scopes, union
from holdfast.mcp.oauth.tokens import FINAL, renew

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractAsyncContextManager

    from holdfast.mcp.oauth.credential import OAuthCredential
    from holdfast.mcp.oauth.requests import OAuthRequests
    from holdfast.mcp.oauth.settings import ServerSettings

FRESH_MS = 60 * 1000
"""A token that is refused within this time after its issue will not be accepted later."""
RETRY_MS = 30 * 1000
"""After a failed renewal of a token that is still valid."""


class OAuthCredentialStore(Protocol):
    """Keeps the credential of one server."""

    def load(self) -> OAuthCredential | None: ...

    async def replace(self, old: OAuthCredential, new: OAuthCredential) -> None:
        """Store the new one, unless the old one was removed or replaced: a person may sign in or out at any time."""

    async def remove(self, credential: OAuthCredential) -> None:
        """Remove the tokens, unless others are stored by now. Of a configured client everything else stays."""

    def exclusive(self) -> AbstractAsyncContextManager[None]:
        """Held by one renewal at a time, of all processes."""


class OAuthAuthorizer:
    def __init__(
        self, settings: ServerSettings, store: OAuthCredentialStore, requests: OAuthRequests, now: Callable[[], int]
    ) -> None:
        self._settings = settings
        self._store = store
        self._requests = requests
        self._now = now
        self._renewing: asyncio.Task[OAuthCredential | None] | None = None
        self._retry_at = 0
        self.challenge: Challenge | None = None
        """The last one that a person has to answer."""

    async def close(self) -> None:
        if self._renewing is not None:
            await asyncio.wait((self._renewing,))  # a rotated token that is not stored is lost

    def credential(self) -> OAuthCredential | None:
        """The stored credential, if it is of this server."""
        found = self.known()
        return found if found is not None and found.access else None

    def known(self) -> OAuthCredential | None:
        """The same, also if its tokens were refused."""
        found = self._store.load()
        return found if found is not None and found.server_url == self._settings.url else None

    async def authorize(self, headers: dict[str, str]) -> None:
        """Add the token, renewed if it expires soon. Without a credential the request is sent as it is."""
        credential = self.credential()
        if credential is not None and credential.expires_soon(self._now()):
            credential = await self._current(credential)
        if credential is not None:
            headers["authorization"] = f"Bearer {credential.access}"

    async def on_challenge(self, challenge: Challenge, sent: Mapping[str, str]) -> bool:
        """True if the request is to be sent once more, authorized anew. Otherwise raises NeedsAuthorization, or another
        OAuthError."""
        asked = read_challenge(challenge.headers)
        if challenge.status == 403 and not asked.asks_for_scope:
            reason = oauth_failure(asked.error, asked.description)
            raise Forbidden(f"The MCP server refuses the request (status 403): {reason}")
        credential = self.credential()
        token = sent.get("authorization", "").removeprefix("Bearer ")
        if credential is not None and credential.access != token:
            return True  # another request or process has renewed it, or a person has signed in
        self.challenge = challenge
        if credential is None:
            raise self._needed("nobody has signed in", token)
        if challenge.status == 403:
            await self._step_up(credential, asked.scopes or ())
        if not credential.refresh or self._now() - credential.issued < FRESH_MS:
            await self._store.remove(credential)
            raise self._needed("the server does not accept the token any more", token)
        await self._renewed_or_needed(credential)
        return True

    async def _step_up(self, credential: OAuthCredential, asked: Scopes) -> NoReturn:
        held = credential.requested if credential.granted is None else credential.granted
        if set(asked) <= set(held):
            raise Forbidden("The MCP server refuses the token although it has every scope that the server names")
        async with self._store.exclusive():  # a credential that is renewed meanwhile is not overwritten
            if (latest := self.credential()) is not None:
                await self._store.replace(latest, latest.replace(wanted=union(latest.wanted, asked)))
        raise self._needed("the request needs more rights than were granted", credential.access)

    async def _current(self, credential: OAuthCredential) -> OAuthCredential:
        """A credential that has not expired. An old one is used to its end if it cannot be renewed now."""
        usable = credential.expires > self._now()
        if not credential.refresh:
            if usable:
                return credential
            await self._store.remove(credential)
            raise self._needed("the token has expired", credential.access)
        if not usable:
            return await self._renewed_or_needed(credential)
        if self._now() < self._retry_at:
            return credential
        try:
            return await self._renewed_or_needed(credential)
        except McpError:
            if self.credential() is None:
                raise
            self._retry_at = self._now() + RETRY_MS
            return credential

    async def _renewed_or_needed(self, credential: OAuthCredential) -> OAuthCredential:
        """Raises NeedsAuthorization, or another OAuthError if a later attempt may succeed."""
        try:
            renewed = await self._renewed(credential)
        except TokenRefused as error:
            raise self._needed(str(error), credential.access) from error
        if renewed is None:
            raise self._needed("the token cannot be renewed", credential.access)
        return renewed

    async def _renewed(self, credential: OAuthCredential) -> OAuthCredential | None:
        """The renewed credential; None if it cannot be renewed, and was removed. Raises OAuthError."""
        if self._renewing is None:
            self._renewing = asyncio.get_running_loop().create_task(
                self._renew(credential), name="renewal of a credential"
            )
            self._renewing.add_done_callback(self._ended)
        return await asyncio.shield(self._renewing)

    async def _renew(self, credential: OAuthCredential) -> OAuthCredential | None:
        async with self._store.exclusive():
            latest = self.credential()
            if latest is None or latest.access != credential.access:
                return latest
            try:
                renewed = await renew(
                    self._requests, latest, self._now(), configured_secret=self._settings.client_secret
                )
            except TokenRefused as error:
                if error.code not in FINAL:
                    raise
                await self._store.remove(latest)
                return None
            await self._store.replace(latest, renewed)
            return renewed

    def _ended(self, task: asyncio.Task[OAuthCredential | None]) -> None:
        self._renewing = None
        if not task.cancelled():
            task.exception()  # marks it as retrieved

    def _needed(self, reason: str, refused: str) -> NeedsAuthorization:
        return NeedsAuthorization(self.challenge or Challenge(self._settings.url, 401, {}), reason, refused or None)
