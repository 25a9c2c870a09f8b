"""The ancestors of a Session: its parent, that one's parent, and so on up to the root."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from holdfast.core.session.errors import SessionNotFound
from holdfast.schema.frozen import Frozen
from holdfast.schema.location import Location

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.database.database import Database
    from holdfast.core.database.unit import Value
    from holdfast.core.event.signal import Flag, Signals

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

    def __init__(self, database: Database, signals: Signals) -> None:
        self._database = database
        self._signals = signals
        self._roots: set[str] = set()
        self._lines: dict[str, _Line] = {}

    @contextmanager
    def remembered(self, session_id: str, read: Sequence[AncestorRow] = ()) -> Iterator[None]:
        """Meanwhile the ancestors of this Session are read again only after one of them has changed. `read` are the
        rows for the first who asks, if they were just read."""
        line = self._lines[session_id] = _Line(read)
        try:
            yield
        finally:
            line.close()
            if self._lines.get(session_id) is line:
                del self._lines[session_id]

    async def of(self, session_id: str) -> tuple[Ancestor, ...]:
        """Nearest first. Raises SessionNotFound."""
        if session_id in self._roots:
            return ()
        line = self._lines.get(session_id)
        if line is None:
            return await self._read(session_id)
        if not line.changed:
            return line.found
        if line.given:
            rows, line.given = line.given, ()
            return self._found(session_id, rows)
        reading = line.follow(self._signals)  # before the read, so that no change after it is missed
        found = await self._read(session_id)
        line.learn(found, reading)
        return found

    async def _read(self, session_id: str) -> tuple[Ancestor, ...]:
        key: dict[str, Value] = {"id": session_id, "most": MOST_ANCESTORS}
        rows = await self._database.fetch("session.with_ancestors", key, into=AncestorRow)
        return self._found(session_id, rows)

    def _found(self, session_id: str, rows: Sequence[AncestorRow]) -> tuple[Ancestor, ...]:
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


class _Line:
    """The ancestors of one Session as they were read, and flags that each commit of one of them sets."""

    def __init__(self, given: Sequence[AncestorRow]) -> None:
        self.given = given
        """Rows that were read before the drain began, for one use: nobody followed the ancestors then."""
        self.found: tuple[Ancestor, ...] = ()
        self._reading = 0
        """The number of the newest read."""
        self._known = False
        """Whether `found` is its outcome, and the flags tell of every change since."""
        self._flags: list[Flag] = []
        self._followed: tuple[str, ...] = ()
        self._following = ExitStack()

    @property
    def changed(self) -> bool:
        """Whether an ancestor may have changed."""
        return not self._known or any(flag.is_set() for flag in self._flags)

    def follow(self, signals: Signals) -> int:
        """Note changes of the ancestors that were found last from now on. Returns the number of the read that
        follows."""
        ids = tuple(ancestor.id for ancestor in self.found)
        if ids != self._followed:
            self._following.close()
            self._flags = [self._following.enter_context(signals.follow(id)) for id in ids]
            self._followed = ids
        for flag in self._flags:
            flag.clear()
        self._known = False
        self._reading += 1
        return self._reading

    def learn(self, found: tuple[Ancestor, ...], reading: int) -> None:
        if reading == self._reading:
            self.found = found
            self._known = self._followed == tuple(ancestor.id for ancestor in found)

    def close(self) -> None:
        self._following.close()


class AncestorRow(Frozen):
    id: str
    parent_id: str | None
    agent: str | None
    directory: str
    workspace_id: str | None
    caller: str | None

    def ancestor(self) -> Ancestor:
        place = Location(directory=self.directory, workspace_id=self.workspace_id)
        return Ancestor(self.id, place, self.agent, self.caller)
