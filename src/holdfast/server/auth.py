"""Who may call, from which page, and under which host name. All of it is decided from the head of a request.

Invariants
- A request to a host name that is not this server's is refused, whatever it asks for and whoever sends it: with DNS
  rebinding a page points its own name at this machine, and then reads and writes as if it were ours.
- A page of an origin that is not known changes nothing. Known are this server's own pages, the configured origins and,
  only if a password is asked for, the pages of this machine, the desktop shells and the product's domain.
- Credentials are compared in constant time."""

from __future__ import annotations

import base64
import binascii
import hmac
from typing import TYPE_CHECKING

from holdfast.schema.exceptions import ApiError, Forbidden, Unauthorized
from holdfast.schema.frozen import Frozen
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_USER = "opencode"
SHOWN = 100

LOOPBACK_HOSTS = frozenset(("localhost", "127.0.0.1", "[::1]"))
"""Names by which a local caller reaches a server that listens on this machine only."""

_ORIGINS = pattern(
    r"http://localhost(:\d+)?|http://127\.0\.0\.1(:\d+)?|oc://renderer.*|tauri://localhost"
    r"|https?://tauri\.localhost|https://([a-z0-9-]+\.)*opencode\.ai"
)


class Credentials(Frozen):
    """Basic credentials in a header, or base64 of the same in `auth_token`, which wins even when wrong."""

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


class Hosts(Frozen):
    """The host names of a server, in lower case and without ports; IPv6 addresses in brackets."""

    names: frozenset[str] = LOOPBACK_HOSTS
    addresses: bool = False
    """Whether any IP address is one too: for a server that listens on every address of its machine. A page that was
    loaded from an address cannot point it elsewhere."""

    def include(self, host: str) -> bool:
        """`host` is the value of a Host header, with or without a port."""
        name = _without_port(host).lower()
        return name in self.names or (self.addresses and _is_address(name))


class Access(Frozen):
    credentials: Credentials | None = None
    """None asks nobody for a password."""
    hosts: Hosts | None = Hosts()
    """None is any name; then somebody else has to check it."""
    origins: frozenset[str] = frozenset()
    """Whose pages may write beside those that always may, as in `https://agent.example`."""

    def check_host(self, headers: Mapping[str, str]) -> None:
        host = headers.get("host")
        if host is None or self.hosts is None or self.hosts.include(host):
            return
        shown = host[:SHOWN]
        raise _forbidden(
            f"{shown} is not a host name of this server. If it should be, start it with "
            f"`--allow-host {_without_port(shown)}`, or declare it with asgi(hosts=...)."
        )

    def check_credentials(self, query: Mapping[str, str], headers: Mapping[str, str]) -> None:
        if not self.authorizes(query, headers):
            raise Unauthorized("Credentials are missing or wrong")

    def check_page(self, headers: Mapping[str, str]) -> None:
        if not self.trusts_page(headers):
            shown = headers.get("origin", "another site")[:SHOWN]
            raise _forbidden(
                f"Pages of {shown} may not do this. If they should, start the server with `--allow-origin ORIGIN`, "
                f"or declare them with asgi(origins=...)."
            )

    def authorizes(self, query: Mapping[str, str], headers: Mapping[str, str]) -> bool:
        return self.credentials is None or self.credentials.admits(query, headers)

    def trusts_page(self, headers: Mapping[str, str]) -> bool:
        """Whether the request comes from no page at all, or from one that may write."""
        origin = headers.get("origin")
        if origin is None:
            # Some requests of a page, such as those for its images and scripts, carry no Origin.
            return headers.get("sec-fetch-site") not in ("cross-site", "same-site")
        return self.knows_origin(origin, headers.get("host"))

    def knows_origin(self, origin: str, host: str | None) -> bool:
        if origin in self.origins:
            return True
        if self.credentials is not None:
            return _ORIGINS.fullmatch(origin) is not None or _same_host(origin, host)
        return self.hosts is not None and _same_host(origin, host)


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdecimal() else host


def _same_host(origin: str, host: str | None) -> bool:
    """The scheme is left out: whether a proxy in front of the server speaks TLS is not known here."""
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


def _forbidden(message: str) -> ApiError:
    return Forbidden(message)


def _decode(token: str) -> bytes:
    try:
        return base64.b64decode(token.encode("ascii") + b"=" * (-len(token) % 4), validate=True)
    except (UnicodeEncodeError, binascii.Error):
        return b""
