"""Decides who may call, from which page and under which host name, using only the head of a request.

Invariants
- A request to another host name is refused, whatever it asks for but probes: with DNS rebinding a page could point its
  own name at this machine and then read and write as if it were ours.
- A page of an unknown origin cannot write. Known are this server's own pages, the configured origins and, only with a
  password, pages of this machine, the desktop shells and the product's domain.
- Credentials are compared in constant time."""

from __future__ import annotations

import base64
import binascii
import hmac
import re
from typing import TYPE_CHECKING

from holdfast.schema.exceptions import ApiError, Forbidden
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_USER = "opencode"
SHOWN = 100
KEY = "x-holdfast-key"
"""The header with the key of a sign-in of the page, which is good only together with its cookie."""
WRONG_CREDENTIALS = "Credentials are missing or wrong"

LOOPBACK_HOSTS = frozenset(("localhost", "127.0.0.1", "[::1]"))
"""Host names of a server that listens only on this machine."""

_ORIGINS = (
    r"http://localhost(:\d+)?|http://127\.0\.0\.1(:\d+)?|oc://renderer.*|tauri://localhost"
    r"|https?://tauri\.localhost|https://([a-z0-9-]+\.)*opencode\.ai"
)


class Credentials(Frozen):
    """Basic credentials in a header, or base64 of them in `auth_token`, which takes precedence even if wrong."""

    password: str
    user: str = DEFAULT_USER
    generated: bool = False
    """Whether the password was made for this start of the server."""

    def admits(self, query: Mapping[str, str], headers: Mapping[str, str]) -> bool:
        token = query.get("auth_token")
        if token is None:
            scheme, _, rest = headers.get("authorization", "").partition(" ")
            token = rest.strip() if scheme.lower() == "basic" else ""
        given = _decode(token)
        expected = f"{self.user}:{self.password}".encode()
        return hmac.compare_digest(given, expected)


def presented_credential(query: Mapping[str, str], headers: Mapping[str, str]) -> str | None:
    """The credential as the caller wrote it, from the same places as in `Credentials`."""
    return query.get("auth_token", headers.get("authorization"))


def given_secret(query: Mapping[str, str], headers: Mapping[str, str]) -> str | None:
    """A bearer token, or the password of Basic credentials with any user; from the same places as in `Credentials`."""
    encoded = query.get("auth_token")
    if encoded is None:
        scheme, _, rest = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return rest.strip()
        encoded = rest.strip() if scheme.lower() == "basic" else None
    return _decode(encoded).decode(errors="replace").partition(":")[2] if encoded is not None else None


class Hosts(Frozen):
    """The host names of a server, in lower case and without ports; IPv6 addresses in brackets."""

    names: frozenset[str] = LOOPBACK_HOSTS
    addresses: bool = False
    """Whether any IP address is accepted too: for a server that listens on all addresses of its machine. A page loaded
    from an address cannot redirect it."""

    def include(self, host: str) -> bool:
        """`host` is a Host header, with or without a port."""
        name = _without_port(host).lower()
        return name in self.names or (self.addresses and _is_address(name))


class Access(Frozen):
    credentials: Credentials | None = None
    """None requires no password."""
    hosts: Hosts | None = Hosts()
    """None accepts any name; then another component must check it."""
    origins: frozenset[str] = frozenset()
    """Origins whose pages may write, besides those that always may, for example `https://agent.example`."""

    def check_host(self, headers: Mapping[str, str]) -> None:
        host = headers.get("host")
        if host is None or self.hosts is None or self.hosts.include(host):
            return
        shown = host[:SHOWN]
        raise _forbidden(
            f"{shown} is not a host name of this server. If it should be, start it with "
            f"`--allow-host {_without_port(shown)}`, or declare it with asgi(hosts=...)."
        )

    def check_page(self, headers: Mapping[str, str]) -> None:
        if not self.trusts_page(headers):
            raise _foreign_page(headers)

    def check_own_page(self, headers: Mapping[str, str]) -> None:
        """As check_page, but for the server's own pages and those of the configured origins only."""
        origin = headers.get("origin")
        if not self.trusts_page(headers) or not (
            origin is None or origin in self.origins or _same_host(origin, headers.get("host"))
        ):
            raise _foreign_page(headers)

    def trusts_page(self, headers: Mapping[str, str]) -> bool:
        """Whether the request comes from no page at all, or from one that may write."""
        origin = headers.get("origin")
        if origin is None:
            # Some requests of a page, such as those for images and scripts, have no Origin.
            return headers.get("sec-fetch-site") not in ("cross-site", "same-site")
        return self.knows_origin(origin, headers.get("host"))

    def knows_origin(self, origin: str, host: str | None) -> bool:
        if origin in self.origins:
            return True
        if self.credentials is not None:
            return re.fullmatch(_ORIGINS, origin) is not None or _same_host(origin, host)
        return self.hosts is not None and _same_host(origin, host)


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdecimal() else host


def _same_host(origin: str, host: str | None) -> bool:
    """The scheme is not compared: a proxy may terminate TLS."""
    scheme, separator, name = origin.partition("://")
    return host is not None and separator != "" and scheme in ("http", "https") and name.lower() == host.lower()


def _is_address(name: str) -> bool:
    from ipaddress import IPv4Address, IPv6Address

    try:
        if name.startswith("[") and name.endswith("]"):
            IPv6Address(name[1:-1])
        else:
            IPv4Address(name)
    except ValueError:
        return False
    return True


def is_page_call(headers: Mapping[str, str]) -> bool:
    """Whether a script of a page calls, which handles a missing sign-in itself: the browser must not ask for one."""
    return KEY in headers or headers.get("sec-fetch-mode", "navigate") != "navigate"


def _foreign_page(headers: Mapping[str, str]) -> ApiError:
    shown = headers.get("origin", "another site")[:SHOWN]
    return _forbidden(
        f"Pages of {shown} may not do this. If they should, start the server with `--allow-origin ORIGIN`, "
        f"or declare them with asgi(origins=...)."
    )


def _forbidden(message: str) -> ApiError:
    return Forbidden(message)


def _decode(token: str) -> bytes:
    try:
        return base64.b64decode(token.encode("ascii") + b"=" * (-len(token) % 4), validate=True)
    except (UnicodeEncodeError, binascii.Error):
        return b""
