"""Merges the changes between two trees into the tree of a worktree, path by path. No file of the worktree changes.

Invariants
- A path that already is as the changes want it is left alone, so that an interrupted application can be repeated.
- A file that changed on both sides is merged line by line. What cannot be merged is a conflict; with a conflict there
  is no merged tree.
- Nothing that is not in the worktree's tree is overwritten: an ignored or too large file in the way is a conflict.
- Nothing is written into a nested repository, which no tree has: it could not be reverted."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from holdfast.core.process.git import GitFailed
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator

    RunGit = Callable[..., Awaitable[bytes]]

ABSENT = "000000"
FILES = ("100644", "100755")
NO_MERGE = "it was changed here and by the subagent"
IN_THE_WAY = "something else is in its place"
NESTED = "{} is a repository of its own here, or a submodule"
NO_TEXT = "its name is not UTF-8 text, so it cannot be approved. Have it renamed, or copy it yourself"


class Entry(NamedTuple):
    """What a tree has at a path."""

    mode: str
    blob: str

    @property
    def absent(self) -> bool:
        return self.mode == ABSENT


class Step(NamedTuple):
    """A path of the worktree that changes."""

    path: str
    before: Entry
    after: Entry

    @property
    def status(self) -> Literal["added", "modified", "deleted"]:
        return "added" if self.before.absent else "deleted" if self.after.absent else "modified"


class Merge(Frozen):
    steps: tuple[Step, ...]
    conflicts: tuple[tuple[str, str], ...]
    """Paths, and why each cannot be changed."""


async def merge_changes(git: RunGit, worktree: Path, base: str, result: str, here: str) -> Merge:
    """What the changes from `base` to `result` make of the tree `here`. `git` runs with the store of the trees."""
    ours = {path: (old, new) for path, old, new in await _compare(git, base, here)}
    steps: list[Step] = []
    conflicts: list[tuple[str, str]] = []
    for path, old, new in await _compare(git, base, result):
        mine = ours[path][1] if path in ours else old
        if mine == new:
            continue
        if mine == old:
            steps.append(Step(path, mine, new))
            continue
        merged = await _merged(git, old, mine, new)
        if merged is None:
            conflicts.append((path, NO_MERGE))
        elif merged != mine:
            steps.append(Step(path, mine, merged))
    conflicts += await asyncio.to_thread(_blocked, worktree, steps)
    return Merge(tuple(steps), tuple(conflicts))


async def merged_tree(git: RunGit, here: str, steps: Iterable[Step]) -> str:
    """The tree `here` with these steps. `git` has an index of its own. Raises GitFailed if a file and a directory would
    have the same name."""
    steps = sorted(steps, key=lambda step: not step.after.absent)  # a file makes room for a directory first
    await git("read-tree", here)
    lines = (f"{'0' if step.after.absent else step.after.mode} {step.after.blob}\t{step.path}\0" for step in steps)
    await git("update-index", "-z", "--index-info", stdin=b"".join(map(os.fsencode, lines)))
    return (await git("write-tree")).decode("ascii").strip()


async def _compare(git: RunGit, before: str, after: str) -> list[tuple[str, Entry, Entry]]:
    """Each path that differs, with both entries."""
    words = (await git("diff-tree", "-r", "-z", "--no-renames", "--raw", "--no-abbrev", before, after)).split(b"\0")
    found = []
    for about, path in zip(words[::2], words[1::2], strict=False):
        old_mode, new_mode, old, new, _ = about.decode("ascii").removeprefix(":").split(" ")
        found.append((os.fsdecode(path), Entry(old_mode, old), Entry(new_mode, new)))
    return found


async def _merged(git: RunGit, old: Entry, mine: Entry, theirs: Entry) -> Entry | None:
    """The file with both changes; None if they touch the same lines, or are not changes of regular files."""
    import tempfile

    if any(entry.mode not in FILES for entry in (old, mine, theirs)):
        return None
    mode = theirs.mode if mine.mode == old.mode else mine.mode
    if theirs.blob == old.blob:
        return Entry(mode, mine.blob)
    if mine.blob == old.blob:
        return Entry(mode, theirs.blob)
    with tempfile.TemporaryDirectory(prefix="holdfast-merge-") as name:
        files = [Path(name) / part for part in ("here", "base", "subagent")]
        for file, entry in zip(files, (mine, old, theirs), strict=True):
            content = await git("cat-file", "blob", entry.blob)
            await asyncio.to_thread(file.write_bytes, content)
        try:
            content = await git("merge-file", "--stdout", "--quiet", *map(str, files))
        except GitFailed:
            return None
    blob = await git("hash-object", "-w", "--no-filters", "--stdin", stdin=content)
    return Entry(mode, blob.decode("ascii").strip())


def _blocked(worktree: Path, steps: Collection[Step]) -> list[tuple[str, str]]:
    """Files whose name is no text, and new ones whose place is taken: by a file that no tree has, by a nested
    repository, or by what this worktree got meanwhile."""
    removed = {step.path for step in steps if step.after.absent}
    found = []
    for step in steps:
        if not _is_text(step.path):
            found.append((step.path, NO_TEXT))
        elif step.before.absent and (nested := _nested_repository(worktree, step.path)):
            found.append((step.path, NESTED.format(nested)))
        elif step.before.absent and _taken(worktree, step.path, removed):
            found.append((step.path, IN_THE_WAY))
    return found


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _nested_repository(worktree: Path, path: str) -> str | None:
    """The folder above a path that is a repository."""
    parts = path.split("/")
    above = ("/".join(parts[:count]) for count in range(1, len(parts)))
    return next((folder for folder in above if os.path.lexists(worktree / folder / ".git")), None)


def _taken(worktree: Path, path: str, removed: Collection[str]) -> bool:
    parts = path.split("/")
    for count in range(1, len(parts) + 1):
        above = "/".join(parts[:count])
        try:
            mode = os.lstat(worktree / above).st_mode
        except OSError:
            return False
        if not stat.S_ISDIR(mode):
            return above not in removed
    return any(f"{folder}/{name}" not in removed for folder, name in _files_below(worktree, path))


def _files_below(worktree: Path, path: str) -> Iterator[tuple[str, str]]:
    for folder, folders, files in os.walk(worktree / path):
        inside = os.path.relpath(folder, worktree)
        links = (name for name in folders if os.path.islink(os.path.join(folder, name)))
        yield from ((inside, name) for name in (*files, *links))
