"""Which files of a worktree differ from an index: what a snapshot would have to take in or leave out.

git only compares and lists here. It never enters a repository below the worktree: those are neither looked into nor
recorded, since git would run their own filters to see whether they changed."""

from __future__ import annotations

import asyncio
import os
import stat
from typing import TYPE_CHECKING

from holdfast.core.process.git import names
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
    from pathlib import Path

COMPARE = ("diff-files", "-z", "--name-status", "--no-renames", "--ignore-submodules=all")
LIST_NEW = ("ls-files", "-z", "--others", "--exclude-standard")
DELETED = "D"


class Selection(Frozen):
    changed: tuple[str, ...]
    """Files to take in: new ones, and those whose content or times are not those in the index."""
    gone: tuple[str, ...]
    """Files of the index that are there no more."""
    known: frozenset[str] = frozenset()
    """Those of both that are in the index already."""


async def select_files(
    git: Callable[..., Awaitable[bytes]], worktree: Path, pathspecs: Sequence[str] = ()
) -> Selection:
    """`git` runs a command with the worktree and the index to compare."""
    compared, listed = await _both(git(*COMPARE, "--", *pathspecs), git(*LIST_NEW, "--", *pathspecs))
    words = names(compared)
    status = dict(zip(words[1::2], words[::2], strict=True))
    # A repository below the worktree is listed as a folder.
    new = [path for path in names(listed) if not path.endswith("/")]
    there = [path for path, letter in status.items() if letter != DELETED]
    return await asyncio.to_thread(_sort, worktree, (*there, *new), status)


def _sort(worktree: Path, there: Iterable[str], status: Mapping[str, str]) -> Selection:
    """What cannot be read stays as the index has it. What is no file any more, such as a pipe in its place, is gone."""
    changed, gone = [], [path for path, letter in status.items() if letter == DELETED]
    for path in there:
        try:
            kind = os.lstat(full := f"{worktree}/{path}").st_mode
        except OSError:
            gone.append(path)
            continue
        if not (stat.S_ISREG(kind) or stat.S_ISLNK(kind)):
            gone.append(path)
        elif stat.S_ISLNK(kind) or os.access(full, os.R_OK):
            changed.append(path)
    return Selection(tuple(changed), tuple(path for path in gone if path in status), frozenset(status))


async def _both(*calls: Awaitable[bytes]) -> list[bytes]:
    """At the same time; both have ended when one of them fails."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if isinstance(result, bytes)]
