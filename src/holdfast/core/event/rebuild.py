"""Rebuilding the projections of an aggregate from its events, and comparing them with the stored ones."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from holdfast.core.database.database import PROJECTIONS
from holdfast.core.database.errors import Moved
from holdfast.core.database.read import Read
from holdfast.core.database.rehearsal import Rehearsal
from holdfast.core.database.unit import NewEvent, Row, Statement, Unit, Value
from holdfast.core.event.imported_events import ImportedRange
from holdfast.core.event.stored_event import EventRow
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence

    from holdfast.core.database.database import Database
    from holdfast.core.event.preparation import Preparation
    from holdfast.schema.event import SerializedEvent
    from holdfast.schema.manifest import Manifest

PAGE = 200
"""Events that are read at once."""


class Mismatch(Frozen):
    """A projection row that a rebuild would write differently."""

    aggregate_id: str
    table: str
    stored: Row | None
    rebuilt: Row | None


class Rebuild:
    def __init__(
        self,
        database: Database,
        manifest: Manifest,
        preparation: Preparation,
    ) -> None:
        self._database = database
        self._manifest = manifest
        self._preparation = preparation

    async def rebuild(self, aggregate_id: str) -> int:
        """Replace the projections in one transaction; returns the number of events. Starts again when an event was
        committed meanwhile."""
        clear = tuple(Statement(f"projection.clear_{table}", {"id": aggregate_id}) for table in PROJECTIONS[::-1])
        while True:
            events = tuple([event async for event in self._events(aggregate_id)])
            try:
                unit = Unit(aggregate_id, events=events, before=clear, rebuild=True, shares_lineage=True)
                await self._database.submit(unit)
            except Moved:
                continue
            return len(events)

    async def verify(self, aggregate_ids: Iterable[str]) -> AsyncGenerator[Mismatch, None]:
        """The projection rows that differ from what the events say. Writes nothing."""
        with Rehearsal() as scratch:
            for aggregate_id in aggregate_ids:
                for mismatch in await self._mismatches(aggregate_id, scratch):
                    yield mismatch

    async def _mismatches(self, aggregate_id: str, scratch: Rehearsal) -> list[Mismatch]:
        head = Read("event.head", {"aggregate_id": aggregate_id})
        first = Read("event.page", _page_key(aggregate_id, -1), EventRow)
        reads = [head, first, Read("lineage.referring", {"id": aggregate_id}, _Referring)]
        reads += [Read("import.of_session", {"session_id": aggregate_id}, ImportedRange)]
        reads += [Read(f"projection.{table}", {"id": aggregate_id}) for table in PROJECTIONS]
        while True:
            before, page, referring, imported, *rows, after = await self._database.fetch_large_many(*reads, head)
            last = before[0][0] if before else -1
            if before != after:
                continue
            events = [event async for event in self._events(aggregate_id, page, last)]
            if _end(events) == last or await self._database.fetch(head.name, head.params) == before:
                break  # else it was removed meanwhile
        if (missing := _first_gap(events, last)) is not None:
            return [Mismatch(aggregate_id, "event", None, (missing,))]
        # What forks refer to stays in the projections of their source; requests that came from elsewhere are closed.
        references = [segment.statement(aggregate_id) for segment in referring]
        origins = [each.statement(aggregate_id) for each in imported]
        rebuilt = await scratch.projections(aggregate_id, events, (*references, *origins))
        return [
            mismatch
            for table, stored in zip(PROJECTIONS, rows, strict=True)
            for mismatch in _compare(aggregate_id, table, stored, rebuilt[table])
        ]

    async def _events(
        self, aggregate_id: str, page: list[EventRow] | None = None, last: int = sys.maxsize
    ) -> AsyncIterator[NewEvent]:
        """All stored events up to a sequence; the first page, if it was read already."""
        if page is None:
            page = await self._read(aggregate_id, -1)
        while page:
            for row in page:
                if row.seq <= last:
                    yield self.projected(row.serialized(aggregate_id))
            complete = len(page) < PAGE or page[-1].seq >= last
            page = [] if complete else await self._read(aggregate_id, page[-1].seq)

    async def _read(self, aggregate_id: str, after: int) -> list[EventRow]:
        return await self._database.fetch_large("event.page", _page_key(aggregate_id, after), into=EventRow)

    def projected(self, event: SerializedEvent) -> NewEvent:
        """A stored event with its projections. One of an unknown type has none."""
        if event.type in self._manifest.stored:
            return self._preparation.known(event).row
        return NewEvent(event.id, event.type, bytes(event.data).decode(), None, (), event.seq)


def _page_key(aggregate_id: str, after: int) -> dict[str, Value]:
    return {"aggregate_id": aggregate_id, "after": after, "limit": PAGE}


class _Referring(Frozen):
    """A segment of another Session that refers to messages of this one."""

    session_id: str
    after_seq: int
    through_seq: int

    def statement(self, source_id: str) -> Statement:
        segment: dict[str, Value] = {
            "session_id": self.session_id,
            "after": self.after_seq,
            "through": self.through_seq,
            "source_id": source_id,
        }
        return Statement("lineage.insert", segment)


def _end(events: Sequence[NewEvent]) -> int | None:
    return events[-1].seq if events else -1


def _first_gap(events: Sequence[NewEvent], last: int) -> int | None:
    """The first sequence that is missing between the events, or at their end. The log of a fork begins after that of
    its source."""
    if not events:
        return None
    begins = events[0].seq or 0
    gap = next((expected for expected, event in enumerate(events, begins) if event.seq != expected), None)
    return gap if gap is not None or _end(events) == last else begins + len(events)


def _compare(aggregate_id: str, table: str, stored: list[Row], rebuilt: list[Row]) -> list[Mismatch]:
    if stored == rebuilt:
        return []
    width = max(len(stored), len(rebuilt))
    pairs = zip(stored + [()] * (width - len(stored)), rebuilt + [()] * (width - len(rebuilt)), strict=True)
    return [Mismatch(aggregate_id, table, left or None, right or None) for left, right in pairs if left != right]
