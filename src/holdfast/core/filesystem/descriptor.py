"""Opening a target: component by component from its root, following no link, so that nothing which was swapped since
the target was resolved can lead elsewhere."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from holdfast.core.filesystem.errors import FileTooLarge, PathError, TargetMissing, WrongKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.filesystem.location_path import Target

_DIRECTORY = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
# A pipe or device that was put there at the last moment is opened without blocking, seen, and closed.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | getattr(os, "O_NOCTTY", 0)


@contextmanager
def parent(target: Target, *, create: bool = False) -> Iterator[tuple[int, str]]:
    """The directory of a target as a descriptor, and the target's name in it; `.` when the target is its own root."""
    parts = target.path.parts[len(target.root.parts) :]
    try:
        handle = os.open(target.root, _DIRECTORY)
    except OSError as error:
        raise _swapped(error, target) from None
    try:
        for part in parts[:-1]:
            below = _enter(handle, part, target, create)
            os.close(handle)
            handle = below
        yield handle, parts[-1] if parts else "."
    finally:
        os.close(handle)


def open_file(target: Target) -> int:
    """A descriptor of a regular file, for reading."""
    with parent(target) as (directory, name):
        return _open_at(directory, name, target)


def look(directory: int, name: str, target: Target) -> os.stat_result | None:
    """What stands under the name, if anything does."""
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _swapped(error, target) from None


def read_file(target: Target, limit: int) -> bytes:
    """All bytes of a regular file that has at most so many."""
    with parent(target) as (directory, name):
        return read_at(directory, name, target, limit)


def read_at(directory: int, name: str, target: Target, limit: int) -> bytes:
    with os.fdopen(_open_at(directory, name, target), "rb") as file:
        too_large = os.fstat(file.fileno()).st_size > limit
        data = b"" if too_large else file.read(limit + 1)
    if too_large or len(data) > limit:
        raise FileTooLarge(target.resource, limit)
    return data


def sync(directory: int) -> None:
    """Make a change of names durable, where the file system can."""
    try:
        handle = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
    except PermissionError:
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)


def regular(found: os.stat_result, target: Target) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise PathError(target.resource, "location_escape")
    if not stat.S_ISREG(found.st_mode):
        raise WrongKind(target.resource, kind_of(found.st_mode))


def identity(found: os.stat_result) -> tuple[int, int]:
    """The same for every name of one file."""
    return found.st_dev, found.st_ino


def kind_of(mode: int) -> str:
    return _KINDS.get(stat.S_IFMT(mode), "special file")


_KINDS = {
    stat.S_IFDIR: "directory",
    stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


def _open_at(directory: int, name: str, target: Target) -> int:
    """Anything but a regular file is seen before it is opened, and again after."""
    found = look(directory, name, target)
    if found is None:
        raise TargetMissing(target.resource)
    regular(found, target)
    try:
        handle = os.open(name, _FILE, dir_fd=directory)
    except OSError as error:
        raise _swapped(error, target) from None
    try:
        regular(os.fstat(handle), target)
    except WrongKind:
        os.close(handle)
        raise
    return handle


def _enter(handle: int, part: str, target: Target, create: bool) -> int:
    try:
        return os.open(part, _DIRECTORY, dir_fd=handle)
    except FileNotFoundError:
        if not create:
            raise TargetMissing(target.resource) from None
    except OSError as error:
        raise _swapped(error, target) from None
    with suppress(FileExistsError):
        os.mkdir(part, dir_fd=handle)
        sync(handle)
    try:
        return os.open(part, _DIRECTORY, dir_fd=handle)
    except OSError as error:
        raise _swapped(error, target) from None


def _swapped(error: OSError, target: Target) -> OSError | PathError:
    """It was a directory, or nothing, when the target was resolved."""
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return PathError(target.resource, "location_escape")
    return error
