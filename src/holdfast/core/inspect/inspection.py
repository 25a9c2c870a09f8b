"""The operations that explain a Session. They read, and never write."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from holdfast.core.inspect import ledger
from holdfast.core.inspect.changes import changes_of
from holdfast.core.inspect.fact import BEGINNINGS, PREFIX, PROMOTIONS, TYPES, UNREADABLE, Fact, StoredFact
from holdfast.core.inspect.past import Past
from holdfast.core.inspect.stored_log import END, LogPage, StoredLog
from holdfast.core.inspect.timeline import Folding
from holdfast.core.inspect.turn_numbers import TurnNumbers
from holdfast.core.inspect.window import ModelRoom, window_of
from holdfast.core.location.settings import session_settings
from holdfast.core.session.stored_messages import SeqRow
from holdfast.schema.codec import decoder, encode
from holdfast.schema.frozen import Frozen
from holdfast.schema.ids import time_of_id
from holdfast.schema.timeline import Timeline
from holdfast.schema.turn_event import TurnDispatched

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from holdfast.core.clock import Clock
    from holdfast.core.database.database import Database
    from holdfast.core.database.unit import Value
    from holdfast.core.event.log import EventLog
    from holdfast.core.location.service_map import ServiceMap
    from holdfast.core.location.services import LocationServices
    from holdfast.schema.catalog import ModelCost
    from holdfast.schema.event import SerializedEvent
    from holdfast.schema.ledger import LedgerEntry, Window
    from holdfast.schema.location import Location
    from holdfast.schema.manifest import Manifest
    from holdfast.schema.model import ModelRef
    from holdfast.schema.past import Changes, LogEntry, PastSession
    from holdfast.schema.record import Record
    from holdfast.schema.session import Session

PAGE = 1_000
FACTS = 20_000
"""So many events are read for one timeline."""
FACT_BYTES = 8 * 1024
"""Of larger events the timeline reads only a few fields."""

log = logging.getLogger(__name__)


class Ledger(Frozen):
    entries: Sequence[LedgerEntry]
    more: bool


class Inspection:
    def __init__(
        self,
        events: EventLog,
        manifest: Manifest,
        database: Database,
        locations: ServiceMap[LocationServices],
        environment: Mapping[str, str],
        clock: Clock,
    ) -> None:
        self._events = events
        self._manifest = manifest
        self._database = database
        self._locations = locations
        self._environment = environment
        self._clock = clock
        self._log = StoredLog(database, manifest)
        self._turns = TurnNumbers(database)
        self._past = Past(events, manifest, self._log)
        self._ledger_types = tuple(
            type for type, definition in manifest.stored.items() if definition.payload in ledger.KINDS
        )

    # -- requests ------------------------------------------------------------------------------------------------

    async def ledger(self, session: Session, *, limit: int, before: int | None = None) -> Ledger:
        """The newest requests that began before a sequence, oldest first."""
        key: dict[str, Value] = {"session_id": session.id, "before": END if before is None else before}
        rows = await self._database.fetch_large("inspect.requests", {**key, "limit": limit + 1}, into=SeqRow)
        if not rows:
            return Ledger((), more=False)
        entries = await self._entries(session.id, rows[-1].seq, rows[0].seq)
        prices = await self._prices(session.location, entries)
        priced = ledger.with_extra(entries, lambda model: prices.get(_key(model), ()))
        return Ledger(priced[-limit:], more=len(rows) > limit)

    async def window(self, session: Session, *, seq: int | None = None) -> Window | None:
        """How the newest request up to a sequence fills the window of its model."""
        key: dict[str, Value] = {"session_id": session.id, "through": END if seq is None else seq}
        rows = await self._database.fetch_large("inspect.dispatch", key, into=SeqRow)
        if not rows:
            return None
        before: dict[str, Value] = {"session_id": session.id, "through": rows[0].seq - 1}
        earlier = await self._database.fetch_large("inspect.dispatch", before, into=SeqRow)
        first = earlier[0].seq if earlier else rows[0].seq
        entries = [item for item in await self._entries(session.id, first, rows[0].seq) if item.purpose == "turn"]
        entry = entries[-1]
        dispatched: TurnDispatched = decoder(TurnDispatched).decode(
            (await self._log.entry(session.id, entry.seq)).data  # type: ignore[arg-type]
        )
        room = await self._room(session.location, dispatched.model)
        size = await self._size_at(session.id, dispatched.checkpoint_seq)
        return window_of(entry, entries[-2] if len(entries) > 1 else None, room, dispatched.learned, size)

    async def _entries(self, session_id: str, first: int, last: int) -> list[LedgerEntry]:
        """The requests from one dispatch to another, with what followed each."""
        turns = (await self._turns.of(session_id, last)).numbers
        read: list[tuple[int, Record]] = []
        after, ended = first - 1, False
        while not ended:
            page = await self._events.serialized(session_id, after=after, limit=PAGE, types=self._ledger_types)
            decoded = [(event.seq, payload) for event in page if (payload := self._decoded(event)) is not None]
            following = (seq for seq, event in decoded if seq > last and isinstance(event, TurnDispatched))
            end = next(following, None)
            read += [item for item in decoded if end is None or item[0] <= end]
            ended = end is not None or len(page) < PAGE
            after = page[-1].seq if page else after
        return [entry for entry in ledger.ledger_entries(read, turns) if entry.seq <= last]

    async def turns_at(self, session_id: str, sequences: Collection[int]) -> dict[int, int]:
        """The numbers of the turns in which these sequences are. Those of calls that a person asked for have none."""
        if not sequences:
            return {}
        count = await self._turns.of(session_id, max(sequences))
        return {seq: number for seq in sequences if (number := count.at(seq)) is not None}

    # -- time ----------------------------------------------------------------------------------------------------

    async def timeline(self, session: Session, *, limit: int, before: int | None = None) -> Timeline:
        """The newest spans that began before a sequence."""
        facts, more = await self._facts_before(session.id, END if before is None else before, limit)
        turns = (await self._turns.of(session.id, facts[-1].seq)).numbers if facts else {}
        folding = Folding(turns, before)
        for fact in facts:
            folding.take(fact)
        if before is not None and facts:
            await self._find_ends(session.id, folding, facts[-1].seq)
        spans, moments = folding.close()
        now = max(self._clock.now(), facts[-1].fact.timestamp if facts else 0)
        spans = [replace(span, end=None) if span.end is not None and span.end > now else span for span in spans]
        if len(spans) > limit:
            # By sequence, as pages are: those that one event began are not parted.
            more, first = True, sorted(span.seq for span in spans)[-limit]
            spans = [span for span in spans if span.seq >= first]
            moments = [moment for moment in moments if moment.seq >= first]
        start = spans[0].start if more and spans else min([session.time.created, *(span.start for span in spans)])
        return Timeline(start=start, end=now, spans=tuple(spans), moments=tuple(moments), more=more)

    async def _facts_before(self, session_id: str, before: int, limit: int) -> tuple[list[StoredFact], bool]:
        """Facts in their order, until more spans than the limit have begun in them, and whether there are older."""
        found: list[StoredFact] = []
        began = 0
        while began <= limit and len(found) < FACTS:
            page = await self._facts("inspect.facts_desc", session_id, before=found[-1].seq if found else before)
            found += page
            began += sum(f"{PREFIX}{fact.type}.1" in BEGINNINGS for fact in page)
            if len(page) < PAGE:
                return found[::-1], False
        return found[::-1], True

    async def _find_ends(self, session_id: str, folding: Folding, after: int) -> None:
        """Read on until everything that began has its end."""
        for _ in range(FACTS // PAGE):
            if not folding.open:
                return
            page = await self._facts("inspect.facts_asc", session_id, after=after)
            for fact in page:
                folding.take(fact)
            if len(page) < PAGE:
                return
            after = page[-1].seq

    async def _facts(self, statement: str, session_id: str, **place: Value) -> list[StoredFact]:
        key: dict[str, Value] = {"session_id": session_id, "types": encode(TYPES).decode(), "most": FACT_BYTES}
        rows = await self._database.fetch_large(statement, {**key, **place, "limit": PAGE}, into=_FactRow)
        return [row.fact() for row in rows]

    # -- the log, the past, the files ----------------------------------------------------------------------------

    async def log(
        self,
        session_id: str,
        *,
        limit: int,
        after: int | None = None,
        before: int | None = None,
        types: str | None = None,
        search: str | None = None,
    ) -> LogPage:
        head = await self._events.latest(session_id)
        return await self._log.page(
            session_id, limit=limit, head=head, after=after, before=before, types=types, search=search
        )

    async def log_entry(self, session_id: str, seq: int) -> LogEntry:
        return await self._log.entry(session_id, seq)

    async def past(self, session_id: str, seq: int, limit: int) -> PastSession:
        """The Session after the event with this sequence, with its newest messages."""
        return await self._past.of(session_id, seq, limit)

    async def changes(self, session: Session) -> Changes:
        async with self._locations.use(session.location) as services:
            await services.catalog.ready()  # plugins may add tools
            return await changes_of(self._database, session.id, services.snapshots, services.tools.looks_only)

    # -- details -------------------------------------------------------------------------------------------------

    def _decoded(self, event: SerializedEvent) -> Record | None:
        try:
            decoded: Record = decoder(self._manifest.stored[event.type].payload).decode(event.data)
        except msgspec.DecodeError:
            return None  # another version wrote it
        return decoded

    async def _prices(
        self, location: Location, entries: Sequence[LedgerEntry]
    ) -> dict[tuple[str, str], Sequence[ModelCost]]:
        """Of the models with which prefixes broke. A model or a Location that is gone has none."""
        asked = {_key(entry.model) for entry in entries if entry.causes and entry.model is not None}
        if not asked:
            return {}
        try:
            async with self._locations.use(location) as services:
                await services.catalog.ready()
                found = {key: services.catalog.model(*key) for key in asked}
        except Exception as error:  # noqa: BLE001 - a Location that cannot be opened says nothing about the log
            log.info("no prices for %s: %s", location.directory, error)
            return {}
        return {key: model.cost for key, model in found.items() if model is not None}

    async def _room(self, location: Location, ref: ModelRef) -> ModelRoom:
        """What is known of a model; nothing if it or its Location is gone."""
        try:
            async with self._locations.use(location) as services:
                await services.catalog.ready()
                model = services.catalog.model(*_key(ref))
                compaction = session_settings(services.config.current, self._environment).compaction
        except Exception as error:  # noqa: BLE001 - as above
            log.info("no limits for %s: %s", location.directory, error)
            return ModelRoom()
        if model is None:
            return ModelRoom(compacts=compaction.auto)
        return ModelRoom(model.limit.context, model.limit.output, compaction.buffer, compaction.auto)

    async def _size_at(self, session_id: str, seq: int) -> int:
        """Of the checkpoint at a sequence; 0 without one."""
        if seq < 0:
            return 0
        rows = await self._database.fetch("inspect.size_at", {"session_id": session_id, "at": seq})
        return int(str(rows[0][0])) if rows else 0


class _FactRow(Frozen):
    seq: int
    id: str
    type: str
    data: str

    def fact(self) -> StoredFact:
        try:
            fact: Fact = decoder(Fact).decode(self.data)
        except msgspec.DecodeError:
            return StoredFact(seq=self.seq, type=UNREADABLE, fact=Fact(timestamp=0))  # another version wrote it
        if self.type in PROMOTIONS:
            fact = replace(fact, timestamp=time_of_id(self.id, fact.timestamp))
        return StoredFact(seq=self.seq, type=self.type.removeprefix(PREFIX).rpartition(".")[0], fact=fact)


def _key(model: ModelRef) -> tuple[str, str]:
    return model.provider_id, model.id
