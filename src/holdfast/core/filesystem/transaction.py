"""Several changes that happen together or not at all, as far as a file system lets them.

Invariants
- Everything new is staged and flushed before the first name changes.
- Each replaced or removed file keeps a second name until the end, by which it comes back as it was.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from holdfast.core.filesystem.descriptor import identity, look, parent, read_at, sync
from holdfast.core.filesystem.errors import FileError, FileTooLarge, StaleContent, TargetExists, TargetMissing
from holdfast.core.filesystem.staged import TEMPORARY, Staged
from holdfast.schema.exceptions import HoldfastError
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.filesystem.location_path import Target


class Change(Frozen):
    """None is a file that is not there. A link is removed whatever it holds."""

    target: Target
    before: bytes | None
    after: bytes | None
    like: Target | None = None
    """Whose mode a new file takes."""


class ChangesFailed(HoldfastError):
    """One change failed. `remaining` are those that could not be taken back; normally none."""

    def __init__(self, target: Target, cause: FileError | OSError, remaining: Sequence[Target]) -> None:
        super().__init__(str(cause))
        self.target = target
        self.cause = cause
        self.remaining = tuple(remaining)


def change_all(changes: Sequence[Change]) -> None:
    """To be called under the locks of all targets."""
    with ExitStack() as open_:
        prepared: list[_Prepared] = []
        for change in changes:
            try:
                prepared.append(_prepare(change, open_))
            except (FileError, OSError) as error:
                raise ChangesFailed(change.target, error, []) from error
        done: list[_Prepared] = []
        for step in prepared:
            try:
                done.append(step)
                step.commit()
            except (FileError, OSError) as error:
                raise ChangesFailed(step.change.target, error, _take_back(done)) from error


class _Prepared(Frozen):
    change: Change
    directory: int
    name: str
    staged: Staged | None
    backup: str | None
    original: tuple[int, int] | None

    def commit(self) -> None:
        if self.staged is None:
            os.unlink(self.name, dir_fd=self.directory)
            sync(self.directory)
        elif self.backup is None:
            self.staged.link(self.name, self.change.target)
        else:
            self.staged.replace(self.name)

    def take_back(self) -> None:
        found = look(self.directory, self.name, self.change.target)
        present = None if found is None else identity(found)
        if self.backup is not None:
            if present != self.original:
                os.rename(self.backup, self.name, src_dir_fd=self.directory, dst_dir_fd=self.directory)
        elif self.staged is not None and present == self.staged.identity:
            # Not what somebody else put there.
            os.unlink(self.name, dir_fd=self.directory)
        sync(self.directory)


def _take_back(done: Sequence[_Prepared]) -> list[Target]:
    """In reverse, the failed one first, since it may have failed late."""
    remaining: list[Target] = []
    for step in reversed(done):
        try:
            step.take_back()
        except (FileError, OSError):
            remaining.append(step.change.target)
    return remaining


def _prepare(change: Change, open_: ExitStack) -> _Prepared:
    target = change.target
    directory, name = open_.enter_context(parent(target, create=change.after is not None))
    found = look(directory, name, target)
    _verify(change, found, directory, name)
    staged: Staged | None = None
    if change.after is not None:
        like = found or (_stat(change.like) if change.like is not None else None)
        staged = open_.enter_context(Staged(directory, change.after, like, copy_from=name if found else None))
    backup = _keep(directory, name, open_) if found is not None else None
    return _Prepared(change, directory, name, staged, backup, identity(found) if found is not None else None)


def _stat(target: Target) -> os.stat_result | None:
    try:
        with parent(target) as (directory, name):
            return look(directory, name, target)
    except TargetMissing:
        return None


def _verify(change: Change, found: os.stat_result | None, directory: int, name: str) -> None:
    target = change.target
    if change.before is None:
        if found is not None:
            raise TargetExists(target.resource)
        return
    if found is None:
        raise StaleContent(target.resource)
    if stat.S_ISLNK(found.st_mode) and change.after is None:
        return
    if found.st_nlink > 1 and change.after is not None:
        raise FileError("it has several hard links, which replacing it would separate")
    try:
        same = read_at(directory, name, target, len(change.before)) == change.before
    except FileTooLarge:
        same = False
    if not same:
        raise StaleContent(target.resource)


def _keep(directory: int, name: str, open_: ExitStack) -> str:
    backup = TEMPORARY + secrets.token_hex(8)
    os.link(name, backup, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)

    def forget() -> None:
        with suppress(FileNotFoundError):
            os.unlink(backup, dir_fd=directory)

    open_.callback(forget)
    return backup
