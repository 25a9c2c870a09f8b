"""Which project a directory belongs to, from its git repository.

Invariants
- Opening a directory executes nothing of it. The id comes from files of the repository; only the first commit of a
  repository without a remote is asked of git, in a git directory of ours.
- A repository that belongs to another user is not used, as if it were not there, unless the user's own configuration of
  git lists it under `safe.directory`.
- The id is a claim of the repository. It groups Sessions, and nothing is permitted because of it."""

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
    """The worktree's root; without a repository, the directory of the Location itself."""
    store: Path | None = None
    """The git directory that all worktrees share."""

    @property
    def listed_directory(self) -> Path:
        """What the API calls the project's directory: all directories without a repository are one project there, at
        the filesystem's root (API-032). Nothing is looked for in it."""
        return FILESYSTEM if self.store is None else self.directory


def subpath(directory: str, root: Path) -> str:
    """Where a directory lies in its project, with forward slashes; empty at the root, and outside."""
    try:
        path = Path(directory).relative_to(root).as_posix()
    except ValueError:
        return ""
    return "" if path == "." else path


async def find_project(
    directory: Path, known: str | None = None, *, environment: Mapping[str, str] | None = None
) -> Project:
    """`known` is the id that this worktree had before, which spares asking git."""
    if (root := find_root(directory)) is None:
        return Project(GLOBAL, directory)
    repository = repository_at(root)
    git = Git(os.environ if environment is None else environment, seconds=FIRST_COMMIT_SECONDS)
    if not await _is_trusted(git, repository, calling_user(environment or os.environ)):
        return Project(GLOBAL, directory)
    # A repository seen before its first commit was global; that is not worth remembering.
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
    place = _place(repository.setting("remote", "origin", "url"))
    return hashlib.sha1(f"git-remote:{place}".encode()).hexdigest() if place else None


def _place(address: str) -> str | None:
    """`host/path` of a URL or scp-like address, without `.git`."""
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
