"""`core/instructions`: the ambient instruction files, global first, then the project's from the Location upward."""

from __future__ import annotations

import logging
import os
import stat
from typing import TYPE_CHECKING, NamedTuple

from holdfast.core.context.file_cache import ABSENT, FILE_LIMIT, FileTooLarge, Stamp
from holdfast.core.context.source import UNAVAILABLE, JsonCodec, Source
from holdfast.core.context.system_context import EMPTY, make
from holdfast.core.filesystem.canonical import CanonicalDirectories, contains, printable, upward
from holdfast.schema.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from holdfast.core.context.file_cache import FileCache
    from holdfast.core.context.source import Unavailable
    from holdfast.core.context.system_context import SystemContext
    from holdfast.core.filesystem.ownership import Owners

KEY = "core/instructions"
HEADING = "Instructions from: {}\n{}"
UPDATE = "The following instructions replace every ambient instruction that was given before."
REMOVED = "The ambient instructions given before are no longer in force."

NAME = "AGENTS.md"
OTHER_NAME = "CLAUDE.md"
REMEMBERED = 1_024

TOTAL_LIMIT = 4 * FILE_LIMIT
"""Characters of one set of files, which the model is sent as a whole."""

log = logging.getLogger(__name__)


class Instruction(Record):
    path: str
    content: str


_CODEC = JsonCodec(tuple[Instruction, ...])


class Found(NamedTuple):
    """An instruction file: its canonical path and what the system says of it."""

    path: str
    status: os.stat_result


class InstructionFiles:
    """Finds and reads instruction files of one Location. What is wrong with one is told to people, once."""

    def __init__(
        self,
        directory: Path,
        project: Path,
        config: Path,
        files: FileCache,
        environment: Mapping[str, str],
        owners: Owners | None = None,
    ) -> None:
        """With `owners`, files of the project that somebody else could have written are not used."""
        self._directory = str(directory)
        self._project = str(project)
        self._config = str(config)
        self._canonical = CanonicalDirectories()
        self._files = files
        self._environment = environment
        self._owners = owners
        self._covered: tuple[str, str, list[str]] = ("", "", [])
        self._reported: set[str] = set()
        self._bare: dict[str, Stamp] = {}
        """Directories in which nothing is called like an instruction file, as they were then."""

    def ambient(self) -> SystemContext:
        try:
            instructions = self.read(self.find_ambient())
        except OSError as error:
            self.report(error)
            return aggregate(KEY, UNAVAILABLE, update=UPDATE, removed=REMOVED)
        return aggregate(KEY, instructions, update=UPDATE, removed=REMOVED)

    def find_ambient(self) -> list[Found]:
        """In order, each once. Raises OSError when it cannot be told which there are."""
        file = self.find(f"{self._config}/{NAME}", within=None)
        found = [file] if file is not None else []
        if folders := self.covered():
            root = self._covered[1]
            found += [file for folder in folders if (file := self.in_directory(folder, root)) is not None]
        return list({file.path: file for file in found}.values())

    def covered(self) -> list[str]:
        """The directories that the ambient traversal looks into, nearest first."""
        if not self.project_enabled:
            return []
        directory, root = self._canonical.of(self._directory), self.root()
        if self._covered[:2] != (directory, root):
            self._covered = (directory, root, upward(directory, root))
        return self._covered[2]

    def in_directory(self, folder: str, root: str) -> Found | None:
        """The instruction file of a directory of the project; both paths canonical. A directory that had none and has
        not changed has none."""
        try:
            stamp = Stamp.of(os.stat(folder))
        except OSError:
            stamp = None
        if stamp is not None and self._bare.get(folder) == stamp:
            return None
        paths = [f"{folder.rstrip('/')}/{name}" for name in (NAME, OTHER_NAME)]
        claude = not self.flag("OPENCODE_DISABLE_CLAUDE_CODE", "OPENCODE_DISABLE_CLAUDE_CODE_PROMPT")
        found = self.look(paths[0], within=root) or (self.look(paths[1], within=root) if claude else None)
        if len(self._bare) >= REMEMBERED:
            self._bare.clear()
        if stamp is not None and stamp.settled and not any(map(os.path.lexists, paths)):
            self._bare[folder] = stamp
        return found

    def look(self, path: str, *, within: str | None) -> Found | None:
        """The regular file at a path whose directory is canonical, or None if there is none that may be used."""
        try:
            status = os.lstat(path)
            if stat.S_ISLNK(status.st_mode):
                path = os.path.realpath(path, strict=True)
                status = os.stat(path)
        except OSError as error:
            self._pass_over(error, path, within)
            return None
        if within is not None and not contains(within, path):
            self._leave_out(path)
            return None
        if not stat.S_ISREG(status.st_mode):
            return None
        owners = self._owners if within is not None else None
        if owners is not None and (reason := owners.refusal(status, os.path.dirname(path))) is not None:
            self.diagnose(f"{printable(path)} or its folder {reason}; it is not used")
            return None
        return Found(path, status)

    def find(self, path: str, *, within: str | None) -> Found | None:
        """The same for any path."""
        folder, name = os.path.split(path)
        try:
            folder = self._canonical.of(folder)
        except OSError as error:
            self._pass_over(error, path, within)
            return None
        return self.look(f"{folder.rstrip('/')}/{name}", within=within)

    def read(self, found: Iterable[Found]) -> tuple[Instruction, ...]:
        """Raises OSError if one of them cannot be read any more."""
        read: list[Instruction] = []
        size = 0
        for path, status in found:
            try:
                instruction = Instruction(path=printable(path), content=self._files.text(path, status))
            except FileTooLarge:
                self.diagnose(f"{printable(path)} is too large for instructions; it is not used")
                continue
            size += len(instruction.path) + len(instruction.content)
            if size > TOTAL_LIMIT:
                self.diagnose(f"there are too many instructions; {instruction.path} and those after it are not used")
                break
            read.append(instruction)
        return tuple(read)

    def inside(self, directory: str) -> bool:
        """Whether a directory belongs to the project, by its real path. Raises OSError if that cannot be told."""
        return contains(self.root(), self._canonical.of(directory))

    def root(self) -> str:
        return self._canonical.of(self._project)

    @property
    def project_enabled(self) -> bool:
        return not self.flag("OPENCODE_DISABLE_PROJECT_CONFIG")

    def flag(self, *names: str) -> bool:
        return any(self._environment.get(name, "").lower() in ("1", "true") for name in names)

    def _pass_over(self, error: OSError, path: str, within: str | None) -> None:
        """Returns if there is no file that may be used, and what nobody may look at elsewhere is none; raises if that
        cannot be told."""
        if error.errno in ABSENT:
            return
        if within is None or not isinstance(error, PermissionError) or contains(within, os.path.realpath(path)):
            raise error
        self._leave_out(path)

    def _leave_out(self, path: str) -> None:
        self.diagnose(f"{printable(path)} lies outside the project; it is not used")

    def report(self, error: OSError) -> None:
        self.diagnose(f"instructions cannot be observed: {error}")

    def diagnose(self, message: str) -> None:
        if message not in self._reported and len(self._reported) < 1_000:
            self._reported.add(message)
            log.warning("%s", message)


def aggregate(
    key: str, instructions: tuple[Instruction, ...] | Unavailable, *, update: str, removed: str
) -> SystemContext:
    """One source for an ordered set of files, which is replaced as a whole. An empty set is confirmed absence."""
    if instructions == ():
        return EMPTY
    return make(
        Source(
            key=key,
            codec=_CODEC,
            load=lambda: instructions,
            baseline=render,
            update=lambda _, current: f"{update}\n\n{render(current)}",
            removed=lambda _: removed,
        )
    )


def render(instructions: tuple[Instruction, ...]) -> str:
    return "\n\n".join(HEADING.format(item.path, item.content) for item in instructions)
