"""An MCP server with its own authorization server, both of the official package. Prints its port; ends with its stdin.

Every person agrees to everything. Its tools end the token that they were called with, or demand a scope."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import sys
import time
from typing import Any

import uvicorn
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl


class Provider:
    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        assert client_info.client_id is not None
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        code = AuthorizationCode(
            code=secrets.token_urlsafe(32),
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id or "",
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._issue(client, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        del self.refresh[refresh_token.token]
        return self._issue(client, scopes, refresh_token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def exchange_identity_assertion(self, client: OAuthClientInformationFull, params: Any) -> OAuthToken:
        raise NotImplementedError

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.access.pop(token.token, None)

    def _issue(self, client: OAuthClientInformationFull, scopes: list[str], resource: str | None) -> OAuthToken:
        id = client.client_id or ""
        access, refresh = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        self.access[access] = AccessToken(token=access, client_id=id, scopes=scopes, resource=resource)
        self.refresh[refresh] = RefreshToken(token=refresh, client_id=id, scopes=scopes, resource=resource)
        return OAuthToken(access_token=access, refresh_token=refresh, expires_in=3600, scope=" ".join(scopes))


def make(port: int) -> MCPServer:
    own = f"http://127.0.0.1:{port}"
    provider = Provider()
    settings = AuthSettings(
        issuer_url=AnyHttpUrl(own),
        resource_server_url=AnyHttpUrl(f"{own}/mcp"),
        client_registration_options=ClientRegistrationOptions(enabled=True, valid_scopes=["use"]),
        required_scopes=["use"],
        validate_token_resource=True,
    )
    server: MCPServer = MCPServer("official", auth_server_provider=provider, auth=settings, log_level="ERROR")

    @server.tool()
    def end_token() -> str:
        """The token of this call is not accepted any more."""
        token = get_access_token()
        assert token is not None
        del provider.access[token.token]
        return "ended"

    @server.tool()
    def end_all() -> str:
        """No token is accepted any more, and none is renewed."""
        provider.access.clear()
        provider.refresh.clear()
        return "ended"

    return server


async def serve() -> None:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    app: Any = make(port).streamable_http_app()
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=0))
    running = asyncio.create_task(server.serve([listening]))
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.005)
    print(port, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    running.cancel()
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(serve())
