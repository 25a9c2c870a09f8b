"""Credentials on a request: header production or signing, over the exact bytes that are sent."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Protocol

from holdfast.llm.errors import LLMError, invalid_request
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Auth(Protocol):
    def headers(self, url: str, headers: Mapping[str, str], body: Sequence[bytes]) -> dict[str, str]:
        """Headers to add. Raises LLMError if the credential is missing."""

    def secrets(self) -> tuple[str, ...]:
        """Strings that must not appear in messages."""


class NoAuth(Frozen):
    def headers(self, url: str, headers: Mapping[str, str], body: Sequence[bytes]) -> dict[str, str]:
        return {}

    def secrets(self) -> tuple[str, ...]:
        return ()


class KeyAuth(Frozen):
    """A key in a header, after `scheme`. `source` is the environment variable that error messages name."""

    key: str | None
    header: str = "authorization"
    scheme: str = "Bearer "
    source: str = ""

    def __repr__(self) -> str:
        return f"KeyAuth({self.header})"

    def headers(self, url: str, headers: Mapping[str, str], body: Sequence[bytes]) -> dict[str, str]:
        key = self._clean
        if not key:
            where = f": set {self.source}" if self.source else ""
            raise LLMError("Authentication", f"no credential for this provider{where}", kind="missing")
        if not key.isprintable():
            raise invalid_request("the credential has a line break or the like inside, which no header can hold")
        return {self.header: self.scheme + key}

    def secrets(self) -> tuple[str, ...]:
        key = self._clean
        return (key, base64.b64encode(key.encode()).decode()) if key else ()

    @property
    def _clean(self) -> str:
        """The key without the line break that files and shells add."""
        return (self.key or "").strip()


class BoundAuth(Frozen):
    """A credential that is sent to one origin only, even if the URL of a request was changed."""

    inner: Auth
    origin: str
    """In the form of `origin_of`."""

    def headers(self, url: str, headers: Mapping[str, str], body: Sequence[bytes]) -> dict[str, str]:
        if (found := origin_of(url)) != self.origin:
            raise LLMError("Authentication", f"the credential belongs to {self.origin} and is not sent to {found}")
        return self.inner.headers(url, headers, body)

    def secrets(self) -> tuple[str, ...]:
        return self.inner.secrets()

    async def refresh(self) -> None:
        await refresh(self.inner)


def origin_of(url: str) -> str:
    """Scheme, host and port; `ws` counts as `http`, `wss` as `https`."""
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    scheme = {"wss": "https", "ws": "http"}.get(parts.scheme, parts.scheme)
    port = parts.port or {"https": 443, "http": 80}.get(scheme, 0)
    return f"{scheme}://{(parts.hostname or '').lower()}:{port}"


async def refresh(auth: Auth) -> None:
    # By name: isinstance on a runtime protocol would cost more than the rest.
    if (renew := getattr(auth, "refresh", None)) is not None:
        await renew()
