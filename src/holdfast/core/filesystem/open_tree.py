"""The one way to open a path: from a directory that is held open, component by component, without following a link.

Invariants
- Every step is relative to a descriptor, so a directory that is exchanged for a link meanwhile leads nowhere else.
- What is reached was below the directory when it was reached. Only regular files are opened; no pipe is waited for.
- A tree that knows Holdfast's own folders enters none of those that may not be read."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.filesystem.own_folders import Identity, Use

DIRECTORY = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | getattr(os, "O_NOCTTY", 0)
"""Non-blocking: a pipe or device that was swapped in is opened without waiting, detected and closed."""
NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
TEMPORARY = ".holdfast-"
ATTEMPTS = 8
"""How often something in the place of a directory is removed before giving up."""
DESCRIPTORS = "/proc/self/fd"
NOT_A_DIRECTORY = (errno.ELOOP, errno.ENOTDIR)
"""How opening a link fails, depending on the system."""


def open_directory(path: Path) -> int:
    """A descriptor of a directory whose path has no links, for entering it. Raises OSError: ENOTDIR or ELOOP if a
    component is a link."""
    handle = os.open("/", DIRECTORY)
    for part in path.parts[1:]:
        try:
            below = os.open(part, DIRECTORY, dir_fd=handle)
        finally:
            os.close(handle)
        handle = below
    return handle


def open_regular(directory: int, name: str) -> int | None:
    """A descriptor of a regular file, for reading; None if it is something else. Raises OSError."""
    handle = os.open(name, FILE, dir_fd=directory)
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    return None


def temporary_name() -> str:
    return TEMPORARY + secrets.token_hex(8)


class OpenTree:
    """A directory and what is below it. Paths are relative to it. For one thread at a time."""

    def __init__(self, path: Path, own: Mapping[Identity, Use] | None = None) -> None:
        """Raises OSError. `own` says which folders that are met below may be read."""
        self._own = own or {}
        self._path = path
        self._open: list[tuple[str, int, Use]] = [("", open_directory(path), "open")]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        while self._open:
            os.close(self._open.pop()[1])

    @property
    def working_directory(self) -> Path:
        """The held directory as a child process can enter it. The path itself on systems without /proc: there a child
        may start in another directory, and only what is opened through this tree is certain."""
        return Path(f"{DESCRIPTORS}/{self._open[0][1]}") if os.path.isdir(DESCRIPTORS) else self._path

    def parent(self, path: str, *, make: bool = False) -> tuple[int, str]:
        """A descriptor of the directory that has the path, and the name in it. The descriptor belongs to the tree and
        stays open until the next call. With `make`, missing directories are made, and anything else in their place is
        removed. Raises OSError: ENOTDIR or ELOOP if a component is a link."""
        *folders, name = _parts(path)
        depth = 0
        while depth < min(len(folders), len(self._open) - 1) and self._open[depth + 1][0] == folders[depth]:
            depth += 1
        while len(self._open) > depth + 1:
            os.close(self._open.pop()[1])
        for folder in folders[depth:]:
            self._enter(folder, make=make)
        if self._open[-1][2] != "open":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return self._open[-1][1], name

    def status(self, path: str) -> os.stat_result | None:
        """The status of a path, which may be a link; None if it cannot be reached without following one."""
        try:
            directory, name = self.parent(path)
            return os.stat(name, dir_fd=directory, follow_symlinks=False)
        except OSError:
            return None

    def open(self, path: str) -> int | None:
        """A descriptor of a regular file, for reading; None if there is none that can be reached without a link."""
        try:
            return open_regular(*self.parent(path))
        except OSError:
            return None

    def _enter(self, name: str, *, make: bool) -> None:
        _, above, use = self._open[-1]
        handle = _make_directory(above, name) if make else os.open(name, DIRECTORY, dir_fd=above)
        if self._own:
            found = os.fstat(handle)
            use = self._own.get((found.st_dev, found.st_ino), use)
        self._open.append((name, handle, use))


def _make_directory(above: int, name: str) -> int:
    for _ in range(ATTEMPTS):
        try:
            return os.open(name, DIRECTORY, dir_fd=above)
        except FileNotFoundError:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=above)
        except OSError as error:
            if error.errno not in NOT_A_DIRECTORY:
                raise
            with suppress(FileNotFoundError, IsADirectoryError):
                os.unlink(name, dir_fd=above)
    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), name)


def _parts(path: str) -> list[str]:
    """The components of a relative path. Raises ValueError for one that could lead out."""
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"{path!r} is not a path below a directory")
    return parts
