"""Authorizes the requests to one MCP server and decides what follows from its refusals.

Invariants
- A grant of another server is never used.
- Of all requests, Locations and processes one renews a grant at a time. The new grant is stored before it is used, and
  cancellation cannot come between.
- A token that the server refuses right after it was issued is not renewed again: the grant is removed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NoReturn, Protocol

from holdfast.mcp.errors import Challenge, McpError, NeedsAuthorization
from holdfast.mcp.oauth.challenge import read_challenge
from holdfast.mcp.oauth.errors import ScopeRefused, TokenRefused, oauth_failure
from holdfast.mcp.oauth.scope import Scopes, union
from holdfast.mcp.oauth.tokens import FINAL, renew

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractAsyncContextManager

    from holdfast.mcp.oauth.grant import Grant
    from holdfast.mcp.oauth.requests import OAuthRequests
    from holdfast.mcp.oauth.settings import ServerSettings

FRESH_MS = 60 * 1000
"""A token that is refused within this time after its issue will not be accepted later."""
RETRY_MS = 30 * 1000
"""After a failed renewal of a token that is still valid."""


class GrantStore(Protocol):
    """Keeps the grant of one server."""

    def load(self) -> Grant | None: ...

    async def save(self, grant: Grant) -> None:
        """Replace the stored grant. Does nothing if there is none any more."""

    async def remove(self, grant: Grant) -> None:
        """Remove this grant, unless another one is stored by now."""

    def exclusive(self) -> AbstractAsyncContextManager[None]:
        """Held by one renewal at a time, of all processes."""


class OAuthAuthorizer:
    def __init__(
        self, settings: ServerSettings, store: GrantStore, requests: OAuthRequests, now: Callable[[], int]
    ) -> None:
        self._settings = settings
        self._store = store
        self._requests = requests
        self._now = now
        self._renewing: asyncio.Task[Grant | None] | None = None
        self._retry_at = 0
        self.challenge: Challenge | None = None
        """The last one that a person has to answer."""

    async def close(self) -> None:
        if self._renewing is not None:
            await asyncio.wait((self._renewing,))  # a rotated token that is not stored is lost

    def grant(self) -> Grant | None:
        """The stored grant, if it is of this server."""
        found = self._store.load()
        return found if found is not None and found.server_url == self._settings.url else None

    async def authorize(self, headers: dict[str, str]) -> None:
        """Add the token, renewed if it expires soon. Without a grant the request is sent as it is."""
        grant = self.grant()
        if grant is not None and grant.expires_soon(self._now()):
            grant = await self._current(grant)
        if grant is not None:
            headers["authorization"] = f"Bearer {grant.access}"

    async def on_challenge(self, challenge: Challenge, sent: Mapping[str, str]) -> bool:
        """True if the request is to be sent once more, authorized anew. Otherwise raises NeedsAuthorization, or another
        OAuthError."""
        asked = read_challenge(challenge.headers)
        if challenge.status == 403 and not asked.asks_for_scope:
            reason = oauth_failure(asked.error, asked.description)
            raise ScopeRefused(f"The MCP server refuses the request (status 403): {reason}")
        grant = self.grant()
        token = sent.get("authorization", "").removeprefix("Bearer ")
        if grant is not None and grant.access != token:
            return True  # another request or process has renewed it, or a person has signed in
        self.challenge = challenge
        if grant is None:
            raise self._needed("nobody has signed in")
        if challenge.status == 403:
            await self._step_up(grant, asked.scopes or ())
        if not grant.refresh or self._now() - grant.issued < FRESH_MS:
            await self._store.remove(grant)
            raise self._needed("the server does not accept the token any more")
        await self._renewed_or_needed(grant)
        return True

    async def _step_up(self, grant: Grant, asked: Scopes) -> NoReturn:
        held = grant.requested if grant.granted is None else grant.granted
        if set(asked) <= set(held):
            raise ScopeRefused("The MCP server refuses the token although it has every scope that the server names")
        async with self._store.exclusive():  # a grant that is renewed meanwhile is not overwritten
            if (latest := self.grant()) is not None:
                await self._store.save(latest.replace(wanted=union(latest.wanted, asked)))
        raise self._needed("the request needs more rights than were granted")

    async def _current(self, grant: Grant) -> Grant:
        """A grant that has not expired. An old one is used to its end if it cannot be renewed now."""
        usable = grant.expires > self._now()
        if not grant.refresh:
            if usable:
                return grant
            await self._store.remove(grant)
            raise self._needed("the token has expired")
        if not usable:
            return await self._renewed_or_needed(grant)
        if self._now() < self._retry_at:
            return grant
        try:
            return await self._renewed_or_needed(grant)
        except McpError:
            if self.grant() is None:
                raise
            self._retry_at = self._now() + RETRY_MS
            return grant

    async def _renewed_or_needed(self, grant: Grant) -> Grant:
        """Raises NeedsAuthorization, or another OAuthError if a later attempt may succeed."""
        try:
            renewed = await self._renewed(grant)
        except TokenRefused as error:
            raise self._needed(str(error)) from error
        if renewed is None:
            raise self._needed("the token cannot be renewed")
        return renewed

    async def _renewed(self, grant: Grant) -> Grant | None:
        """The renewed grant; None if it cannot be renewed, and was removed. Raises OAuthError."""
        if self._renewing is None:
            self._renewing = asyncio.get_running_loop().create_task(self._renew(grant), name="renewal of a grant")
            self._renewing.add_done_callback(self._ended)
        return await asyncio.shield(self._renewing)

    async def _renew(self, grant: Grant) -> Grant | None:
        async with self._store.exclusive():
            latest = self.grant()
            if latest is None or latest.access != grant.access:
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
            await self._store.save(renewed)
            return renewed

    def _ended(self, task: asyncio.Task[Grant | None]) -> None:
        self._renewing = None
        if not task.cancelled():
            task.exception()  # marks it as retrieved

    def _needed(self, reason: str) -> NeedsAuthorization:
        return NeedsAuthorization(self.challenge or Challenge(self._settings.url, 401, {}), reason)
