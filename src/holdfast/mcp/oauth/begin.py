"""Starts a sign-in: challenge, discovery, scopes, redirect address, client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.mcp.oauth.challenge import BearerChallenge, read_challenge
from holdfast.mcp.oauth.discovery import discover
from holdfast.mcp.oauth.redirect import open_redirect
from holdfast.mcp.oauth.registration import configured_client, obtain_client, reusable_client
from holdfast.mcp.oauth.scope import OFFLINE, Scopes, union
from holdfast.mcp.oauth.sign_in import SignIn, SignInPlan
from holdfast.mcp.oauth.url import check_url

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.mcp.oauth.credential import OAuthCredential
    from holdfast.mcp.oauth.discovery import Discovered
    from holdfast.mcp.oauth.requests import OAuthRequests
    from holdfast.mcp.oauth.settings import ClientIdentity, ServerSettings

PROBED_VERSION = "2025-11-25"


async def begin_sign_in(
    settings: ServerSettings,
    identity: ClientIdentity,
    requests: OAuthRequests,
    now: Callable[[], int],
    *,
    known: OAuthCredential | None = None,
    challenge: BearerChallenge | None = None,
) -> SignIn:
    """`known` is the credential of an earlier sign-in at this server; its registration and scopes are used again.
    Without the `challenge` of a refused request the server is asked for one. Raises OAuthError."""
    check_url(settings.url, "address of the MCP server")
    if known is not None and known.server_url != settings.url:
        known = None
    challenge = challenge or await _ask(settings, identity, requests)
    found = await discover(requests, settings.url, challenge)
    scopes = _scopes(settings, challenge, found, known)
    client = configured_client(settings, found.server, known)
    before = reusable_client(known, found.server, now()) if client is None else None
    redirect = open_redirect(settings, before.redirect_uri if before else None)
    try:
        if client is None:
            again = before is not None and before.redirect_uri == redirect.uri
            client = before if again else None
        if client is None:
            client = await obtain_client(requests, found.server, identity, redirect.uri, scopes)
        plan = SignInPlan(settings.url, found.resource, found.server, client, settings.client_secret, scopes)
        sign_in = SignIn(plan, redirect, requests, now)
        await sign_in.start()
    except BaseException:
        if redirect.listener is not None:
            await redirect.listener.close()
        raise
    return sign_in


def _scopes(
    settings: ServerSettings, challenge: BearerChallenge, found: Discovered, known: OAuthCredential | None
) -> Scopes:
    """The configured scopes, else those of the challenge, else those that the resource names. What the server has asked
    for since the last sign-in is added, and, unless scopes are configured, what was requested then."""
    wanted = known.wanted if known is not None else ()
    if settings.scopes is not None:
        return union(settings.scopes, wanted)
    before = known.requested if known is not None else ()
    named = challenge.scopes if challenge.scopes is not None else found.scopes
    offline = (OFFLINE,) if OFFLINE in (found.server.scopes_supported or ()) else ()
    return union(before, wanted, named or (), offline)


async def _ask(settings: ServerSettings, identity: ClientIdentity, requests: OAuthRequests) -> BearerChallenge:
    """The challenge with which the server answers a first request without a token."""
    client = {"name": identity.name, "version": "0"}
    message: dict[str, Any] = {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {"protocolVersion": PROBED_VERSION, "capabilities": {}, "clientInfo": client},
    }
    headers = {name.lower(): value for name, value in settings.headers.items()}
    headers.pop("authorization", None)
    headers["accept"] = "application/json, text/event-stream"
    reply = await requests.head_of_post(settings.url, message, headers)
    return read_challenge(reply.headers) if reply.status in (401, 403) else BearerChallenge()
