"""Copies of a project: further working trees of its repository, each on a branch of its own. They belong to the same
project, so that a Session can be moved into one."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.location.errors import CopyFailed
from holdfast.core.process.git import Git, GitFailed
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.clock import Ids
    from holdfast.core.location.project import Project
    from holdfast.core.process.process import Processes

WORKTREE = "git_worktree"
BRANCH = "opencode/{name}"
NO_STRATEGY = "Project copy strategy unavailable: {}"
NO_SOURCE = "Project copy source not found: {}"
INVALID = "Invalid project copy directory: {}"
INVALID_NAME = "Invalid project copy name: {}"
UNAVAILABLE_BRANCH = "Project copy branch unavailable: {}"
UNAVAILABLE = "Project copy directory unavailable: {}"
_NAME = pattern(r"\w(?:[\w.-]{0,98}\w)?")


class ProjectCopies:
    def __init__(self, project: Project, environment: Mapping[str, str], processes: Processes, ids: Ids) -> None:
        self._project = project
        self._git = Git(environment, processes)
        self._ids = ids

    async def create(self, strategy: str, directory: str, name: str | None) -> Path:
        """A new one below a directory, at the commit that is checked out here. Without a name it gets one."""
        if strategy != WORKTREE:
            raise CopyFailed(NO_STRATEGY.format(strategy))
        self._require_repository()
        name = self._ids.slug() if name is None else "-".join(name.split())
        if _NAME.fullmatch(name) is None or name.endswith(".lock") or ".." in name:
            raise CopyFailed(INVALID_NAME.format(name))
        self._require_place(directory)
        target = Path(directory) / name
        if os.path.lexists(target):
            raise CopyFailed(UNAVAILABLE.format(target))
        branch = BRANCH.format(name=name)
        if await self._run("branch", "--list", branch):
            raise CopyFailed(UNAVAILABLE_BRANCH.format(branch))
        try:
            await self._run("worktree", "add", "--quiet", "-b", branch, "--", str(target), "HEAD")
        except CopyFailed:
            with suppress(CopyFailed):
                await self._run("branch", "-D", branch)
            raise
        return target.resolve()

    async def remove(self, directory: str, *, force: bool) -> None:
        """One of ours, never the project itself. What is not committed in it needs `force`; its branch stays."""
        self._require_repository()
        self._require_place(directory)
        wanted = os.path.realpath(directory)
        if wanted == os.path.realpath(self._project.directory):
            raise CopyFailed(INVALID.format(directory))
        main, *copies = await self._worktrees()
        if wanted == main:
            raise CopyFailed(INVALID.format(directory))
        if wanted not in copies:
            raise CopyFailed(UNAVAILABLE.format(directory))
        forced = ("--force",) if force else ()
        try:
            await self._run("worktree", "remove", *forced, "--", wanted)
        except CopyFailed as failed:
            if force or not os.path.isdir(wanted):
                raise
            raise CopyFailed(failed.message, force_required=True) from failed

    async def refresh(self) -> None:
        """Forget those whose directories are gone."""
        if self._project.store is not None:
            await self._run("worktree", "prune")

    async def _worktrees(self) -> list[str]:
        """The repository's own first."""
        listed = await self._run("worktree", "list", "--porcelain")
        lines = os.fsdecode(listed).split("\n")
        return [os.path.realpath(line.removeprefix("worktree ")) for line in lines if line.startswith("worktree ")]

    def _require_place(self, directory: str) -> None:
        if not os.path.isabs(directory) or "\0" in directory or not directory.isprintable():
            raise CopyFailed(INVALID.format(directory))

    def _require_repository(self) -> None:
        if self._project.store is None:
            raise CopyFailed(NO_SOURCE.format(self._project.directory))

    async def _run(self, *arguments: str) -> bytes:
        try:
            return await self._git.run(*arguments, directory=self._project.directory)
        except GitFailed as error:
            raise CopyFailed(str(error)) from error
