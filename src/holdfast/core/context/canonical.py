"""Canonical paths: symlinks resolved, so that one file has one name and containment can be told from the parts."""

from __future__ import annotations

import os

CACHE_LIMIT = 1_024


class CanonicalDirectories:
    """Canonical spellings of directories, each worked out again only when the path leads to another one."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, int, str]] = {}

    def of(self, path: str) -> str:
        """Raises OSError if it does not exist or cannot be looked at."""
        status = os.stat(path)
        known = self._known.get(path)
        if known is None or known[:2] != (status.st_dev, status.st_ino):
            if len(self._known) >= CACHE_LIMIT:
                self._known.clear()
            known = self._known[path] = (status.st_dev, status.st_ino, os.path.realpath(path, strict=True))
        return known[2]


def contains(root: str, path: str) -> bool:
    """By whole path components; both canonical."""
    return path == root or path.startswith(root if root.endswith("/") else root + "/")


def upward(directory: str, root: str) -> list[str]:
    """The directory and its parents, nearest first, up to and including the root; nothing if it is not inside."""
    found: list[str] = []
    while contains(root, directory):
        found.append(directory)
        if directory == root:
            return found
        directory = os.path.dirname(directory)
    return []


def printable(path: str) -> str:
    """A path as text. File names are bytes, and some are no UTF-8."""
    return os.fsencode(path).decode("utf-8", "replace")
