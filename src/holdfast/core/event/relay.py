"""Announces on the bus what every process on the database commits, and the live events that other servers pass on.

Invariants
- While anyone observes, each event of an aggregate is announced once and in sequence, whichever process committed it.
- A live event keeps its place behind the durable events that were announced in its process before it. One that another
  process passed on after its block was seen to end is dropped: the end has carried the whole text.
- A commit of this process announces itself, because live events between its durable ones are not stored: a read that
  has seen it waits for its acknowledgement, though not for long.
- Nothing is read while nobody observes. A read that is under way when the last observer leaves has no effect, also if
  there is a new one by then. What has to wait for a read waits in `_held`, which is bounded; if it is full,
  observers are told that they fell behind, and end. A database that is away is asked again until it answers."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from holdfast.core.database.errors import StorageError
from holdfast.core.event.block import block_of_delta, block_of_end
from holdfast.core.event.bus import CAPACITY, Announcement
from holdfast.core.event.stored_event import EventRow, NewEvents, Position
from holdfast.schema.codec import decoder
from holdfast.schema.event import EventEnvelope
from holdfast.schema.frozen import Frozen
from holdfast.schema.record import Record

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from holdfast.core.database.database import Database
    from holdfast.core.database.unit import Value
    from holdfast.core.event.block import Block
    from holdfast.core.event.bus import Bus, Filter, Subscription
    from holdfast.core.event.signal import Signals

PAGE = 200
HELD_LIMIT = 4_096
"""Units that wait for a read, of all aggregates together."""
HEARD_LIMIT = 10_000
"""Aggregates whose last announced sequence is remembered."""
ENDED_LIMIT = 1_024
"""Blocks that are remembered as ended."""
TERMINALS = "pty."
"""How the types of events of terminals begin: they belong to no Session, and terminals are shown by every server."""
GRACE_SECONDS = 0.02
"""How long a read waits for other servers to pass on the same events, and their deltas, themselves."""

ACKNOWLEDGED_SECONDS = 0.5
"""How long a read waits for a commit of this process that it may have seen."""
AGAIN_SECONDS = 0.5
"""After a read that failed."""

log = logging.getLogger(__name__)


class Links(Protocol):
    """Connections to other servers on this database. What arrives is given to `Relay.receive`."""

    @property
    def standing(self) -> bool:
        """Whether any connection is open."""

    async def open(self) -> None:
        """Called for the first observer. Returns when the connections are open, or after a short time."""

    async def close(self) -> None:
        """Called after the last observer has left."""


class _Unit(Frozen):
    """Events that are announced together. A live event has neither `first` nor `last`."""

    announcements: Sequence[Announcement]
    first: int | None = None
    last: int = -1


class _Subject(Record):
    session_id: str | None = None
    ancestors: tuple[str, ...] = ()


class Relay:
    def __init__(
        self,
        database: Database,
        bus: Bus,
        signals: Signals,
        restore: Callable[[str, Sequence[EventRow]], Awaitable[list[Announcement]]],
    ) -> None:
        """`restore` makes announcements of those stored rows that observers get."""
        self._database = database
        self._bus = bus
        self._signals = signals
        self._restore = restore
        self._observers: set[Subscription] = set()
        self._starting: asyncio.Task[None] | None = None
        self._active = False
        self._stops = 0
        """How often the last observer has left. What was read for it has no effect afterwards."""
        self._watching = ExitStack()
        self._position = self.reached = ""
        """The position up to which everything was announced."""
        self._heard: OrderedDict[str, int] = OrderedDict()
        self._firsts: OrderedDict[str, str] = OrderedDict()
        """The ids of first events that were announced: an aggregate that was removed may begin again."""
        self._held: dict[str, deque[_Unit]] = {}
        self._ended: OrderedDict[Block, None] = OrderedDict()
        self._submitted: dict[str, asyncio.Future[Any]] = {}
        """The newest commit of this process to each aggregate, while it is under way."""
        self._wanted = False
        self._looking: asyncio.Task[None] | None = None
        self._grace: asyncio.TimerHandle | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = False
        self.links: Links | None = None

    @asynccontextmanager
    async def observe(
        self,
        types: frozenset[str] | None = None,
        *,
        capacity: int = CAPACITY,
        aggregate_id: str | None = None,
        accepts: Filter | None = None,
    ) -> AsyncIterator[Subscription]:
        """Subscribe to all events of all processes from now on."""
        chosen = self._bus.subscribe(types, capacity=capacity, aggregate_id=aggregate_id, accepts=accepts)
        with chosen as subscription:
            self._observers.add(subscription)
            try:
                if self._starting is None:
                    self._starting = asyncio.get_running_loop().create_task(self._start(), name="holdfast-relay")
                await asyncio.shield(self._starting)
                yield subscription
            finally:
                self._observers.discard(subscription)
                if not self._observers:
                    self._stop()

    def submitted(self, aggregate_id: str, commit: asyncio.Future[Any]) -> None:
        """Take note of a commit of this process, which `committed` announces."""
        if self._active:
            self._submitted[aggregate_id] = commit
            commit.add_done_callback(partial(self._acknowledged, aggregate_id))

    def _acknowledged(self, aggregate_id: str, commit: asyncio.Future[Any]) -> None:
        if self._submitted.get(aggregate_id) is commit:
            del self._submitted[aggregate_id]

    def committed(self, aggregate_id: str, first: int, last: int, announcements: Sequence[Announcement]) -> None:
        """Announce what this process committed, with the live events between. Waits only where something that another
        process committed before has not been announced yet, or may not have been."""
        self._take(aggregate_id, _Unit(announcements, first, last))

    def live(self, announcement: Announcement) -> None:
        held = self._held.get(announcement.aggregate_id or "")
        if held:
            self._hold(announcement.aggregate_id or "", _Unit((announcement,)))
        else:
            self._bus.announce(announcement)

    def is_holding(self, aggregate_id: str) -> bool:
        """Whether events of this aggregate wait for a read before they are announced."""
        return aggregate_id in self._held

    def receive(self, wire: bytes) -> None:
        """Take an event that another process announced. Raises msgspec.DecodeError if it is not an event."""
        try:
            self._receive(wire)
        except RecursionError as error:
            raise msgspec.DecodeError("the event is nested too deeply") from error

    def _receive(self, wire: bytes) -> None:
        event: EventEnvelope = decoder(EventEnvelope).decode(wire)
        position = event.durable
        if position is not None:
            item = Announcement(event.id, event.type, position.aggregate_id, wire, position.seq, relayed=True)
            if position.seq > self._heard.get(position.aggregate_id, -1):
                self._take(position.aggregate_id, _Unit((item,), position.seq, position.seq))
            return
        if event.type.startswith(TERMINALS):
            self._bus.announce(Announcement(event.id, event.type, None, wire, relayed=True))
            return
        subject: _Subject = decoder(_Subject).decode(event.data)
        if subject.session_id is None or block_of_delta(event.type, event.data) in self._ended:
            return
        self.live(
            Announcement(event.id, event.type, subject.session_id, wire, relayed=True, ancestors=subject.ancestors)
        )

    async def close(self) -> None:
        self._stop()
        self._closed = True
        if tasks := {task for task in (self._looking, *self._closing) if task is not None}:
            await asyncio.wait(tasks)

    # -- starting and stopping ----------------------------------------------------------------------------------

    async def _start(self) -> None:
        (reached,) = await self._database.fetch("event.position", {}, into=Position)
        self._position = self.reached = reached.position
        if not self._observers:
            return
        self._active = True
        self._watching.enter_context(self._signals.watch(self._changed))
        if self._closing:
            await asyncio.wait(self._closing)  # of an earlier observer
        if self.links is not None:
            await self.links.open()

    def _stop(self) -> None:
        if self._closed:
            return
        if self._starting is not None:
            self._starting.cancel()
            self._starting = None
        self._active = False
        self._stops += 1
        self._watching.close()
        self._heard.clear()
        self._firsts.clear()
        self._ended.clear()
        self._release_all()
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None
        if self.links is not None:
            closing = asyncio.get_running_loop().create_task(self.links.close(), name="holdfast-relay-links")
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    # -- order --------------------------------------------------------------------------------------------------

    def _take(self, aggregate_id: str, unit: _Unit) -> None:
        """Announce a unit now if nothing before it is missing, else after reading what is missing."""
        assert unit.first is not None
        if unit.first == 0 and unit.announcements and self._firsts.get(aggregate_id) == unit.announcements[0].id:
            return  # read from the database before its commit was acknowledged
        heard = self._heard.get(aggregate_id)
        complete = unit.first == 0 or (heard is not None and unit.first == heard + 1)
        if not self._active or (complete and aggregate_id not in self._held):
            self._announce(aggregate_id, unit)
        else:
            self._hold(aggregate_id, unit)
            self._look_now()

    def _announce(self, aggregate_id: str, unit: _Unit) -> None:
        for announcement in unit.announcements:
            self._bus.announce(announcement)
            if announcement.relayed and announcement.seq is not None and self.links is not None:
                self._note_end(announcement)
        if unit.first is not None and self._observers:
            self._hear(aggregate_id, unit.last)
            if unit.first == 0 and unit.announcements:
                self._firsts[aggregate_id] = unit.announcements[0].id
                if len(self._firsts) > HEARD_LIMIT:
                    self._firsts.popitem(last=False)

    def _hear(self, aggregate_id: str, seq: int) -> None:
        self._heard[aggregate_id] = seq
        self._heard.move_to_end(aggregate_id)
        if len(self._heard) > HEARD_LIMIT:
            self._heard.popitem(last=False)

    def _note_end(self, announcement: Announcement) -> None:
        event: EventEnvelope = decoder(EventEnvelope).decode(announcement.wire)
        block = block_of_end(event.type, event.data)
        if block is not None:
            self._ended[block] = None
            if len(self._ended) > ENDED_LIMIT:
                self._ended.popitem(last=False)

    def _hold(self, aggregate_id: str, unit: _Unit) -> None:
        self._held.setdefault(aggregate_id, deque()).append(unit)
        if sum(map(len, self._held.values())) > HELD_LIMIT:
            log.warning("more than %d events wait for the database; observers have to begin anew", HELD_LIMIT)
            for subscription in self._observers:
                subscription.overflow()
            self._release_all()

    def _release_all(self) -> None:
        """Announce all held units, even if events between them are missing: nobody observes any more."""
        held, self._held = self._held, {}
        for aggregate_id, units in held.items():
            for unit in units:
                self._announce(aggregate_id, unit)

    # -- reading ------------------------------------------------------------------------------------------------

    def _changed(self) -> None:
        """A process has committed."""
        if self.links is None or not self.links.standing:
            self._look_now()
        elif self._grace is None:
            self._grace = asyncio.get_running_loop().call_later(GRACE_SECONDS, self._look_now)

    def _look_now(self) -> None:
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None
        self._wanted = True
        if self._looking is None and self._active:
            self._looking = asyncio.get_running_loop().create_task(self._look(), name="holdfast-relay-look")

    async def _look(self) -> None:
        try:
            while self._wanted and self._active:
                self._wanted = False
                await self._announce_stored()
        except StorageError as error:
            log.warning("what other processes committed is announced later: %s", error)
            if self._active and self._grace is None:
                self._grace = asyncio.get_running_loop().call_later(AGAIN_SECONDS, self._look_now)
        finally:
            self._looking = None

    async def _announce_stored(self) -> None:
        """Announce everything committed since the last read, with held units in their places. Only units that were held
        before the read began: it may not have seen what was committed before later ones."""
        held, reached, stops = list(self._held), dict[str, int](), self._stops
        found = await self._database.fetch("event.moved_since", {"position": self._position}, into=NewEvents)
        if stops != self._stops:
            return
        for moved in found:
            self._position = moved.position
            reached[moved.aggregate_id] = moved.last
            if moved.aggregate_id not in self._heard:
                self._hear(moved.aggregate_id, moved.first - 1)
        position = self._position
        for aggregate_id in {**reached, **dict.fromkeys(held)}:
            if (commit := self._submitted.get(aggregate_id)) is not None:
                await asyncio.wait({commit}, timeout=ACKNOWLEDGED_SECONDS)
            await self._settle(aggregate_id)
            await self._catch_up(aggregate_id, reached.get(aggregate_id, -1))
            if stops != self._stops:
                return
        self.reached = position

    async def _settle(self, aggregate_id: str) -> None:
        while units := self._held.get(aggregate_id):
            if (first := units[0].first) is not None:
                await self._catch_up(aggregate_id, first - 1)
            if self._held.get(aggregate_id) is not units:
                return  # released meanwhile
            unit = units.popleft()
            if unit.first is None or unit.last > self._heard.get(aggregate_id, -1):
                self._announce(aggregate_id, unit)
        self._held.pop(aggregate_id, None)

    async def _catch_up(self, aggregate_id: str, last: int) -> None:
        """Announce stored events up to a sequence."""
        stops = self._stops
        while (heard := self._heard.get(aggregate_id, last)) < last:
            key: dict[str, Value] = {"aggregate_id": aggregate_id, "after": heard, "limit": min(PAGE, last - heard)}
            rows = await self._database.fetch("event.page", key, into=EventRow)
            announcements = await self._restore(aggregate_id, rows)
            if stops != self._stops:
                return
            if self._heard.get(aggregate_id) != heard:
                continue  # announced meanwhile
            reached = rows[-1].seq if rows else last
            self._announce(aggregate_id, _Unit(announcements, heard + 1, reached))
