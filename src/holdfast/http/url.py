"""URLs taken apart for a connection, and the proxies of the environment."""

from __future__ import annotations

import base64
import os
import sys
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec

from holdfast.http.errors import InvalidRequest

DEFAULT_PORTS = {"http": 80, "https": 443}
HOST_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789.-_~!$&'()*+,;=")
IPV6_CHARACTERS = HOST_CHARACTERS | {":", "%"}
AMBIGUOUS_CHARACTERS = frozenset("ßς\u200c\u200d")
"""The codec of the standard library maps them to another name than browsers do."""


class Origin(msgspec.Struct, frozen=True):
    """Where a connection leads. Connections to equal origins are interchangeable."""

    scheme: str
    host: str
    port: int
    proxy: str | None = None
    socket: str | None = None
    """Path of a Unix socket to connect to instead of host and port."""

    @property
    def is_secure(self) -> bool:
        return self.scheme == "https"

    @property
    def place(self) -> str:
        """Host and port."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def authority(self) -> str:
        """Host and port, without the default port of the scheme."""
        return self.place.removesuffix(f":{DEFAULT_PORTS[self.scheme]}")


class Url(msgspec.Struct, frozen=True):
    """`target` is sent exactly as it was written: it may be signed."""

    origin: Origin
    target: str
    credentials: str | None
    """Value of an authorization header, from the user name and password in the URL."""

    def __str__(self) -> str:
        return f"{self.origin.scheme}://{self.origin.authority}{self.target}"


def parse(url: str, *, use_proxy: bool = True, socket: str | None = None) -> Url:
    """Raises InvalidRequest, or another ValueError, if this is not the URL of an HTTP server. `use_proxy` reads the
    proxy of the environment."""
    parts = urlsplit(url)
    host = _host(parts)
    port = parts.port if parts.port is not None else DEFAULT_PORTS[parts.scheme]
    target = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
    if not target.isascii() or any(character <= " " for character in target):
        raise InvalidRequest("the address holds characters that must be encoded")
    origin = Origin(parts.scheme, host, port, socket=socket)
    if use_proxy and socket is None:
        origin = msgspec.structs.replace(origin, proxy=proxy_of(origin))
    return Url(origin, target, _credentials(parts))


def proxy_of(origin: Origin) -> str | None:
    """The proxy that the environment, or the system's settings, name for an origin."""
    named = any(name.lower().endswith("_proxy") for name in os.environ)
    if not named and sys.platform not in ("darwin", "win32"):
        return None
    from urllib.request import getproxies, proxy_bypass

    proxies = getproxies()
    proxy = proxies.get(origin.scheme) or proxies.get("all")
    return proxy if proxy and not proxy_bypass(f"{origin.host}:{origin.port}") else None


class Proxy(msgspec.Struct, frozen=True):
    origin: Origin
    credentials: str | None

    @classmethod
    def of(cls, origin: Origin) -> Proxy | None:
        """The proxy between us and an origin. Raises InvalidRequest for one that is not HTTP."""
        if origin.proxy is None:
            return None
        parts = urlsplit(origin.proxy if "://" in origin.proxy else f"http://{origin.proxy}")
        if parts.scheme not in DEFAULT_PORTS:
            raise InvalidRequest(f"a {parts.scheme[:20]} proxy cannot be used, only http and https ones")
        return cls(Origin(parts.scheme, _host(parts), parts.port or DEFAULT_PORTS[parts.scheme]), _credentials(parts))

    @property
    def headers(self) -> dict[str, str]:
        return {"proxy-authorization": self.credentials} if self.credentials else {}

    def connect_head(self, origin: Origin) -> bytes:
        """The request for a tunnel to an origin."""
        headers = {"host": origin.place, **self.headers}
        lines = (f"CONNECT {origin.place} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()))
        return "\r\n".join((*lines, "", "")).encode()


def _host(parts: SplitResult) -> str:
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
        raise InvalidRequest("the address has no host")
    host = parts.hostname
    after_bracket = parts.netloc.rpartition("]")[2] if "]" in parts.netloc else ""
    if after_bracket and not after_bracket.startswith(":"):
        raise InvalidRequest("the address has something between its host and its port")
    if not host.isascii():
        if AMBIGUOUS_CHARACTERS.intersection(host):
            raise InvalidRequest("the host has characters with more than one encoding; write it in its xn-- form")
        host = host.encode("idna").decode()
    if not (IPV6_CHARACTERS if ":" in host else HOST_CHARACTERS).issuperset(host):
        raise InvalidRequest("the host has characters that are not allowed")
    return host


def _credentials(parts: SplitResult) -> str | None:
    if parts.username is None:
        return None
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"
