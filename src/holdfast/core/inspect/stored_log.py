"""Reads of a Session's log for those who look at it: pages with private events, and single events."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.inspect.errors import NoSuchSequence
from holdfast.core.inspect.fact import PROMOTIONS
from holdfast.schema.codec import decoder, encode
from holdfast.schema.exceptions import InvalidRequest
from holdfast.schema.frozen import Frozen
from holdfast.schema.ids import time_of_id
from holdfast.schema.past import LogEntry
from holdfast.schema.record import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.database.database import Database
    from holdfast.core.database.unit import Value
    from holdfast.schema.manifest import Manifest

SHOWN_BYTES = 64 * 1024
"""Data above this is left out of pages."""
SEARCHED_EVENTS = 20_000
"""So many events are searched by one call."""
SEARCH_CHARACTERS = 1_000
MOST_TYPES = 100
END = 2**53
_TIMESTAMP = re.compile(r'"timestamp":(\d{1,15})\b')


class LogPage(Frozen):
    entries: list[LogEntry]
    more: bool


class StoredLog:
    def __init__(self, database: Database, manifest: Manifest) -> None:
        self._database = database
        self._manifest = manifest

    async def page(
        self,
        session_id: str,
        *,
        limit: int,
        head: int,
        after: int | None = None,
        before: int | None = None,
        types: str | None = None,
        search: str | None = None,
    ) -> LogPage:
        """Oldest first. With `after` the oldest after it, otherwise the newest. A search looks at a bounded number of
        events; `more` says whether there are others, found or not looked at yet. `head` is the last sequence."""
        forwards = after is not None
        first, end = after if after is not None else -1, min(before if before is not None else END, head + 1)
        searched = _texts(search)
        bounded = searched is not None and end - first - 1 > SEARCHED_EVENTS
        if bounded:
            first, end = (first, first + SEARCHED_EVENTS + 1) if forwards else (end - SEARCHED_EVENTS - 1, end)
        key: dict[str, Value] = {
            "session_id": session_id,
            "after": first,
            "before": end,
            "beginnings": _beginnings(types),
            "texts": searched,
            "most": SHOWN_BYTES,
            "limit": limit + 1,
        }
        rows = await self._database.fetch_large(f"inspect.log_{'asc' if forwards else 'desc'}", key, into=_LogRow)
        entries = [self._entry(row) for row in rows[:limit]]
        return LogPage(entries if forwards else entries[::-1], bounded or len(rows) > limit)

    async def entry(self, session_id: str, seq: int) -> LogEntry:
        """One event with all of its data."""
        key: dict[str, Value] = {"session_id": session_id, "after": seq - 1, "before": seq + 1, "limit": 1}
        anything: dict[str, Value] = {"beginnings": None, "texts": None, "most": END}
        rows = await self._database.fetch_large("inspect.log_asc", {**key, **anything}, into=_LogRow)
        if not rows:
            raise NoSuchSequence(session_id, seq)
        return self._entry(rows[0])

    def _entry(self, row: _LogRow) -> LogEntry:
        known = self._manifest.stored.get(row.type)
        return LogEntry(
            seq=row.seq,
            id=row.id,
            type=row.type,
            time=time_of_id(row.id, _time(row)) if row.type in PROMOTIONS else _time(row),
            public=known is not None and known.public,
            size=row.size,
            data=msgspec.Raw(row.data) if row.data is not None else msgspec.UNSET,
        )


class _LogRow(Frozen):
    seq: int
    id: str
    type: str
    size: int
    head: str
    data: bytes | None


class _Timed(Record):
    """Where events say when they happened: all but those with the record of the Session say it themselves."""

    timestamp: int | None = None
    info: _TimedInfo | None = None


class _TimedInfo(Record):
    time: _InfoTime


class _InfoTime(Record):
    updated: int


def _time(row: _LogRow) -> int:
    if row.data is None:  # the time is the first field of every event
        found = _TIMESTAMP.search(row.head)
        return int(found[1]) if found else 0
    try:
        timed: _Timed = decoder(_Timed).decode(row.data)
    except msgspec.DecodeError:
        return 0
    if timed.timestamp is not None:
        return timed.timestamp
    return timed.info.time.updated if timed.info is not None else 0


def _beginnings(types: str | None) -> str | None:
    """As a JSON list; None for all types."""
    if types is None:
        return None
    asked = [text for part in types.split(",") if (text := part.strip())]
    if len(asked) > MOST_TYPES:
        raise InvalidRequest(f"at most {MOST_TYPES} types", kind="Query", field="types")
    return _list(asked) if asked else None


def _texts(search: str | None) -> str | None:
    """What is searched for, as it stands in JSON, with lower-case letters of ASCII; None if nothing is. The stores fold
    the case of ASCII only, so other letters are searched for in three forms."""
    if not search:
        return None
    if len(search) > SEARCH_CHARACTERS:
        raise InvalidRequest(f"at most {SEARCH_CHARACTERS} characters", kind="Query", field="search")
    forms = {search, search.lower(), search.upper()} if not search.isascii() else {search}
    return _list(sorted({_lower(encode(form)[1:-1].decode()) for form in forms}))


def _lower(text: str) -> str:
    return "".join(letter.lower() if letter.isascii() else letter for letter in text)


def _list(values: Sequence[str]) -> str:
    return encode(values).decode()
