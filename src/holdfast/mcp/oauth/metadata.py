"""Metadata documents: of a protected resource (RFC 9728) and of an authorization server (RFC 8414, OpenID Connect)."""

from __future__ import annotations

import msgspec

from holdfast.mcp.errors import shown
from holdfast.mcp.oauth.errors import DiscoveryFailed
from holdfast.mcp.oauth.url import check_url, same_issuer


class ResourceMetadata(msgspec.Struct, frozen=True):
    resource: str | None = None
    authorization_servers: list[str] = []
    scopes_supported: list[str] | None = None


class ServerMetadata(msgspec.Struct, frozen=True):
    """Fields that are not used are ignored. `None` means that the document does not tell."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    registration_endpoint: str | None = None
    scopes_supported: list[str] | None = None
    response_types_supported: list[str] | None = None
    token_endpoint_auth_methods_supported: list[str] | None = None
    code_challenge_methods_supported: list[str] | None = None
    client_id_metadata_document_supported: bool | None = None
    authorization_response_iss_parameter_supported: bool | None = None


def check_metadata(found: ServerMetadata, issuer: str) -> ServerMetadata:
    """Raises DiscoveryFailed and UrlRefused. `issuer` is the one whose metadata was asked for."""
    if not same_issuer(found.issuer, issuer):
        raise DiscoveryFailed(
            f"The metadata of the authorization server {shown(issuer)} is of another issuer: {shown(found.issuer)}"
        )
    check_url(found.authorization_endpoint, "authorization endpoint")
    check_url(found.token_endpoint, "token endpoint")
    if found.registration_endpoint is not None:
        check_url(found.registration_endpoint, "registration endpoint")
    if "S256" not in (found.code_challenge_methods_supported or ()):
        raise DiscoveryFailed(f"The authorization server {shown(issuer)} does not support PKCE with S256")
    if found.response_types_supported is not None and "code" not in found.response_types_supported:
        raise DiscoveryFailed(f"The authorization server {shown(issuer)} does not issue authorization codes")
    return found


def default_metadata(origin: str) -> ServerMetadata:
    """For a server of 2025-03-26 without metadata: fixed paths at its origin."""
    return ServerMetadata(
        issuer=origin,
        authorization_endpoint=f"{origin}/authorize",
        token_endpoint=f"{origin}/token",
        registration_endpoint=f"{origin}/register",
        code_challenge_methods_supported=["S256"],
    )
