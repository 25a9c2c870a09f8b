"""Errors of OAuth. Messages hold no secrets and may be shown to a person; texts of servers in them are shortened. That
a person has to sign in is NeedsAuthorization of `holdfast.mcp.errors`.

OAuthError (McpError)
├── Forbidden               the server refuses a request, and no sign-in would help
├── OAuthUnreachable        no answer, or a failure of the server; another attempt may succeed
├── UrlRefused              an address is not https, and not http to this machine
│   └── AddressRefused      a host is on a network that this server may not lead to
├── ResponseRefused         an answer is too large, malformed, or a redirect
├── DiscoveryFailed         the server's metadata is missing or cannot be used
├── ClientRequired          the authorization server registers no clients; a client id has to be configured
├── IssuerRequired          a client secret is configured, and not to which issuer it belongs
├── IssuerChanged           the server names another issuer than the one that knows the configured client
├── RegistrationFailed      the authorization server did not register the client
├── CallbackRefused         an authorization response does not belong to the sign-in
├── AccessDenied            the authorization server refused the sign-in
└── TokenRefused            the token endpoint answered with an error"""

from __future__ import annotations

from holdfast.mcp.errors import McpError, shown

CODE_CHARACTERS = 60


class OAuthError(McpError):
    pass


class Forbidden(OAuthError):
    pass


class OAuthUnreachable(OAuthError):
    pass


class UrlRefused(OAuthError):
    pass


class AddressRefused(UrlRefused):
    def __init__(self, host: str) -> None:
        super().__init__(f"{shown(host)} is not a public address; this MCP server may not lead there")


class ResponseRefused(OAuthError):
    pass


class DiscoveryFailed(OAuthError):
    pass


class ClientRequired(OAuthError):
    pass


class IssuerRequired(OAuthError):
    pass


class IssuerChanged(OAuthError):
    pass


class RegistrationFailed(OAuthError):
    pass


class CallbackRefused(OAuthError):
    pass


class AccessDenied(OAuthError):
    pass


class TokenRefused(OAuthError):
    """`code` is the OAuth error code, such as `invalid_grant`; empty if the answer has none."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


def oauth_failure(code: str, description: str) -> str:
    """An OAuth error as text: `invalid_scope (no such scope)`."""
    name = shown(code, CODE_CHARACTERS) or "no reason given"
    return f"{name} ({shown(description)})" if description.strip() else name
