"""New content on its way to a name: written beside it, flushed, dressed like its predecessor."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.core.filesystem.descriptor import identity, sync
from holdfast.core.filesystem.errors import TargetExists

if TYPE_CHECKING:
    from holdfast.core.filesystem.location_path import Target

TEMPORARY = ".holdfast-"


class Staged:
    """New content in a sibling file, flushed, waiting to take its name. Left without one, it is removed."""

    def __init__(
        self, directory: int, data: bytes, like: os.stat_result | None = None, *, copy_from: str | None = None
    ) -> None:
        self.directory = directory
        self.name = TEMPORARY + secrets.token_hex(8)
        # Without an example the process's umask decides about the mode.
        mode = 0o666 if like is None else 0o600
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(self.name, flags, mode, dir_fd=directory)
        try:
            write_all(handle, data)
            if like is not None:
                _dress(handle, like, directory, copy_from)
            os.fsync(handle)
            found = os.fstat(handle)
        except OSError:
            self.discard()
            raise
        finally:
            os.close(handle)
        self.identity = identity(found)

    def __enter__(self) -> Staged:
        return self

    def __exit__(self, *raised: object) -> None:
        self.discard()

    def replace(self, name: str) -> None:
        os.rename(self.name, name, src_dir_fd=self.directory, dst_dir_fd=self.directory)
        sync(self.directory)

    def link(self, name: str, target: Target) -> None:
        """Take the name only if it is free."""
        try:
            os.link(self.name, name, src_dir_fd=self.directory, dst_dir_fd=self.directory, follow_symlinks=False)
        except FileExistsError:
            raise TargetExists(target.resource) from None
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.EMLINK):
                raise
            self._reserve(name, target)
            self.replace(name)
            return
        self.discard()
        sync(self.directory)

    def _reserve(self, name: str, target: Target) -> None:
        """For file systems without hard links: hold the free name with an empty file."""
        try:
            os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, dir_fd=self.directory))
        except FileExistsError:
            raise TargetExists(target.resource) from None

    def discard(self) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self.name, dir_fd=self.directory)


def write_all(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def _dress(handle: int, like: os.stat_result, directory: int, copy_from: str | None) -> None:
    """Give the new file owner, extended attributes and mode of the old one, as far as we may."""
    fresh = os.fstat(handle)
    if (fresh.st_uid, fresh.st_gid) != (like.st_uid, like.st_gid):
        with suppress(PermissionError):
            os.fchown(handle, like.st_uid, like.st_gid)
    if copy_from is not None and hasattr(os, "listxattr"):
        _copy_attributes(handle, directory, copy_from)
    # Last, for a change of owner clears some of its bits.
    os.fchmod(handle, stat.S_IMODE(like.st_mode))


def _copy_attributes(handle: int, directory: int, name: str) -> None:
    source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    try:
        for attribute in os.listxattr(source):
            with suppress(OSError):
                os.setxattr(handle, attribute, os.getxattr(source, attribute))
    except OSError as error:
        if error.errno != errno.ENOTSUP:
            raise
    finally:
        os.close(source)
