"""Finds the files of a worktree that differ from an index.

git only compares and lists here. Nested repositories are skipped, because git would run their filters to see whether
they changed."""

from __future__ import annotations

import asyncio
import os
import stat
from typing import TYPE_CHECKING

from holdfast.core.process.git import split_nul
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
    from pathlib import Path

COMPARE = ("diff-files", "-z", "--name-status", "--no-renames", "--ignore-submodules=all")
LIST_NEW = ("ls-files", "-z", "--others", "--exclude-standard")
DELETED = "D"


class ChangedFiles(Frozen):
    changed: tuple[str, ...]
    """New files, and files whose content or times differ from the index."""
    deleted: tuple[str, ...]
    """Files of the index that no longer exist."""
    known: frozenset[str] = frozenset()
    """The changed and deleted files that are in the index."""
    nested: tuple[str, ...] = ()
    """Nested repositories, which are skipped."""


async def select_files(
    git: Callable[..., Awaitable[bytes]], worktree: Path, pathspecs: Sequence[str] = ()
) -> ChangedFiles:
    """`git` runs a git command with the worktree and the index."""
    compared, listed = await _both(git(*COMPARE, "--", *pathspecs), git(*LIST_NEW, "--", *pathspecs))
    words = split_nul(compared)
    status = dict(zip(words[1::2], words[::2], strict=True))
    # A nested repository is listed as a folder.
    others = split_nul(listed)
    new = [path for path in others if not path.endswith("/")]
    there = [path for path, letter in status.items() if letter != DELETED]
    found = await asyncio.to_thread(_sort, worktree, (*there, *new), status)
    return found.replace(nested=tuple(path for path in others if path.endswith("/")))


def _sort(worktree: Path, there: Iterable[str], status: Mapping[str, str]) -> ChangedFiles:
    """Unreadable files stay as they are in the index. A file replaced by something else, such as a pipe, is deleted."""
    changed, deleted = [], [path for path, letter in status.items() if letter == DELETED]
    for path in there:
        try:
            kind = os.lstat(full := f"{worktree}/{path}").st_mode
        except OSError:
            deleted.append(path)
            continue
        if not (stat.S_ISREG(kind) or stat.S_ISLNK(kind)):
            deleted.append(path)
        elif stat.S_ISLNK(kind) or os.access(full, os.R_OK):
            changed.append(path)
    return ChangedFiles(tuple(changed), tuple(path for path in deleted if path in status), frozenset(status))


async def _both(*calls: Awaitable[bytes]) -> list[bytes]:
    """Run the calls concurrently; waits for all of them even if one fails."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if isinstance(result, bytes)]
