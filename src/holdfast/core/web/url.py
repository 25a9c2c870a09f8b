"""URLs from a model or a page: validated and normalised, so that rules match what is requested."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, urljoin, urlsplit

from holdfast.core.web.errors import FetchFailed
from holdfast.http.errors import InvalidRequest
from holdfast.http.url import Url, parse
from holdfast.schema.frozen import Frozen
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    import re

URL_CHARACTERS = 8192
# Characters that are not escaped in a path or a query, and the percent sign of an escape.
PATH_SAFE = "/:@!$&'()*+,;=~%"
QUERY_SAFE = PATH_SAFE + "?"
UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_PERCENT = pattern(r"%([0-9A-Fa-f]{2})?")


class PageUrl(Frozen):
    """A normalised http or https URL without credentials and fragment."""

    text: str
    url: Url

    def __str__(self) -> str:
        return self.text

    @property
    def origin(self) -> str:
        return f"{self.url.origin.scheme}://{self.url.origin.authority}"


def parse_url(url: str, *, use_proxy: bool = False) -> PageUrl:
    """Raises FetchFailed. `use_proxy` reads the proxy of the environment."""
    if len(url) > URL_CHARACTERS or any(character <= " " or character in "\\\x7f" for character in url):
        raise FetchFailed("not a valid URL")
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise FetchFailed("not a valid http or https URL")
    if "@" in parts.netloc:
        raise FetchFailed("URLs with credentials are not allowed")
    query = f"?{_escaped(parts.query, QUERY_SAFE)}" if parts.query else ""
    path = _without_dot_segments(_escaped(parts.path, PATH_SAFE)) or ("/" if query else "")
    try:
        found = parse(f"{parts.scheme}://{parts.netloc}{path}{query}", use_proxy=use_proxy)
    except InvalidRequest as error:
        raise FetchFailed(str(error)) from error
    except ValueError:  # the host cannot be encoded
        raise FetchFailed("not a valid http or https URL") from None
    return PageUrl(f"{found.origin.scheme}://{found.origin.authority}{path}{query}", found)


def join_url(base: PageUrl, location: str, *, use_proxy: bool = False) -> PageUrl:
    """Where a redirect leads. Raises FetchFailed, also for one from https to http."""
    try:
        joined = urljoin(base.text, location.replace(" ", "%20").replace("\\", "%5C"))
    except ValueError:
        raise FetchFailed("redirected to something that is not a URL") from None
    found = parse_url(joined, use_proxy=use_proxy)
    if base.url.origin.is_secure and not found.url.origin.is_secure:
        raise FetchFailed("redirected from https to http")
    return found


def _escaped(text: str, safe: str) -> str:
    """Escapes all characters that need it, and removes escapes of unreserved characters."""
    return quote(_PERCENT.sub(_escape, text), safe=safe)


def _escape(found: re.Match[str]) -> str:
    if found[1] is None:
        return "%25"
    character = chr(int(found[1], 16))
    return character if character in UNRESERVED else found[0].upper()


def _without_dot_segments(path: str) -> str:
    if "." not in path:
        return path
    kept: list[str] = []
    segments = path.split("/")
    for segment in segments:
        if segment == "..":
            del kept[max(1, len(kept) - 1) :]  # never the empty segment before the first slash
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in (".", ".."):
        kept.append("")
    return "/".join(kept)
