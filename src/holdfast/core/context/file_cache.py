"""A cache of file contents and directory listings, validated by identity, size and timestamps.

Invariants
- A call returns what was on disk before it. A stamp is trusted only if it was old when the content was read: within one
  clock tick of the file system a second change may leave the stamp equal.
- Only regular files are read, up to `FILE_BYTES_LIMIT` bytes."""

from __future__ import annotations

import errno
import os
import stat
import time
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

FILE_BYTES_LIMIT = 1024 * 1024
CACHE_LIMIT = 1_024
SETTLED_NS = 2_000_000_000
"""The coarsest timestamp resolution of file systems in use."""

NOT_FOUND_ERRNOS = frozenset((errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG))
"""Errors that mean that the file does not exist. After any other error that is unknown."""


class FileTooLarge(Exception):
    """A file is larger than `FILE_BYTES_LIMIT`."""


class Child(NamedTuple):
    name: str
    kind: str
    """`file`, `directory`, `link` or `other`."""


class Stamp(Frozen):
    device: int
    inode: int
    size: int
    modified: int
    changed: int

    @classmethod
    def of(cls, status: os.stat_result) -> Stamp:
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)

    @property
    def settled(self) -> bool:
        """Whether the timestamps are older than their resolution."""
        return time.time_ns() - max(self.modified, self.changed) > SETTLED_NS


class FileCache:
    """Raises OSError as the system does."""

    def __init__(self) -> None:
        self._texts: _Cached[str] = _Cached(_read_text)
        self._children: _Cached[tuple[Child, ...]] = _Cached(_list)

    def text(self, path: str, status: os.stat_result | None = None) -> str:
        """The content of a regular file at a canonical path. Bytes that are not UTF-8 are replaced."""
        return self._texts.get(path, status or os.stat(path))

    def children(self, directory: str) -> tuple[Child, ...]:
        """The entries of a directory, sorted by name."""
        return self._children.get(directory, os.stat(directory))


class _Cached(Generic[T]):
    def __init__(self, read: Callable[[str], tuple[Stamp, T]]) -> None:
        self._read = read
        self._known: dict[str, tuple[Stamp, T]] = {}

    def get(self, path: str, status: os.stat_result) -> T:
        known = self._known.get(path)
        if known is not None and known[0] == Stamp.of(status):
            return known[1]
        stamp, content = self._read(path)
        if len(self._known) >= CACHE_LIMIT:
            self._known.clear()
        if stamp.settled:
            self._known[path] = (stamp, content)
        else:
            self._known.pop(path, None)
        return content


def _read_text(path: str) -> tuple[Stamp, str]:
    # The path is canonical: a link or pipe there replaced the file after it was found, and is not followed.
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(handle, "rb") as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        content = file.read(FILE_BYTES_LIMIT + 1)
    if len(content) > FILE_BYTES_LIMIT:
        raise FileTooLarge(path)
    return Stamp.of(status), content.decode("utf-8", "replace")


def _list(directory: str) -> tuple[Stamp, tuple[Child, ...]]:
    stamp = Stamp.of(os.stat(directory))
    with os.scandir(directory) as entries:
        children = [Child(entry.name, _kind(entry)) for entry in entries]
    return stamp, tuple(sorted(children))


def _kind(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "directory"
    return "file" if entry.is_file(follow_symlinks=False) else "other"
