"""What an engine is asked."""

from __future__ import annotations

import msgspec


class Query(msgspec.Struct, frozen=True, omit_defaults=True):
    """One run of an engine in a directory. Without a pattern it lists files."""

    pattern: str | None = None
    name: str | None = None
    """Only this file of the directory."""
    hidden: bool = False
    ordered: bool = False
    names: str | None = None
    """A glob for file names that the engine may use to look at fewer files."""
