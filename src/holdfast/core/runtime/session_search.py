"""Finds Sessions by what a person types for one: an id, the beginning of an id, or a title. Ids are looked up in their
index; titles are read only if no id fits."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from holdfast.core.runtime.text_search import pattern_of
from holdfast.core.session.stored_sessions import SessionRow
from holdfast.schema.pattern import pattern

if TYPE_CHECKING:
    from holdfast.core.database.database import Database
    from holdfast.core.database.unit import Value
    from holdfast.schema.session import Session

PREFIX = "ses_"
SHORTEST = 4
"""Characters of a beginning of an id, without `ses_`; shorter text is searched in titles only."""
AFTER = "\x7f"
"""Sorts after every character of an id."""

_ID = pattern(r"(?:ses_)?[0-9A-Za-z]+\Z")


class SessionSearch:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, name: str, directory: str | None, limit: int) -> list[Session]:
        """The Sessions that fit best, newest change first if several fit equally: by id, by the beginning of the id, by
        the whole title, or by a part of it. Of equal titles those in `directory` come alone."""
        if _ID.match(name) is not None:
            begun = name if name.startswith(PREFIX) else PREFIX + name
            if len(begun) >= len(PREFIX) + SHORTEST and (found := await self._by_prefix(begun, limit)):
                return found
        return await self._by_title(name, directory, limit) if name.strip() else []

    async def _by_prefix(self, begun: str, limit: int) -> list[Session]:
        key: dict[str, Value] = {"low": begun, "high": begun + AFTER, "limit": limit}
        rows = await self._database.fetch("overview.by_prefix", key, into=SessionRow)
        exact = [row for row in rows if row.id == begun]
        return [row.session() for row in exact or rows]

    async def _by_title(self, name: str, directory: str | None, limit: int) -> list[Session]:
        key: dict[str, Value] = {"search": pattern_of(name.strip()), "directory": directory, "limit": limit}
        rows = await self._database.fetch_large("overview.by_title", key, into=_TitleRow)
        best = next((list(group) for _, group in groupby(rows, key=lambda row: row.tier)), [])
        return [row.session() for row in best]


class _TitleRow(SessionRow):
    tier: int
