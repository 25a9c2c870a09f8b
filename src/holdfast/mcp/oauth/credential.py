"""What a sign-in leaves: tokens, the client they were issued to, and the server they are for."""

from __future__ import annotations

from typing import Literal

import msgspec

from holdfast.mcp.oauth.scope import Scopes

NEVER = 2**53 - 1
"""The expiry of a token whose lifetime is unknown."""
MOST_AHEAD_MS = 5 * 60 * 1000
AHEAD_FRACTION = 10

AuthMethod = Literal["none", "client_secret_basic", "client_secret_post"]


class OAuthClient(msgspec.Struct, frozen=True, omit_defaults=True):
    """How we are known to an authorization server."""

    id: str
    kind: Literal["configured", "document", "registered"]
    auth_method: AuthMethod = "none"
    secret: str = ""
    """Of a registered client. That of a configured one is in the configuration only."""
    secret_expires: int = 0
    """Seconds since the epoch; 0 is never."""
    redirect_uri: str = ""
    """The one that was registered."""

    def __repr__(self) -> str:
        return f"OAuthClient({self.kind})"


class OAuthCredential(msgspec.Struct, frozen=True, omit_defaults=True):
    server_url: str
    """The MCP server for which a person signed in. The tokens are sent to no other."""
    resource: str
    issuer: str
    token_endpoint: str
    client: OAuthClient
    access: str
    """Empty if the tokens were refused: only what is known of the client is left."""
    issued: int
    """Milliseconds since the epoch, like `expires`."""
    expires: int = NEVER
    refresh: str = ""
    requested: Scopes = ()
    """All scopes that were ever requested for this server."""
    granted: Scopes | None = None
    """The scopes of the token; None if the authorization server did not tell."""
    wanted: Scopes = ()
    """Scopes that the server has asked for since; the next sign-in requests them too."""

    def expires_soon(self, now: int) -> bool:
        """Within five minutes, or within the last tenth of a shorter life."""
        if self.expires == NEVER:
            return False
        return now >= self.expires - min(MOST_AHEAD_MS, max(0, self.expires - self.issued) // AHEAD_FRACTION)

    def without_tokens(self) -> OAuthCredential:
        return self.replace(access="", refresh="", expires=0)

    def replace(self, **changes: object) -> OAuthCredential:
        return msgspec.structs.replace(self, **changes)

    def __repr__(self) -> str:
        return f"OAuthCredential({self.issuer})"
