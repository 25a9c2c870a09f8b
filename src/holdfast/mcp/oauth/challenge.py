"""The `WWW-Authenticate` header of a 401 or 403 (RFC 6750, RFC 9728)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from holdfast.mcp.oauth.scope import Scopes, parse_scope

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

HEADER_CHARACTERS = 16 * 1024
_TOKEN = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
# One parameter, one word (a scheme), or text that is neither (the value of another scheme).
_PART = re.compile(rf'({_TOKEN})[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|({_TOKEN}))(?=[ \t]*(?:,|$))|({_TOKEN})|[^,\s]')
_ESCAPE = re.compile(r"\\(.)")


class BearerChallenge(msgspec.Struct, frozen=True):
    """What a server asks for. `scopes` is None if it does not tell."""

    resource_metadata: str | None = None
    scopes: Scopes | None = None
    error: str = ""
    description: str = ""

    @property
    def asks_for_scope(self) -> bool:
        return self.error == "insufficient_scope"


def read_challenge(headers: Mapping[str, str]) -> BearerChallenge:
    """The first Bearer challenge. A header that is missing or cannot be read is an empty challenge. Names of `headers`
    are in lower case."""
    parameters = _bearer(headers.get("www-authenticate", "")[:HEADER_CHARACTERS])
    scope = parameters.get("scope")
    return BearerChallenge(
        resource_metadata=parameters.get("resource_metadata"),
        scopes=parse_scope(scope) if scope is not None else None,
        error=parameters.get("error", ""),
        description=parameters.get("error_description", ""),
    )


def _bearer(header: str) -> dict[str, str]:
    found: dict[str, str] = {}
    inside = False
    for name, value in _parts(header):
        if value is None:
            if found:
                break  # the next challenge
            inside = name == "bearer"
        elif inside:
            found.setdefault(name, value)
    return found


def _parts(header: str) -> Iterator[tuple[str, str | None]]:
    """Parameters with their values, and other words with None."""
    for part in _PART.finditer(header):
        name, quoted, plain, word = part.groups()
        if name is not None:
            yield name.lower(), _ESCAPE.sub(r"\1", quoted) if quoted is not None else plain
        elif word is not None:
            yield word.lower(), None
