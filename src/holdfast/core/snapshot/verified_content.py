"""Checks what git has read from a worktree.

git opens files by their paths, which may have led elsewhere at that moment: to files that no command of the project may
read. So each blob is compared with the file that is reached without following a link (filesystem/open_tree.py). Where
they differ, what is there counts: usually a file that was being written."""

from __future__ import annotations

import hashlib
import os
import stat
from typing import TYPE_CHECKING, NamedTuple

from holdfast.core.filesystem.open_tree import OpenTree, open_regular
from holdfast.core.snapshot.written_files import EXECUTABLE, LINK, REGULAR

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from holdfast.core.snapshot.written_files import TreeEntry

SHA1_CHARACTERS = 40


class Correction(NamedTuple):
    """What an index has to say about a path. Without data it has no file there."""

    path: str
    mode: str
    data: bytes | None


def corrections(directory: Path, entries: Iterable[TreeEntry], most: int) -> Iterator[Correction]:
    """The entries that are not as the files are. A file with more than `most` bytes counts as missing. Blocks."""
    with OpenTree(directory) as tree:
        for entry in entries:
            mode, data = _content(tree, entry.path, most)
            if data is None or mode != entry.mode or _blob(data, entry.blob) != entry.blob:
                yield Correction(entry.path, mode, data)


def _content(tree: OpenTree, path: str, most: int) -> tuple[str, bytes | None]:
    try:
        directory, name = tree.parent(path)
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            return LINK, os.readlink(os.fsencode(name), dir_fd=directory)
        handle = open_regular(directory, name)
    except (OSError, ValueError):
        return REGULAR, None
    if handle is None:
        return REGULAR, None
    with os.fdopen(handle, "rb") as file:
        mode = EXECUTABLE if os.fstat(handle).st_mode & stat.S_IXUSR else REGULAR
        data = file.read(most + 1)
    return mode, data if len(data) <= most else None


def _blob(data: bytes, like: str) -> str:
    """The name that git gives to a content."""
    algorithm = hashlib.sha1 if len(like) == SHA1_CHARACTERS else hashlib.sha256
    return algorithm(b"blob %d\0" % len(data) + data).hexdigest()
