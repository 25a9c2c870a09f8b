"""AWS Signature Version 4.

The signed path is the path as it is sent, encoded once more: `%3A` counts as `%253A`. Credentials are loaded on demand,
shared by all requests of an Auth and loaded again shortly before they expire."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from typing import TYPE_CHECKING, Protocol
from urllib.parse import parse_qsl, quote, urlsplit

from holdfast.llm.errors import LLMError, invalid_request
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

ALGORITHM = "AWS4-HMAC-SHA256"
MARGIN = 300.0
"""Credentials are renewed this many seconds before they expire."""
FRESH = 60.0
"""Credentials without an expiry are loaded again after this many seconds."""
_UNRESERVED = "-_.~"
_MISSING = (
    "no AWS credentials: set AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
)


class Credentials(Frozen):
    access_key: str
    secret_key: str
    session_token: str | None = None
    expires: float | None = None
    """Seconds since 1970."""


class CredentialSource(Protocol):
    @property
    def region(self) -> str | None: ...

    async def load(self) -> Credentials | None:
        """None if this source is not configured. Raises LLMError if it is configured but gives nothing."""


class FixedCredentials(Frozen):
    credentials: Credentials
    region: str | None = None

    async def load(self) -> Credentials | None:
        return self.credentials


class SigV4Auth:
    def __init__(
        self, source: CredentialSource, *, region: str, service: str = "bedrock", now: Callable[[], float] = time.time
    ) -> None:
        self._source = source
        self._region = region
        self._service = service
        self._now = now
        self._current: Credentials | None = source.credentials if isinstance(source, FixedCredentials) else None
        self._loaded_at = now()
        self._loading = asyncio.Lock()

    def headers(self, url: str, headers: Mapping[str, str], body: Sequence[bytes]) -> dict[str, str]:
        credentials = self._current
        if credentials is None:
            raise LLMError("Authentication", "the AWS credentials were not loaded", kind="missing")
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(self._now()))
        added = {"x-amz-date": stamp}
        if credentials.session_token:
            added["x-amz-security-token"] = credentials.session_token
        signed = {"host": host_header(url), "content-type": headers["content-type"], **added}
        digest = hashlib.sha256()
        for piece in body:
            digest.update(piece)
        added["authorization"] = authorization(
            "POST", url, signed, digest.hexdigest(), credentials, region=self._region, service=self._service
        )
        return added

    def secrets(self) -> tuple[str, ...]:
        current = self._current
        if current is None:
            return ()
        return (current.secret_key, *((current.session_token,) if current.session_token else ()))

    async def refresh(self) -> None:
        """Load credentials that are missing or about to expire, once for all concurrent callers. A failure is ignored
        while the old ones are valid."""
        if self._is_fresh():
            return
        async with self._loading:
            if self._is_fresh():
                return
            try:
                loaded = await self._source.load()
            except LLMError:
                if self._current is not None and not self._is_expired(self._current):
                    return
                raise
            if loaded is None:
                raise invalid_request(_MISSING)
            self._current, self._loaded_at = loaded, self._now()

    def _is_expired(self, credentials: Credentials) -> bool:
        return credentials.expires is not None and credentials.expires <= self._now()

    def _is_fresh(self) -> bool:
        if self._current is None:
            return False
        expires = self._current.expires
        return self._now() < (self._loaded_at + FRESH if expires is None else expires - MARGIN)


# -- signing -----------------------------------------------------------------------------------------------------


def authorization(
    method: str,
    url: str,
    signed: Mapping[str, str],
    digest: str,
    credentials: Credentials,
    *,
    region: str,
    service: str,
) -> str:
    """The `authorization` header. `signed` are the signed headers with lower-case names, including `x-amz-date` and
    `host`."""
    stamp = signed["x-amz-date"]
    scope = f"{stamp[:8]}/{region}/{service}/aws4_request"
    request = canonical_request(method, url, signed, digest)
    to_sign = "\n".join((ALGORITHM, stamp, scope, hashlib.sha256(request.encode()).hexdigest()))
    key = b"AWS4" + credentials.secret_key.encode()
    for word in scope.split("/"):
        key = hmac.digest(key, word.encode(), "sha256")
    signature = hmac.digest(key, to_sign.encode(), "sha256").hex()
    names = ";".join(sorted(signed))
    return f"{ALGORITHM} Credential={credentials.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"


def canonical_request(method: str, url: str, signed: Mapping[str, str], digest: str) -> str:
    parts = urlsplit(url)
    pairs = sorted((_encoded(name), _encoded(value)) for name, value in parse_qsl(parts.query, keep_blank_values=True))
    return "\n".join(
        (
            method,
            quote(parts.path or "/", safe="/" + _UNRESERVED),
            "&".join(f"{name}={value}" for name, value in pairs),
            *(f"{name}:{' '.join(signed[name].split())}" for name in sorted(signed)),
            "",
            ";".join(sorted(signed)),
            digest,
        )
    )


def _encoded(text: str) -> str:
    return quote(text, safe=_UNRESERVED)


def host_header(url: str) -> str:
    """The value of the host header: with the port, unless it is the default of the scheme."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    usual = {"https": 443, "http": 80}.get(parts.scheme)
    return host if parts.port in (None, usual) else f"{host}:{parts.port}"
