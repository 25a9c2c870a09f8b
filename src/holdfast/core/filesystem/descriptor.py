"""Opens resolved targets (open_tree.py): what was resolved, or nothing."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from holdfast.core.filesystem.errors import FileTooLarge, PathError, StaleContent, TargetMissing, WrongKind
from holdfast.core.filesystem.open_tree import DIRECTORY, FILE, NOT_A_DIRECTORY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.filesystem.location_path import Target

_LISTED = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def open_parent(target: Target, *, create: bool = False) -> Iterator[tuple[int, str]]:
    """A descriptor of the target's directory, and the target's name in it; `.` if the target is the root directory."""
    parts = target.path.parts[1:]
    handle = os.open("/", DIRECTORY)
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
    with open_parent(target) as (directory, name):
        return _open_at(directory, name, target)


def open_entry(target: Target) -> int:
    """A descriptor of a regular file, or of a directory, for reading."""
    try:
        return open_file(target)
    except WrongKind as error:
        if error.kind != "directory":
            raise
    with open_parent(target) as (parent, name):
        return os.open(name, _LISTED, dir_fd=parent)


def stat_entry(directory: int, name: str, target: Target) -> os.stat_result | None:
    """The status of a directory entry, not following links; None if it does not exist."""
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _open_error(error, target) from None


def read_file(target: Target, limit: int) -> bytes:
    """The content of a regular file; raises `FileTooLarge` above the limit."""
    with open_parent(target) as (directory, name):
        return read_at(directory, name, target, limit)


def read_at(directory: int, name: str, target: Target, limit: int) -> bytes:
    with os.fdopen(_open_at(directory, name, target), "rb") as file:
        too_large = os.fstat(file.fileno()).st_size > limit
        data = b"" if too_large else file.read(limit + 1)
    if too_large or len(data) > limit:
        raise FileTooLarge(target.resource, limit)
    return data


def require_content(directory: int, name: str, target: Target, expected: bytes) -> None:
    """Raises `StaleContent` if the file has another content."""
    try:
        same = read_at(directory, name, target, len(expected)) == expected
    except FileTooLarge:
        same = False
    if not same:
        raise StaleContent(target.resource)


def sync_directory(directory: int) -> None:
    """Flush renames in a directory to disk, if the file system supports it."""
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


def require_regular(found: os.stat_result, target: Target) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise PathError(target.resource, "location_escape")
    if not stat.S_ISREG(found.st_mode):
        raise WrongKind(target.resource, file_kind(found.st_mode))


def file_identity(found: os.stat_result) -> tuple[int, int]:
    """Device and inode: equal for all names of one file."""
    return found.st_dev, found.st_ino


def file_kind(mode: int) -> str:
    return _KINDS.get(stat.S_IFMT(mode), "special file")


_KINDS = {
    stat.S_IFDIR: "directory",
    stat.S_IFIFO: "pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


def _open_at(directory: int, name: str, target: Target) -> int:
    """Open a regular file; its kind is checked before and after opening."""
    found = stat_entry(directory, name, target)
    if found is None:
        raise TargetMissing(target.resource)
    require_regular(found, target)
    try:
        handle = os.open(name, FILE, dir_fd=directory)
    except OSError as error:
        raise _open_error(error, target) from None
    try:
        require_regular(os.fstat(handle), target)
    except WrongKind:
        os.close(handle)
        raise
    return handle


def _enter(handle: int, part: str, target: Target, create: bool) -> int:
    try:
        return os.open(part, DIRECTORY, dir_fd=handle)
    except FileNotFoundError:
        if not create:
            raise TargetMissing(target.resource) from None
    except OSError as error:
        raise _open_error(error, target) from None
    with suppress(FileExistsError):
        os.mkdir(part, dir_fd=handle)
        sync_directory(handle)
    try:
        return os.open(part, DIRECTORY, dir_fd=handle)
    except OSError as error:
        raise _open_error(error, target) from None


def _open_error(error: OSError, target: Target) -> OSError | PathError:
    """`PathError` if the path changed since it was resolved: a component is now a link or not a directory."""
    if error.errno in NOT_A_DIRECTORY:
        return PathError(target.resource, "location_escape")
    return error
