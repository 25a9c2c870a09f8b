"""Paths that a sandbox hides or protects: secrets, and files that other programs execute. The names are in
`place_names.py`.

Invariants
- A `.git` file makes a directory writable only if that directory points back to it: the project controls the file.
- A path is protected under its real name, and so are the files in the project that a hook or a setting leads to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.process.sandbox.git_configuration import UnreadableSettings, read_regular
from holdfast.core.process.sandbox.place_names import (
    EXECUTED_BY_GIT,
    MOVED,
    SECRETS,
    STARTED,
    SYSTEM_SECRETS,
)
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

GITFILE = "gitdir: "
MOST_HOOKS = 200


class ProtectedName(Frozen):
    """A path that may not exist yet."""

    path: Path
    directory: bool = False
    """Whether it is normally a directory: then an empty one can take its place while a command runs. What is normally a
    file has no harmless substitute; if it appears, it is set aside."""


class GitPaths(Frozen):
    """The git directories that a commit in a worktree writes to, and the paths in them and in the worktree that git
    executes."""

    writable: tuple[Path, ...] = ()
    protected: tuple[ProtectedName, ...] = ()


def git_paths(root: Path, hooks: Sequence[str] = (), included: Sequence[Path] = ()) -> GitPaths:
    """For the worktree with this root. `hooks` are the directories that settings name for hooks, `included` the files
    with further settings."""
    named = tuple(_named(root, hooks, included))
    marker = root / ".git"
    if marker.is_symlink():
        return GitPaths((), (ProtectedName(marker), *named))
    if not marker.exists():
        return GitPaths((), named)
    if marker.is_dir():
        return GitPaths((marker,), (*executed_in(marker), *linked_hooks(marker / "hooks", root), *named))
    own = pointer(marker, GITFILE)
    if own is None or pointer(own / "gitdir") != marker:
        return GitPaths((), (ProtectedName(marker), *named))
    common = pointer(own / "commondir") or own
    if own.parent.parent != common:
        return GitPaths((), (ProtectedName(marker), *named))
    shared = [name for name in executed_in(common) if name.path != own.parent]
    siblings = [ProtectedName(path) for path in own.parent.iterdir() if path != own]
    hooked = linked_hooks(common / "hooks", root)
    return GitPaths((common,), (ProtectedName(marker), *shared, *siblings, *executed_in(own), *hooked, *named))


def executed_in(directory: Path) -> tuple[ProtectedName, ...]:
    """What git executes, or reads names of programs from, in a git directory."""
    return tuple(ProtectedName(directory / name, name.endswith("/")) for name in EXECUTED_BY_GIT)


def linked_hooks(directory: Path, root: Path) -> Iterator[ProtectedName]:
    """The files below the root that symbolic links in a directory of hooks lead to."""
    try:
        with os.scandir(directory) as entries:
            links = [entry.path for entry, _ in zip(entries, range(MOST_HOOKS), strict=False) if entry.is_symlink()]
    except OSError:
        return
    for target in map(os.path.realpath, links):
        if Path(target).is_relative_to(root):
            yield ProtectedName(Path(target))


def pointer(file: Path, prefix: str = "") -> Path | None:
    """The real path that a file of git consists of, after the prefix; read as git reads it."""
    try:
        content = read_regular(file)
    except UnreadableSettings:
        return None
    text = "" if content is None else os.fsdecode(content.rstrip(b"\r\n").partition(b"\0")[0]).removeprefix(prefix)
    return Path(os.path.realpath(file.parent / text)) if text else None


def existing(paths: Iterable[str | Path]) -> tuple[Path, ...]:
    """The canonical paths of those that exist, without duplicates and without `/`."""
    found = (os.path.realpath(path) for path in paths if os.path.lexists(path))
    return tuple(dict.fromkeys(Path(path) for path in found if os.path.exists(path) and path != "/"))


def secrets(home: Path, environment: Mapping[str, str]) -> tuple[Path, ...]:
    """Those that exist. A variable may name a device, such as /dev/null, which is none."""
    system = [path for path in SYSTEM_SECRETS if os.access(path, os.R_OK)]
    own = [path for path, _ in _of_user(SECRETS, home, environment)]
    return tuple(path for path in existing([*own, *system]) if path.is_dir() or path.is_file())


def start_up_files(home: Path, environment: Mapping[str, str], roots: Sequence[Path]) -> Iterator[ProtectedName]:
    """What programs execute when they start, below the roots. Secrets that do not exist yet belong to it: many of them
    name programs."""
    inside = tuple(f"{root}/" for root in roots)
    folders: dict[str, str] = {}
    for path, directory in _of_user((*STARTED, *SECRETS), home, environment):
        parent, _, name = path.rpartition("/")
        if parent not in folders:
            folders[parent] = os.path.realpath(parent)
        if f"{folders[parent]}/{name}".startswith(inside):
            yield ProtectedName(Path(folders[parent], name), directory)


def _of_user(names: Iterable[str], home: Path, environment: Mapping[str, str]) -> Iterator[tuple[str, bool]]:
    """The path of each name in the home directory, and where a variable moves it or what contains it; and whether it is
    a directory. Strings: this is called for hundreds of names before each command."""
    moved = [(name, part) for name, variable in MOVED.items() for part in _absolute(environment.get(variable, ""))]
    for name in names:
        path, directory = name.removesuffix("/"), name.endswith("/")
        yield f"{home}/{path}", directory
        for original, elsewhere in moved:
            if path == original or original.startswith(f"{path}/"):
                yield elsewhere, directory and path == original
            elif path.startswith(f"{original}/"):
                yield f"{elsewhere}/{path.removeprefix(original + '/')}", directory


def _absolute(value: str) -> Iterator[str]:
    return (os.path.normpath(part) for part in value.split(os.pathsep) if os.path.isabs(part))


def _named(root: Path, hooks: Sequence[str], included: Sequence[Path]) -> Iterator[ProtectedName]:
    """Tools such as husky keep hooks in the worktree."""
    for text in hooks:
        directory = Path(os.path.normpath(root / text))
        if directory != root and directory.is_relative_to(root):
            yield ProtectedName(directory, directory=True)
            yield from linked_hooks(directory, root)
    for path in included:
        yield ProtectedName(path)
        if (real := Path(os.path.realpath(path))) != path:
            yield ProtectedName(real)
