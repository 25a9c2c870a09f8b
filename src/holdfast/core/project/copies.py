"""Copies of a project: additional worktrees of its repository, each on its own branch. They belong to the same project,
so that a Session can be moved into one.

Files of a copy are written and compared with a git directory of our own, without the repository's configuration: no
filter runs, so content that a filter would fetch (as Git LFS does) stays the committed pointer. Only branches and the
list of worktrees change in the repository itself; no hook runs for that."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.process.git import Git, GitFailed
from holdfast.core.project.repository import head_commit, repository_at
from holdfast.schema.exceptions import ProjectCopyFailed
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from holdfast.core.clock import Ids
    from holdfast.core.process.process import Processes
    from holdfast.core.project.project import Project

WORKTREE = "git_worktree"
BRANCH = "opencode/{name}"
NO_STRATEGY = "Project copy strategy unavailable: {}"
NO_SOURCE = "Project copy source not found: {}"
INVALID = "Invalid project copy directory: {}"
INVALID_NAME = "Invalid project copy name: {}"
UNAVAILABLE_BRANCH = "Project copy branch unavailable: {}"
NO_COMMIT = "Project copy needs a commit: {}"
NOT_CLEAN = "{} contains modified or untracked files"
UNAVAILABLE = "Project copy directory unavailable: {}"
_NAME = pattern(r"\w(?:[\w.-]{0,98}\w)?")


class ProjectCopies:
    def __init__(self, project: Project, environment: Mapping[str, str], processes: Processes, ids: Ids) -> None:
        self._project = project
        self._git = Git(environment, processes)
        self._ids = ids

    async def create(self, strategy: str, directory: str, name: str | None) -> Path:
        """Create a copy below a directory, at the commit that is checked out here. Without a name, one is generated."""
        if strategy != WORKTREE:
            raise ProjectCopyFailed(NO_STRATEGY.format(strategy))
        self._require_repository()
        name = self._ids.slug() if name is None else "-".join(name.split())
        if _NAME.fullmatch(name) is None or name.endswith(".lock") or ".." in name:
            raise ProjectCopyFailed(INVALID_NAME.format(name))
        self._require_place(directory)
        target = Path(directory) / name
        if os.path.lexists(target):
            raise ProjectCopyFailed(UNAVAILABLE.format(target))
        branch = BRANCH.format(name=name)
        if await self._run("branch", "--list", branch):
            raise ProjectCopyFailed(UNAVAILABLE_BRANCH.format(branch))
        try:
            await self._run("worktree", "add", "--quiet", "--no-checkout", "-b", branch, "--", str(target), "HEAD")
            await self._write_files(target)
        except ProjectCopyFailed:
            with suppress(ProjectCopyFailed):
                await self._run("worktree", "remove", "--force", "--", str(target))
            with suppress(ProjectCopyFailed):
                await self._run("branch", "-D", branch)
            raise
        return target.resolve()

    async def remove(self, directory: str, *, force: bool) -> None:
        """Remove a copy, never the project itself. Uncommitted changes need `force`; the branch stays."""
        self._require_repository()
        self._require_place(directory)
        wanted = os.path.realpath(directory)
        if wanted == os.path.realpath(self._project.directory):
            raise ProjectCopyFailed(INVALID.format(directory))
        main, *copies = await self._worktrees()
        if wanted == main:
            raise ProjectCopyFailed(INVALID.format(directory))
        if wanted not in copies:
            raise ProjectCopyFailed(UNAVAILABLE.format(directory))
        if not force and os.path.isdir(wanted) and not await self._is_clean(Path(wanted)):
            raise ProjectCopyFailed(NOT_CLEAN.format(wanted), force_required=True)
        # `--force` skips git's own check for changes, which would run filters of this and nested repositories.
        await self._run("worktree", "remove", "--force", "--", wanted)

    async def refresh(self) -> None:
        """Unregister copies whose directories no longer exist."""
        if self._project.store is not None:
            await self._run("worktree", "prune")

    async def _write_files(self, target: Path) -> None:
        copy = repository_at(target)
        with self._failures():
            if (head := await head_commit(self._git, copy)) is None:
                raise ProjectCopyFailed(NO_COMMIT.format(target))
            with copy.scratch() as folder:
                index = copy.git_directory / "index"
                await self._git.run("read-tree", "--reset", "-u", head, git_dir=folder, work_tree=target, index=index)

    async def _is_clean(self, directory: Path) -> bool:
        """Whether everything in it is committed or ignored."""
        import shutil

        copy = repository_at(directory)
        with self._failures(), copy.scratch() as folder:
            if (head := await head_commit(self._git, copy)) is None:
                return False
            shutil.copyfile(copy.git_directory / "index", folder / "index")
            run = partial(self._git.run, git_dir=folder, work_tree=directory, index=folder / "index")
            with suppress(GitFailed):  # fails if files changed
                await run("update-index", "-q", "--refresh", "--ignore-submodules")
            excludes = {"core.excludesFile": await self._git.user_excludes(folder)}
            staged = await run("diff-index", "--cached", "--name-only", "--ignore-submodules=all", head)
            changed = await run("diff-files", "--name-only", "--ignore-submodules=all")
            new = await run("ls-files", "--others", "--exclude-standard", settings=excludes)
            return not (staged or changed or new or _with_submodules(await run("ls-files", "-s", "-z"), directory))

    async def _worktrees(self) -> list[str]:
        """The main worktree first."""
        listed = await self._run("worktree", "list", "--porcelain")
        lines = os.fsdecode(listed).split("\n")
        return [os.path.realpath(line.removeprefix("worktree ")) for line in lines if line.startswith("worktree ")]

    def _require_place(self, directory: str) -> None:
        if not os.path.isabs(directory) or "\0" in directory or not directory.isprintable():
            raise ProjectCopyFailed(INVALID.format(directory))

    def _require_repository(self) -> None:
        if self._project.store is None:
            raise ProjectCopyFailed(NO_SOURCE.format(self._project.directory))

    async def _run(self, *arguments: str) -> bytes:
        """Run git in the repository itself."""
        repository = repository_at(self._project.directory)
        with self._failures():
            run = self._git.run_in_repository
            return await run(*arguments, git_dir=repository.git_directory, work_tree=repository.root)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except (GitFailed, OSError) as error:
            raise ProjectCopyFailed(str(error)) from error


def _with_submodules(entries: bytes, directory: Path) -> bool:
    """Whether a submodule in the index has files."""
    paths = [entry.partition(b"\t")[2] for entry in entries.split(b"\0") if entry.startswith(b"160000 ")]
    folders = [directory / os.fsdecode(path) for path in paths]
    return any(folder.is_dir() and any(folder.iterdir()) for folder in folders)
