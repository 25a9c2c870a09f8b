"""Changing files: exclusive creation, replacement, conditional replacement, move and removal, each atomic and durable.

Invariants
- A change happens under the lock of its target, in a worker thread; a cancelled caller gets its cancellation only after
  the change has ended.
- Old or new content, never a mixture: new bytes go to a sibling file, are flushed, and take the name in one step. Only
  a file with several hard links is written in place, so that the links stay together; its old bytes are kept beside
  it until the new ones are flushed.
- Everything happens relative to a descriptor of the parent directory that was reached without following a link.
"""

from __future__ import annotations

import asyncio
import os
import stat
from typing import TYPE_CHECKING, TypeVar

from holdfast.core.filesystem.descriptor import kind_of, look, parent, read_at, regular, sync
from holdfast.core.filesystem.errors import (
    FileTooLarge,
    ReadOnlyFile,
    StaleContent,
    TargetExists,
    TargetMissing,
    WrongKind,
)
from holdfast.core.filesystem.locks import PROCESS_LOCKS, FileLocks
from holdfast.core.filesystem.staged import Staged, write_all
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
    """None: nothing was there, or more than is kept."""
    after: bytes | None


class FileMutations:
    def __init__(
        self, *, locks: FileLocks = PROCESS_LOCKS, on_edit: Callable[[Path], None] = lambda path: None
    ) -> None:
        self._locks = locks
        self._on_edit = on_edit

    async def create(self, target: Target, data: bytes) -> Mutation:
        """Exclusively: whatever stands there stays, and the call fails with `TargetExists`."""
        return await self._run([target], lambda: _create(target, data))

    async def write(self, target: Target, encode: Callable[[bytes | None], bytes]) -> Mutation:
        """Replace or create. `encode` gives the new bytes from the old ones, which decide about mark and encoding;
        the old ones are None also where there are more of them than `MAX_FILE_BYTES`."""
        return await self._run([target], lambda: _write(target, encode))

    async def write_if_unchanged(self, target: Target, expected: bytes, data: bytes) -> Mutation:
        return await self._run([target], lambda: _write_if_unchanged(target, expected, data))

    async def move(self, source: Target, destination: Target, expected: bytes, data: bytes) -> Mutation:
        """The new content appears under the new name, which must be free, before the old name goes."""
        return await self._run([source, destination], lambda: _move(source, destination, expected, data))

    async def remove(self, target: Target) -> Mutation:
        """A file, or a link itself; nothing there is no error."""
        return await self._run([target], lambda: _remove(target))

    async def change_together(self, changes: Sequence[Change]) -> None:
        """All of them or none; raises `ChangesFailed`."""
        await self._run([change.target for change in changes], lambda: change_all(changes))

    async def _run(self, targets: Sequence[Target], change: Callable[[], T]) -> T:
        return await run_to_completion(self._change([target.path for target in targets], change))

    async def _change(self, paths: Sequence[Path], change: Callable[[], T]) -> T:
        def locked() -> T:
            with self._locks.hold(paths):
                return change()

        changed = await asyncio.to_thread(locked)
        for path in paths:
            self._on_edit(path)
        return changed


def _create(target: Target, data: bytes, like: os.stat_result | None = None) -> Mutation:
    with parent(target, create=True) as (directory, name):
        if look(directory, name, target) is not None:
            raise TargetExists(target.resource)
        with Staged(directory, data, like) as staged:
            staged.link(name, target)
    return Mutation(existed=False, before=None, after=data)


def _write(target: Target, encode: Callable[[bytes | None], bytes]) -> Mutation:
    with parent(target, create=True) as (directory, name):
        found = look(directory, name, target)
        if found is None:
            data = encode(None)
            with Staged(directory, data) as staged:
                staged.replace(name)
            return Mutation(existed=False, before=None, after=data)
        _writable(found, directory, name, target)
        before = read_at(directory, name, target, MAX_FILE_BYTES) if found.st_size <= MAX_FILE_BYTES else None
        data = encode(before)
        _replace(directory, name, data, found, target)
        return Mutation(existed=True, before=before, after=data)


def _write_if_unchanged(target: Target, expected: bytes, data: bytes) -> Mutation:
    with parent(target) as (directory, name):
        found = look(directory, name, target)
        if found is None:
            raise StaleContent(target.resource)
        _writable(found, directory, name, target)
        _expect(directory, name, target, expected)
        _replace(directory, name, data, found, target)
    return Mutation(existed=True, before=expected, after=data)


def _move(source: Target, destination: Target, expected: bytes, data: bytes) -> Mutation:
    with parent(source) as (directory, name):
        found = look(directory, name, source)
        if found is None:
            raise TargetMissing(source.resource)
        regular(found, source)
        _expect(directory, name, source, expected)
        _create(destination, data, like=found)
        os.unlink(name, dir_fd=directory)
        sync(directory)
    return Mutation(existed=True, before=expected, after=data)


def _remove(target: Target) -> Mutation:
    try:
        with parent(target) as (directory, name):
            found = look(directory, name, target)
            if found is None:
                return Mutation(existed=False, before=None, after=None)
            if not (stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)):
                raise WrongKind(target.resource, kind_of(found.st_mode))
            os.unlink(name, dir_fd=directory)
            sync(directory)
    except TargetMissing:
        return Mutation(existed=False, before=None, after=None)
    return Mutation(existed=True, before=None, after=None)


def _writable(found: os.stat_result, directory: int, name: str, target: Target) -> None:
    regular(found, target)
    # The superuser may write everything; a file without any write bit is meant to stay as it is all the same.
    if not found.st_mode & 0o222 or not os.access(name, os.W_OK, dir_fd=directory, effective_ids=True):
        raise ReadOnlyFile(target.resource)


def _expect(directory: int, name: str, target: Target, expected: bytes) -> None:
    try:
        same = read_at(directory, name, target, len(expected)) == expected
    except FileTooLarge:
        same = False
    if not same:
        raise StaleContent(target.resource)


def _replace(directory: int, name: str, data: bytes, found: os.stat_result, target: Target) -> None:
    if found.st_nlink > 1:
        _write_in_place(directory, name, data, target)
        return
    with Staged(directory, data, found, copy_from=name) as staged:
        staged.replace(name)


def _write_in_place(directory: int, name: str, data: bytes, target: Target) -> None:
    before = read_at(directory, name, target, MAX_FILE_BYTES)
    handle = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    try:
        with Staged(directory, before):
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
