"""Addresses that servers name: which may be used, and where metadata is."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit, urlunsplit

from holdfast.mcp.errors import shown
from holdfast.mcp.oauth.errors import UrlRefused

URL_CHARACTERS = 8192
DEFAULT_PORTS = {"http": 80, "https": 443}
# A browser or a shell could read these in another way than we do.
REFUSED_CHARACTERS = frozenset('"<>\\^`{|}')


def check_url(url: str, what: str) -> str:
    """The URL unchanged. Raises UrlRefused unless it is https, or http to this machine, without user name and fragment.
    `what` names it in the message."""
    parts = _split(url, what)
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname or "")):
        raise UrlRefused(f"The {what} is not an https address: {_beginning(parts)}")
    if "@" in parts.netloc or "#" in url:
        raise UrlRefused(f"The {what} has a user name or a fragment")
    return url


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def origin(url: str) -> str:
    """Scheme, host and port, in lower case and without the default port."""
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    host = f"[{host}]" if ":" in host else host
    port = "" if parts.port in (None, DEFAULT_PORTS.get(parts.scheme)) else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}"


def canonical(url: str) -> str:
    """The identifier of an MCP server: without a query, which may hold a key, and without the slash of an empty
    path."""
    path = urlsplit(url).path
    return origin(url) + ("" if path == "/" else path)


def covers(resource: str, server_url: str) -> bool:
    """Whether a resource is the server, or a path above it on the same origin."""
    if origin(resource) != origin(server_url):
        return False
    above, path = (urlsplit(url).path.rstrip("/") + "/" for url in (resource, server_url))
    return path.startswith(above)


def same_issuer(one: str, other: str) -> bool:
    """Equal texts. Only the slash of an empty path makes no difference, because such issuers share all addresses."""
    return one == other or (one.rstrip("/") == other.rstrip("/") and urlsplit(one).path in ("", "/"))


def inserted(url: str, name: str) -> str:
    """The well-known address of RFC 8414 and 9728: between the host and the path."""
    path = urlsplit(url).path.rstrip("/")
    return f"{origin(url)}/.well-known/{name}{path}"


def appended(url: str, name: str) -> str:
    """The well-known address of OpenID Connect: after the path."""
    return f"{origin(url)}{urlsplit(url).path.rstrip('/')}/.well-known/{name}"


def with_port(url: str, port: int) -> str:
    """A loopback URL with another port."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return urlunsplit(parts._replace(netloc=f"{host}:{port}"))


def _beginning(parts: SplitResult) -> str:
    """Scheme and host: what follows may be a key."""
    return shown(f"{parts.scheme}:{f'//{parts.hostname}/…' if parts.hostname else '…'}")


def _split(url: str, what: str) -> SplitResult:
    if len(url) > URL_CHARACTERS:
        raise UrlRefused(f"The {what} is longer than {URL_CHARACTERS} characters")
    if any(c <= " " or c > "~" or c in REFUSED_CHARACTERS for c in url):
        raise UrlRefused(f"The {what} has characters that are not allowed")
    try:
        parts = urlsplit(url)
        valid = bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise UrlRefused(f"The {what} is not an address with a host: {shown(url.partition(':')[0], 20)}:…")
    return parts
