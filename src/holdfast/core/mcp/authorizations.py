"""The OAuth sign-ins of a Location's remote MCP servers. Each server is an integration of its own.

Nothing of OAuth is imported before a sign-in begins or a server is asked for its authorizer."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from holdfast.core.credential.errors import AuthorizationFailed
from holdfast.core.credential.integration import Authorization, IntegrationDraft, OAuth
from holdfast.core.mcp.remote_servers import integration_id
from holdfast.schema.catalog import OAuthMethod

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.core.clock import Clock
    from holdfast.core.config.schema import RemoteServer
    from holdfast.core.credential.store import CredentialStore, OAuthValue
    from holdfast.core.mcp.authorization import ServerAuthorization


class McpAuthorizations:
    def __init__(
        self, servers: Callable[[], Mapping[str, RemoteServer]], credentials: CredentialStore, clock: Clock
    ) -> None:
        """`servers` are those that there are now, by name. When they change, the integrations have to be reloaded."""
        self._servers = servers
        self._credentials = credentials
        self._clock = clock
        self._made: dict[str, tuple[RemoteServer, ServerAuthorization]] = {}
        self._replaced: list[ServerAuthorization] = []
        """Of servers whose configuration has changed. A renewal of theirs may still run."""

    async def close(self) -> None:
        for made in (*self._replaced, *(made for _, made in self._made.values())):
            await made.close()

    def configure(self, draft: IntegrationDraft) -> None:
        """Add an integration for each server."""
        for name, server in self._servers().items():
            if server.oauth is False:
                continue
            id = integration_id(name, server.url)
            method = OAuthMethod(id=id, label="Sign in with a browser")
            draft.add(id, OAuth(method, partial(self._begin, name), partial(self._refresh, name)), name)

    def of(self, name: str) -> ServerAuthorization | None:
        """None if the server is not remote, or uses no OAuth."""
        server = self._servers().get(name)
        if server is None or server.oauth is False:
            return None
        known = self._made.get(name)
        if known is not None:
            if known[0] == server:
                return known[1]
            self._replaced.append(known[1])
        from holdfast.core.mcp.authorization import ServerAuthorization

        made = ServerAuthorization(integration_id(name, server.url), server, self._credentials, self._clock)
        self._made[name] = (server, made)
        return made

    async def _begin(self, name: str, inputs: Mapping[str, str]) -> Authorization:
        found = self.of(name)
        if found is None:
            raise AuthorizationFailed(f"There is no remote MCP server {name} any more")
        return await found.begin(inputs)

    async def _refresh(self, name: str, value: OAuthValue) -> OAuthValue:
        found = self.of(name)
        return await found.refresh(value) if found is not None else value
