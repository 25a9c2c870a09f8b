"""`core/instructions`: the ambient instruction files, global first, then the project's from the Location upward."""

from __future__ import annotations

import logging
import os
import stat
from typing import TYPE_CHECKING, NamedTuple

from holdfast.core.context.file_cache import FILE_BYTES_LIMIT, NOT_FOUND_ERRNOS, FileTooLarge, Stamp
from holdfast.core.context.source import ABSENT, UNAVAILABLE, JsonCodec, Source
from holdfast.core.context.system_context import make
from holdfast.core.filesystem.canonical import CanonicalDirectories, contains, printable, upward
from holdfast.core.permission.project_reads import READ_DEFAULTS, protected_by
from holdfast.schema.record import Record

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping
    from pathlib import Path

    from holdfast.core.context.file_cache import FileCache
    from holdfast.core.context.source import Absent, Unavailable
    from holdfast.core.context.system_context import SystemContext
    from holdfast.core.filesystem.ownership import Owners
    from holdfast.core.permission.project_reads import ProjectReads

KEY = "core/instructions"
HEADING = "Instructions from: {}\n{}"
UPDATE = "The following instructions replace every ambient instruction that was given before."
REMOVED = "The ambient instructions given before are no longer in force."

NAMES = NAME, OTHER_NAME = "AGENTS.md", "CLAUDE.md"
DIRECTORY_CACHE_LIMIT = 1_024
WARNING_LIMIT = 1_000

TOTAL_LIMIT = 4 * FILE_BYTES_LIMIT
"""Characters of one set of files."""
FILE_TOO_LARGE = "This file is larger than 1 MiB, so it is not included here. Read the parts that matter with a tool."
SET_TOO_LARGE = "This file and {} after it are not included here: the instruction files together exceed 4 MiB."
"""They stand in the place of the content, so that neither the model nor a person takes the files for absent."""

log = logging.getLogger(__name__)


class Instruction(Record):
    path: str
    content: str


Instructions = tuple[Instruction, ...]


class InstructionFile(NamedTuple):
    """A regular file that may be used: its canonical path and its status."""

    path: str
    status: os.stat_result


class InstructionFiles:
    """Finds and reads the instruction files of one Location. Each problem is logged once."""

    def __init__(
        self,
        directory: Path,
        project: Path,
        config: Path,
        files: FileCache,
        environment: Mapping[str, str],
        owners: Owners | None = None,
        reads: Callable[[], ProjectReads] = lambda: READ_DEFAULTS,
        *,
        quiet: bool = False,
    ) -> None:
        """With `owners`, project files that another user can write are not used. `reads` returns what decides which
        files the project may name. With `quiet`, problems are collected and not logged."""
        self._directory = str(directory)
        self._project = str(project)
        self._config = str(config)
        self._canonical = CanonicalDirectories()
        self._files = files
        self._environment = environment
        self._owners = owners
        self._reads = reads
        self._quiet = quiet
        self._problems: dict[str, None] = {}
        self._searched: tuple[str, str, list[str]] = ("", "", [])
        self._without: dict[str, Stamp] = {}
        """Directories that have no instruction file, with the stamp they had when they were searched."""

    def ambient(self) -> SystemContext:
        async def read() -> Instructions:
            return self.read(self.find_ambient())

        return instruction_context(KEY, self, read, update=UPDATE, removed=REMOVED)

    def find_ambient(self) -> list[InstructionFile]:
        """The ambient files in order, each once. Raises OSError if a directory cannot be searched."""
        file = self.find(f"{self._config}/{NAME}", within=None, by_project=False)
        found = [file] if file is not None else []
        root, folders = self.ambient_directories()
        found += [file for folder in folders if (file := self.in_directory(folder, root)) is not None]
        return list({file.path: file for file in found}.values())

    def ambient_directories(self) -> tuple[str, list[str]]:
        """The project's root, and the directories that ambient files are taken from, nearest first."""
        if not self.project_enabled:
            return "", []
        directory, root = self._canonical.of(self._directory), self.root()
        if self._searched[:2] != (directory, root):
            self._searched = (directory, root, upward(directory, root))
        return self._searched[1:]

    def in_directory(self, folder: str, root: str) -> InstructionFile | None:
        """The instruction file of a project directory; both paths are canonical. A directory without one is searched
        again only after it has changed."""
        try:
            stamp = Stamp.of(os.stat(folder))
        except OSError:
            stamp = None
        if stamp is not None and self._without.get(folder) == stamp:
            return None
        paths = [f"{folder.rstrip('/')}/{name}" for name in NAMES]
        claude = not self._flag("OPENCODE_DISABLE_CLAUDE_CODE", "OPENCODE_DISABLE_CLAUDE_CODE_PROMPT")
        found = self._usable(paths[0], within=root, by_project=True)
        if found is None and claude:
            found = self._usable(paths[1], within=root, by_project=True)
        if len(self._without) >= DIRECTORY_CACHE_LIMIT:
            self._without.clear()
        if stamp is not None and stamp.settled and not any(map(os.path.lexists, paths)):
            self._without[folder] = stamp
        return found

    def find(self, path: str, *, within: str | None, by_project: bool) -> InstructionFile | None:
        """The file at a path, or None if it does not exist, is not a regular file, or leads out of `within`; with
        `by_project`, also if it is protected from what a project names. Raises OSError if it cannot be accessed."""
        folder, name = os.path.split(path)
        try:
            folder = self._canonical.of(folder)
        except OSError as error:
            self._raise_unless_missing(error, path, within)
            return None
        return self._usable(f"{folder.rstrip('/')}/{name}", within=within, by_project=by_project)

    def read(self, files: Iterable[InstructionFile]) -> Instructions:
        """Raises OSError if a file can no longer be read."""
        files, read, size = list(files), list[Instruction](), 0
        for position, (path, status) in enumerate(files, start=1):
            name = printable(path)
            try:
                content = self._files.text(path, status)
            except FileTooLarge:
                content = FILE_TOO_LARGE
                self.warn(f"{name}: {content}")
            size += len(name) + len(content)
            if size > TOTAL_LIMIT:
                content = SET_TOO_LARGE.format(len(files) - position)
                self.warn(f"{name}: {content}")
                return (*read, Instruction(path=name, content=content))
            read.append(Instruction(path=name, content=content))
        return tuple(read)

    def inside(self, directory: str) -> bool:
        """Whether the real path of a directory is in the project. Raises OSError if it cannot be resolved."""
        return contains(self.root(), self._canonical.of(directory))

    def root(self) -> str:
        return self._canonical.of(self._project)

    @property
    def project_enabled(self) -> bool:
        return not self._flag("OPENCODE_DISABLE_PROJECT_CONFIG")

    def problems(self, find_configured: Callable[[], list[InstructionFile]]) -> list[str]:
        """Read all files once and return every problem met so far."""
        try:
            self.read((*self.find_ambient(), *find_configured()))
        except OSError as error:
            self.warn_unavailable(error)
        return list(self._problems)

    def warn(self, message: str) -> None:
        """Note a problem and log it, once for this Location."""
        if message not in self._problems and len(self._problems) < WARNING_LIMIT:
            self._problems[message] = None
            if not self._quiet:
                log.warning("%s", message)

    def warn_unavailable(self, error: OSError) -> None:
        self.warn(f"instructions cannot be observed: {error}")

    def _usable(self, path: str, *, within: str | None, by_project: bool) -> InstructionFile | None:
        """As `find`, for a path whose directory is canonical."""
        place, as_named = path, os.path.basename(path) in NAMES
        try:
            status = os.lstat(path)
            if stat.S_ISLNK(status.st_mode):
                as_named = False
                path = os.path.realpath(path, strict=True)
                status = os.stat(path)
        except OSError as error:
            self._raise_unless_missing(error, path, within)
            return None
        if within is not None and not contains(within, path):
            self._warn_outside(path)
            return None
        if not stat.S_ISREG(status.st_mode):
            return None
        if by_project and (rule := self._reads().protecting(path, as_named=as_named)) is not None:
            self.warn(f"{printable(place)} {protected_by(path, rule)}; it is not used as an instruction file")
            return None
        owners = self._owners if within is not None else None
        if owners is not None and (reason := owners.refusal(status, os.path.dirname(path))) is not None:
            self.warn(f"{printable(path)} or its folder {reason}; it is not used")
            return None
        return InstructionFile(path, status)

    def _raise_unless_missing(self, error: OSError, path: str, within: str | None) -> None:
        """Return if the file does not exist, or is outside the project and cannot be accessed."""
        if error.errno in NOT_FOUND_ERRNOS:
            return
        if within is None or not isinstance(error, PermissionError) or contains(within, os.path.realpath(path)):
            raise error
        self._warn_outside(path)

    def _warn_outside(self, path: str) -> None:
        self.warn(f"{printable(path)} lies outside the project; it is not used")

    def _flag(self, *names: str) -> bool:
        return any(self._environment.get(name, "").lower() in ("1", "true") for name in names)


def instruction_context(
    key: str,
    files: InstructionFiles,
    read: Callable[[], Awaitable[Instructions]],
    *,
    update: str,
    removed: str,
    immediate: bool = True,
) -> SystemContext:
    """One source for an ordered set of files, which is replaced as a whole. It is absent if there are no files, and
    unavailable if reading raises OSError."""

    async def load() -> Instructions | Unavailable | Absent:
        try:
            return await read() or ABSENT
        except OSError as error:
            files.warn_unavailable(error)
            return UNAVAILABLE

    return make(
        Source(
            key=key,
            codec=_CODEC,
            load=load,
            baseline=render,
            update=lambda _, current: f"{update}\n\n{render(current)}",
            removed=lambda _: removed,
            immediate=immediate,
        )
    )


def render(instructions: Instructions) -> str:
    return "\n\n".join(HEADING.format(item.path, item.content) for item in instructions)


_CODEC = JsonCodec(Instructions)
