"""Leases: which process may execute a Session when several share one database.

Invariants
- Every commit made for a drain carries its lease's token and is refused, in the same transaction, once a newer one
  exists. Tokens only grow; releasing a lease keeps its token.
- An owner holds a lock for as long as its process lives (`liveness.py`): after `kill -9` the next one takes over at
  once. The heartbeat is only for an owner that was stopped and cannot let go.
- Taking a lease costs no commit of its own: it travels with the first thing that the drain writes. Only a drain that
  has to open its Location first takes it before, so that others see who works on the Session meanwhile.
- A lease that another owner still holds is taken before anything is read: that owner may only seem to be dead, and
  commits until then."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, Literal

from msgspec.structs import asdict

from holdfast.core.database.errors import StorageError
from holdfast.core.database.unit import Fence, Statement, Unit
from holdfast.core.session.errors import LeaseLost
from holdfast.core.session.heartbeats import Heartbeats
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

    from holdfast.core.clock import Clock, Ids
    from holdfast.core.database.database import Database
    from holdfast.core.database.unit import Committed, Value
    from holdfast.core.event.log import EventLog
    from holdfast.core.session.interrupt import Interrupt
    from holdfast.core.session.liveness import Liveness
    from holdfast.core.session.stored_start import DrainStart
    from holdfast.schema.location import Location
    from holdfast.schema.record import Record

LEAVE_SECONDS = 10.0
"""How long a process that ends waits for a database that is away."""
BEAT_SECONDS = 2.0
LOOK_SECONDS = 0.05

log = logging.getLogger(__name__)


class Held(Frozen):
    """A lease that somebody holds. `age` is how long ago the owner reported, in milliseconds, and `beat` when;
    `locked` is for `Liveness`."""

    session_id: str
    owner_id: str
    token: int
    age: int | None
    beat: int | None
    locked: int | None


class LeaseRow(Frozen):
    """Without an owner the lease is free."""

    session_id: str
    owner_id: str | None
    token: int
    age: int | None
    beat: int | None
    locked: int | None

    def held_by_other(self, own_id: str) -> Held | None:
        if not self.owner_id or self.owner_id == own_id:
            return None
        return Held(self.session_id, self.owner_id, self.token, self.age, self.beat, self.locked)


ControlKind = Literal["interrupt", "interrupt_quietly", "background"]
"""What a process asks the owner of a lease to do. What a quiet interruption brings wakes nobody."""


class _Control(Frozen):
    """What another process asks of this one: `wake`, or one of the kinds above."""

    id: str
    session_id: str
    kind: str


class Lease:
    """The right to execute one Session in its Location. The first publication takes it; all are fenced by it."""

    def __init__(self, log: EventLog, location: Location, fence: Fence, take: tuple[Statement, ...]) -> None:
        self._log = log
        self._location = location
        self._take = take
        self.fence = fence
        self.from_other = False
        """Whether another owner held it: what was read before is out of date."""

    async def publish(
        self, *payloads: Record, before: Sequence[Statement] = (), local: Sequence[Statement] = ()
    ) -> Committed:
        return await self.submit(*payloads, before=before, local=local)

    def submit(
        self, *payloads: Record, before: Sequence[Statement] = (), local: Sequence[Statement] = ()
    ) -> asyncio.Future[Committed]:
        take, self._take = self._take, ()
        before = (*take, *before)
        try:
            if payloads:
                location, fence = self._location, self.fence
                future = self._log.submit(*payloads, location=location, before=before, local=local, fence=fence)
            else:
                future = self._log.write(self.fence.session_id, before, local, self.fence)
        except Exception:
            self._take = take
            raise
        if take:
            future.add_done_callback(functools.partial(self._taken_or_not, take))
        return future

    def _taken_or_not(self, before: tuple[Statement, ...], future: asyncio.Future[Committed]) -> None:
        """A refused commit did not take the lease, so the next one has to."""
        if future.cancelled() or future.exception() is not None:
            self._take = before

    @property
    def taken(self) -> bool:
        return not self._take

    def claim(self) -> Unit | None:
        """The commit that takes the lease when there is nothing to publish with it."""
        before, self._take = self._take, ()
        return Unit(self.fence.session_id, before=before, fence=self.fence) if before else None


class Ownership:
    """The leases of this process, and the requests of other processes."""

    def __init__(self, database: Database, events: EventLog, ids: Ids, clock: Clock, liveness: Liveness) -> None:
        self._database = database
        self._log = events
        self._clock = clock
        self._ids = ids
        self._liveness = liveness
        self.id = ids.of("own")
        self.heartbeats = Heartbeats()
        self._holding = False
        self._held: dict[str, Lease] = {}
        self._watching = ExitStack()
        self._beating: asyncio.Task[None] | None = None
        self._obeying: set[asyncio.Task[None]] = set()
        self._handled: set[str] = set()
        self._obey: Callable[[str, str], Awaitable[None]] | None = None
        self.report: Callable[[], Statement] = self._beat_statement
        """The statement of a heartbeat."""
        self.became_idle: Callable[[], None] | None = None
        """Called when this process executes nothing any more."""

    def serve(self, obey: Callable[[str, str], Awaitable[None]]) -> None:
        """`obey(kind, session_id)` does what another process asks: `wake`, or a `ControlKind`."""
        self._obey = obey

    @property
    def executing(self) -> int:
        """How many Sessions this process drains right now."""
        return len(self._held)

    def holds(self, session_id: str) -> bool:
        """Whether this process has the lease of the Session, or is about to take it."""
        return session_id in self._held

    async def hold(self) -> None:
        """Others can tell from now on whether this process lives."""
        await self._liveness.hold(self.id)
        self._holding = True

    async def identify(self) -> str:
        """The id of this process; others can tell from now on whether it lives."""
        await self.hold()
        if self._liveness.number(self.id) is not None:
            await self._database.submit(Unit(self.id, local=(self._beat_statement(),)))
        return self.id

    def lives(self, owner_id: str, locked: int | None) -> bool:
        """Whether the process with this id has not ended. `locked` is what the database says about its lock."""
        return self._liveness.lives(owner_id, locked)

    async def acquire(
        self,
        session_id: str,
        location: Location,
        interrupt: Interrupt,
        wanted: Callable[[], Awaitable[bool]],
        start: DrainStart | None = None,
    ) -> Lease | None:
        """The lease, or None when the work is no longer wanted or an interruption came while another owner had it.
        `start` holds the lease as it was read, if it was."""
        row = start.lease if start is not None else await self._row(session_id)
        from_other = False
        while True:
            while row is not None and (holder := row.held_by_other(self.id)) is not None and self._alive(holder):
                if not await self._outlast(holder, interrupt, wanted):
                    return None
                row = await self._row(session_id)
            if not self._holding:
                await self.hold()
            lease = self._prepare(session_id, location, row)
            held = row is not None and row.held_by_other(self.id) is not None
            lease.from_other = from_other = from_other or held
            if not held:
                return lease
            try:
                await self.take(lease)
                return lease
            except BaseException as error:
                self.release(lease)
                if not isinstance(error, LeaseLost):
                    raise
            row = await self._row(session_id)

    def release(self, lease: Lease) -> None:
        """Release the lease without waiting for the commit. The token stays, so it does not matter when it commits."""
        session_id = lease.fence.session_id
        if self._held.get(session_id) is lease:
            del self._held[session_id]
        if not self._held:
            self._stop_serving()
            if self.became_idle is not None:
                self.became_idle()
        if lease.taken:
            self._database.submit(Unit(session_id, local=(Statement("lease.release", asdict(lease.fence)),)))

    async def take(self, lease: Lease) -> None:
        """Take the lease now, for a drain that has nothing to publish yet."""
        if (taking := self.start_taking(lease)) is not None:
            await taking

    def start_taking(self, lease: Lease) -> asyncio.Future[Committed] | None:
        """As `take`, without waiting for the commit; None if it is taken."""
        unit = lease.claim()
        return self._database.submit(unit) if unit is not None else None

    async def elsewhere(self, session_id: str) -> Held | None:
        """The living owner of this Session's drain, if that is another process."""
        holder = await self._holder(session_id)
        return holder if holder is not None and self._alive(holder) else None

    async def all_elsewhere(self) -> list[str]:
        """Sessions that other living owners execute."""
        rows = await self._database.fetch("lease.held", {"now": self._clock.now()}, into=LeaseRow)
        holders = [holder for row in rows if (holder := row.held_by_other(self.id)) is not None]
        alive = {holder.owner_id: holder for holder in holders}
        alive = {id: holder for id, holder in alive.items() if self._alive(holder)}
        return [holder.session_id for holder in holders if holder.owner_id in alive]

    async def leased_to(self, owner_ids: Collection[str]) -> set[str]:
        """Sessions whose leases these owners hold, whether they live or not."""
        rows = await self._database.fetch("lease.held", {"now": self._clock.now()}, into=LeaseRow)
        return {row.session_id for row in rows if row.owner_id in owner_ids}

    async def wake_elsewhere(self, session_id: str) -> bool:
        """Ask the living owner of this Session's drain, if that is another process, to look for input."""
        holder = await self.elsewhere(session_id)
        if holder is not None:
            await self._ask(holder, "wake")
        return holder is not None

    async def ask_node(self, owner_id: str, session_id: str, kind: str) -> None:
        """Ask another node for something that concerns a Session, and return at once."""
        row: dict[str, Value] = {
            "id": self._ids.of("ctl"),
            "session_id": session_id,
            "owner_id": owner_id,
            "kind": kind,
        }
        await self._database.submit(Unit(session_id, local=(Statement("control.ask", row),)))

    async def ask_elsewhere(self, session_id: str, kind: ControlKind) -> None:
        """Ask the owner for something, and return once it has done it, or is gone."""
        holder = await self.elsewhere(session_id)
        if holder is None:
            return
        request = await self._ask(holder, kind)
        await self.until(lambda: self._answered(request, holder))

    async def wait_elsewhere(self, session_id: str) -> None:
        """Returns when no other process executes this Session."""

        async def free() -> bool:
            return await self.elsewhere(session_id) is None

        if not await free():
            await self.until(free)

    async def close(self) -> None:
        self._stop_serving()
        if self._obeying:
            await asyncio.wait(self._obeying)
        if self._holding:
            key = {"id": self.id}
            removal = tuple(Statement(name, key) for name in ("owner.drop_leases", "control.forget", "owner.forget"))
            removed = self._database.submit(Unit(self.id, local=removal))
            await asyncio.wait({removed}, timeout=LEAVE_SECONDS)
            if not removed.done() or removed.exception() is not None:
                log.debug("could not remove the owner row; peers see the released lock")
            await self._liveness.release(self.id)
            self._holding = False

    # -- taking --------------------------------------------------------------------------------------------------

    async def _outlast(self, holder: Held, interrupt: Interrupt, wanted: Callable[[], Awaitable[bool]]) -> bool:
        """Wait until no living owner holds the lease. False if the work is done or no longer wanted before that."""
        asked = -1
        with self._log.signals.follow(holder.session_id) as moved:
            while True:
                if asked != holder.token:
                    asked = holder.token
                    await self._ask(holder, "wake")
                moved.clear()
                await _within(moved.wait(), LOOK_SECONDS)
                if interrupt.requested or not await wanted():
                    return False
                now = await self._holder(holder.session_id)
                if now is None or not self._alive(now):
                    return True
                holder = now

    def _prepare(self, session_id: str, location: Location, row: LeaseRow | None) -> Lease:
        """`row` is the lease as it was read; taking it is refused if somebody else took it since."""
        seen = row.token if row else -1
        dead = row.held_by_other(self.id) if row else None
        fence = Fence(session_id, self.id, max(seen, 0) + 1)
        take = (
            self._beat_statement(),
            Statement("lease.take", {**asdict(fence), "seen_token": seen}, changes=1, error=LeaseLost),
            *((Statement("control.forget", {"id": dead.owner_id}),) if dead is not None else ()),
        )
        lease = self._held[session_id] = Lease(self._log, location, fence, take)
        self._start_serving()
        return lease

    async def _row(self, session_id: str) -> LeaseRow | None:
        rows = await self._database.fetch(
            "lease.get", {"session_id": session_id, "now": self._clock.now()}, into=LeaseRow
        )
        return rows[0] if rows else None

    async def _holder(self, session_id: str) -> Held | None:
        row = await self._row(session_id)
        return row.held_by_other(self.id) if row is not None else None

    def _alive(self, holder: Held) -> bool:
        if not self._liveness.lives(holder.owner_id, holder.locked):
            return False
        return holder.beat is not None and not self.heartbeats.stopped(holder.owner_id, holder.beat, holder.age or 0)

    def _beat_statement(self) -> Statement:
        number = self._liveness.number(self.id)
        row: dict[str, Value] = {"id": self.id, "pid": os.getpid(), "beat": self._clock.now(), "number": number}
        return Statement("owner.beat", row)

    # -- between processes ---------------------------------------------------------------------------------------

    async def _ask(self, holder: Held, kind: str) -> str:
        request = self._ids.of("ctl")
        row = {"id": request, "session_id": holder.session_id, "owner_id": holder.owner_id, "kind": kind}
        await self._database.submit(Unit(holder.session_id, local=(Statement("control.ask", row),)))
        return request

    async def _answered(self, request: str, holder: Held) -> bool:
        if not await self._database.fetch("control.open", {"id": request}):
            return True
        now = await self._holder(holder.session_id)
        if now is not None and now.token == holder.token and self._alive(now):
            return False
        await self._database.submit(Unit(holder.session_id, local=(Statement("control.done", {"id": request}),)))
        return True

    async def until(self, met: Callable[[], Awaitable[bool]]) -> None:
        """Check again after each commit of any process, and a few times a second."""
        changed = asyncio.Event()
        with self._log.signals.watch(changed.set):
            while not await met():
                changed.clear()
                await _within(changed.wait(), 0.25)

    def _start_serving(self) -> None:
        if self._beating is None:
            self._watching.enter_context(self._log.signals.watch(self.look))
            self._beating = asyncio.get_running_loop().create_task(self._beat(), name="holdfast-heartbeat")

    def _stop_serving(self) -> None:
        if self._beating is not None:
            self._beating.cancel()
            self._beating = None
            self._watching.close()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            self._database.submit(Unit(self.id, local=(self.report(),)))

    def look(self) -> None:
        """Do what other processes ask for, in the background."""
        task = asyncio.get_running_loop().create_task(self._obey_all(), name="holdfast-control")
        self._obeying.add(task)
        task.add_done_callback(self._obeying.discard)

    async def _obey_all(self) -> None:
        try:
            asked = await self._database.fetch("control.asked", {"owner_id": self.id}, into=_Control)
        except StorageError as error:  # the next commit that is noticed leads here again
            log.debug("what other processes ask for cannot be read: %s", error)
            return
        self._handled &= {control.id for control in asked}
        fresh = [control for control in asked if control.id not in self._handled]
        self._handled |= {control.id for control in fresh}
        for control in fresh:
            if self._obey is not None:
                await self._obey(control.kind, control.session_id)
            done = Statement("control.done", {"id": control.id})
            await self._database.submit(Unit(control.session_id, local=(done,)))


async def _within(awaitable: Awaitable[object], seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await awaitable
    except TimeoutError:
        pass
