"""Which project a directory belongs to, from its git repository. Reads files; git itself runs only when it must."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from pathlib import Path
from urllib.parse import urlsplit

from holdfast.schema.frozen import Frozen
from holdfast.schema.pattern import pattern

GLOBAL = "global"
_SECTION = pattern(r'\[([\w.-]+)(?:\s+"([^"]*)")?\]')
_COMMENT = pattern(r"\s[#;].*")


class Project(Frozen):
    id: str
    directory: Path
    """The worktree's root, or the filesystem's without a repository."""
    store: Path | None = None
    """The git directory that all worktrees share."""


def subpath(directory: str, root: Path) -> str:
    """Where a directory lies in its project, with forward slashes; empty at the root, and outside."""
    try:
        path = Path(directory).relative_to(root).as_posix()
    except ValueError:
        return ""
    return "" if path == "." else path


async def find_project(directory: Path, known: str | None = None) -> Project:
    """`known` is the id that this worktree had before, which spares asking git."""
    root = next((folder for folder in (directory, *directory.parents) if (folder / ".git").exists()), None)
    if root is None:
        return Project(GLOBAL, Path("/"))
    store = _common_directory(root / ".git")
    # A repository seen before its first commit was global; that is not worth remembering.
    known = known if known != GLOBAL else None
    id = _from_remote(store) or _cached(store) or known or await _first_commit(root)
    return Project(id or GLOBAL, root, store)


def _common_directory(marker: Path) -> Path:
    """`.git` is the directory itself, or a file that points to one (worktrees, submodules)."""
    if marker.is_dir():
        return marker
    try:
        pointed = marker.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
        folder = (marker.parent / pointed).resolve()
        common = folder / "commondir"
        return (folder / common.read_text(encoding="utf-8").strip()).resolve() if common.exists() else folder
    except (OSError, UnicodeDecodeError):
        return marker


def _from_remote(store: Path) -> str | None:
    try:
        config = (store / "config").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    place = _place(_origin(config))
    return hashlib.sha1(f"git-remote:{place}".encode()).hexdigest() if place else None


def _origin(config: str) -> str:
    """The `url` of the remote `origin` in git's own configuration format; empty without one."""
    inside, found = False, ""
    for line in config.splitlines():
        entry = line.strip()
        if header := _SECTION.match(entry):
            inside, entry = header[1].lower() == "remote" and header[2] == "origin", entry[header.end() :].strip()
        name, equals, value = entry.partition("=")
        if inside and equals and name.strip().lower() == "url":
            found = _COMMENT.sub("", value).strip().strip('"')
    return found


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


def _cached(store: Path) -> str | None:
    try:
        return (store / "opencode").read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


async def _first_commit(root: Path) -> str | None:
    try:
        process = await asyncio.create_subprocess_exec(
            "git",
            "rev-list",
            "--max-parents=0",
            "HEAD",
            cwd=root,
            # Inside a git hook these would point at another repository.
            env={name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        return None
    out, _ = await process.communicate()
    commits = sorted(out.decode("ascii", "replace").split())
    return commits[0] if process.returncode == 0 and commits else None
