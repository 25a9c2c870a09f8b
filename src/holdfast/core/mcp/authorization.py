"""OAuth of one remote MCP server: the connection method of its integration, and the authorizer of its requests."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from holdfast.core.credential.errors import AuthorizationFailed
from holdfast.core.credential.integration import Authorization
from holdfast.core.mcp.server_addresses import ServerAddresses
from holdfast.core.mcp.stored_credential import StoredOAuthCredential, as_credential, as_value
from holdfast.mcp.oauth.authorizer import OAuthAuthorizer
from holdfast.mcp.oauth.begin import begin_sign_in
from holdfast.mcp.oauth.challenge import read_challenge
from holdfast.mcp.oauth.errors import OAuthError
from holdfast.mcp.oauth.requests import OAuthRequests
from holdfast.mcp.oauth.scope import parse_scope
from holdfast.mcp.oauth.settings import ClientIdentity, ServerSettings
from holdfast.mcp.oauth.tokens import renew

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.clock import Clock
    from holdfast.core.config.schema import RemoteServer
    from holdfast.core.credential.store import CredentialStore, OAuthValue
    from holdfast.mcp.oauth.credential import OAuthCredential
    from holdfast.mcp.oauth.sign_in import SignIn

IDENTITY = ClientIdentity("Holdfast")
LOOK_SECONDS = 1.0
"""How often the file of credentials is looked at while someone waits for a sign-in in another process."""

INSTRUCTIONS = (
    "Open the address in a browser and sign in. If the browser is on another machine, finish the sign-in with the "
    "address that it was sent to afterwards."
)
PASTED = (
    "Open the address in a browser and sign in. The browser is then sent to an address that it cannot open; finish the "
    "sign-in with that address."
)


class ServerAuthorization:
    def __init__(self, integration_id: str, server: RemoteServer, credentials: CredentialStore, clock: Clock) -> None:
        self.integration_id = integration_id
        self._settings = server_settings(server)
        self._credentials = credentials
        self._clock = clock
        self._requests = OAuthRequests(ServerAddresses(server.url))
        self._store = StoredOAuthCredential(credentials, integration_id)
        self.authorizer = OAuthAuthorizer(self._settings, self._store, self._requests, clock.now)

    async def close(self) -> None:
        await self.authorizer.close()
        await self._requests.close()

    async def begin(self, inputs: Mapping[str, str]) -> Authorization:
        """Raises AuthorizationFailed."""
        refused = self.authorizer.challenge
        try:
            sign_in = await begin_sign_in(
                self._settings,
                IDENTITY,
                self._requests,
                self._clock.now,
                known=self.authorizer.known(),
                challenge=read_challenge(refused.headers) if refused is not None else None,
            )
        except OAuthError as error:
            raise AuthorizationFailed(str(error)) from error
        return _Attempt(self.integration_id, sign_in).authorization()

    async def refresh(self, value: OAuthValue) -> OAuthValue:
        """Raises OAuthError. The caller holds the lock of the credential and stores the result."""
        credential = as_credential(value)
        if credential is None or credential.server_url != self._settings.url or not credential.refresh:
            return value
        renewed = await renew(
            self._requests, credential, self._clock.now(), configured_secret=self._settings.client_secret
        )
        return as_value(self.integration_id, renewed)

    async def arrival(self, refused: str | None) -> OAuthCredential:
        """Wait for a credential with another token than the refused one: from a sign-in in this process, or in another
        one. It may have arrived before."""
        changed = asyncio.Event()
        stop = self._credentials.on_change(lambda id: changed.set() if id == self.integration_id else None)
        try:
            while True:
                changed.clear()
                found = self.authorizer.credential()
                if found is not None and found.access != refused:
                    return found
                try:
                    async with asyncio.timeout(LOOK_SECONDS):
                        await changed.wait()
                except TimeoutError:
                    pass
        finally:
            stop()


class _Attempt:
    """One sign-in, as the integrations see it."""

    def __init__(self, integration_id: str, sign_in: SignIn) -> None:
        self._integration_id = integration_id
        self._sign_in = sign_in

    def authorization(self) -> Authorization:
        listens = self._sign_in.listens
        return Authorization(
            url=self._sign_in.url,
            instructions=INSTRUCTIONS if listens else PASTED,
            mode="auto" if listens else "code",
            finish=self._finish,
            close=self._sign_in.close,
            accept=self._accept if listens else None,
        )

    async def _finish(self, code: str | None) -> OAuthValue:
        if code is not None:
            self._accept(code)
        try:
            return as_value(self._integration_id, await self._sign_in.finish())
        except OAuthError as error:
            raise AuthorizationFailed(str(error)) from error

    def _accept(self, code: str) -> None:
        try:
            self._sign_in.paste(code)
        except OAuthError as error:
            raise AuthorizationFailed(str(error)) from error


def server_settings(server: RemoteServer) -> ServerSettings:
    oauth = server.oauth
    if oauth is None or isinstance(oauth, bool):
        return ServerSettings(server.url, server.headers or {})
    return ServerSettings(
        server.url,
        server.headers or {},
        client_id=oauth.client_id,
        client_secret=oauth.client_secret,
        issuer=oauth.issuer,
        scopes=parse_scope(oauth.scope) if oauth.scope is not None else None,
        callback_port=oauth.callback_port,
        redirect_uri=oauth.redirect_uri,
    )
