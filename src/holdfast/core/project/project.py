"""Finds the project that a directory belongs to, from its git repository.

Invariants
- Opening a directory executes nothing in it. The id comes from files of the repository; git is run only for the first
  commit of a repository without a remote, with a git directory of our own.
- A repository of another user is ignored, unless the user's own git configuration lists it under `safe.directory`.
- The repository chooses its id. The id groups Sessions; it never grants a permission."""

from __future__ import annotations

import hashlib
import logging
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from holdfast.core.filesystem.ownership import calling_user
from holdfast.core.process.git import Git, GitFailed
from holdfast.core.process.git_directory import scratch_git_directory
from holdfast.core.project.repository import find_root, head_commit, read_small, repository_at
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.project.repository import Repository

GLOBAL = "global"
FILESYSTEM = Path("/")
FIRST_COMMIT_SECONDS = 5.0
NOT_USED = "the repository at %s is not used: %s. `git config --global --add safe.directory %s` trusts it."
CACHED_BYTES = 256

log = logging.getLogger(__name__)


class Project(Frozen):
    id: str
    directory: Path
    """The root of the worktree; without a repository, the directory of the Location."""
    store: Path | None = None
    """The git directory shared by all worktrees; None without a repository."""

    @property
    def listed_directory(self) -> Path:
        """The project's directory in the API: all directories without a repository are one project at the filesystem's
        root (API-032). It is never read."""
        return FILESYSTEM if self.store is None else self.directory


def subpath(directory: str, root: Path) -> str:
    """The path of a directory relative to its project's root; empty at the root and outside."""
    try:
        path = Path(directory).relative_to(root).as_posix()
    except ValueError:
        return ""
    return "" if path == "." else path


async def find_project(
    directory: Path, known: str | None = None, *, environment: Mapping[str, str] | None = None
) -> Project:
    """`known` is the id that this worktree had before; it avoids running git."""
    if (root := find_root(directory)) is None:
        return Project(GLOBAL, directory)
    repository = repository_at(root)
    git = Git(os.environ if environment is None else environment, seconds=FIRST_COMMIT_SECONDS)
    if not await _is_trusted(git, repository, calling_user(environment or os.environ)):
        return Project(GLOBAL, directory)
    # Not the id of a repository that was opened before its first commit.
    known = known if known != GLOBAL else None
    id = _from_remote(repository) or _cached(repository) or known or await _first_commit(git, repository)
    return Project(id or GLOBAL, root, repository.store)


async def _is_trusted(git: Git, repository: Repository, sudo_uid: int | None) -> bool:
    reason = repository.foreign(uid=os.getuid(), sudo_uid=sudo_uid)
    if reason is None:
        return True
    with scratch_git_directory() as folder:
        declared = await git.user_setting("safe.directory", folder)
    if {"*", str(repository.root), os.path.realpath(repository.root)} & set(declared):
        return True
    log.warning(NOT_USED, repository.root, reason, repository.root)
    return False


def _from_remote(repository: Repository) -> str | None:
    remote = _host_and_path(repository.setting("remote", "origin", "url"))
    return hashlib.sha1(f"git-remote:{remote}".encode()).hexdigest() if remote else None


def _host_and_path(address: str) -> str | None:
    """`host/path` of a URL or an scp-like address, without `.git`."""
    if not address or address.startswith("file:"):
        return None
    if "://" in address:
        try:
            parts = urlsplit(address)
        except ValueError:
            return None
        host, path = parts.hostname or "", parts.path
    elif match := re.fullmatch(r"(?:[^@/]+@)?([^:/]+):(.+)", address):
        host, path = match[1], match[2]
    else:
        return None
    path = path.strip("/").removesuffix(".git").strip("/")
    return f"{host.lower()}/{path}" if host and path else None


def _cached(repository: Repository) -> str | None:
    found = read_small(repository.store / "opencode", CACHED_BYTES).decode("utf-8", "replace").strip()
    return found if found and found.isprintable() else None


async def _first_commit(git: Git, repository: Repository) -> str | None:
    try:
        if (head := await head_commit(git, repository)) is None:
            return None
        with repository.scratch() as folder:
            found = await git.run("rev-list", "--max-parents=0", head, git_dir=folder, work_tree=repository.root)
    except (GitFailed, OSError):
        return None
    commits = sorted(found.decode("ascii", "replace").split())
    return commits[0] if commits else None
