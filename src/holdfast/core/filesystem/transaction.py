"""Makes several file changes together or not at all, as far as the file system permits.

Invariants
- All new content is staged and flushed before the first rename.
- Each replaced or removed file has a backup link until the end, from which it is restored."""

from __future__ import annotations

import os
import stat
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from holdfast.core.filesystem.descriptor import file_identity, open_parent, require_content, stat_entry, sync_directory
from holdfast.core.filesystem.errors import FileError, StaleContent, TargetExists, TargetMissing
from holdfast.core.filesystem.open_tree import temporary_name
from holdfast.core.filesystem.staged import StagedFile
from holdfast.schema.exceptions import HoldfastError
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.filesystem.location_path import Target


class Change(Frozen):
    """`before` and `after` are contents; None means that the file does not exist. A link is removed unchecked."""

    target: Target
    before: bytes | None
    after: bytes | None
    like: Target | None = None
    """The file whose mode a new file gets."""


class ChangesFailed(HoldfastError):
    """One change failed. `remaining` are the targets that could not be restored; normally none."""

    def __init__(self, target: Target, cause: FileError | OSError, remaining: Sequence[Target]) -> None:
        super().__init__(str(cause))
        self.target = target
        self.cause = cause
        self.remaining = tuple(remaining)


def change_all(changes: Sequence[Change]) -> None:
    """Call it under the locks of all targets. Raises `ChangesFailed`."""
    with ExitStack() as stack:
        prepared: list[_PreparedChange] = []
        for change in changes:
            try:
                prepared.append(_prepare(change, stack))
            except (FileError, OSError) as error:
                raise ChangesFailed(change.target, error, []) from error
        done: list[_PreparedChange] = []
        for step in prepared:
            try:
                done.append(step)
                step.commit()
            except (FileError, OSError) as error:
                raise ChangesFailed(step.change.target, error, _undo(done)) from error


class _PreparedChange(Frozen):
    change: Change
    directory: int
    name: str
    staged: StagedFile | None
    backup: str | None
    original: tuple[int, int] | None

    def commit(self) -> None:
        if self.staged is None:
            os.unlink(self.name, dir_fd=self.directory)
            sync_directory(self.directory)
        elif self.backup is None:
            self.staged.link(self.name, self.change.target)
        else:
            self.staged.replace(self.name)

    def undo(self) -> None:
        found = stat_entry(self.directory, self.name, self.change.target)
        present = None if found is None else file_identity(found)
        if self.backup is not None:
            if present != self.original:
                os.rename(self.backup, self.name, src_dir_fd=self.directory, dst_dir_fd=self.directory)
        elif self.staged is not None and present == self.staged.identity:
            # Only our own file: another process may have created one under this name.
            os.unlink(self.name, dir_fd=self.directory)
        sync_directory(self.directory)


def _undo(done: Sequence[_PreparedChange]) -> list[Target]:
    """Undo in reverse order, starting with the failed step. Returns the targets that could not be restored."""
    remaining: list[Target] = []
    for step in reversed(done):
        try:
            step.undo()
        except (FileError, OSError):
            remaining.append(step.change.target)
    return remaining


def _prepare(change: Change, stack: ExitStack) -> _PreparedChange:
    target = change.target
    directory, name = stack.enter_context(open_parent(target, create=change.after is not None))
    found = stat_entry(directory, name, target)
    _verify(change, found, directory, name)
    staged: StagedFile | None = None
    if change.after is not None:
        like = found or (_stat(change.like) if change.like is not None else None)
        staged = stack.enter_context(StagedFile(directory, change.after, like, copy_from=name if found else None))
    backup = _back_up(directory, name, stack) if found is not None else None
    return _PreparedChange(change, directory, name, staged, backup, file_identity(found) if found is not None else None)


def _stat(target: Target) -> os.stat_result | None:
    try:
        with open_parent(target) as (directory, name):
            return stat_entry(directory, name, target)
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
    require_content(directory, name, target, change.before)


def _back_up(directory: int, name: str, stack: ExitStack) -> str:
    backup = temporary_name()
    os.link(name, backup, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)

    def remove() -> None:
        with suppress(FileNotFoundError):
            os.unlink(backup, dir_fd=directory)

    stack.callback(remove)
    return backup
