"""One spelling for one directory, so that one directory is one Location."""

from __future__ import annotations

import os


def canonical_directory(directory: str) -> str:
    """Absolute, without links, `.`, `..` or a slash at the end. A directory that is not there stays as it is written:
    Sessions that lived in it are still found under its name."""
    try:
        return os.path.realpath(directory, strict=True)
    except (OSError, ValueError):
        return directory
