"""Scopes: lists of words without spaces, quotes and backslashes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

Scopes = tuple[str, ...]

OFFLINE = "offline_access"
MOST_SCOPES = 500
SCOPE_CHARACTERS = 200


def parse_scope(text: str) -> Scopes:
    return union(text.split(" "))


def union(*groups: Iterable[str]) -> Scopes:
    """All valid scopes, each once, in the order of their first appearance."""
    found = dict.fromkeys(scope for group in groups for scope in group if _valid(scope))
    return tuple(found)[:MOST_SCOPES]


def _valid(scope: str) -> bool:
    return 0 < len(scope) <= SCOPE_CHARACTERS and all("!" <= c <= "~" and c not in '"\\' for c in scope)
