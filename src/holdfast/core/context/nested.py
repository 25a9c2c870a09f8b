"""`core/instructions/nested`: instruction files that reading brought to light, per Session and Location.

A successful read discovers; the discovery is recorded with that tool's settlement; the text reaches the model at the
next boundary and stays in force while the Session stays in this Location."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holdfast.core.context.instructions import aggregate
from holdfast.core.context.source import UNAVAILABLE
from holdfast.core.context.system_context import EMPTY
from holdfast.core.filesystem.canonical import contains, printable, upward
from holdfast.schema.session_event import InstructionDiscovered

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.core.clock import Clock
    from holdfast.core.context.instructions import Found, InstructionFiles
    from holdfast.core.context.system_context import SystemContext
    from holdfast.core.database.database import Database
    from holdfast.schema.location import Location

KEY = "core/instructions/nested"
UPDATE = "The following instructions replace every nested instruction that was given before."
REMOVED = "The nested instructions given before are no longer in force."

FILE_LIMIT = 32


class NestedInstructions:
    """One per Location. `elsewhere` finds the files that are configured, which are said there."""

    def __init__(
        self,
        database: Database,
        location: Location,
        found: InstructionFiles,
        clock: Clock,
        elsewhere: Callable[[], list[Found] | Awaitable[list[Found]]],
    ) -> None:
        self._database = database
        self._location = location
        self._found = found
        self._clock = clock
        self._elsewhere = elsewhere

    async def discover(self, session_id: str, target: str | os.PathLike[str]) -> InstructionDiscovered | None:
        """What a successful read of a file or directory brings to light and is not known yet: an event to publish
        with the settlement. Finding nothing, or failing to look, is no failure of the read."""
        if not self._found.project_enabled:
            return None
        try:
            paths = self._around(os.path.realpath(target, strict=True))
        except OSError as error:
            self._found.report(error)
            return None
        if not paths:
            return None
        known = await self.known(session_id)
        fresh = [path for path in paths if path not in known]
        room = max(FILE_LIMIT - len(known), 0)
        if len(fresh) > room:
            self._found.diagnose(
                f"more than {FILE_LIMIT} nested instruction files in {session_id}; others are not used"
            )
        if not fresh[:room]:
            return None
        return InstructionDiscovered(
            timestamp=self._clock.now(), session_id=session_id, location=self._location, paths=tuple(fresh[:room])
        )

    def load(self, session_id: str) -> SystemContext | Awaitable[SystemContext]:
        return self._load(session_id) if self._found.project_enabled else EMPTY

    async def _load(self, session_id: str) -> SystemContext:
        known = (await self.known(session_id))[:FILE_LIMIT]  # reads at the same time may have found more
        if not known:
            return EMPTY
        try:
            root = self._found.root()
            configured = self._elsewhere()
            if not isinstance(configured, list):
                configured = await configured
            said = {file.path for file in (*self._found.find_ambient(), *configured)}
            files = {file.path: file for path in known if (file := self._found.find(path, within=root)) is not None}
            instructions = self._found.read(file for path, file in files.items() if path not in said)
        except OSError as error:
            self._found.report(error)
            return aggregate(KEY, UNAVAILABLE, update=UPDATE, removed=REMOVED)
        return aggregate(KEY, instructions, update=UPDATE, removed=REMOVED)

    def _around(self, target: str) -> list[str]:
        """Nearest first: the instruction files between a canonical path and what the ambient traversal covers."""
        root = self._found.root()
        folder = target if os.path.isdir(target) else os.path.dirname(target)
        covered = self._found.covered()
        if not covered or not contains(root, folder):
            return []
        paths: list[str] = []
        for current in upward(folder, root):
            if current in covered:
                break
            file = self._found.in_directory(current, root)
            if file is not None and file.path == printable(file.path):  # an event holds text
                paths.append(file.path)
        return paths

    async def known(self, session_id: str) -> list[str]:
        """What reads of this Session brought to light here, in the order of discovery."""
        rows = await self._database.fetch(
            "instruction.list",
            {
                "session_id": session_id,
                "directory": self._location.directory,
                "workspace_id": self._location.workspace_id or "",
            },
        )
        return [str(row[0]) for row in rows]
