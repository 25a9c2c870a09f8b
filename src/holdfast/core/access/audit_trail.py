"""What callers did that no event of a Session tells: a row for each request, written before it is carried out.

Events tell who caused them themselves (`event/author.py`). Rows are kept for `LIFETIME`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from holdfast.core.database.unit import Statement, Unit
from holdfast.schema.audit import AuditEntry
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Collection

    from holdfast.core.clock import Clock, Ids
    from holdfast.core.database.database import Database
    from holdfast.core.database.unit import Value

AGGREGATE = "audit"
LIFETIME = 400 * 24 * 60 * 60 * 1000
"""In milliseconds."""
CHARACTERS = 200


class _Row(Frozen):
    time: int
    who: str
    what: str
    session_id: str | None
    subject: str | None

    def entry(self) -> AuditEntry:
        return AuditEntry(
            time=self.time, who=self.who, what=self.what, session_id=self.session_id, subject=self.subject
        )


class AuditTrail:
    def __init__(self, database: Database, ids: Ids, clock: Clock) -> None:
        self._database = database
        self._ids = ids
        self._clock = clock

    async def record(self, who: str, what: str, *, session_id: str | None, subject: str | None) -> None:
        now = self._clock.now()
        row: dict[str, Value] = {
            "id": self._ids.of("aud"),
            "now": now,
            "who": who,
            "what": what,
            "session_id": session_id,
            "subject": subject[:CHARACTERS] if subject is not None else None,
        }
        statements = (Statement("audit.insert", row), Statement("audit.trim", {"since": now - LIFETIME}))
        await self._database.submit(Unit(AGGREGATE, local=statements))

    async def page(self, *, after: int, limit: int) -> list[AuditEntry]:
        """Oldest first, without the first `after`."""
        rows = await self._database.fetch_large("audit.page", {"after": after, "limit": limit}, into=_Row)
        return [row.entry() for row in rows]

    async def of_sessions(self, ids: Collection[str]) -> list[AuditEntry]:
        rows = await self._database.fetch_large("audit.of_sessions", {"ids": json.dumps(list(ids))}, into=_Row)
        return [row.entry() for row in rows]
