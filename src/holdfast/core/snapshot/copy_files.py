"""Files of isolated copies: removal of directories whatever their permissions, and submodules."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.core.filesystem.canonical import contains
from holdfast.core.project.repository import read_small

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GITLINK = b"160000 "
SKIPPED = b"S "


def remove_directory(path: Path) -> None:
    """Remove a directory with everything in it, or a file. Links are not followed; missing is fine. Raises OSError."""
    import shutil

    def retry(function: Callable[[str], object], name: str, info: object) -> None:
        """Somebody took away the right to change a folder."""
        if not os.path.lexists(name):
            return
        for folder in (os.path.dirname(name), name):
            with suppress(OSError):
                if not os.path.islink(folder) and os.path.isdir(folder):
                    os.chmod(folder, stat.S_IRWXU)
        if os.path.isdir(name) and not os.path.islink(name):
            shutil.rmtree(name)
        else:
            os.unlink(name)

    if os.path.islink(path) or os.path.isfile(path):
        path.unlink()
    elif os.path.lexists(path):
        shutil.rmtree(path, onerror=retry)


def remove_incomplete_entry(repository: Path, name: str) -> None:
    """Remove an entry in the repository's list of worktrees that names no worktree yet: git was killed while it wrote
    the entry, and neither lists nor prunes it. Raises OSError."""
    entry = repository / "worktrees" / name
    if is_directory(entry) and not read_small(entry / "gitdir").strip():
        remove_directory(entry)


def submodules(index: bytes) -> list[str]:
    """The paths of submodules in the output of `git ls-files -s -z`."""
    return [os.fsdecode(entry.partition(b"\t")[2]) for entry in index.split(b"\0") if entry.startswith(GITLINK)]


def left_out_of_checkout(tags: bytes, entries: bytes) -> list[str]:
    """The paths that a sparse checkout leaves out: those with that tag in `git ls-files -t -z` that are among the
    entries of `git ls-files -s -z`."""
    known = {entry.partition(b"\t")[2] for entry in entries.split(b"\0")}
    left_out = (line[len(SKIPPED) :] for line in tags.split(b"\0") if line.startswith(SKIPPED))
    return [os.fsdecode(path) for path in left_out if path in known]


def make_folders(root: Path, paths: list[str]) -> None:
    """Empty folders, unless something else is in their place, or a link leads out of the root."""
    inside = os.path.realpath(root)
    for path in paths:
        with suppress(OSError):
            if contains(inside, os.path.realpath(root / path)):
                (root / path).mkdir(parents=True)


def is_directory(path: Path) -> bool:
    """Whether it is a directory itself, not a link to one."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def write_note(path: Path, text: str) -> None:
    """A text file where a directory was; what is there meanwhile stays."""
    with suppress(OSError), open(path, "x", encoding="utf-8") as file:
        file.write(text)
