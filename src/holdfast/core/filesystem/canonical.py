"""Path helpers: canonical directories, containment of canonical paths, and paths as text."""

from __future__ import annotations

import os

CACHE_LIMIT = 1_024


class CanonicalDirectories:
    """A cache of canonical directory paths. An entry is recomputed if the path or its canonical form leads to another
    inode; the second check finds renamed directories and reused inodes."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[int, int], str]] = {}

    def of(self, path: str) -> str:
        """Raises OSError if the directory does not exist or is not accessible."""
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
    """Whether a file could have this path: no NUL, and encodable for the file system."""
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


def contains(root: str, path: str) -> bool:
    """Whether a path is the root or inside it, compared by whole components. Both must be canonical."""
    return path == root or path.startswith(root if root.endswith("/") else root + "/")


def upward(directory: str, root: str) -> list[str]:
    """The directory and its parents, nearest first, up to and including the root; empty if it is not inside."""
    found: list[str] = []
    while contains(root, directory):
        found.append(directory)
        if directory == root:
            return found
        directory = os.path.dirname(directory)
    return []


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether the entry is a directory, also through a link. False for link loops and inaccessible targets."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def printable(path: str) -> str:
    """A path as text; bytes of the name that are not UTF-8 are replaced."""
    return os.fsencode(path).decode("utf-8", "replace")


def is_text(text: str) -> bool:
    """Whether the text can be encoded as UTF-8: it has no lone surrogates, as from file names that are not UTF-8."""
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
