"""`core/instructions/configured`: the local files that configuration names, by path or pattern."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from holdfast.core.context.file_pattern import PatternTooWide, Walk, is_pattern
from holdfast.core.context.instructions import aggregate
from holdfast.core.context.source import UNAVAILABLE
from holdfast.core.filesystem.canonical import possible, printable
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Sequence
    from pathlib import Path

    from holdfast.core.context.file_cache import FileCache
    from holdfast.core.context.instructions import Found, Instruction, InstructionFiles
    from holdfast.core.context.source import Unavailable
    from holdfast.core.context.system_context import SystemContext

KEY = "core/instructions/configured"
CONTRIBUTION = "core/instructions-configured"
UPDATE = "The following instructions replace every configured instruction that was given before."
REMOVED = "The configured instructions given before are no longer in force."

SMALL_WALK = 200
"""Directories; a pattern that needs more of them is expanded beside the loop."""


class Entry(Frozen):
    """One line of `instructions`, with the directory that its relative paths start from. Entries of the user's own
    configuration are trusted to point anywhere; a project's are not."""

    text: str
    base: Path
    trusted: bool


class ConfiguredInstructions:
    def __init__(self, entries: Iterable[Entry], found: InstructionFiles, files: FileCache, home: Path) -> None:
        entries = list(entries)
        self._local = [entry for entry in entries if not is_remote(entry.text)]
        self._remote = [entry for entry in entries if is_remote(entry.text)]
        self._found = found
        self._files = files
        self._home = home
        # The first walk may have to list a large tree; later ones mostly compare times.
        self._large = any(is_pattern(entry.text) for entry in self._local)

    def load(self) -> SystemContext | Awaitable[SystemContext]:
        if self._large:
            return asyncio.to_thread(self._load)
        return self._load()

    def urls(self) -> list[str]:
        """The remote entries that are in force, each once, in order."""
        return list(dict.fromkeys(entry.text for entry in self._enabled(self._remote)))

    def find(self) -> list[Found] | Awaitable[list[Found]]:
        """The files that are in force, each once, in order, without those that are ambient already."""
        if self._large:
            return asyncio.to_thread(self._find)
        return self._find()

    def _find(self) -> list[Found]:
        entries = self._enabled(self._local)
        if not entries:
            return []
        # What a project wants is not even looked for outside of it, and cannot use up what the user's own needs.
        ours, theirs = Walk(self._files), Walk(self._files, self._found.inside)
        found = {
            file.path: file for entry in entries for file in self._expand(entry, ours if entry.trusted else theirs)
        }
        self._large = ours.directories + theirs.directories > SMALL_WALK
        for directory in (*ours.forbidden, *theirs.forbidden):
            self._found.diagnose(f"{printable(directory)} may not be listed; no instructions are looked for below it")
        ambient = {file.path for file in self._found.find_ambient()}
        return [file for path, file in found.items() if path not in ambient]

    def _load(self) -> SystemContext:
        return aggregate(KEY, self._read(), update=UPDATE, removed=REMOVED)

    def _read(self) -> tuple[Instruction, ...] | Unavailable:
        try:
            return self._found.read(self._find())
        except OSError as error:
            self._found.report(error)
            return UNAVAILABLE

    def _expand(self, entry: Entry, walk: Walk) -> list[Found]:
        start, path = self._resolve(entry)
        if not possible(path):
            self._found.diagnose(f"the instructions entry {entry.text!r} can be no path; it is not used")
            return []
        try:
            matches = walk.matches(start, path) if is_pattern(path) else [os.path.join(start, path)]
        except PatternTooWide as error:
            self._found.diagnose(f"the instructions pattern {entry.text!r} is too wide ({error}); it is not used")
            return []
        within = None if entry.trusted else self._found.root()
        looked = (self._found.find(match, within=within) for match in matches)
        return [found for found in looked if found is not None]

    def _resolve(self, entry: Entry) -> tuple[str, str]:
        """The directory to start from, whose own name is never a pattern, and the path from there."""
        if entry.text.startswith("~/"):
            return str(self._home), entry.text[2:]
        return ("/" if entry.text.startswith("/") else str(entry.base)), entry.text.lstrip("/")

    def _enabled(self, entries: Sequence[Entry]) -> list[Entry]:
        trusted_only = not self._found.project_enabled
        return [entry for entry in entries if entry.trusted or not trusted_only]


def is_remote(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)
