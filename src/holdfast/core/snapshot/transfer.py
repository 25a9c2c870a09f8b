"""Carrying uncommitted changes from one checkout to another: captured, applied there, and only then discarded here.

Invariants
- The user's index is left as it is in both places, and nothing of the repository's configuration is read: git works
  in a git directory of ours, which finds the repository's objects.
- Filters do not run, so a changed file that passes through one cannot be carried; that is said, and nothing is moved.
- Repositories below the directory stay where they are."""

from __future__ import annotations

import asyncio
import os
import stat
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from holdfast.core.process.git import Git, GitFailed, literal, names
from holdfast.core.process.git_directory import scratch_git_directory
from holdfast.core.project.repository import head_commit, repository_at
from holdfast.core.snapshot.errors import TransferError
from holdfast.core.snapshot.selection import select_files
from holdfast.core.snapshot.snapshot import FROM_INPUT, LEAVE_OUT, TAKE_IN, as_input, separated
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator
    from pathlib import Path

    from holdfast.core.project.repository import Repository

    Run = Callable[..., Awaitable[bytes]]

NO_COMMIT = "there is no commit yet"
FILTERED = "{} passes through the git filter {}, which is not run here; commit it first"
UNFILTERED = ("unspecified", "unset")


class Changes(Frozen):
    """Everything below a directory that differs from the last commit, untracked files included."""

    root: Path
    patch: bytes
    added: tuple[str, ...]
    changed: tuple[str, ...]


async def capture(git: Git, root: Path, directory: Path) -> Changes:
    below = os.path.relpath(directory, root)
    spec = literal(["" if below == "." else below])
    repository = repository_at(root)
    try:
        with _scratch(git, repository) as run:
            head = await _read_head(git, repository, run)
            selection = await select_files(run, root, spec)
            await _refuse_filtered(run, selection.known)
            if selection.gone:
                await run(*LEAVE_OUT, given=separated(selection.gone))
            if selection.changed:
                await run(*TAKE_IN, given=separated(selection.changed))
            compare = ("diff-index", "--cached", "--no-renames", "--ignore-submodules=all", head)
            patch = await run(*compare, "--binary", "-p", "--no-ext-diff", "--no-textconv", "--", *spec)
            added = names(await run(*compare, "--diff-filter=A", "-z", "--name-only", "--", *spec))
            changed = names(await run(*compare, "--diff-filter=a", "-z", "--name-only", "--", *spec))
    except (GitFailed, OSError) as error:
        raise TransferError("capture", str(directory), str(error)) from error
    return Changes(root, patch, tuple(added), tuple(changed))


async def apply(git: Git, changes: Changes, root: Path) -> None:
    if not changes.patch:
        return
    try:
        with scratch_git_directory() as folder:
            command = ("apply", "--binary", "--whitespace=nowarn")
            await git.run(*command, git_dir=folder, work_tree=root, given=changes.patch)
    except (GitFailed, OSError) as error:
        raise TransferError("apply", str(root), str(error)) from error


async def discard(git: Git, changes: Changes) -> None:
    repository = repository_at(changes.root)
    try:
        if changes.changed:
            with _scratch(git, repository) as run:
                head = await _read_head(git, repository, run)
                await run("checkout", head, *FROM_INPUT, given=as_input(changes.changed))
        for path in changes.added:
            await asyncio.to_thread((changes.root / path).unlink, missing_ok=True)
    except (GitFailed, OSError) as error:
        raise TransferError("reset", str(changes.root), str(error)) from error


@contextmanager
def _scratch(git: Git, repository: Repository) -> Iterator[Run]:
    """Runs git on the files of a worktree, with an index of its own that begins as a copy of the user's: what git knows
    of the files' times spares reading them all, and running filters to see that nothing changed."""
    with repository.scratch() as folder:
        _copy_index(repository.git_directory / "index", folder / "index")
        yield partial(git.run, git_dir=folder, work_tree=repository.root, index=folder / "index")


async def _read_head(git: Git, repository: Repository, run: Run) -> str:
    """The index becomes that of the last commit."""
    if (head := await head_commit(git, repository)) is None:
        raise GitFailed(NO_COMMIT)
    try:
        await run("read-tree", "-m", head)
    except GitFailed:  # a merge that is not finished, or an index in two parts: begin with an empty one
        await run("read-tree", "--empty")
        await run("read-tree", head)
    return head


async def _refuse_filtered(run: Run, paths: Iterable[str]) -> None:
    listed = names(await run("check-attr", "-z", "--stdin", "filter", given=separated(sorted(paths))))
    for path, value in zip(listed[::3], listed[2::3], strict=True):
        if value not in UNFILTERED:
            raise GitFailed(FILTERED.format(path, value))


def _copy_index(source: Path, target: Path) -> None:
    import shutil

    if os.path.exists(source) and stat.S_ISREG(os.lstat(source).st_mode):
        shutil.copyfile(source, target)
