"""One sign-in of a person with a browser: authorization code with PKCE (S256).

Invariants
- A response counts only with the `state` of this sign-in, and only the first one does. Others are discarded, and the
  sign-in goes on waiting.
- `iss` of a response is compared before anything else of it is used (RFC 9207).
- The code goes to the token endpoint of the issuer whose metadata was checked, and to no other."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import secrets
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec

from holdfast.mcp.oauth.callback import pasted_parameters
from holdfast.mcp.oauth.credential import OAuthClient, OAuthCredential
from holdfast.mcp.oauth.errors import AccessDenied, CallbackRefused, OAuthError, oauth_failure
from holdfast.mcp.oauth.metadata import ServerMetadata
from holdfast.mcp.oauth.scope import OFFLINE, Scopes
from holdfast.mcp.oauth.tokens import client_secret, exchange, expiry
from holdfast.mcp.oauth.url import check_url

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.mcp.oauth.redirect import Redirect
    from holdfast.mcp.oauth.requests import OAuthRequests

CODE_CHARACTERS = 8 * 1024


class SignInPlan(msgspec.Struct, frozen=True):
    """What discovery and registration settled."""

    server_url: str
    resource: str
    server: ServerMetadata
    client: OAuthClient
    configured_secret: str | None
    scopes: Scopes
    """Requested now; empty leaves the choice to the authorization server."""

    def __repr__(self) -> str:
        return f"SignInPlan({self.server.issuer})"


class SignIn:
    """`url` is for the browser. `finish` waits for the response and returns the credential."""

    def __init__(self, plan: SignInPlan, redirect: Redirect, requests: OAuthRequests, now: Callable[[], int]) -> None:
        self._plan = plan
        self._redirect = redirect
        self._requests = requests
        self._now = now
        self._state = secrets.token_urlsafe(32)
        self._verifier = secrets.token_urlsafe(64)
        self._code: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.url = self._address()

    @property
    def listens(self) -> bool:
        """Whether the browser's response arrives by itself; otherwise it is pasted."""
        return self._redirect.listener is not None

    @property
    def redirect_uri(self) -> str:
        return self._redirect.uri

    async def start(self) -> None:
        if self._redirect.listener is not None:
            await self._redirect.listener.serve(self.receive)

    async def finish(self) -> OAuthCredential:
        """Raises OAuthError."""
        code = await self._code
        plan = self._plan
        tokens = await exchange(
            self._requests,
            plan.server.token_endpoint,
            plan.client,
            client_secret(plan.client, plan.configured_secret),
            code=code,
            verifier=self._verifier,
            redirect_uri=self._redirect.uri,
            resource=plan.resource,
        )
        now = self._now()
        return OAuthCredential(
            server_url=plan.server_url,
            resource=plan.resource,
            issuer=plan.server.issuer,
            token_endpoint=plan.server.token_endpoint,
            client=plan.client,
            access=tokens.access,
            refresh=tokens.refresh,
            issued=now,
            expires=expiry(tokens, now),
            requested=plan.scopes,
            granted=tokens.scopes,
        )

    async def close(self) -> None:
        if self._redirect.listener is not None:
            await self._redirect.listener.close()
        if not self._code.done():
            self._code.cancel()
        elif not self._code.cancelled():
            self._code.exception()  # marks it as retrieved

    def receive(self, parameters: Mapping[str, str]) -> None:
        """Take an authorization response. Raises CallbackRefused for one that does not belong to this sign-in, and the
        OAuthError with which it ends the sign-in."""
        given = parameters.get("state", "").encode("utf-8", "replace")
        if not secrets.compare_digest(given, self._state.encode()):
            raise CallbackRefused("The authorization response is not for this sign-in: its state does not match")
        if self._code.done():
            raise CallbackRefused("The sign-in has been answered already")
        try:
            self._code.set_result(self._checked_code(parameters))
        except OAuthError as error:
            self._code.set_exception(error)
            raise AccessDenied(str(error)) from error

    def paste(self, text: str) -> None:
        """Take the address that the browser was sent to, or its bare code. Raises OAuthError."""
        text = text.strip()
        parameters = pasted_parameters(text)
        if parameters is not None:
            self.receive(parameters)
            return
        if self._plan.server.authorization_response_iss_parameter_supported:
            raise CallbackRefused("A code alone is not enough; paste the whole address that the browser was sent to")
        if not _is_code(text):
            raise CallbackRefused("This is not an authorization code")
        if self._code.done():
            raise CallbackRefused("The sign-in has been answered already")
        self._code.set_result(text)

    def _checked_code(self, parameters: Mapping[str, str]) -> str:
        server, issuer = self._plan.server, parameters.get("iss")
        if issuer is None and server.authorization_response_iss_parameter_supported:
            raise CallbackRefused("The authorization response does not name its issuer")
        if issuer is not None and issuer != server.issuer:
            raise CallbackRefused("The authorization response is of another issuer")
        if (error := parameters.get("error")) is not None:
            reason = oauth_failure(error, parameters.get("error_description", ""))
            raise AccessDenied(f"The authorization server refused the sign-in: {reason}")
        code = parameters.get("code", "")
        if not _is_code(code):
            raise CallbackRefused("The authorization response has no code")
        return code

    def _address(self) -> str:
        plan = self._plan
        digest = hashlib.sha256(self._verifier.encode()).digest()
        ours = {
            "response_type": "code",
            "client_id": plan.client.id,
            "redirect_uri": self._redirect.uri,
            "state": self._state,
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
            "resource": plan.resource,
        }
        if plan.scopes:
            ours["scope"] = " ".join(plan.scopes)
        if OFFLINE in plan.scopes:
            ours["prompt"] = "consent"  # OpenID Connect requires it for this scope
        parts = urlsplit(plan.server.authorization_endpoint)
        theirs = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name not in ours]
        url = urlunsplit(parts._replace(query=urlencode([*theirs, *ours.items()])))
        return check_url(url, "address of the sign-in")


def _is_code(text: str) -> bool:
    return 0 < len(text) <= CODE_CHARACTERS and all(" " <= c <= "~" for c in text)
