"""Checkouts of git references, shared by all processes of an installation, cloned and refreshed in the background.

Invariants
- A checkout is cloned beside its final path and renamed, so it is always complete. A failed refresh changes nothing.
- Only fetching uses the user's git configuration, which says how to reach hosts, and only over the protocol of the
  address, https or ssh. Files are written without it, so no filter runs; no hook runs at all.
- Nobody waits for a checkout. The reason why a first fetch failed is stored beside its path until a fetch succeeds; a
  failed refresh is only logged."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from typing import TYPE_CHECKING

from holdfast.core.file_lock import try_lock
from holdfast.core.process.git import Git, GitFailed
from holdfast.core.process.git_directory import create_git_directory
from holdfast.core.reference.failure import reason_for, remove_failure, store_failure
from holdfast.core.reference.reference import GitSource, checkout
from holdfast.core.reference.repository import parse_repository, protocols, remote
from holdfast.private_files import make_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from holdfast.core.process.process import Processes
    from holdfast.core.reference.reference import Reference

REFRESH_SECONDS = 5 * 60.0
GIT_SECONDS = 5 * 60.0
GITHUB = "https://github.com"

log = logging.getLogger(__name__)


class Checkouts:
    def __init__(
        self,
        repositories: Path,
        processes: Processes,
        environment: Mapping[str, str],
        *,
        updated: Callable[[], None] = lambda: None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`updated` is called when a checkout has appeared, or the reason why it cannot be made has changed."""
        self._repositories = repositories
        self._git = Git(environment, processes, seconds=GIT_SECONDS)
        self._github = environment.get("OPENCODE_REPO_CLONE_GITHUB_BASE_URL") or GITHUB
        self._updated = updated
        self._now = now
        self._due: dict[Path, float] = {}
        self._running: dict[Path, asyncio.Task[None]] = {}

    def refresh(self, references: Iterable[Reference]) -> None:
        """Start the refreshes that are due, in the background."""
        for reference in references:
            if isinstance(reference.source, GitSource):
                path = checkout(reference.source, self._repositories)
                if path not in self._running and self._now() >= self._due.get(path, float("-inf")):
                    work = self._refresh(reference.source, path)
                    self._running[path] = asyncio.get_running_loop().create_task(work)

    async def settled(self) -> None:
        """Wait until no fetch is running."""
        while self._running:
            await asyncio.wait(set(self._running.values()))

    async def close(self) -> None:
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _refresh(self, source: GitSource, path: Path) -> None:
        try:
            make_directory(path.parent)
            with try_lock(path.with_name(f"{path.name}.lock")) as mine:
                if not mine:
                    return
                if path.exists():
                    await self._fetch(source, path)
                else:
                    await self._clone(source, path)
        except (GitFailed, OSError) as error:
            log.warning("reference %s could not be fetched: %s", source.repository, error)
        finally:
            self._due[path] = self._now() + REFRESH_SECONDS
            del self._running[path]

    async def _clone(self, source: GitSource, path: Path) -> None:
        try:
            await self._clone_into(source, path)
        except (GitFailed, OSError) as error:
            if store_failure(path, reason_for(error)):
                self._updated()
            raise
        remove_failure(path)
        self._updated()

    async def _clone_into(self, source: GitSource, path: Path) -> None:
        import shutil

        staging = path.with_name(f"{path.name}.new")
        shutil.rmtree(staging, ignore_errors=True)  # left by a process that ended
        try:
            create_git_directory(staging / ".git", bare=False)
            await self._fetch(source, staging)
            os.rename(staging, path)
        finally:
            shutil.rmtree(staging, ignore_errors=True)

    async def _fetch(self, source: GitSource, path: Path) -> None:
        address = remote(parse_repository(source.repository), self._github)
        fetch = ("fetch", "--quiet", "--depth", "1", "--no-tags", "--", address, source.branch or "HEAD")
        await self._git.run(*fetch, git_dir=path / ".git", work_tree=path, reach=protocols(address))
        await self._git.run("reset", "--quiet", "--hard", "FETCH_HEAD", git_dir=path / ".git", work_tree=path)
