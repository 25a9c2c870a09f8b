"""`core/instructions/nested`: instruction files that a Session discovered by reading near them.

A successful read discovers files; the discovery is recorded with the settlement of that tool call; the text reaches the
model at the next boundary and stays in force while the Session stays in this Location."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holdfast.core.context.instructions import instruction_context
from holdfast.core.context.system_context import EMPTY
from holdfast.core.filesystem.canonical import contains, printable, upward
from holdfast.schema.session_event import InstructionDiscovered

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from holdfast.core.clock import Clock
    from holdfast.core.context.instructions import InstructionFile, InstructionFiles, Instructions
    from holdfast.core.context.system_context import SystemContext
    from holdfast.core.database.database import Database
    from holdfast.schema.location import Location

KEY = "core/instructions/nested"
UPDATE = "The following instructions replace every nested instruction that was given before."
REMOVED = "The nested instructions given before are no longer in force."

NESTED_FILE_LIMIT = 32
SESSION_CACHE_LIMIT = 1_000


class NestedInstructions:
    """One per Location. Files that `find_configured` returns are left out: they have a source of their own."""

    def __init__(
        self,
        database: Database,
        location: Location,
        files: InstructionFiles,
        clock: Clock,
        find_configured: Callable[[], Awaitable[list[InstructionFile]]],
    ) -> None:
        self._database = database
        self._location = location
        self._files = files
        self._clock = clock
        self._find_configured = find_configured
        self._without: set[str] = set()
        """Sessions without a discovery: most of them, so that a boundary need not read the database."""
        self._given: dict[str, Sequence[str]] = {}
        """Discoveries for the next observation, as the drain that makes it has read them."""

    def context(self, session_id: str) -> SystemContext:
        if session_id in self._without or not self._files.project_enabled:
            return EMPTY

        async def read() -> Instructions:
            return await self._read(session_id)

        return instruction_context(KEY, self._files, read, update=UPDATE, removed=REMOVED)

    def begin(self, session_id: str, discovered: Sequence[str]) -> None:
        """Take over what the Session has discovered here, as a drain that begins has read it: another process may have
        added some."""
        if not discovered:
            self._note_none(session_id)
            return
        self._without.discard(session_id)
        if len(self._given) >= SESSION_CACHE_LIMIT:
            self._given.clear()
        self._given[session_id] = discovered

    async def discover(self, session_id: str, target: str | os.PathLike[str]) -> InstructionDiscovered | None:
        """Find the instruction files around a file or directory that was read. The event is to be published with the
        settlement of the read; None if there is no new file, or the search failed."""
        if not self._files.project_enabled:
            return None
        try:
            paths = self._find_around(os.path.realpath(target, strict=True))
        except OSError as error:
            self._files.warn_unavailable(error)
            return None
        if not paths:
            return None
        known = await self._discovered(session_id)
        new = [path for path in paths if path not in known]
        room = max(NESTED_FILE_LIMIT - len(known), 0)
        if len(new) > room:
            self._files.warn(
                f"more than {NESTED_FILE_LIMIT} nested instruction files in {session_id}; others are not used"
            )
        if not new[:room]:
            return None
        self._without.discard(session_id)
        self._given.pop(session_id, None)
        return InstructionDiscovered(
            timestamp=self._clock.now(), session_id=session_id, location=self._location, paths=tuple(new[:room])
        )

    async def _read(self, session_id: str) -> Instructions:
        discovered = self._given.pop(session_id, None) or await self._discovered(session_id)
        if not discovered:
            self._note_none(session_id)
            return ()
        root = self._files.root()
        other_sources = {file.path for file in (*self._files.find_ambient(), *await self._find_configured())}
        # Concurrent reads may have recorded more files than the limit.
        found = (self._files.find(path, within=root, by_project=True) for path in discovered[:NESTED_FILE_LIMIT])
        files = {file.path: file for file in found if file is not None}
        return self._files.read(file for path, file in files.items() if path not in other_sources)

    def _note_none(self, session_id: str) -> None:
        if len(self._without) >= SESSION_CACHE_LIMIT:
            self._without.clear()
        self._without.add(session_id)

    def _find_around(self, target: str) -> list[str]:
        """The instruction files from a canonical path up to the first ambient directory, nearest first."""
        folder = target if os.path.isdir(target) else os.path.dirname(target)
        root, ambient = self._files.ambient_directories()
        if not ambient or not contains(root, folder):
            return []
        paths: list[str] = []
        for current in upward(folder, root):
            if current in ambient:
                break
            file = self._files.in_directory(current, root)
            if file is not None and file.path == printable(file.path):  # an event holds text
                paths.append(file.path)
        return paths

    async def _discovered(self, session_id: str) -> list[str]:
        """The paths this Session has discovered in this Location, in the order of discovery."""
        rows = await self._database.fetch(
            "instruction.list",
            {
                "session_id": session_id,
                "directory": self._location.directory,
                "workspace_id": self._location.workspace_id or "",
            },
        )
        return [str(row[0]) for row in rows]
