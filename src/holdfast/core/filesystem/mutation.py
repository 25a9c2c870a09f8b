"""Changes files: exclusive creation, replacement, conditional replacement, move and removal, each atomic and durable.

Invariants
- A change runs in a worker thread under the lock of its target; a cancelled caller is released only after it ended.
- A reader sees the old or the new content, never a mixture: new bytes are written to a sibling file, flushed, renamed.
  Only a file with several hard links is written in place, to preserve the links; its old bytes are kept in a sibling
  file until the new ones are flushed.
- Every operation is relative to a descriptor of the parent directory that was opened without following links."""

from __future__ import annotations

import asyncio
import os
import stat
from typing import TYPE_CHECKING, TypeVar

from holdfast.core.filesystem.descriptor import (
    file_kind,
    open_parent,
    read_at,
    require_content,
    require_regular,
    stat_entry,
    sync_directory,
)
from holdfast.core.filesystem.errors import ReadOnlyFile, StaleContent, TargetExists, TargetMissing, WrongKind
from holdfast.core.filesystem.locks import PROCESS_LOCKS, FileLocks
from holdfast.core.filesystem.staged import StagedFile, write_all
from holdfast.core.filesystem.transaction import Change, change_all
from holdfast.core.run_to_completion import run_to_completion
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from holdfast.core.filesystem.location_path import Target

T = TypeVar("T")

MAX_FILE_BYTES = 10 * 1024 * 1024


class Mutation(Frozen):
    existed: bool
    before: bytes | None
    """None if the file did not exist or is larger than `MAX_FILE_BYTES`."""
    after: bytes | None


class FileMutations:
    def __init__(
        self, *, locks: FileLocks = PROCESS_LOCKS, on_edit: Callable[[Path], None] = lambda path: None
    ) -> None:
        self._locks = locks
        self._on_edit = on_edit

    async def create(self, target: Target, data: bytes) -> Mutation:
        """Create a file; raises `TargetExists` if the name is taken."""
        return await self._run([target], lambda: _create(target, data))

    async def write(self, target: Target, encode: Callable[[bytes | None], bytes]) -> Mutation:
        """Replace or create. `encode` returns the new bytes; it gets the old ones to keep their encoding, or None if
        there are none or more than `MAX_FILE_BYTES`."""
        return await self._run([target], lambda: _write(target, encode))

    async def write_if_unchanged(self, target: Target, expected: bytes, data: bytes) -> Mutation:
        return await self._run([target], lambda: _write_if_unchanged(target, expected, data))

    async def move(self, source: Target, destination: Target, expected: bytes, data: bytes) -> Mutation:
        """Create the destination, which must not exist, with the new content; then remove the source."""
        return await self._run([source, destination], lambda: _move(source, destination, expected, data))

    async def remove(self, target: Target) -> Mutation:
        """Remove a file or a link; a missing target is not an error."""
        return await self._run([target], lambda: _remove(target))

    async def change_together(self, changes: Sequence[Change]) -> None:
        """Make all changes or none; raises `ChangesFailed`."""
        await self._run([change.target for change in changes], lambda: change_all(changes))

    async def _run(self, targets: Sequence[Target], change: Callable[[], T]) -> T:
        paths = [target.path for target in targets]

        def locked() -> T:
            with self._locks.hold(paths):
                return change()

        async def notified() -> T:
            changed = await asyncio.to_thread(locked)
            for path in paths:
                self._on_edit(path)
            return changed

        return await run_to_completion(notified())


def _create(target: Target, data: bytes, like: os.stat_result | None = None) -> Mutation:
    with open_parent(target, create=True) as (directory, name):
        if stat_entry(directory, name, target) is not None:
            raise TargetExists(target.resource)
        with StagedFile(directory, data, like) as staged:
            staged.link(name, target)
    return Mutation(existed=False, before=None, after=data)


def _write(target: Target, encode: Callable[[bytes | None], bytes]) -> Mutation:
    with open_parent(target, create=True) as (directory, name):
        found = stat_entry(directory, name, target)
        if found is None:
            data = encode(None)
            with StagedFile(directory, data) as staged:
                staged.replace(name)
            return Mutation(existed=False, before=None, after=data)
        _require_writable(found, directory, name, target)
        before = read_at(directory, name, target, MAX_FILE_BYTES) if found.st_size <= MAX_FILE_BYTES else None
        data = encode(before)
        _replace(directory, name, data, found, target)
        return Mutation(existed=True, before=before, after=data)


def _write_if_unchanged(target: Target, expected: bytes, data: bytes) -> Mutation:
    with open_parent(target) as (directory, name):
        found = stat_entry(directory, name, target)
        if found is None:
            raise StaleContent(target.resource)
        _require_writable(found, directory, name, target)
        require_content(directory, name, target, expected)
        _replace(directory, name, data, found, target)
    return Mutation(existed=True, before=expected, after=data)


def _move(source: Target, destination: Target, expected: bytes, data: bytes) -> Mutation:
    with open_parent(source) as (directory, name):
        found = stat_entry(directory, name, source)
        if found is None:
            raise TargetMissing(source.resource)
        require_regular(found, source)
        require_content(directory, name, source, expected)
        _create(destination, data, like=found)
        os.unlink(name, dir_fd=directory)
        sync_directory(directory)
    return Mutation(existed=True, before=expected, after=data)


def _remove(target: Target) -> Mutation:
    try:
        with open_parent(target) as (directory, name):
            found = stat_entry(directory, name, target)
            if found is None:
                return Mutation(existed=False, before=None, after=None)
            if not (stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)):
                raise WrongKind(target.resource, file_kind(found.st_mode))
            os.unlink(name, dir_fd=directory)
            sync_directory(directory)
    except TargetMissing:
        return Mutation(existed=False, before=None, after=None)
    return Mutation(existed=True, before=None, after=None)


def _require_writable(found: os.stat_result, directory: int, name: str, target: Target) -> None:
    require_regular(found, target)
    # root may write any file; a file without write bits is respected as read-only all the same.
    if not found.st_mode & 0o222 or not os.access(name, os.W_OK, dir_fd=directory, effective_ids=True):
        raise ReadOnlyFile(target.resource)


def _replace(directory: int, name: str, data: bytes, found: os.stat_result, target: Target) -> None:
    if found.st_nlink > 1:
        _write_in_place(directory, name, data, target)
        return
    with StagedFile(directory, data, found, copy_from=name) as staged:
        staged.replace(name)


def _write_in_place(directory: int, name: str, data: bytes, target: Target) -> None:
    before = read_at(directory, name, target, MAX_FILE_BYTES)
    handle = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    try:
        with StagedFile(directory, before):
            try:
                _overwrite(handle, data)
            except OSError:
                _overwrite(handle, before)
                raise
    finally:
        os.close(handle)


def _overwrite(handle: int, data: bytes) -> None:
    os.lseek(handle, 0, os.SEEK_SET)
    write_all(handle, data)
    os.ftruncate(handle, len(data))
    os.fsync(handle)
