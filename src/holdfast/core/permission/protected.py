"""Files that are asked about whatever they are called: names that the built-in rules know, matched against the real
place of a file.

Rules are written for paths relative to a Location. A Location may itself be a protected folder, such as `.git/hooks`,
and on some file systems `.GIT` is `.git`. So a file that is protected, and whose resource does not show it, is
evaluated under its protected name as well, and the strictest verdict counts."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holdfast.core.filesystem.canonical import contains
from holdfast.core.permission.rules import evaluate, strictest
from holdfast.core.permission.wildcard import matches
from holdfast.schema.permission import Rule

if TYPE_CHECKING:
    from holdfast.core.permission.rules import Authority
    from holdfast.schema.permission import Effect

PROTECTED = (
    ".git",
    "*/.git",
    ".git/*",
    "*/.git/*",
    "opencode.json",
    "opencode.jsonc",
    "*/opencode.json",
    "*/opencode.jsonc",
    ".opencode/*",
    "*/.opencode/*",
)
"""Files that determine what is executed later. Editing them always asks."""
SECRETS = ("*.env", "*.env.*")
"""Files that usually hold secrets. Reading them asks."""
NO_SECRETS = "*.env.example"
READ_RULES = (
    Rule(action="read", resource="*", effect="allow"),
    *(Rule(action="read", resource=pattern, effect="ask") for pattern in SECRETS),
    Rule(action="read", resource=NO_SECRETS, effect="allow"),
)
"""Rules about reading that hold where nobody says otherwise."""


def resources(action: str, resource: str, path: str) -> tuple[str, ...]:
    """What to evaluate for a file: its resource, and its protected name if the resource does not show that. `path` is
    canonical."""
    name = _protected_name(action, resource, path)
    return (resource,) if name is None else (resource, name)


def effect_on_file(authority: Authority, action: str, resource: str, path: str) -> Effect:
    """What the rules say about a file. Saved approvals do not count."""
    names = resources(action, resource, path)
    return strictest(evaluate(authority.rules, action, name, authority.fences) for name in names)


def effect_on_path(authority: Authority, action: str, path: str, location: str) -> Effect:
    """The same for a canonical path alone, and the canonical root of the agent's Location."""
    inside = contains(location, path)
    return effect_on_file(authority, action, os.path.relpath(path, location) if inside else path, path)


def _protected_name(action: str, resource: str, path: str) -> str | None:
    patterns = PROTECTED if action == "edit" else SECRETS if action == "read" else ()
    if any(matches(pattern, resource) for pattern in patterns):
        return None
    parts = path.casefold().strip("/").split("/")
    # A secret is known by the name of the file alone, a protected file also by the folders that it is in.
    shortest = 0 if action == "edit" else len(parts) - 1
    tails = ("/".join(parts[start:]) for start in range(len(parts) - 1, shortest - 1, -1))
    return next((tail for tail in tails if any(matches(pattern, tail) for pattern in patterns)), None)
