"""Who may call: Basic credentials in a header, or base64 of the same in `auth_token`, which wins even when wrong."""

from __future__ import annotations

import base64
import binascii
import hmac
from typing import TYPE_CHECKING

from holdfast.schema.frozen import Frozen
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_USER = "opencode"

_ORIGINS = pattern(
    r"http://localhost(:\d+)?|http://127\.0\.0\.1(:\d+)?|oc://renderer.*|tauri://localhost"
    r"|https?://tauri\.localhost|https://([a-z0-9-]+\.)*opencode\.ai"
)


# Names by which a local caller reaches a server that listens on this machine only.
LOOPBACK_HOSTS = frozenset(("localhost", "127.0.0.1", "[::1]"))


class Credentials(Frozen):
    password: str
    user: str = DEFAULT_USER

    def admits(self, query: Mapping[str, str], headers: Mapping[str, str]) -> bool:
        token = query.get("auth_token")
        if token is None:
            scheme, _, rest = headers.get("authorization", "").partition(" ")
            token = rest.strip() if scheme.lower() == "basic" else ""
        given = _decode(token)
        expected = f"{self.user}:{self.password}".encode()
        return hmac.compare_digest(given, expected)


def allowed_origin(origin: str | None, further: frozenset[str] = frozenset()) -> bool:
    return origin is None or origin in further or _ORIGINS.fullmatch(origin) is not None


def allowed_host(host: str | None, hosts: frozenset[str] | None) -> bool:
    """Whether a request was addressed to a name of ours; a page may have pointed its own name at this machine."""
    if host is None or hosts is None:
        return True
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdecimal() else host).lower() in hosts


def _decode(token: str) -> bytes:
    try:
        return base64.b64decode(token.encode("ascii") + b"=" * (-len(token) % 4), validate=True)
    except (UnicodeEncodeError, binascii.Error):
        return b""
