"""Canonical directory paths, so that one directory is one Location."""

from __future__ import annotations

import os


def canonical_directory(directory: str) -> str:
    """Absolute, without links, `.`, `..` or a trailing slash. The path of a missing directory is returned unchanged, so
    that its Sessions are still found."""
    try:
        return os.path.realpath(directory, strict=True)
    except (OSError, ValueError):
        return directory
