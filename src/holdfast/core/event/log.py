"""The event log: the one append path, replay, bounded reads, tails, and the rebuild of projections.

Invariants
- An event, its projections and its local writes are one transaction, or none of it happened.
- Sequences of an aggregate are contiguous from 0; a tail delivers each once, in order.
- Observers hear of an event only after its commit, in commit order, and always: cancelling a publisher cannot
  separate the commit from the announcement, because that runs on the loop when the writer answers.
- A live event that is submitted between durable ones is announced between them."""

from __future__ import annotations

import asyncio
import functools
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from holdfast.core.database.database import PROJECTIONS, Database
from holdfast.core.database.errors import Refused
from holdfast.core.database.unit import Committed, Fence, NewEvent, Replay, Row, Statement, Unit
from holdfast.core.event.block import block_of_delta, block_of_end
from holdfast.core.event.bus import Announcement, Bus
from holdfast.core.event.errors import InvalidDurableEvent
from holdfast.core.event.projection import Projected, Projectors
from holdfast.core.event.relay import Relay
from holdfast.core.event.signal import Signals
from holdfast.schema.codec import decoder, encode
from holdfast.schema.event import Definition, DurablePosition, EventEnvelope, SerializedEvent
from holdfast.schema.frozen import Frozen
from holdfast.schema.location import Location
from holdfast.schema.record import Record

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

    from holdfast.core.clock import Ids
    from holdfast.core.event.block import Block
    from holdfast.schema.manifest import Manifest

PAGE = 200
NOTHING_BETWEEN: Mapping[int, Sequence[Record]] = MappingProxyType({})
LIVE_MARK = b'{"live":true,'
"""How a live event begins in a Session's own stream, where nearly all others are durable."""


class Page(Frozen):
    """Events in order, and the last sequence that was looked at, filtered rows included."""

    events: list[EventEnvelope]
    reached: int
    exhausted: bool


class Mismatch(Frozen):
    """A projection row that a rebuild would write differently."""

    aggregate_id: str
    table: str
    stored: Row | None
    rebuilt: Row | None


class _Prepared(Frozen):
    definition: Definition
    aggregate_id: str
    row: NewEvent
    data: bytes


class EventLog:
    def __init__(self, database: Database, manifest: Manifest, projectors: Projectors, ids: Ids) -> None:
        self._database = database
        self._manifest = manifest
        self._projectors = projectors
        self._ids = ids
        self._public_types = _json_list(manifest.public_types)
        self.bus = Bus()
        self.signals = Signals(database)
        self.relay = Relay(database, self.bus, self.signals, self._announcements)
        self._observable = frozenset(item.type for item in manifest.latest.values() if item.public)

    # -- append ------------------------------------------------------------------------------------------------

    async def publish(
        self,
        *payloads: Record,
        id: str | None = None,
        location: Location | None = None,
        metadata: Mapping[str, Any] | None = None,
        before: Sequence[Statement] = (),
        local: Sequence[Statement] = (),
        fence: Fence | None = None,
    ) -> Committed:
        """Append durable events of one aggregate as one commit and return once it is on disk, or announce one
        live-only event."""
        if len(payloads) == 1 and not self._definition(payloads[0]).durable:
            if local or before:
                raise InvalidDurableEvent(
                    self._definition(payloads[0]).type, "Local commit hooks require a durable event"
                )
            self.announce(payloads[0], location=location)
            return Committed(-1, -1)
        return await self.submit(
            *payloads, id=id, location=location, metadata=metadata, before=before, local=local, fence=fence
        )

    def submit(
        self,
        *payloads: Record,
        id: str | None = None,
        location: Location | None = None,
        metadata: Mapping[str, Any] | None = None,
        before: Sequence[Statement] = (),
        local: Sequence[Statement] = (),
        fence: Fence | None = None,
    ) -> asyncio.Future[Committed]:
        """Hand durable events over without waiting. Commits keep this order; awaiting a later one covers earlier
        ones, but a failure shows only on its own future. Live events among them are announced in their place once the
        commit has been made, and stored nowhere."""
        durable = [payload for payload in payloads if self._definition(payload).durable]
        if not durable:
            raise InvalidDurableEvent("event", "a commit needs at least one durable event")
        prepared = [
            self._prepare(payload, id if index == 0 else None, metadata) for index, payload in enumerate(durable)
        ]
        aggregates = {item.aggregate_id for item in prepared}
        if len(aggregates) != 1:
            raise InvalidDurableEvent(prepared[0].definition.type, "one commit holds events of one aggregate")
        unit = Unit(
            aggregate_id=prepared[0].aggregate_id,
            events=tuple(item.row for item in prepared),
            before=tuple(before),
            local=tuple(local),
            fence=fence,
        )
        between: dict[int, list[Record]] = {}
        if len(durable) < len(payloads):
            count = 0
            for payload in payloads:
                if self._definition(payload).durable:
                    count += 1
                else:
                    between.setdefault(count, []).append(payload)
        announce = functools.partial(self._announce_committed, prepared, location, metadata, between=between)
        return self._database.submit(unit, announce)

    def write(
        self, aggregate_id: str, before: Sequence[Statement], local: Sequence[Statement], fence: Fence | None = None
    ) -> asyncio.Future[Committed]:
        """Operational writes of an aggregate without an event. They keep the order of `submit`."""
        return self._database.submit(Unit(aggregate_id, before=tuple(before), local=tuple(local), fence=fence))

    def announce(self, payload: Record, *, location: Location | None = None) -> None:
        """Tell whoever listens now. Nothing is stored and no cursor moves."""
        if not self.bus.observed:
            return
        self.relay.live(self._live(payload, location))

    # -- read --------------------------------------------------------------------------------------------------

    async def latest(self, aggregate_id: str) -> int:
        rows = await self._database.fetch("event.head", {"aggregate_id": aggregate_id})
        return int(str(rows[0][0])) if rows else -1

    async def page(self, aggregate_id: str, *, after: int = -1, limit: int = PAGE) -> Page:
        """Public events after a sequence. Types this build does not know are passed over, never an error."""
        rows = await self._database.fetch("event.page", {"aggregate_id": aggregate_id, "after": after, "limit": limit})
        events = [self._restore(aggregate_id, row) for row in rows if row[2] in self._manifest.public_types]
        return Page(events, _seq(rows[-1]) if rows else after, len(rows) < limit)

    async def history(self, aggregate_id: str, *, after: int = -1, limit: int = 50) -> tuple[list[EventEnvelope], bool]:
        """A finite page of public events, filtered before paging, and whether more exist right now."""
        rows = await self._database.fetch(
            "event.page_of_types",
            {"aggregate_id": aggregate_id, "after": after, "limit": limit + 1, "types": self._public_types},
        )
        return [self._restore(aggregate_id, row) for row in rows[:limit]], len(rows) > limit

    async def tail(self, aggregate_id: str, *, after: int = -1) -> AsyncIterator[list[EventEnvelope]]:
        """Replay public events after a sequence, then follow new ones, until the iterator is closed or the log is.

        The signal is registered before the first read: a commit during the read is seen by the read or by the flag."""
        with self.signals.follow(aggregate_id) as dirty:
            while True:
                dirty.clear()
                page = await self.page(aggregate_id, after=after)
                after = page.reached
                if page.events:
                    yield page.events
                if page.exhausted:
                    if self.signals.closed:
                        return
                    await dirty.wait()

    async def tail_live(self, aggregate_id: str, *, after: int = -1) -> AsyncIterator[list[bytes]]:
        """As `tail`, with the live events of the Session while it is followed: encoded events, live ones marked. Raises
        SubscriberOverflow when the reader falls behind.

        An empty list says that live events begin.

        Replays before it subscribes, so that a long history does not fill the buffer, and once more afterwards. A delta
        whose block ended in that second part is left out: it would come after its end."""
        while not (page := await self.page(aggregate_id, after=after)).exhausted:
            after = page.reached
            yield [encode(event) for event in page.events]
        async with self.relay.observe(aggregate_id=aggregate_id) as subscription:
            ended = set()
            exhausted = False
            while not exhausted:
                page = await self.page(aggregate_id, after=after)
                after, exhausted = page.reached, page.exhausted
                ended |= {block_of_end(event.type, event.data) for event in page.events}
                if page.events:
                    yield [encode(event) for event in page.events]
            yield []
            while batch := await subscription.next():
                chosen: list[bytes] = []
                for item in batch:
                    if item.seq is None:
                        if not (item.type.endswith(".delta") and _block(item) in ended):
                            chosen.append(LIVE_MARK + item.wire[1:])
                    elif item.seq > after:
                        after = item.seq
                        if item.type in self._observable:
                            chosen.append(item.wire)
                if chosen:
                    yield chosen

    async def serialized(self, aggregate_id: str, *, after: int = -1, limit: int = PAGE) -> list[SerializedEvent]:
        """Stored events, private ones included, in the form that `replay` takes."""
        rows = await self._database.fetch_large(
            "event.page", {"aggregate_id": aggregate_id, "after": after, "limit": limit}
        )
        return [
            SerializedEvent(
                id=str(id),
                type=str(kind),
                seq=_seq(row),
                aggregate_id=aggregate_id,
                data=msgspec.Raw(_bytes(data)),
                metadata=_metadata(metadata),
            )
            for row in rows
            for _, id, kind, data, metadata in (row,)
        ]

    # -- replay and ownership ----------------------------------------------------------------------------------

    async def replay(
        self, event: SerializedEvent, *, owner: str | None = None, strict: bool = False, publish: bool = False
    ) -> bool:
        """Apply an event from elsewhere through the same projectors. False when it was there already or skipped.
        Replay schedules nothing and runs no local writes."""
        prepared = self._reprepare(event)
        unit = Unit(aggregate_id=event.aggregate_id, events=(prepared.row,), replay=Replay(event.seq, owner, strict))
        observe = functools.partial(self._announce_committed, [prepared], None, event.metadata, quietly=not publish)
        committed = await self._database.submit(unit, observe)
        return committed.applied

    async def replay_all(
        self,
        events: Sequence[SerializedEvent],
        *,
        owner: str | None = None,
        strict: bool = False,
        publish: bool = False,
    ) -> str | None:
        """Replay a contiguous run of one aggregate's events, each its own commit; the aggregate's id, if any."""
        if not events:
            return None
        first = events[0]
        for offset, event in enumerate(events):
            if event.aggregate_id != first.aggregate_id:
                raise InvalidDurableEvent(event.type, "Aggregate mismatch: replayed events must share one aggregate")
            if event.seq != first.seq + offset:
                raise InvalidDurableEvent(
                    event.type, f"Sequence mismatch: expected {first.seq + offset}, got {event.seq}"
                )
        for event in events:
            await self.replay(event, owner=owner, strict=strict, publish=publish)
        return first.aggregate_id

    async def claim(self, aggregate_id: str, owner: str) -> None:
        """Who may replay into this aggregate. Local publishing does not ask."""
        claim = Statement("event.claim", {"aggregate_id": aggregate_id, "owner_id": owner})
        await self._database.submit(Unit(aggregate_id, local=(claim,)))

    async def remove(self, aggregate_id: str) -> None:
        """Forget an aggregate's events and sequence. Projections are not touched."""
        key = {"aggregate_id": aggregate_id}
        unit = Unit(aggregate_id, local=(Statement("event.remove_all", key), Statement("event.remove_sequence", key)))
        await self._database.submit(unit)

    # -- rebuild -----------------------------------------------------------------------------------------------

    async def rebuild(self, aggregate_id: str) -> int:
        """Drop an aggregate's projections and project its stored events anew, in one transaction. Returns how many
        events that were."""
        while True:
            events = [event async for event in self._stored(aggregate_id)]
            try:
                await self._database.submit(self._rebuild_unit(aggregate_id, events))
            except Refused as refused:
                if refused.reason != "moved":
                    raise
                continue
            return len(events)

    async def verify(self, aggregate_id: str) -> list[Mismatch]:
        """Which projection rows differ from what the log says they should be. Writes nothing."""
        while True:
            before = await self.latest(aggregate_id)
            events = [event async for event in self._stored(aggregate_id)]
            stored = {
                table: await self._database.fetch_large(f"projection.{table}", {"id": aggregate_id})
                for table in PROJECTIONS
            }
            if await self.latest(aggregate_id) == before:
                break
        replayed = [
            Unit(aggregate_id, events=(item.row,), replay=Replay(item.row.seq or 0, None, strict=False))
            for item in events
        ]
        rebuilt = await asyncio.to_thread(self._database.rehearse, replayed, aggregate_id)
        return [
            mismatch
            for table in PROJECTIONS
            for mismatch in _compare(aggregate_id, table, stored[table], rebuilt[table])
        ]

    async def aggregates(self) -> list[str]:
        return [str(row[0]) for row in await self._database.fetch_large("event.aggregates", {})]

    async def close(self) -> None:
        await self.relay.close()
        await self.signals.close()
        self.bus.close()

    # -- details -----------------------------------------------------------------------------------------------

    def _definition(self, payload: Record) -> Definition:
        definition = self._manifest.of_payload.get(type(payload))
        if definition is None:
            raise InvalidDurableEvent(type(payload).__name__, "no event of this kind is defined")
        return definition

    def _prepare(self, payload: Record, id: str | None, metadata: Mapping[str, Any] | None) -> _Prepared:
        definition = self._definition(payload)
        if not definition.durable:
            raise InvalidDurableEvent(definition.type, "a live-only event cannot be stored")
        return self._assemble(definition, payload, id or self._ids.event(), encode(payload), metadata, None)

    def _reprepare(self, event: SerializedEvent) -> _Prepared:
        definition = self._manifest.stored.get(event.type)
        if definition is None:
            raise InvalidDurableEvent(event.type, "Unknown durable event type")
        try:
            payload = decoder(definition.payload).decode(event.data)
        except msgspec.DecodeError as error:
            raise InvalidDurableEvent(event.type, str(error)) from error
        # Compact, but with every field that another build may have written.
        data = msgspec.json.format(bytes(event.data), indent=-1)
        prepared = self._assemble(definition, payload, event.id, data, event.metadata, event.seq)
        if prepared.aggregate_id != event.aggregate_id:
            raise InvalidDurableEvent(
                event.type, f"Aggregate mismatch: envelope {event.aggregate_id}, payload {prepared.aggregate_id}"
            )
        return prepared

    def _assemble(
        self,
        definition: Definition,
        payload: Record,
        id: str,
        data: bytes,
        metadata: Mapping[str, Any] | None,
        seq: int | None,
    ) -> _Prepared:
        aggregate_id = getattr(payload, definition.aggregate or "", None)
        if not isinstance(aggregate_id, str):
            raise InvalidDurableEvent(definition.type, f"the aggregate field {definition.aggregate} is not a string")
        current = definition.upcast(payload) if definition.upcast is not None else payload
        projector = self._projectors.get(type(current))
        projections = projector(Projected(current, metadata)) if projector is not None else ()
        row = NewEvent(
            id=id,
            type=definition.stored_type,
            data=data.decode(),
            metadata=encode(metadata).decode() if metadata else None,
            projections=projections,
            seq=seq,
        )
        return _Prepared(definition, aggregate_id, row, data)

    def _announce_committed(
        self,
        prepared: Sequence[_Prepared],
        location: Location | None,
        metadata: Mapping[str, Any] | None,
        committed: Committed,
        *,
        quietly: bool = False,
        between: Mapping[int, Sequence[Record]] = NOTHING_BETWEEN,
    ) -> None:
        """`between` holds live events by the number of durable ones that precede them."""
        if not committed.applied:
            return
        self.signals.committed(prepared[0].aggregate_id, committed.last)
        if quietly or not self.bus.observed:
            return
        announcements = [self._live(payload, location) for payload in between.get(0, ())]
        for number, item in enumerate(prepared):
            if item.definition.announced:
                announcements.append(self._durable(item, committed.first + number, location, metadata))
            announcements += [self._live(payload, location) for payload in between.get(number + 1, ())]
        self.relay.committed(prepared[0].aggregate_id, committed.first, committed.last, announcements)

    def _durable(
        self, item: _Prepared, seq: int, location: Location | None, metadata: Mapping[str, Any] | None
    ) -> Announcement:
        version = item.definition.version
        assert version is not None
        event = EventEnvelope(
            id=item.row.id,
            type=item.definition.type,
            durable=DurablePosition(aggregate_id=item.aggregate_id, seq=seq, version=version),
            location=location,
            metadata=dict(metadata) if metadata else None,
            data=msgspec.Raw(item.data),
        )
        return Announcement(event.id, event.type, item.aggregate_id, encode(event), seq)

    def _live(self, payload: Record, location: Location | None) -> Announcement:
        event = EventEnvelope(
            id=self._ids.event(),
            type=self._definition(payload).type,
            location=location,
            data=msgspec.Raw(encode(payload)),
        )
        return Announcement(event.id, event.type, getattr(payload, "session_id", None), encode(event))

    async def _announcements(self, aggregate_id: str, rows: Sequence[Row]) -> list[Announcement]:
        """Stored rows as other processes announce them, with the place where the Session is now."""
        stored = self._manifest.stored
        events = [
            self._restore(aggregate_id, row) for row in rows if (row[2] in stored and stored[str(row[2])].announced)
        ]
        if not events:
            return []
        found = await self._database.fetch("session.place", {"id": aggregate_id})
        place = Location(directory=str(found[0][0]), workspace_id=_text(found[0][1])) if found else None
        return [
            Announcement(event.id, event.type, aggregate_id, encode(replace(event, location=place)), seq, relayed=True)
            for event in events
            if event.durable is not None
            for seq in (event.durable.seq,)
        ]

    def _restore(self, aggregate_id: str, row: Row) -> EventEnvelope:
        seq, id, stored_type, data, metadata = row
        type_, _, version = str(stored_type).rpartition(".")
        return EventEnvelope(
            id=str(id),
            type=type_,
            durable=DurablePosition(aggregate_id=aggregate_id, seq=int(str(seq)), version=int(version)),
            metadata=_metadata(metadata),
            data=msgspec.Raw(_bytes(data)),
        )

    async def _stored(self, aggregate_id: str) -> AsyncIterator[_Prepared]:
        after = -1
        while page := await self.serialized(aggregate_id, after=after):
            for event in page:
                if event.type in self._manifest.stored:
                    yield self._reprepare(event)
                else:
                    row = NewEvent(event.id, event.type, bytes(event.data).decode(), None, (), event.seq)
                    unknown = Definition(type=event.type, payload=Record)
                    yield _Prepared(unknown, aggregate_id, row, bytes(event.data))
            after = page[-1].seq

    def _rebuild_unit(self, aggregate_id: str, events: Iterable[_Prepared]) -> Unit:
        clear = tuple(Statement(f"projection.clear_{table}", {"id": aggregate_id}) for table in PROJECTIONS[::-1])
        return Unit(aggregate_id, events=tuple(item.row for item in events), before=clear, rebuild=True)


def _compare(aggregate_id: str, table: str, stored: list[Row], rebuilt: list[Row]) -> list[Mismatch]:
    if stored == rebuilt:
        return []
    width = max(len(stored), len(rebuilt))
    pairs = zip(stored + [()] * (width - len(stored)), rebuilt + [()] * (width - len(rebuilt)), strict=True)
    return [Mismatch(aggregate_id, table, left or None, right or None) for left, right in pairs if left != right]


def _block(item: Announcement) -> Block | None:
    event: EventEnvelope = decoder(EventEnvelope).decode(item.wire)
    return block_of_delta(event.type, event.data)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _seq(row: Row) -> int:
    seq = row[0]
    assert isinstance(seq, int)
    return seq


def _bytes(value: object) -> bytes:
    assert isinstance(value, bytes)
    return value


def _metadata(value: object) -> dict[str, Any] | None:
    return decoder(dict[str, Any]).decode(value) if isinstance(value, str) else None


def _json_list(values: Iterable[str]) -> str:
    return encode(sorted(values)).decode()
