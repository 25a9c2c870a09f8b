"""The user's repository, as far as it is read without git. Its files are data that anyone may have written: reads are
bounded, and only regular files count."""

from __future__ import annotations

import os
import re
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.core.filesystem.ownership import foreign_owner
from holdfast.core.process.git_directory import scratch_git_directory
from holdfast.schema.frozen import Frozen
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from holdfast.core.process.git import Git

SMALL_BYTES = 1024 * 1024
PACKED_REFS_BYTES = 16 * 1024 * 1024
SYMBOLIC_REFS = 5
_SECTION = pattern(r'\[([\w.-]+)(?:\s+"([^"]*)")?\]')
_COMMENT = pattern(r"\s[#;].*")
_OBJECT_ID = pattern(rb"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_REF = pattern(rb"refs/[^\0-\x20\x7f~^:?*\[\\]+")


class Repository(Frozen):
    root: Path
    """Of the worktree."""
    git_directory: Path
    """Of the worktree: HEAD and the index are here."""
    store: Path
    """The git directory that all worktrees share: configuration, branches and objects are here."""

    def setting(self, section: str, subsection: str, key: str) -> str:
        """The last value in the repository's own configuration file, included files aside; empty without one."""
        return _setting(read_small(self.store / "config").decode("utf-8", "replace"), section, subsection, key)

    def head(self) -> str | None:
        """The commit that is checked out, from files; None before the first."""
        name = b"HEAD"
        for _ in range(SYMBOLIC_REFS):
            value = self._ref(name)
            if _OBJECT_ID.fullmatch(value):
                return value.decode("ascii")
            name = value.removeprefix(b"ref:").strip()
            if not _REF.fullmatch(name) or b".." in name:
                return None
        return None

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A git directory of ours in which the objects of this repository are found."""
        with scratch_git_directory(
            self.store / "objects",
            sha256=self.setting("extensions", "", "objectFormat").lower() == "sha256",
            shallow=read_small(self.store / "shallow"),
            exclude=read_small(self.store / "info" / "exclude"),
        ) as folder:
            yield folder

    def foreign(self, *, uid: int, sudo_uid: int | None) -> str | None:
        """The first of its folders that belongs to another user, and to whom."""
        for path in (self.root, self.root / ".git", self.git_directory, self.store):
            if reason := foreign_owner(path, uid=uid, sudo_uid=sudo_uid):
                return f"{path} {reason}"
        return None

    def _ref(self, name: bytes) -> bytes:
        path = os.fsdecode(name)
        value = read_small(self.git_directory / path) or (read_small(self.store / path) if name != b"HEAD" else b"")
        return value.strip() or _packed(read_small(self.store / "packed-refs", PACKED_REFS_BYTES), name)


async def head_commit(git: Git, repository: Repository) -> str | None:
    """The commit that is checked out; None before the first. Raises GitFailed."""
    if repository.setting("extensions", "", "refStorage").lower() != "reftable":
        return repository.head()
    ask = ("rev-parse", "--verify", "--quiet", "HEAD")
    found = await git.run(*ask, git_dir=repository.git_directory, work_tree=repository.root)
    return found.decode("ascii").strip()


def find_root(directory: Path) -> Path | None:
    """The nearest folder from here up that has a `.git`."""
    return next((folder for folder in (directory, *directory.parents) if os.path.exists(folder / ".git")), None)


def repository_at(root: Path) -> Repository:
    """`.git` is the directory itself, or a file that points to one (worktrees, submodules)."""
    marker = root / ".git"
    if marker.is_dir():
        return Repository(root, marker, marker)
    pointed = os.fsdecode(read_small(marker).removeprefix(b"gitdir:").strip())
    if not pointed or "\0" in pointed:
        return Repository(root, marker, marker)
    folder = (root / pointed).resolve()
    common = os.fsdecode(read_small(folder / "commondir").strip())
    return Repository(root, folder, (folder / common).resolve() if common and "\0" not in common else folder)


def shares_store(repository: Repository) -> bool:
    """Whether the store knows this worktree too. Any folder can point at a repository; only the repository's own
    files can point back."""
    marker = repository.root / ".git"
    try:
        kind = os.lstat(marker).st_mode
    except OSError:
        return False
    if stat.S_ISDIR(kind):
        return repository.store == marker
    folder = repository.git_directory
    if not stat.S_ISREG(kind) or folder.parent != repository.store / "worktrees":
        return False
    back = os.fsdecode(read_small(folder / "gitdir").strip())
    return bool(back) and "\0" not in back and os.path.realpath(folder / back) == os.path.realpath(marker)


def read_small(path: Path, limit: int = SMALL_BYTES) -> bytes:
    """The content of a regular file; nothing if it is none, too large, or out of reach."""
    try:
        # Non-blocking, so that opening a pipe returns and can be refused.
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return b""
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_size > limit:
            return b""
        content = b""
        while len(content) <= limit and (more := os.read(file, limit + 1 - len(content))):
            content += more
        return content if len(content) <= limit else b""
    except OSError:
        return b""
    finally:
        os.close(file)


def _packed(refs: bytes, name: bytes) -> bytes:
    found = re.search(rb"^([0-9a-f]{40,64}) " + re.escape(name) + rb"$", refs, re.MULTILINE)
    return found[1] if found else b""


def _setting(config: str, section: str, subsection: str, key: str) -> str:
    inside, found = False, ""
    for line in config.splitlines():
        entry = line.strip()
        if header := _SECTION.match(entry):
            inside = header[1].lower() == section and (header[2] or "") == subsection
            entry = entry[header.end() :].strip()
        name, equals, value = entry.partition("=")
        if inside and equals and name.strip().lower() == key.lower():
            found = _COMMENT.sub("", value).strip().strip('"')
    return found
