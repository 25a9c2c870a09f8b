"""Detects changes of configuration files by polling.

Invariants
- A path is fingerprinted before it is read: an edit during reading is detected at the next check.
- Two edits within one tick of the file system's clock are told apart: while a fingerprint is young, the content is
  compared too.
- The number of paths is bounded; `complete` tells whether all of them are watched.
- While the folder of a missing path has not changed, the path is still missing; it is looked for only if it has."""

from __future__ import annotations

import os
import stat
import time
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.core.config.plugin_files import PLUGIN_FOLDERS, plugin_files, plugins_in
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from pathlib import Path

MARKDOWN_FOLDERS = ("agent", "agents", "mode", "modes", "command", "commands")
MOST_PATHS = 2_000
YOUNG_NS = 2_000_000_000
"""The coarsest timestamps of file systems in use."""
COMPARED_BYTES = 1024 * 1024
"""Bytes compared of a young file. A change beyond them with the same size and times is not detected."""


class _Fingerprint(Frozen):
    stamp: tuple[int, int, int, int, int] | None
    """None if the file does not exist."""
    content: int | None
    """A checksum while the stamp is young."""


class Watch:
    """The files that one configuration was read from, and the folders in which more may appear."""

    def __init__(self) -> None:
        self._marks: dict[str, _Fingerprint] = {}
        """Of the paths that exist, and of links to nothing: what they lead to may appear anywhere."""
        self._missing: dict[str, set[str]] = {}
        """Paths that do not exist, by their folder."""
        self._folders: dict[str, _Fingerprint] = {}
        """Of the folders of missing paths, from before these were looked for."""
        self._known: set[str] = set()
        self.complete = True

    def __len__(self) -> int:
        return len(self._known)

    def add(self, path: str | Path) -> None:
        """Watch a path. Call it before the path is read; the path need not exist."""
        text = str(path)
        if text in self._known:
            return
        if len(self._known) >= MOST_PATHS:
            self.complete = False
            return
        self._known.add(text)
        folder = os.path.dirname(text)
        before = self._folders.get(folder) or _fingerprint(folder)
        found = _fingerprint(text)
        if found.stamp is not None or os.path.lexists(text):
            self._marks[text] = found
        else:
            self._folders[folder] = before
            self._missing.setdefault(folder, set()).add(text)

    def add_tree(self, folder: str | Path, suffix: str = "") -> None:
        """Watch a folder and all files below it with this suffix."""
        entered: set[tuple[int, int]] = set()
        waiting = [str(folder)]
        while waiting and self.complete:
            here = waiting.pop()
            self.add(here)
            try:
                status = os.stat(here)
                if (status.st_dev, status.st_ino) in entered:
                    continue
                entered.add((status.st_dev, status.st_ino))
                with os.scandir(here) as entries:
                    for entry in entries:
                        if entry.name == "__pycache__":
                            continue
                        if entry.is_dir():
                            waiting.append(entry.path)
                        elif entry.name.endswith(suffix):
                            self.add(entry.path)
            except OSError:
                continue

    def add_folder(self, folder: Path) -> None:
        """Watch the agents, commands and plugins of a configuration folder."""
        for name in MARKDOWN_FOLDERS:
            self.add_tree(folder / name, ".md")
        for name in PLUGIN_FOLDERS:
            self.add(folder / name)
            with suppress(OSError), os.scandir(folder / name) as entries:
                for entry in entries:
                    if entry.is_dir():
                        self.add(entry.path)  # becomes a plugin when `__init__.py` is added
        for plugin in plugins_in(folder):
            self.add_plugin(plugin)

    def add_plugin(self, path: Path) -> None:
        self.add(path)
        if path.is_dir():
            self.add(path / "__init__.py")
            if plugin_files(path):
                self.add_tree(path)

    def changed(self) -> bool:
        """Whether a watched path has changed. Costs one `stat` per path that exists, and per folder of others."""
        if any(_differs(path, self._marks) for path in self._marks):
            return True
        for folder, missing in self._missing.items():
            if _differs(folder, self._folders):
                now = _fingerprint(folder)
                if any(_stamp(path) is not None for path in missing):
                    return True
                self._folders[folder] = now
        return False

    def newest(self) -> int:
        """The latest change time of the existing files, in nanoseconds since the epoch. Programs cannot set this
        time."""
        stamps = (_stamp(path) for path in self._known)
        return max((stamp[4] for stamp in stamps if stamp is not None), default=0)


def _differs(path: str, marks: dict[str, _Fingerprint]) -> bool:
    mark = marks[path]
    if _stamp(path) != mark.stamp:
        return True
    if mark.content is not None:
        if _content(path) != mark.content:
            return True
        if not _young(mark.stamp):
            marks[path] = mark.replace(content=None)  # existing key: safe while iterating
    return False


def _fingerprint(path: str) -> _Fingerprint:
    stamp = _stamp(path)
    return _Fingerprint(stamp, _content(path) if _young(stamp) else None)


def _stamp(path: str) -> tuple[int, int, int, int, int] | None:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _young(stamp: tuple[int, int, int, int, int] | None) -> bool:
    return stamp is not None and time.time_ns() - max(stamp[3], stamp[4]) < YOUNG_NS


def _content(path: str) -> int:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            if stat.S_ISREG(os.fstat(handle).st_mode):
                return zlib.crc32(os.read(handle, COMPARED_BYTES))
            return zlib.crc32("\0".join(sorted(os.listdir(handle))).encode(errors="surrogateescape"))
        finally:
            os.close(handle)
    except OSError:
        return 0
