"""Reads skill files; a file is read again only after it has changed.

Invariants
- A call returns what was on disk before it: a stamp that was recent when the file was read is not trusted.
- While nothing changes, a call costs one `stat` per directory and skill file, and returns the same tuple."""

from __future__ import annotations

import logging
import os
import stat
from typing import TYPE_CHECKING

from holdfast.core.context.file_cache import Stamp
from holdfast.core.filesystem.canonical import is_folder, is_text, printable
from holdfast.core.frontmatter import InvalidFrontmatter, parse_markdown
from holdfast.core.skill.skill import Skill
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Callable

FILE_BYTES = 1024 * 1024
ENTRIES = 20_000
SKILL_FILE = "SKILL.md"

log = logging.getLogger(__name__)


class SkillFiles(Frozen):
    watched: tuple[str, ...]
    """Directories and index files whose change means that other files may be found."""
    files: tuple[tuple[str, str | None], ...]
    """Paths in order, each with the skill's name if its frontmatter has none."""


class SkillReader:
    def __init__(
        self, find: Callable[[], SkillFiles], refusal: Callable[[str], str | None] = lambda path: None
    ) -> None:
        """`refusal` returns the reason for not using a file, if there is any. It is asked before a file is read."""
        self._find = find
        self._refusal = refusal
        self._known: _Known | None = None

    def current(self) -> tuple[Skill, ...] | None:
        """The skills of the last `read`, or None if a file may have changed since."""
        if self._known is None:
            return None
        for path, stamp in self._known.stamps.items():
            if _stamp(path) != stamp:
                return None
        return self._known.skills

    def read(self) -> tuple[Skill, ...]:
        """Safe to call from several threads: the cache is one value that is replaced as a whole."""
        before = self._known or _Known({}, {}, ())
        found = self._find()
        stamps = {path: _stamp(path) for path in found.watched}
        parsed: dict[str, tuple[Stamp, Skill | None]] = {}
        skills: list[Skill] = []
        for path, fallback in found.files:
            stamp = stamps[path] = _stamp(path)
            if stamp is None:
                continue
            known = before.parsed.get(path)
            skill = known[1] if known is not None and known[0] == stamp else self._parse(path, fallback)
            if skill is not None:
                skills.append(skill)
            if stamp.settled:
                parsed[path] = (stamp, skill)
        trusted = {path: stamp if stamp is None or stamp.settled else NO_STAMP for path, stamp in stamps.items()}
        same = before.skills if before.skills == tuple(skills) else tuple(skills)
        self._known = _Known(trusted, parsed, same)
        return same

    def _parse(self, path: str, fallback: str | None) -> Skill | None:
        if (reason := self._refusal(path)) is not None:
            log.warning("%s %s; it is not used as a skill", printable(path), reason)
            return None
        return _parse(os.path.realpath(path), path, fallback)


class _Known(Frozen):
    stamps: dict[str, Stamp | None]
    parsed: dict[str, tuple[Stamp, Skill | None]]
    skills: tuple[Skill, ...]


def find_below(root: str) -> SkillFiles:
    """`*.md` in the directory itself and `SKILL.md` at any depth, including hidden and linked ones, sorted by path."""
    files: dict[str, str | None] = {}
    directories: list[str] = []
    seen: set[tuple[int, int]] = set()
    pending, entries = [root], 0
    while pending:
        directory = pending.pop()
        directories.append(directory)
        try:
            status = os.stat(directory)
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            with os.scandir(directory) as listing:
                for entry in listing:
                    entries += 1
                    if is_folder(entry):
                        pending.append(entry.path)
                    elif directory == root and entry.name.endswith(".md"):
                        files[entry.path] = entry.name.removesuffix(".md")
                    elif entry.name == SKILL_FILE:
                        files[entry.path] = None
        except OSError:
            continue
        if entries > ENTRIES:
            log.warning("%s holds more than %d files; not all of it was searched for skills", root, ENTRIES)
            break
    return SkillFiles(tuple(directories), tuple(sorted(files.items())))


def _parse(real: str, path: str, fallback: str | None) -> Skill | None:
    """The skill in the file at the path `real`; `path` is where it is shown to be."""
    try:
        markdown = parse_markdown(_text(real))
    except (OSError, UnicodeDecodeError, InvalidFrontmatter):
        return None
    name, description, slash = (markdown.data.get(field) for field in ("name", "description", "slash"))
    name = fallback if name is None else name
    if not isinstance(name, str) or not name.strip():
        return None
    if not isinstance(description, str | None) or not isinstance(slash, bool | None):
        return None
    if not markdown.data and not markdown.body.strip():
        return None
    if not all(map(is_text, (name, description or "", path))):  # name, description and path are sent to the model
        return None
    return Skill(name=name, description=description, slash=slash, location=path, content=markdown.body)


def _text(path: str) -> str:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError("not a regular file")
        data = file.read(FILE_BYTES + 1)
    if len(data) > FILE_BYTES:
        raise OSError("too large")
    return data.decode("utf-8")


def _stamp(path: str) -> Stamp | None:
    try:
        return Stamp.of(os.stat(path))
    except OSError:
        return None


NO_STAMP = Stamp(0, 0, -1, 0, 0)
"""Differs from the stamp of any file."""
