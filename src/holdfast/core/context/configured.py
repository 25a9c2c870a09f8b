"""`core/instructions/configured`: the local files that configuration names, by path or pattern."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from holdfast.core.context.file_pattern import PatternTooWide, Walk, is_pattern
from holdfast.core.context.instructions import instruction_context
from holdfast.core.context.system_context import EMPTY
from holdfast.core.filesystem.canonical import possible, printable
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from holdfast.core.context.file_cache import FileCache
    from holdfast.core.context.instructions import InstructionFile, InstructionFiles, Instructions
    from holdfast.core.context.system_context import SystemContext

KEY = "core/instructions/configured"
CONTRIBUTION = "core/instructions-configured"
UPDATE = "The following instructions replace every configured instruction that was given before."
REMOVED = "The configured instructions given before are no longer in force."

SMALL_WALK = 200
"""Directories. Patterns that search more of them are expanded in a thread."""


class ConfiguredEntry(Frozen):
    """One item of `instructions` in a configuration document."""

    text: str
    base: Path
    """Relative paths start here."""
    origin: Literal["user", "project", "untrusted"]
    """Who wrote the document."""

    @property
    def trusted(self) -> bool:
        """Whether it may name files outside the project."""
        return self.origin != "untrusted"


class ConfiguredInstructions:
    def __init__(
        self, entries: Iterable[ConfiguredEntry], files: InstructionFiles, cache: FileCache, home: Path
    ) -> None:
        entries = list(entries)
        self._local = [entry for entry in entries if not is_remote(entry.text)]
        self._remote = [entry for entry in entries if is_remote(entry.text)]
        self._files = files
        self._cache = cache
        self._home = home
        # The first walk may list a large tree; later ones mostly compare timestamps.
        self._large = any(is_pattern(entry.text) for entry in self._local)

    def context(self) -> SystemContext:
        if not self._local:
            return EMPTY
        return instruction_context(
            KEY, self._files, self._read, update=UPDATE, removed=REMOVED, immediate=not self._large
        )

    def urls(self) -> list[str]:
        """The remote entries in order, each once."""
        return list(dict.fromkeys(entry.text for entry in self._enabled(self._remote)))

    async def find(self) -> list[InstructionFile]:
        """The configured files in order, each once, without the ambient ones. Raises OSError as InstructionFiles."""
        return await asyncio.to_thread(self.find_now) if self._large else self.find_now()

    async def _read(self) -> Instructions:
        return await asyncio.to_thread(self._read_now) if self._large else self._read_now()

    def _read_now(self) -> Instructions:
        return self._files.read(self.find_now())

    def find_now(self) -> list[InstructionFile]:
        """As `find`, in this thread."""
        entries = self._enabled(self._local)
        if not entries:
            return []
        # Two walks: a project's patterns list nothing outside the project, and cannot use up the user's limits.
        ours, theirs = Walk(self._cache), Walk(self._cache, self._files.inside)
        found = {
            file.path: file for entry in entries for file in self._expand(entry, ours if entry.trusted else theirs)
        }
        self._large = ours.directories + theirs.directories > SMALL_WALK
        for directory in (*ours.forbidden, *theirs.forbidden):
            self._files.warn(f"{printable(directory)} may not be listed; no instructions are looked for below it")
        ambient = {file.path for file in self._files.find_ambient()}
        return [file for path, file in found.items() if path not in ambient]

    def _expand(self, entry: ConfiguredEntry, walk: Walk) -> list[InstructionFile]:
        start, path = self._resolve(entry)
        if not possible(path):
            self._files.warn(f"the instructions entry {entry.text!r} cannot be a path; it is not used")
            return []
        try:
            matches = walk.matches(start, path) if is_pattern(path) else [os.path.join(start, path)]
        except PatternTooWide as error:
            self._files.warn(f"the instructions pattern {entry.text!r} is too wide ({error}); it is not used")
            return []
        within = None if entry.trusted else self._files.root()
        found = (self._files.find(match, within=within, by_project=entry.origin != "user") for match in matches)
        return [file for file in found if file is not None]

    def _resolve(self, entry: ConfiguredEntry) -> tuple[str, str]:
        """The directory to start from, which is taken literally, and the path or pattern relative to it."""
        if entry.text.startswith("~/"):
            return str(self._home), entry.text[2:]
        return ("/" if entry.text.startswith("/") else str(entry.base)), entry.text.lstrip("/")

    def _enabled(self, entries: Sequence[ConfiguredEntry]) -> list[ConfiguredEntry]:
        return [entry for entry in entries if entry.trusted or self._files.project_enabled]


def is_remote(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)
