"""Moves uncommitted changes from one checkout to another: capture, apply there, then discard here.

Invariants
- The user's index is unchanged in both places, and the repository's configuration is not read: git works in a git
  directory of our own that reads the repository's objects.
- git writes into a temporary directory. Files of both checkouts are read for it, and written from it, through
  descriptors (written_files.py): nothing outside changes, whatever is renamed meanwhile.
- Filters do not run, so a changed file with a filter cannot be moved; then the transfer fails and nothing is moved.
- Nested repositories are not moved."""

from __future__ import annotations

import asyncio
import os
import stat
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.filesystem.open_tree import OpenTree
from holdfast.core.process.git import Git, GitFailed, literal_pathspecs, split_nul
from holdfast.core.process.git_directory import scratch_git_directory
from holdfast.core.project.repository import head_commit, repository_at
from holdfast.core.run_to_completion import run_to_completion
from holdfast.core.snapshot.errors import TransferError
from holdfast.core.snapshot.selection import select_files
from holdfast.core.snapshot.snapshot import ADD_TO_INDEX, FROM_INPUT, REMOVE_FROM_INDEX, nul_terminated, pathspec_input
from holdfast.core.snapshot.written_files import copy_files
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

    from holdfast.core.project.repository import Repository

    Run = Callable[..., Awaitable[bytes]]

ATTRIBUTES = ".gitattributes"
NO_FOLDER = "{} is no directory there"
NO_COMMIT = "there is no commit yet"
FILTERED = "{} passes through the git filter {}, which is not run here; commit it first"
UNFILTERED = ("unspecified", "unset")


class Changes(Frozen):
    """All differences from the last commit below a directory, including untracked files."""

    root: Path
    patch: bytes
    added: tuple[str, ...]
    changed: tuple[str, ...]


async def capture(git: Git, root: Path, directory: Path) -> Changes:
    below = os.path.relpath(directory, root)
    spec = literal_pathspecs(["" if below == "." else below])
    repository = repository_at(root)
    try:
        with _scratch(git, repository) as run:
            head = await _read_head(git, repository, run)
            selection = await select_files(run, root, spec)
            await _refuse_filtered(run, selection.known)
            if selection.deleted:
                await run(*REMOVE_FROM_INDEX, stdin=nul_terminated(selection.deleted))
            if selection.changed:
                await run(*ADD_TO_INDEX, stdin=nul_terminated(selection.changed))
            compare = ("diff-index", "--cached", "--no-renames", "--ignore-submodules=all", head)
            patch = await run(*compare, "--binary", "-p", "--no-ext-diff", "--no-textconv", "--", *spec)
            added = split_nul(await run(*compare, "--diff-filter=A", "-z", "--name-only", "--", *spec))
            changed = split_nul(await run(*compare, "--diff-filter=a", "-z", "--name-only", "--", *spec))
    except (GitFailed, OSError) as error:
        raise TransferError("capture", str(directory), str(error)) from error
    return Changes(root, patch, tuple(added), tuple(changed))


async def apply(git: Git, changes: Changes, root: Path) -> None:
    if not changes.patch:
        return
    paths = (*changes.changed, *changes.added)
    try:
        with scratch_git_directory() as folder, _private_directory() as private:
            await asyncio.to_thread(_copy_here, root, private, paths)
            command = ("apply", "--binary", "--whitespace=nowarn")
            await git.run(*command, git_dir=folder, work_tree=private, stdin=changes.patch)
            await run_to_completion(asyncio.to_thread(copy_files, private, root, paths))
    except (GitFailed, OSError) as error:
        raise TransferError("apply", str(root), str(error)) from error


async def discard(git: Git, changes: Changes) -> None:
    repository = repository_at(changes.root)
    try:
        with _private_directory() as private:
            if changes.changed:
                with _scratch(git, repository, private) as run:
                    head = await _read_head(git, repository, run)
                    await run("checkout", head, *FROM_INPUT, stdin=pathspec_input(changes.changed))
            paths = (*changes.changed, *changes.added)
            await run_to_completion(asyncio.to_thread(copy_files, private, changes.root, paths))
    except (GitFailed, OSError) as error:
        raise TransferError("reset", str(changes.root), str(error)) from error


@contextmanager
def _private_directory() -> Iterator[Path]:
    import tempfile

    with tempfile.TemporaryDirectory(prefix="holdfast-move-") as name:
        yield Path(os.path.realpath(name))


def _copy_here(root: Path, private: Path, paths: Sequence[str]) -> None:
    """Copy what git looks at when it applies changes of these paths: the files as they are, and attributes."""
    folders = {folder for path in paths for folder in _folders(path)}
    with OpenTree(root) as tree:
        for folder in folders:
            found = tree.status(folder)
            if found is not None and not stat.S_ISDIR(found.st_mode):
                raise GitFailed(NO_FOLDER.format(folder))
        for path in paths:
            if (found := tree.status(path)) is not None and stat.S_ISDIR(found.st_mode):
                (private / path).mkdir(parents=True)
    attributes = ("/".join((*folder.split("/"), ATTRIBUTES)) for folder in folders)
    copy_files(root, private, dict.fromkeys((*paths, ATTRIBUTES, *attributes)))


def _folders(path: str) -> Iterator[str]:
    parts = path.split("/")
    return ("/".join(parts[:count]) for count in range(1, len(parts)))


@contextmanager
def _scratch(git: Git, repository: Repository, work_tree: Path | None = None) -> Iterator[Run]:
    """A function that runs git on the worktree, or another directory, with a copy of the user's index. Its file times
    avoid reading all files, and running filters to see that nothing changed."""
    with repository.scratch() as folder:
        _copy_index(repository.git_directory / "index", folder / "index")
        yield partial(git.run, git_dir=folder, work_tree=work_tree or repository.root, index=folder / "index")


async def _read_head(git: Git, repository: Repository, run: Run) -> str:
    """Set the index to the last commit and return the commit."""
    if (head := await head_commit(git, repository)) is None:
        raise GitFailed(NO_COMMIT)
    try:
        await run("read-tree", "-m", head)
    except GitFailed:  # an unfinished merge or a split index: start with an empty index
        await run("read-tree", "--empty")
        await run("read-tree", head)
    return head


async def _refuse_filtered(run: Run, paths: Iterable[str]) -> None:
    listed = split_nul(await run("check-attr", "-z", "--stdin", "filter", stdin=nul_terminated(sorted(paths))))
    for path, value in zip(listed[::3], listed[2::3], strict=True):
        if value not in UNFILTERED:
            raise GitFailed(FILTERED.format(path, value))


def _copy_index(source: Path, target: Path) -> None:
    import shutil

    if os.path.exists(source) and stat.S_ISREG(os.lstat(source).st_mode):
        shutil.copyfile(source, target)
