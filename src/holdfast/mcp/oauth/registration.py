"""Which client we are to an authorization server: configured, described by a document, or registered (RFC 7591)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import msgspec

from holdfast.mcp.errors import shown
from holdfast.mcp.oauth.credential import AuthMethod, OAuthClient
from holdfast.mcp.oauth.errors import ClientRequired, IssuerChanged, IssuerRequired, RegistrationFailed, ResponseRefused
from holdfast.mcp.oauth.url import same_issuer

if TYPE_CHECKING:
    from collections.abc import Collection

    from holdfast.mcp.oauth.credential import OAuthCredential
    from holdfast.mcp.oauth.metadata import ServerMetadata
    from holdfast.mcp.oauth.requests import OAuthRequests
    from holdfast.mcp.oauth.scope import Scopes
    from holdfast.mcp.oauth.settings import ClientIdentity, ServerSettings

ID_CHARACTERS = 4096
METHODS: tuple[AuthMethod, ...] = get_args(AuthMethod)


class _Registered(msgspec.Struct, frozen=True):
    client_id: str
    client_secret: str | None = None
    client_secret_expires_at: int | None = None
    token_endpoint_auth_method: str | None = None


def configured_client(
    settings: ServerSettings, server: ServerMetadata, known: OAuthCredential | None
) -> OAuthClient | None:
    """It belongs to the configured issuer, else to that of the first sign-in: a server that names another one gets no
    secret sent there. So a secret without an issuer is not sent at the first sign-in. Raises IssuerRequired and
    IssuerChanged."""
    if not settings.client_id:
        return None
    if settings.issuer is not None:
        if not same_issuer(settings.issuer, server.issuer):
            raise IssuerChanged(
                f"The configured client belongs to the issuer {shown(settings.issuer)}, and the server names another "
                f"authorization server: {shown(server.issuer)}. If that is right, configure it as `issuer` in `oauth`"
            )
    elif known is None or (known.client.kind, known.client.id) != ("configured", settings.client_id):
        if settings.client_secret:
            raise IssuerRequired(
                "A `client_secret` is configured, and the server decides where it would be sent: it names "
                f"{shown(server.issuer)}. If that is the authorization server which gave you the secret, write "
                f'"issuer": "{shown(server.issuer)}" beside it in `oauth`'
            )
    elif not same_issuer(known.issuer, server.issuer):
        raise IssuerChanged(
            f"The configured client is known to {shown(known.issuer)}, and the server now names another "
            f"authorization server: {shown(server.issuer)}. If that is right, configure the client of that one"
        )
    if not settings.client_secret:
        document = settings.client_id.startswith("https://")
        return OAuthClient(settings.client_id, "document" if document else "configured")
    return OAuthClient(settings.client_id, "configured", _secret_method(server.token_endpoint_auth_methods_supported))


def reusable_client(known: OAuthCredential | None, server: ServerMetadata, now: int) -> OAuthClient | None:
    """The client that was registered with this authorization server before. One of another server is never used."""
    if known is None or known.client.kind != "registered" or not same_issuer(known.issuer, server.issuer):
        return None
    expires = known.client.secret_expires
    return None if expires and expires * 1000 <= now else known.client


async def obtain_client(
    requests: OAuthRequests,
    server: ServerMetadata,
    identity: ClientIdentity,
    redirect_uri: str,
    scopes: Scopes | None,
) -> OAuthClient:
    """For a server without a configured client. Raises OAuthError."""
    if identity.document_url is not None and server.client_id_metadata_document_supported:
        return OAuthClient(identity.document_url, "document")
    if server.registration_endpoint is None:
        raise ClientRequired(
            f"The authorization server {shown(server.issuer)} registers no clients; "
            "register one there and configure its `client_id` in `oauth`"
        )
    method = _registered_method(server.token_endpoint_auth_methods_supported)
    wanted: dict[str, Any] = {
        "client_name": identity.name,
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
        "application_type": "native",
    }
    if scopes:
        wanted["scope"] = " ".join(scopes)
    reply = await requests.post_json(server.registration_endpoint, wanted)
    if not reply.ok:
        raise RegistrationFailed(
            f"The authorization server {shown(server.issuer)} did not register the client: "
            f"status {reply.status}, {reply.failure()[1]}; configure a `client_id` in `oauth`"
        )
    return _client(reply.decode(_Registered, "registration"), method, redirect_uri)


def _client(found: _Registered, requested: AuthMethod, redirect_uri: str) -> OAuthClient:
    secret = found.client_secret or ""
    if not 0 < len(found.client_id) <= ID_CHARACTERS or len(secret) > ID_CHARACTERS:
        raise ResponseRefused("The registration has no client id, or one that is too long")
    method = found.token_endpoint_auth_method or (requested if secret or requested == "none" else "none")
    if method not in METHODS:
        raise RegistrationFailed(f"The client was registered with an unknown way to authenticate: {shown(method)}")
    if method != "none" and not secret:
        raise RegistrationFailed("The client was registered without the secret that it has to authenticate with")
    return OAuthClient(
        found.client_id,
        "registered",
        method,
        secret if method != "none" else "",
        (found.client_secret_expires_at or 0) if method != "none" else 0,
        redirect_uri,
    )


def _registered_method(supported: Collection[str] | None) -> AuthMethod:
    """A public client where the server takes one, or does not tell."""
    return "none" if supported is None or "none" in supported else _secret_method(supported)


def _secret_method(supported: Collection[str] | None) -> AuthMethod:
    """Of RFC 8414: a server that does not tell takes `client_secret_basic`."""
    if supported is None or "client_secret_basic" in supported or "client_secret_post" not in supported:
        return "client_secret_basic"
    return "client_secret_post"
