"""What git says of the user's own settings, and which repositories an index names. Both decide what git executes in a
project without being asked to."""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.process.git import Git, GitFailed
from holdfast.core.process.sandbox.git_configuration import Setting
from holdfast.core.process.sandbox.places import GITFILE, pointer
from holdfast.core.process.sandbox.repositories import HOOKS, MARKER, includes, is_settled
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SECONDS = 10.0
MOST_FILES = 20
MOST_INDEXES = 20
GITLINK = b"160000 "
PLACES = ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM")

Stamp = tuple[int, int, int] | None


class GitSettings(Frozen):
    """Of the user and of the project's repository."""

    hooks: tuple[str, ...] = ()
    """The values of `core.hooksPath`: absolute, or relative to any worktree."""
    included: tuple[Path, ...] = ()
    """Files with further settings, also those that do not exist and those under a condition."""
    problem: str = ""


class GitReader:
    """Asks git, and asks again when a file of the answer has changed."""

    def __init__(self, root: Path | None, directory: Path, environment: Mapping[str, str]) -> None:
        """`root` is the project's worktree, if there is a repository."""
        self._git = Git(environment, seconds=SECONDS)
        self._directory = root or directory
        self._environment = environment
        self._read: tuple[dict[str, Stamp], GitSettings] | None = None
        self._links: dict[Path, tuple[Stamp, tuple[Path, ...]]] = {}

    async def settings(self) -> GitSettings:
        if self._read is not None and all(_stamp(path) == stamp for path, stamp in self._read[0].items()):
            return self._read[1]
        if self._git.program(self._directory) is None:
            return GitSettings()
        stamps = {path: _stamp(path) for path in self._usual_files()}
        hooks: dict[str, None] = {}
        included: dict[Path, None] = {}
        listings: deque[tuple[str, ...]] = deque([("--includes",)])
        problem = ""
        read: set[Path] = set()
        while listings and len(read) < MOST_FILES:
            try:
                entries = await self._list(*listings.popleft())
            except GitFailed as error:
                problem = problem or f"settings of git could not be read, so what they name is not protected: {error}"
                continue
            for origin, setting in entries:
                if origin not in read:
                    read.add(origin)
                    stamps.setdefault(str(origin), _stamp(str(origin)))
                if setting.key == HOOKS:
                    hooks[self._expanded(setting.value)] = None
                if includes(setting):
                    path = Path(os.path.normpath(origin.parent / self._expanded(setting.value)))
                    included[path] = None
                    stamps.setdefault(str(path), _stamp(str(path)))
            # Those under a condition that does not hold now were not read by git.
            for path in included:
                if path not in read and path.is_file():
                    read.add(path)
                    listings.append(("--includes", "--file", str(path)))
        answer = GitSettings(tuple(hooks), tuple(included), problem)
        self._read = None if problem else (stamps, answer)
        return answer

    async def gitlinks(self) -> tuple[Path, ...]:
        """The worktrees of submodules and other repositories that the project's index names, and those that theirs
        name."""
        links: dict[Path, None] = {}
        worktrees = deque([self._directory])
        for _ in range(MOST_INDEXES):
            if not worktrees:
                break
            worktree = worktrees.popleft()
            for path in await self._index(worktree):
                if path not in links:
                    links[path] = None
                    worktrees.append(path)
        return tuple(links)

    async def _index(self, worktree: Path) -> Iterable[Path]:
        marker = worktree / MARKER
        if not os.path.lexists(marker) or self._git.program(self._directory) is None:
            return ()
        directory = marker if marker.is_dir() else pointer(marker, GITFILE)
        stamp = None if directory is None else _stamp(str(directory / "index"))
        if stamp is not None and self._links.get(worktree, (None, ()))[0] == stamp:
            return self._links[worktree][1]
        try:
            listed = await self._git.run("ls-files", "-z", "--stage", git_dir=marker, work_tree=worktree)
        except GitFailed:
            return ()
        links = (entry.partition(b"\t")[2] for entry in listed.split(b"\0") if entry.startswith(GITLINK))
        worktrees = tuple(worktree / os.fsdecode(path) for path in links)
        if stamp is not None and is_settled(stamp[2]):
            self._links[worktree] = stamp, worktrees
        return worktrees

    async def _list(self, *options: str) -> list[tuple[Path, Setting]]:
        """Every setting with the file that it is in."""
        output = await self._git.run(
            *("config", "-z", "--show-origin", *options, "--list"),
            git_dir=self._directory / ".git",
            work_tree=self._directory,
            user_configuration=True,
        )
        entries = []
        parts = [os.fsdecode(part) for part in output.split(b"\0")[:-1]]
        for origin, text in zip(parts[::2], parts[1::2], strict=False):
            if origin.startswith("file:"):
                key, _, value = text.partition("\n")
                entries.append(
                    (Path(os.path.normpath(self._directory / origin.removeprefix("file:"))), Setting(key, value))
                )
        return entries

    def _usual_files(self) -> list[str]:
        values = [self._environment.get(name) for name in PLACES]
        home, configuration, *named = values
        files = ["/etc/gitconfig", str(self._directory / ".git"), str(self._directory / ".git" / "config")]
        files += [f"{home}/.gitconfig", f"{configuration or f'{home}/.config'}/git/config"]
        return [*files, *(file for file in named if file)]

    def _expanded(self, text: str) -> str:
        home = self._environment.get("HOME")
        return f"{home}/{text[2:]}" if text.startswith("~/") and home else text


def _stamp(path: str) -> Stamp:
    try:
        status = os.stat(path)
    except OSError:
        return None
    # The time of a directory changes with each of its entries.
    return status.st_dev, status.st_ino, 0 if os.path.isdir(path) else status.st_ctime_ns
