"""The ancestors of a Session: its parent, that one's parent, and so on up to the root."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.session.errors import SessionNotFound
from holdfast.schema.frozen import Frozen
from holdfast.schema.location import Location

if TYPE_CHECKING:
    from holdfast.core.database.database import Database
    from holdfast.core.database.unit import Value

MOST_ANCESTORS = 64
"""More than any tree has. A chain that is longer is treated as one whose top is gone."""
KNOWN_ROOTS = 1_000


class Ancestor(Frozen):
    id: str
    location: Location | None
    """None if the Session does not exist any more. Then nothing above it is known."""
    agent: str | None
    """Its agent now; None is the default one."""
    caller: str | None
    """The agent that gave the Session below it its newest task, if a task was given."""


class Ancestors:
    """Remembers which Sessions have no parent: no Session gets one later."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._roots: set[str] = set()

    async def of(self, session_id: str) -> tuple[Ancestor, ...]:
        """Nearest first. Raises SessionNotFound."""
        if session_id in self._roots:
            return ()
        key: dict[str, Value] = {"id": session_id, "most": MOST_ANCESTORS}
        rows = await self._database.fetch("session.with_ancestors", key, into=_Row)
        if not rows:
            raise SessionNotFound(session_id)
        if rows[0].parent_id is None:
            if len(self._roots) >= KNOWN_ROOTS:
                self._roots.clear()
            self._roots.add(session_id)
            return ()
        found = [row.ancestor() for row in rows[1:]]
        if (gone := rows[-1].parent_id) is not None:
            found.append(Ancestor(gone, None, None, None))
        return tuple(found)

    async def ids(self, session_id: str) -> tuple[str, ...] | None:
        """Root first; None without a parent."""
        return tuple(ancestor.id for ancestor in reversed(await self.of(session_id))) or None


class _Row(Frozen):
    id: str
    parent_id: str | None
    agent: str | None
    directory: str
    workspace_id: str | None
    caller: str | None

    def ancestor(self) -> Ancestor:
        place = Location(directory=self.directory, workspace_id=self.workspace_id)
        return Ancestor(self.id, place, self.agent, self.caller)
