"""A temporary sibling file with new content, ready to be renamed to its final name."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.core.filesystem.descriptor import file_identity, sync_directory
from holdfast.core.filesystem.errors import TargetExists
from holdfast.core.filesystem.open_tree import NEW_FILE, temporary_name

if TYPE_CHECKING:
    from holdfast.core.filesystem.location_path import Target


class StagedFile:
    """New content, written and flushed to a sibling file. Removed at the end of the context if not renamed. `like` is
    the status of the file whose owner and mode it gets, `copy_from` the one whose extended attributes it gets."""

    def __init__(
        self, directory: int, data: bytes, like: os.stat_result | None = None, *, copy_from: str | None = None
    ) -> None:
        self.directory = directory
        self.name = temporary_name()
        # Without `like` the umask of the process applies.
        mode = 0o666 if like is None else 0o600
        handle = os.open(self.name, NEW_FILE, mode, dir_fd=directory)
        try:
            write_all(handle, data)
            if like is not None:
                _copy_metadata(handle, like, directory, copy_from)
            os.fsync(handle)
            found = os.fstat(handle)
        except OSError:
            self.discard()
            raise
        finally:
            os.close(handle)
        self.identity = file_identity(found)

    def __enter__(self) -> StagedFile:
        return self

    def __exit__(self, *raised: object) -> None:
        self.discard()

    def replace(self, name: str) -> None:
        os.rename(self.name, name, src_dir_fd=self.directory, dst_dir_fd=self.directory)
        sync_directory(self.directory)

    def link(self, name: str, target: Target) -> None:
        """Rename only if the name is free; raises `TargetExists`."""
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
        sync_directory(self.directory)

    def _reserve(self, name: str, target: Target) -> None:
        """On file systems without hard links: create an empty file under the name, exclusively."""
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


def _copy_metadata(handle: int, like: os.stat_result, directory: int, copy_from: str | None) -> None:
    """Copy owner, extended attributes and mode, as far as permitted."""
    fresh = os.fstat(handle)
    if (fresh.st_uid, fresh.st_gid) != (like.st_uid, like.st_gid):
        with suppress(PermissionError):
            os.fchown(handle, like.st_uid, like.st_gid)
    if copy_from is not None and hasattr(os, "listxattr"):
        _copy_attributes(handle, directory, copy_from)
    # Last, because a change of owner clears some mode bits.
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
