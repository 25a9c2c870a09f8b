"""The event log: the one append path, bounded reads, tails, replay.

Invariants
- An event, its projections and its local writes are one transaction, or none of it happened.
- Sequences of an aggregate are contiguous from 0; a tail delivers each once, in order.
- Observers get each event after its commit, those of an aggregate in their order. Cancelling a publisher does not
  prevent this: the announcement runs on the loop when the writer answers.
- Commits of different aggregates have no order. Whoever needs one waits for the first before it submits the second.
- A live event that is submitted between durable ones is announced between them."""

from __future__ import annotations

import functools
import time
from contextlib import nullcontext
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from holdfast.core.database.unit import Committed, Fence, Replay, Statement, Unit
from holdfast.core.event.adoption import Adoption
from holdfast.core.event.author import without_name
from holdfast.core.event.block import block_of_delta, block_of_end
from holdfast.core.event.bus import Announcement, Bus
from holdfast.core.event.errors import InvalidDurableEvent
from holdfast.core.event.preparation import Preparation
from holdfast.core.event.rebuild import Mismatch as Mismatch
from holdfast.core.event.rebuild import Rebuild
from holdfast.core.event.relay import Relay
from holdfast.core.event.signal import Signals
from holdfast.core.event.stored_event import PAGE, EventRow, Head, read_page
from holdfast.schema.codec import decoder, encode
from holdfast.schema.event import DurablePosition, EventEnvelope
from holdfast.schema.frozen import Frozen
from holdfast.schema.location import Location

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager

    from holdfast.core.clock import Ids
    from holdfast.core.database.database import Database
    from holdfast.core.database.unit import Value
    from holdfast.core.event.block import Block
    from holdfast.core.event.preparation import Prepared
    from holdfast.core.event.projection import Projectors
    from holdfast.schema.event import SerializedEvent
    from holdfast.schema.manifest import Manifest
    from holdfast.schema.record import Record

    Holding = Callable[[], AbstractAsyncContextManager[None]]

NOTHING_BETWEEN: Mapping[int, Sequence[Record]] = MappingProxyType({})
LIVE_MARK = b'{"live":true,'
"""How a live event begins in a Session's own stream, where nearly all others are durable."""
LAST = "session.deleted"
"""The type of the last event of a Session."""


class Page(Frozen):
    """Events in order, and the last sequence that was read, including rows that were filtered out."""

    events: list[EventEnvelope]
    reached: int
    exhausted: bool
    last: bool
    """Whether there will be no further event: its Session was deleted."""


class EventLog:
    def __init__(self, database: Database, manifest: Manifest, projectors: Projectors, ids: Ids) -> None:
        self._database = database
        self._manifest = manifest
        self._ids = ids
        self._preparation = Preparation(manifest, projectors, ids)
        self._public_types = _json_list(manifest.public_types)
        self.observed: Callable[[Sequence[Record], float], None] | None = None
        """Gets the events of each commit of this process, and how many seconds it took. It must not raise."""
        self.bus = Bus()
        self.signals = Signals(database)
        self.relay = Relay(database, self.bus, self.signals, self._announcements)
        self._observable = frozenset(item.type for item in manifest.latest.values() if item.public)
        rebuild = Rebuild(database, manifest, self._preparation)
        self.rebuild = rebuild.rebuild
        self.verify = rebuild.verify
        self.projected = rebuild.projected
        self.adoption = Adoption(database, self._preparation, self.signals, self.rebuild)

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
        locks: tuple[str, ...] = (),
        shares_lineage: bool = False,
    ) -> Committed:
        """Append durable events of one aggregate in one commit and return when it is synced, or announce one live-only
        event. `locks` and `shares_lineage` say what else the commit relies on: see `Unit`."""
        if len(payloads) == 1 and not self._preparation.definition(payloads[0]).durable:
            if local or before:
                raise InvalidDurableEvent(
                    self._preparation.definition(payloads[0]).type, "Local commit hooks require a durable event"
                )
            self.announce(payloads[0], location=location)
            return Committed(-1, -1)
        return await self.submit(
            *payloads,
            id=id,
            location=location,
            metadata=metadata,
            before=before,
            local=local,
            fence=fence,
            locks=locks,
            shares_lineage=shares_lineage,
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
        locks: tuple[str, ...] = (),
        shares_lineage: bool = False,
    ) -> asyncio.Future[Committed]:
        """Queue durable events without waiting. Commits of one aggregate, `write` included, happen in the order of the
        calls, so awaiting a later future of the aggregate also covers earlier ones; a failure is raised only by its own
        future. Live events among them are announced in their places after the commit, and not stored."""
        durable = [payload for payload in payloads if self._preparation.definition(payload).durable]
        if not durable:
            raise InvalidDurableEvent("event", "a commit needs at least one durable event")
        new = self._preparation.new
        prepared = [new(payload, id if index == 0 else None, metadata) for index, payload in enumerate(durable)]
        aggregates = {item.aggregate_id for item in prepared}
        if len(aggregates) != 1:
            raise InvalidDurableEvent(prepared[0].definition.type, "one commit holds events of one aggregate")
        unit = Unit(
            aggregate_id=prepared[0].aggregate_id,
            events=tuple(item.row for item in prepared),
            before=tuple(before),
            local=tuple(local),
            fence=fence,
            locks=locks,
            shares_lineage=shares_lineage,
        )
        between: dict[int, list[Record]] = {}
        if len(durable) < len(payloads):
            count = 0
            for payload in payloads:
                if self._preparation.definition(payload).durable:
                    count += 1
                else:
                    between.setdefault(count, []).append(payload)
        announce = functools.partial(self._announce_committed, prepared, location, between=between)
        if self.observed is not None:
            announce = functools.partial(self._observe, durable, time.perf_counter(), announce)
        commit = self._database.submit(unit, announce)
        if self.bus.observed:
            self.relay.submitted(unit.aggregate_id, commit)
        return commit

    def write(
        self, aggregate_id: str, before: Sequence[Statement], local: Sequence[Statement], fence: Fence | None = None
    ) -> asyncio.Future[Committed]:
        """Queue operational writes of an aggregate without an event, in the order of `submit` for this aggregate."""
        return self._database.submit(Unit(aggregate_id, before=tuple(before), local=tuple(local), fence=fence))

    def announce(self, payload: Record, *, location: Location | None = None) -> None:
        """Announce a live event to present observers. Nothing is stored."""
        if not self.bus.observed:
            return
        self.relay.live(self._live(payload, location))

    # -- read --------------------------------------------------------------------------------------------------

    async def latest(self, aggregate_id: str) -> int:
        """The last sequence of an aggregate; -1 without any event."""
        rows = await self._database.fetch("event.head", {"aggregate_id": aggregate_id}, into=Head)
        return rows[0].seq if rows else -1

    async def page(self, aggregate_id: str, *, after: int = -1, limit: int = PAGE) -> Page:
        """Public events after a sequence, bounded in number and size. Events of unknown types are skipped."""
        rows, exhausted = await read_page(self._database, aggregate_id, after=after, limit=limit)
        events = [row.envelope(aggregate_id) for row in rows if row.type in self._manifest.public_types]
        if rows:
            return Page(events, rows[-1].seq, exhausted, rows[-1].type.startswith(LAST))
        gone = after >= 0 and await self.latest(aggregate_id) < 0  # purged before the deletion was read
        return Page(events, after, exhausted=True, last=gone)

    async def history(self, aggregate_id: str, *, after: int = -1, limit: int = 50) -> tuple[list[EventEnvelope], bool]:
        """A page of public events, filtered before paging, and whether there are more."""
        rows = await self._database.fetch(
            "event.page_of_types",
            {"aggregate_id": aggregate_id, "after": after, "limit": limit + 1, "types": self._public_types},
            into=EventRow,
        )
        return [row.envelope(aggregate_id) for row in rows[:limit]], len(rows) > limit

    async def tail(
        self, aggregate_id: str, *, after: int = -1, holding: Holding = nullcontext
    ) -> AsyncIterator[list[EventEnvelope]]:
        """Replay public events after a sequence, then follow new ones, until the iterator or the log is closed, or the
        Session deleted. `holding` is entered for each page, from before it is read until the next one is asked for.

        The signal is registered before the first read: a commit during the read is seen by the read or by the flag."""
        with self.signals.follow(aggregate_id) as dirty:
            while True:
                dirty.clear()
                async with holding():
                    page = await self.page(aggregate_id, after=after)
                    after = page.reached
                    if page.events:
                        yield page.events
                if page.exhausted:
                    if self.signals.closed or page.last:
                        return
                    await dirty.wait()

    async def tail_live(
        self, aggregate_id: str, *, after: int = -1, holding: Holding = nullcontext
    ) -> AsyncIterator[list[bytes]]:
        """As `tail`, with the live events of the Session while it is followed, and those of requests that descendants
        make to a person: encoded events, live ones marked. Raises SubscriberOverflow when the reader falls behind.

        An empty list says that live events begin.

        Replays before it subscribes, so that a long history does not fill the buffer, and once more afterwards. A delta
        whose block ended in that second part is left out: it would come after its end."""
        exhausted = False
        while not exhausted:
            async with holding():
                page = await self.page(aggregate_id, after=after)
                if not (exhausted := page.exhausted):  # the last page is read again below
                    after = page.reached
                    yield [encode(event) for event in page.events]
        async with self.relay.observe(aggregate_id=aggregate_id) as subscription:
            ended = set()
            exhausted = deleted = False
            while not exhausted:
                async with holding():
                    page = await self.page(aggregate_id, after=after)
                    after, exhausted, deleted = page.reached, page.exhausted, page.last
                    ended |= {block_of_end(event.type, event.data) for event in page.events}
                    if page.events:
                        yield [encode(event) for event in page.events]
            yield []
            while not deleted and (batch := await subscription.next()):
                chosen: list[bytes] = []
                for item in batch:
                    if item.seq is None:
                        if not (item.type.endswith(".delta") and _block(item) in ended):
                            chosen.append(LIVE_MARK + item.wire[1:])
                    elif item.seq > after:
                        after = item.seq
                        if item.type in self._observable:
                            chosen.append(item.wire)
                        deleted = deleted or item.type == LAST
                if chosen:
                    yield chosen

    async def serialized(
        self, aggregate_id: str, *, after: int = -1, limit: int = PAGE, types: Iterable[str] | None = None
    ) -> list[SerializedEvent]:
        """Stored events, private ones included, in the form that `replay` takes; of some stored types, or of all."""
        key: dict[str, Value] = {"aggregate_id": aggregate_id, "after": after, "limit": limit}
        if types is None:
            rows = await self._database.fetch_large("event.page", key, into=EventRow)
        else:
            chosen = {**key, "types": _json_list(types)}
            rows = await self._database.fetch_large("event.page_of_types", chosen, into=EventRow)
        return [row.serialized(aggregate_id) for row in rows]

    # -- replay and ownership ----------------------------------------------------------------------------------

    async def replay(
        self, event: SerializedEvent, *, owner: str | None = None, strict: bool = False, publish: bool = False
    ) -> bool:
        """Apply an event of another log with the same projectors. False if it was already stored, or skipped. Replay
        runs no local writes and wakes nobody."""
        prepared = self._preparation.known(event)
        unit = Unit(
            aggregate_id=event.aggregate_id,
            events=(prepared.row,),
            replay=Replay(event.seq, owner, strict),
            shares_lineage=any(statement.name.startswith("lineage.") for statement in prepared.row.projections),
        )
        observe = functools.partial(self._announce_committed, [prepared], None, quietly=not publish)
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
        """Replay contiguous events of one aggregate, one commit each. Returns the aggregate's id, or None."""
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
        """Set the owner that may replay into this aggregate. It does not restrict local publishing."""
        claim = Statement("event.claim", {"aggregate_id": aggregate_id, "owner_id": owner})
        await self._database.submit(Unit(aggregate_id, local=(claim,)))

    async def remove(self, aggregate_id: str) -> None:
        """Delete an aggregate's events and sequence, but not its projections."""
        key = {"aggregate_id": aggregate_id}
        unit = Unit(aggregate_id, local=(Statement("event.remove_all", key), Statement("event.remove_sequence", key)))
        await self._database.submit(unit)

    async def aggregates(self) -> list[str]:
        return [str(row[0]) for row in await self._database.fetch_large("event.aggregates", {})]

    async def close(self) -> None:
        await self.relay.close()
        await self.signals.close()
        self.bus.close()

    # -- details -----------------------------------------------------------------------------------------------

    def _observe(
        self,
        events: Sequence[Record],
        submitted: float,
        announce: Callable[[Committed], None],
        committed: Committed,
    ) -> None:
        announce(committed)
        if self.observed is not None:
            self.observed(events, time.perf_counter() - submitted)

    def _announce_committed(
        self,
        prepared: Sequence[Prepared],
        location: Location | None,
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
                announcements.append(self._durable(item, committed.first + number, location))
            announcements += [self._live(payload, location) for payload in between.get(number + 1, ())]
        self.relay.committed(prepared[0].aggregate_id, committed.first, committed.last, announcements)

    def _durable(self, item: Prepared, seq: int, location: Location | None) -> Announcement:
        version = item.definition.version
        assert version is not None
        event = EventEnvelope(
            id=item.row.id,
            type=item.definition.type,
            durable=DurablePosition(aggregate_id=item.aggregate_id, seq=seq, version=version),
            location=location,
            metadata=without_name(item.metadata),
            data=msgspec.Raw(item.data),
        )
        return Announcement(event.id, event.type, item.aggregate_id, encode(event), seq)

    def _live(self, payload: Record, location: Location | None) -> Announcement:
        event = EventEnvelope(
            id=self._ids.event(),
            type=self._preparation.definition(payload).type,
            location=location,
            data=msgspec.Raw(encode(payload)),
        )
        above = getattr(payload, "ancestors", None) or ()
        return Announcement(event.id, event.type, getattr(payload, "session_id", None), encode(event), ancestors=above)

    async def _announcements(self, aggregate_id: str, rows: Sequence[EventRow]) -> list[Announcement]:
        """Announcements of stored rows, as another process made them, with the Session's present Location."""
        stored = self._manifest.stored
        announced = [row for row in rows if row.type in stored and stored[row.type].announced]
        if not announced:
            return []
        found = await self._database.fetch("session.place", {"id": aggregate_id}, into=_Place)
        place = Location(directory=found[0].directory, workspace_id=found[0].workspace_id) if found else None
        announcements = []
        for row in announced:
            event = replace(row.envelope(aggregate_id), location=place)
            announcements.append(Announcement(event.id, event.type, aggregate_id, encode(event), row.seq, relayed=True))
        return announcements


class _Place(Frozen):
    directory: str
    workspace_id: str | None


def _block(item: Announcement) -> Block | None:
    event: EventEnvelope = decoder(EventEnvelope).decode(item.wire)
    return block_of_delta(event.type, event.data)


def _json_list(values: Iterable[str]) -> str:
    return encode(sorted(values)).decode()
