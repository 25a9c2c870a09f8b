"""The token endpoint: a code or a refresh token in, tokens out."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING
from urllib.parse import quote_plus

import msgspec

from holdfast.mcp.errors import shown
from holdfast.mcp.oauth.credential import NEVER, OAuthClient, OAuthCredential
from holdfast.mcp.oauth.errors import OAuthUnreachable, ResponseRefused, TokenRefused
from holdfast.mcp.oauth.scope import Scopes, parse_scope, union
from holdfast.mcp.oauth.url import origin

if TYPE_CHECKING:
    from holdfast.mcp.oauth.requests import OAuthRequests, Reply

TOKEN_CHARACTERS = 64 * 1024
LONGEST_LIFE_SECONDS = 10 * 365 * 24 * 3600
FINAL = frozenset(("invalid_grant", "invalid_client", "unauthorized_client", "unsupported_grant_type"))
"""Errors after which a refresh token is worthless."""


class Tokens(msgspec.Struct, frozen=True):
    access: str
    refresh: str
    lifetime_ms: int | None
    scopes: Scopes | None

    def __repr__(self) -> str:
        return "Tokens(…)"


class _Answer(msgspec.Struct, frozen=True):
    access_token: str
    token_type: str = "bearer"
    refresh_token: str | None = None
    expires_in: float | str | None = None
    scope: str | None = None


async def exchange(
    requests: OAuthRequests,
    endpoint: str,
    client: OAuthClient,
    secret: str,
    *,
    code: str,
    verifier: str,
    redirect_uri: str,
    resource: str,
) -> Tokens:
    """Raises OAuthError."""
    fields = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": redirect_uri,
        "code_verifier": verifier,
        "resource": resource,
    }
    return await _request(requests, endpoint, client, secret, fields)


async def renew(
    requests: OAuthRequests, credential: OAuthCredential, now: int, *, configured_secret: str | None = None
) -> OAuthCredential:
    """The credential with new tokens. Raises TokenRefused, with a code of FINAL if the refresh token is worthless, and
    other OAuthErrors if another attempt may succeed."""
    fields = {"grant_type": "refresh_token", "refresh_token": credential.refresh, "resource": credential.resource}
    secret = client_secret(credential.client, configured_secret)
    found = await _request(requests, credential.token_endpoint, credential.client, secret, fields)
    return credential.replace(
        access=found.access,
        refresh=found.refresh or credential.refresh,  # without a new one the old one stays valid
        issued=now,
        expires=expiry(found, now),
        granted=found.scopes if found.scopes is not None else credential.granted,
    )


def client_secret(client: OAuthClient, configured: str | None) -> str:
    return (configured or "") if client.kind == "configured" else client.secret


def expiry(tokens: Tokens, now: int) -> int:
    return NEVER if tokens.lifetime_ms is None else now + tokens.lifetime_ms


async def _request(
    requests: OAuthRequests, endpoint: str, client: OAuthClient, secret: str, fields: dict[str, str]
) -> Tokens:
    headers: dict[str, str] = {}
    fields = {**fields, "client_id": client.id}  # some servers look for it beside `client_secret_basic` too
    if client.auth_method == "client_secret_basic":
        pair = f"{quote_plus(client.id)}:{quote_plus(secret)}"
        headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    elif client.auth_method == "client_secret_post":
        fields["client_secret"] = secret
    reply = await requests.post_form(endpoint, fields, headers)
    if reply.ok and not reply.failure()[0]:  # some servers answer with status 200 and an error
        return _tokens(reply.decode(_Answer, "answer of the token endpoint"))
    raise _refusal(reply, endpoint)


def _refusal(reply: Reply, endpoint: str) -> TokenRefused | OAuthUnreachable:
    if reply.status >= 500 or reply.status == 429:
        return OAuthUnreachable(f"The token endpoint of {origin(endpoint)} failed with status {reply.status}")
    code, reason = reply.failure()
    return TokenRefused(f"The authorization server issued no token: status {reply.status}, {reason}", code)


def _tokens(found: _Answer) -> Tokens:
    if found.token_type.lower() != "bearer":
        raise ResponseRefused(f"The token is not a bearer token: {shown(found.token_type)}")
    for token in (found.access_token, found.refresh_token or "-"):
        if not 0 < len(token) <= TOKEN_CHARACTERS or not all("!" <= c <= "~" for c in token):
            raise ResponseRefused("A token is empty, too long, or has characters that cannot be sent")
    return Tokens(
        found.access_token,
        found.refresh_token or "",
        _lifetime_ms(found.expires_in),
        union(parse_scope(found.scope)) if found.scope else None,
    )


def _lifetime_ms(seconds: float | str | None) -> int | None:
    try:
        value = float(seconds) if seconds is not None else None
    except ValueError:
        value = None
    if value is None or not 0 < value <= LONGEST_LIFE_SECONDS:  # also not a number
        return None
    return int(value * 1000)
