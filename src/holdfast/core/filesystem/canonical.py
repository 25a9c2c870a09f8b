"""Paths as they really are: canonical ones, so that one file has one name and containment can be told from the parts;
and what of a path is text."""

from __future__ import annotations

import os

CACHE_LIMIT = 1_024


class CanonicalDirectories:
    """Canonical spellings of directories, each worked out again only when the path leads to another one, or the
    directory is not where it was: a renamed one, or another one in its inode, looks the same from outside."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[int, int], str]] = {}

    def of(self, path: str) -> str:
        """Raises OSError if it does not exist or cannot be looked at."""
        identity = _identity(path)
        if (known := self._known.get(path)) is not None and known[0] == identity:
            canonical = known[1]
            if canonical == path or _leads_to(canonical, identity):
                return canonical
        if len(self._known) >= CACHE_LIMIT:
            self._known.clear()
        canonical = os.path.realpath(path, strict=True)
        self._known[path] = (identity, canonical)
        return canonical


def possible(path: str) -> bool:
    """Whether a file could have this path at all. Text from elsewhere may hold what no system takes for a name."""
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


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


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Also one behind a link. A link in a circle, or to where nobody may look, leads to none."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def printable(path: str) -> str:
    """A path as text. File names are bytes, and some are no UTF-8."""
    return os.fsencode(path).decode("utf-8", "replace")


def is_text(text: str) -> bool:
    """Whether it can be stored and sent: neither a name that is no UTF-8 nor half a character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _identity(path: str) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def _leads_to(path: str, identity: tuple[int, int]) -> bool:
    try:
        return _identity(path) == identity
    except OSError:
        return False
