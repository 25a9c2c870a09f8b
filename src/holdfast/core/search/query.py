"""The query for a search engine."""

from __future__ import annotations

import msgspec


class Query(msgspec.Struct, frozen=True, omit_defaults=True):
    """One search in a directory. Without a pattern, files are listed."""

    pattern: str | None = None
    name: str | None = None
    """Search only this file of the directory."""
    hidden: bool = False
    ordered: bool = False
    names: str | None = None
    """A glob for file names, with which the engine can skip files."""
