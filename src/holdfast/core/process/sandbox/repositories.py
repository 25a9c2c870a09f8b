"""Finds the git repositories in writable directories, and disables those that a command made to run programs.

Git executes what the configuration and the hooks of a repository name. A confined command can make a repository, or
lead git to other settings, anywhere below a writable directory; the user's git, editor or prompt would run them later.
The repositories are therefore examined before a command and after it.

Invariants
- The search is bounded. Where it ends early, that is reported, and the repositories that the index of another one names
  are examined all the same: git enters those by itself.
- A directory is read again when its time of change differs, which no command can set, or is too recent to tell.
- Disabling renames one entry; nothing is deleted. It goes through descriptors, without following links.
- What was there before a command stays as it is."""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from holdfast.core.process.sandbox.git_configuration import UnreadableSettings, read_regular, read_settings
from holdfast.core.process.sandbox.place_names import GIT_HOOKS
from holdfast.core.process.sandbox.places import GITFILE, ProtectedName, linked_hooks, pointer
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from holdfast.core.process.sandbox.git_configuration import Setting

    Programs = frozenset[tuple[str, str]]

MARKER = ".git"
BARE = frozenset({"HEAD", "objects", "refs"})
"""Git takes a directory with these entries for a repository."""
MOST_DIRECTORIES = 20_000
MOST_ENTRIES = 1_000_000
SETTLED_SECONDS = 1.0
"""A directory that changed more recently may change again without a new time."""
MOST_INCLUDED = 20
WRITE_AND_ENTER = 0o300
HOOKS = "core.hookspath"
PROTECTED_NAMES = ("hooks", "config", "config.worktree", "modules", "worktrees", "commondir", "gitdir")


class Repository(Frozen):
    marker: Path
    """The entry by which git finds it: `.git`, or the git directory itself if it is called otherwise."""
    directory: Path
    """The real path of its git directory."""
    worktree: Path

    def changed_since(self, moment: int) -> bool:
        """Whether git's files of it changed after the time in nanoseconds; no command can set back what is compared."""
        for path in (self.marker, *(self.directory / name for name in ("HEAD", "hooks", *PROTECTED_NAMES, "."))):
            with suppress(OSError):
                if os.lstat(path).st_ctime_ns > moment:
                    return True
        return False


class Survey(Frozen):
    """The repositories in some directories, each with the programs that git would run there: a name and a digest."""

    programs: Mapping[Repository, Programs]
    complete: bool

    def added(self, before: Mapping[Repository, Programs]) -> Iterator[tuple[Repository, tuple[str, ...]]]:
        """The repositories that run programs which they did not run before, and the names of these."""
        for repository, programs in self.programs.items():
            if new := programs - before.get(repository, frozenset()):
                yield repository, tuple(sorted({name for name, _ in new}))


class _Listed(Frozen):
    changed: tuple[int, int, int]
    folders: tuple[str, ...]
    """The paths of its directories."""
    repository: bool
    entries: int
    settled: bool
    readable: bool = True


class RepositorySearch:
    """Remembers what it has listed. Blocks; one search at a time."""

    def __init__(self) -> None:
        self._listed: dict[str, _Listed] = {}
        self._guard = Lock()

    def survey(self, roots: Sequence[Path], hooks: Sequence[str] = (), further: Iterable[Path] = ()) -> Survey:
        """The repositories below the roots. `hooks` are the directories that the user's settings name for hooks;
        `further` are worktrees to examine even if the search does not reach them."""
        with self._guard:
            markers, complete = self._find(roots)
        for worktree in further:
            if os.path.lexists(worktree / MARKER) and any(worktree.is_relative_to(root) for root in roots):
                markers.append(worktree / MARKER)
        repositories = [each for marker in dict.fromkeys(markers) if (each := _repository(marker)) is not None]
        return Survey({repository: programs(repository, hooks) for repository in repositories}, complete)

    def _find(self, roots: Sequence[Path]) -> tuple[list[Path], bool]:
        """Breadth first, without following links and without entering git directories."""
        markers: list[Path] = []
        listed: dict[str, _Listed] = {}
        waiting = deque(dict.fromkeys(str(root) for root in roots if root.name != MARKER))
        entries, complete = 0, True
        while waiting:
            path = waiting.popleft()
            if path in listed or (listing := self._list(path)) is None:
                continue
            if len(listed) >= MOST_DIRECTORIES or entries > MOST_ENTRIES:
                complete = False
                break
            listed[path] = listing
            entries += listing.entries
            complete = complete and listing.readable
            if listing.repository:
                markers += _markers(path)
            waiting.extend(listing.folders)
        self._listed = listed
        return markers, complete

    def _list(self, path: str) -> _Listed | None:
        """None if there is no such directory any more."""
        try:
            status = os.lstat(path)
        except OSError:
            return None
        changed = (status.st_dev, status.st_ino, status.st_ctime_ns)
        listing = self._listed.get(path)
        if listing is not None and listing.changed == changed and listing.settled:
            return listing
        if not stat.S_ISDIR(status.st_mode):
            return None
        settled = is_settled(status.st_ctime_ns)
        folders: list[str] = []
        names: set[str] = set()
        count = 0
        try:
            with os.scandir(path) as scanned:
                for entry in scanned:
                    count += 1
                    if count > MOST_ENTRIES:
                        return _Listed(changed, tuple(folders), True, count, False, False)
                    if entry.name == MARKER or entry.name in BARE:
                        names.add(entry.name)
                    if entry.name != MARKER and entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
        except OSError:
            # Not readable, but git could still enter it and find a repository.
            return _Listed(changed, (), True, 0, False, False)
        if names >= BARE:  # nothing in a git directory is a worktree
            folders = [folder for folder in folders if os.path.basename(folder) not in BARE]
        return _Listed(changed, tuple(folders), MARKER in names or names >= BARE, count, settled)


def includes(setting: Setting) -> bool:
    return setting.key == "include.path" or (setting.key.startswith("includeif.") and setting.key.endswith(".path"))


def is_settled(changed: int) -> bool:
    """Whether a further change would show as another time."""
    return time.time_ns() - changed > SETTLED_SECONDS * 1e9


def _markers(folder: str) -> Iterator[Path]:
    if os.path.lexists(f"{folder}/{MARKER}"):
        yield Path(folder, MARKER)
    if all(os.path.lexists(f"{folder}/{name}") for name in BARE):
        yield Path(folder)


def _repository(marker: Path) -> Repository | None:
    """None if git would find no repository there."""
    if marker.name != MARKER:
        return Repository(marker, marker, marker)
    if marker.is_dir():
        directory = Path(os.path.realpath(marker))
    else:
        named = pointer(marker, GITFILE)
        if named is None:
            return None
        directory = named
    return Repository(marker, directory, marker.parent) if os.path.lexists(directory / "HEAD") else None


def programs(repository: Repository, hooks: Sequence[str] = ()) -> Programs:
    """What git would run in this repository: the settings that are not harmless, and the hooks. Of the user's own
    settings only directories of hooks in the worktree count."""
    directory = repository.directory
    result: set[tuple[str, str]] = set()
    common = pointer(directory / "commondir")
    if common is None:
        common = directory
        with suppress(FileNotFoundError):
            result.add(("commondir", str(os.lstat(directory / "commondir").st_ctime_ns)))
    worktrees, folders = {repository.worktree}, {text for text in hooks if not os.path.isabs(text)}
    files = deque((common / "config", common / "config.worktree", directory / "config.worktree"))
    examined: set[Path] = set()
    while files and len(examined) < MOST_INCLUDED:
        file = files.popleft()
        if file in examined:
            continue
        examined.add(file)
        try:
            settings = read_settings(file)
        except UnreadableSettings as error:
            result.add((f"{file.name} ({error})", error.digest))
            continue
        for setting in settings:
            if setting.key == "core.worktree":
                elsewhere = Path(os.path.realpath(directory / setting.value))
                worktrees.add(elsewhere)
                if elsewhere != Path(os.path.realpath(repository.worktree)):
                    result.add((setting.key, setting.value))
            elif not setting.harmless:
                result.add((setting.key, setting.value))
            if setting.key == HOOKS:
                folders.add(setting.value)
            if includes(setting):
                files.append(Path(os.path.normpath(file.parent / setting.value)))
    result |= set(_hooks(common / "hooks"))
    for worktree in worktrees:
        for folder in folders:
            result |= set(_hooks(worktree / folder))
    return frozenset(result)


def _hooks(folder: Path) -> Iterator[tuple[str, str]]:
    if not folder.is_dir():
        return
    for name in GIT_HOOKS:
        if not os.access(f"{folder}/{name}", os.X_OK) or not (path := folder / name).is_file():
            continue
        try:
            digest = hashlib.sha256(read_regular(path) or b"").hexdigest()
        except UnreadableSettings as error:
            digest = error.digest
        yield f"the hook {name}", digest


def protected_names(repository: Repository, roots: Sequence[Path], hooks: Sequence[str]) -> Iterator[ProtectedName]:
    """The existing paths of a repository that git executes or reads names of programs from. Links are left out: they
    cannot be mount points."""
    directory = repository.directory
    own = [repository.marker] if not repository.marker.is_dir() else []
    inside, folders = [directory / name for name in PROTECTED_NAMES], list(hooks)
    with suppress(UnreadableSettings):
        for setting in read_settings(directory / "config"):
            if setting.key == HOOKS:
                folders.append(setting.value)
            elif includes(setting):
                inside.append(Path(os.path.normpath(directory / setting.value)))
    named = [Path(os.path.normpath(repository.worktree / text)) for text in folders]
    for path in (*own, *inside, *(folder for folder in named if folder != repository.worktree)):
        if path.exists() and Path(os.path.realpath(path)) == path:
            yield ProtectedName(path)
    for root in roots:
        for folder in (directory / "hooks", *named):
            yield from (name for name in linked_hooks(folder, root) if name.path.exists())


def disable(repository: Repository, roots: Sequence[Path]) -> Path | None:
    """Make git find no repository there. Returns the new name; None if it is not below the roots or cannot be
    renamed."""
    link = repository.marker.name == MARKER and (repository.marker.is_symlink() or not repository.marker.is_dir())
    return set_aside(repository.marker if link else repository.marker / "HEAD", roots)


def set_aside(path: Path, roots: Sequence[Path]) -> Path | None:
    """Rename an entry below the roots, if it exists. Returns its new name."""
    root = next((root for root in roots if root in path.parents), None)
    if root is None:
        return None
    flags = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
    new = f"{path.name}.disabled-{secrets.token_hex(4)}"
    try:
        handle = os.open(root, flags)
        try:
            for part in path.relative_to(root).parts[:-1]:
                below = os.open(part, flags, dir_fd=handle)
                os.close(handle)
                handle = below
            _make_writable(handle)
            os.rename(path.name, new, src_dir_fd=handle, dst_dir_fd=handle)
        finally:
            os.close(handle)
    except OSError:
        return None
    return path.with_name(new)


def _make_writable(directory: int) -> None:
    """A command may have made its directory read-only."""
    mode = stat.S_IMODE(os.fstat(directory).st_mode)
    if mode & WRITE_AND_ENTER != WRITE_AND_ENTER:
        os.chmod(f"/proc/self/fd/{directory}" if hasattr(os, "O_PATH") else directory, mode | WRITE_AND_ENTER)
