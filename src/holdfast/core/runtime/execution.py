"""Executing Sessions: from a Session id alone to its Location's runner, one drain at a time, under a lease."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.core.background_tasks import BackgroundTasks
from holdfast.core.database.errors import Fenced, StorageError
from holdfast.core.event.author import carrying_author
from holdfast.core.observe.log_context import working_for
from holdfast.core.runtime.end_work import end_work
from holdfast.core.runtime.exclusive_work import ExclusiveWork
from holdfast.core.runtime.placement import TAKE, NoNodeServes, ServedElsewhere
from holdfast.core.runtime.run_coordinator import RunCoordinator
from holdfast.core.runtime.statuses import Statuses
from holdfast.core.runtime.unstarted import Unstarted
from holdfast.core.session.activity import is_continued
from holdfast.core.session.errors import Interrupted, LeaseLost
from holdfast.core.session.interrupt import Interrupt

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.core.clock import Clock
    from holdfast.core.event.log import EventLog
    from holdfast.core.event.signal import Flag
    from holdfast.core.location.service_map import ServiceMap
    from holdfast.core.location.services import LocationServices
    from holdfast.core.runner.left_work import LeftWork
    from holdfast.core.runner.runner import Runner
    from holdfast.core.runtime.placement import Placement
    from holdfast.core.session.activity import Cause
    from holdfast.core.session.budgets import Budgets
    from holdfast.core.session.ownership import Lease, Ownership
    from holdfast.core.session.store import SessionStore
    from holdfast.core.session.stored_start import DrainStart
    from holdfast.core.session.tasks import Tasks
    from holdfast.core.session.wakeups import Wakeups
    from holdfast.schema.location import Location
    from holdfast.schema.session import Session

WAKES = 1_000
AGAIN_SECONDS = 0.5
"""Between two attempts to begin with input while the database is away."""
START_SECONDS = 2.0
"""How long a waiter gives the process that admitted an input to begin with it. That takes the lease before it prepares
anything that lasts, so that only a process that died, or cannot start, takes longer."""
LOOKS, LOOK_SECONDS = 100, 0.01
"""How often, and for how long each, a drain is waited for that has not begun to execute."""
TAKEN_SECONDS = 3.0
"""How long a node that was asked to take a Session may need to begin."""

log = logging.getLogger(__name__)


class Execution:
    """One per process. Callers wait for drains; they never run one."""

    def __init__(
        self,
        events: EventLog,
        store: SessionStore,
        locations: ServiceMap[LocationServices],
        ownership: Ownership,
        clock: Clock,
        wakeups: Wakeups,
        tasks: Tasks,
        budgets: Budgets,
        placement: Placement,
        left_work: LeftWork,
        *,
        failed: Callable[[Exception], None] = lambda error: None,
        goes_on: bool = True,
    ) -> None:
        """`failed` is told why an execution failed. `goes_on` is whether this process executes what others left."""
        self._clock = clock
        self._log = events
        self._store = store
        self._locations = locations
        self._ownership = ownership
        self._tasks = tasks
        self._budgets = budgets
        self.placement = placement
        self._left_work = left_work
        self._goes_on = goes_on
        self._exclusive = ExclusiveWork()
        self._woken: set[str] = set()
        self._resuming: dict[str, Cause] = {}
        """Sessions that go on only if something is still owed, and why they do."""
        self.look_after: Callable[[str], Awaitable[None]] | None = None
        """Decides about what an ended process left in a Session, as the policy says."""
        self._unstarted = Unstarted(events, store, clock)
        self._statuses = Statuses(events)
        self._failed = failed
        self.closed = False
        """Whether everything was told to stop; nothing starts any more."""
        self._coordinator: RunCoordinator[str] = RunCoordinator(self._drain)
        self._background = BackgroundTasks()
        """Looking for Sessions to wake, and going on with what was left."""
        self._checked: set[str] = set()
        """Sessions that were given to another node, and are placed again if it does not begin."""
        ownership.serve(self._obey)
        wakeups.serve(self)

    def wake(self, session_id: str) -> None:
        """There may be something to do. Returns at once and cannot fail."""
        self._woken.add(session_id)
        self._coordinator.wake(session_id)

    def wake_location(self, location: Location) -> None:
        """Wake the Sessions of a Location whose input could not start, in the background."""
        if not self.closed:
            mine = None if self._goes_on else self._unstarted.has
            self._background.start(self.recover_wakes(location, mine=mine), "holdfast-wake")

    def go_on(self, session_id: str) -> None:
        """Decide about what an ended process left in this Session, as the policy says, and look for input, in the
        background."""
        if not self.closed:
            self._background.start(self._take(session_id), f"go on {session_id}")

    async def run(self, session_id: str) -> None:
        """Continue from history even with nothing pending, or join what runs; shares its outcome."""
        await self._coordinator.run(session_id)

    async def resume(self, session_id: str, cause: Cause) -> None:
        """Continue what is owed, or join what runs. Nothing happens if another process was faster."""
        self._resuming[session_id] = cause
        try:
            joined = True
            while joined:
                left, joined = await self._store.activity(session_id), self.here(session_id)
                await self._coordinator.run(session_id)
                # A drain that was joined may have looked for input only.
                joined = joined and left is not None and await self._store.activity(session_id) == left
        finally:
            self._resuming.pop(session_id, None)

    async def wait(self, session_id: str) -> None:
        """Returns when nothing executes this Session, here or in another process, and every input that was admitted to
        be started before the call has been handled: promoted and worked on, withdrawn, held back by an interruption,
        passed over by a drain that ended badly, or tried here without success. Where nobody begins in time it returns
        too: waiting starts nothing and ends nothing.

        An input is to be started until a drain promotes it under its lease. Looking for the one before the other leaves
        no moment in which neither is seen."""
        given_up = False
        while True:
            await self._coordinator.wait(session_id)
            pending = await self._store.wakes(session_id) - self._unstarted.of(session_id)
            if await self._ownership.elsewhere(session_id) is not None:
                await self._ownership.wait_elsewhere(session_id)
            elif self.here(session_id):
                continue
            elif given_up or self.closed:
                return
            elif not pending:
                given_up = True
                if not await self._is_taken_over(session_id):
                    return
            elif not await self._begun(session_id, pending):
                return

    async def _begun(self, session_id: str, pending: frozenset[str]) -> bool:
        """Whether anyone begins with these inputs in time."""
        deadline = asyncio.get_running_loop().time() + START_SECONDS

        async def met() -> bool:
            return (
                asyncio.get_running_loop().time() >= deadline
                or (pending and not pending <= await self._store.wakes(session_id))
                or await self._ownership.elsewhere(session_id) is not None
                or self.here(session_id)
                or self.closed
                or not (pending or await self._is_continued(session_id))
            )

        await self._ownership.until(met)
        return asyncio.get_running_loop().time() < deadline

    async def recovers(self) -> bool:
        """Whether this process, or a node, continues what ended processes left."""
        return self._goes_on or await self.placement.has_nodes()

    async def _is_taken_over(self, session_id: str) -> bool:
        """Whether a process continues in time what one left that has just ended. Nobody is waited for where a person
        has to decide, or where no process recovers anything."""
        return (
            await self.recovers()
            and await self._is_continued(session_id)
            and await self._begun(session_id, frozenset())
        )

    async def _is_continued(self, session_id: str) -> bool:
        activity = await self._store.activity(session_id)
        return activity is not None and is_continued(activity) and await self._store.pause(session_id) is None

    async def interrupt(self, session_id: str) -> None:
        """Returns once the running work, here or elsewhere, has ended and is recorded. Idle: nothing to do."""
        await self._coordinator.interrupt(session_id)
        self._exclusive.give_up(session_id)
        quiet = await self._tasks.ends_quietly(session_id)
        await self._ownership.ask_elsewhere(session_id, "interrupt_quietly" if quiet else "interrupt")

    async def let_begin(self, session_id: str) -> None:
        """If another node was asked to begin with input of this Session, and is about to: wait until it does, so that
        it can be interrupted."""
        pending = await self._store.wakes(session_id) - self._unstarted.of(session_id)
        if not pending or self.here(session_id) or await self._store.blocked(session_id) is not None:
            return
        if await self.placement.has_other_nodes():
            await self._begun(session_id, pending)

    async def background(self, session_id: str) -> None:
        """Let the tasks that calls of this Session wait for, here or elsewhere, go on in the background. Returns when
        the calls have been told."""
        if not self._tasks.move(session_id):
            await self._ownership.ask_elsewhere(session_id, "background")

    async def stop(self, session_id: str) -> None:
        """Interrupt what runs, and give up what is owed, also if that waits for a budget."""
        paused = await self._store.pause(session_id) is not None
        await end_work(self, self._store, session_id)
        if paused:
            await self._budgets.forget_pause(session_id)

    async def exclusively(self, session_id: str, work: Callable[[Runner, Lease, Interrupt], Awaitable[None]]) -> None:
        """Do this while no drain of the Session runs, in turn with its drains and other such work, under the Session's
        lease. Takes no turn itself. Raises what the work raises, and Interrupted if it did not begin."""
        if self.closed:
            raise Interrupted
        done = self._exclusive.ask(session_id, carrying_author(work))
        self._coordinator.wake(session_id)
        await asyncio.shield(done)

    async def abandon(self, session_id: str, cause: Cause | None = None) -> None:
        """Record what broke off as broken off, and go no further; first for the children that its calls wait for. What
        waits for a person is declined. Whoever waits for the Session is served. A Session that somebody executes is
        left alone, and no Location is opened. `cause` says who decided, if it was a decision."""
        location = (await self._store.get(session_id)).location
        interrupt = Interrupt()

        async def wanted() -> bool:
            return await self._store.activity(session_id) is not None

        if not await self._unexecuted(session_id) or not await wanted():
            return
        told = await self._tasks.stop_waited_for(session_id)
        lease = await self._ownership.acquire(session_id, location, interrupt, wanted)
        if lease is None:
            return
        try:
            await self._left_work.close(session_id, location, lease, told, cause=cause)
        except (LeaseLost, Fenced):
            pass  # somebody was a moment faster, and closes it as every drain does
        finally:
            self._ownership.release(lease)
        await self.child_ended(session_id)

    async def _unexecuted(self, session_id: str) -> bool:
        """Whether no drain of this process executes the Session. One that only looks whether there is something to do
        has no lease, and is waited for."""
        for _ in range(LOOKS):
            if not self.here(session_id) or self._ownership.holds(session_id):
                break
            await self._coordinator.wait(session_id, LOOK_SECONDS)
        return not self.here(session_id)

    async def recover_wakes(
        self, location: Location | None = None, *, mine: Callable[[str], bool] | None = None
    ) -> list[str]:
        """Wake what was admitted to be woken and never was, because a process died in between, or could not start; of
        one Location, or of all. Input behind work that an earlier process left open waits for what becomes of that.
        With `mine`, of those Sessions only; where another process executes one, it is asked to look."""
        free = []
        for session_id in await self._store.lost_wakes(WAKES):
            if mine is not None and (not mine(session_id) or await self._ownership.wake_elsewhere(session_id)):
                continue
            session = await self._store.find(session_id)
            elsewhere = session is None or location not in (None, session.location)
            elsewhere = elsewhere or (session is not None and not self.placement.recovers(session.location))
            if not elsewhere and (self.here(session_id) or await self._store.activity(session_id) is None):
                free.append(session_id)
                self.wake(session_id)
        return free

    def here(self, session_id: str) -> bool:
        """Whether this process executes the Session right now."""
        return session_id in self._coordinator.active()

    @property
    def is_executing(self) -> bool:
        """Whether this process executes a Session."""
        return bool(self._coordinator.active())

    @property
    def executing(self) -> int:
        """How many Sessions this process executes."""
        return len(self._coordinator.active())

    async def active(self) -> list[str]:
        return sorted({*self._coordinator.active(), *await self._ownership.all_elsewhere()})

    async def drain(self, seconds: float) -> None:
        """Execute nothing new, and give Sessions to other nodes as they come to the end of a turn. Returns when nothing
        is executed any more, or after this time."""
        self.placement.draining = True
        self._coordinator.stop_at_boundaries()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while active := self._coordinator.active():
                    await self._coordinator.wait(active[0])

    async def close(self) -> None:
        self.closed = True
        await self._background.close()
        await self._coordinator.close()
        self._exclusive.give_up_all()

    async def _obey(self, kind: str, session_id: str) -> None:
        if kind == "wake":
            self.wake(session_id)
        elif kind == "interrupt":
            await self._coordinator.interrupt(session_id)
            self._exclusive.give_up(session_id)
        elif kind == "interrupt_quietly":
            with self._tasks.quietly(*await self._tasks.callers(session_id)):
                await self._coordinator.interrupt(session_id)
                self._exclusive.give_up(session_id)
        elif kind == "background":
            self._tasks.move(session_id)
        elif kind.startswith(TAKE):
            self.placement.asked(kind, session_id)
            if not self.closed:
                self._background.start(self._take(session_id), f"take {session_id}")

    async def _drain(self, session_id: str, force: bool, interrupt: Interrupt) -> None:
        with working_for(session_id):
            await self._drained(session_id, force, interrupt)

    async def _drained(self, session_id: str, force: bool, interrupt: Interrupt) -> None:
        session: Session | None = None
        pending: frozenset[str] = frozenset()
        self._unstarted.forget(session_id)
        try:
            with self._log.signals.follow(session_id) as moved:
                start = await self._start(session_id, moved)
                if force and await self._ownership.elsewhere(session_id) is not None:
                    await self._join(session_id, interrupt)
                    force = False
                    start = await self._start(session_id, moved)
                pending = start.wakes
                if not pending and not await self._wanted(session_id, force):
                    self._woken.discard(session_id)
                    interrupt.check()
                    return
                if self.placement.restricted and await self._given_away(start.seen.session, force):
                    self._woken.discard(session_id)
                    self._exclusive.give_up(session_id, ServedElsewhere(start.seen.session.location))
                    if session_id not in self._checked:
                        self._checked.add(session_id)
                        self._background.start(self._check_taken(session_id), f"check {session_id}")
                    return
                session = start.seen.session
                self._statuses.busy(session_id, session.location)
                async with self.placement.room(session, interrupt):
                    while not await self._attempt(session.location, force, interrupt, start, moved):
                        if force:
                            await self._join(session_id, interrupt)
                            force = False
                        if not await self._wanted(session_id, force):
                            break  # another process was a moment faster, and did everything
                        start = await self._start(session_id, moved)
            await self._unstarted.note(session_id, pending)
        except Interrupted:
            await self._unstarted.note(session_id, pending)
            await self._stop_left_behind(session_id)
            if self.placement.draining and session is not None:
                await self._hand_over(session)
            raise
        except Exception as error:
            if isinstance(error, StorageError) and (pending or session_id in self._woken):
                self._background.start(self._begin_again(session_id), f"begin {session_id} again")
            else:
                await self._unstarted.note(session_id, pending)
            await self._stop_left_behind(session_id)
            await self._unstarted.note_cause(session_id, error)
            self._failed(error)
            self._statuses.failed(session_id, session.location if session is not None else None, error)
            self._exclusive.give_up(session_id, error)
            raise
        finally:
            if session is not None:
                if session.parent_id is not None:
                    await self.child_ended(session_id)
                self._statuses.idle(session_id, session.location)

    async def _begin_again(self, session_id: str) -> None:
        """Input that could not start because the database was away starts when it is back."""
        await asyncio.sleep(AGAIN_SECONDS)
        if not self.closed:
            self.wake(session_id)

    async def _given_away(self, session: Session, force: bool) -> bool:
        return await self.placement.given_away(session, forced=force or session.id in self._exclusive)

    async def _hand_over(self, session: Session) -> None:
        """Ask another node to go on with what this one has stopped. Without one, the next process finds it."""
        try:
            if await self._store.activity(session.id) is not None or await self._store.wakes(session.id):
                await self.placement.given_away(session)
        except (StorageError, NoNodeServes) as error:
            log.debug("session %s was not handed over: %s", session.id, error)

    async def child_ended(self, session_id: str) -> None:
        """Serve whoever waits for this child. A failure leaves it to the next drain of the child, or to the next
        process."""
        try:
            await self._tasks.child_ended(session_id)
        except Exception as error:  # noqa: BLE001 - the drain's own outcome is what its waiters hear
            log.warning("session %s: its result was not delivered: %s: %s", session_id, type(error).__name__, error)

    async def _stop_left_behind(self, session_id: str) -> None:
        """Stop children whose calls were ended without them. A shutdown leaves them to the next process."""
        if self.closed:
            return
        try:
            await self._tasks.stop_left_behind(session_id)
        except Exception as error:  # noqa: BLE001 - as above
            log.warning("session %s: a child goes on: %s: %s", session_id, type(error).__name__, error)

    async def _check_taken(self, session_id: str) -> None:
        """A node that was asked may have stopped: after a while the Session is placed again."""
        await asyncio.sleep(TAKEN_SECONDS)
        self._checked.discard(session_id)
        if not self.closed and await self._ownership.elsewhere(session_id) is None:
            await self._take(session_id)

    async def _take(self, session_id: str) -> None:
        """Go on with what another process left, then with input that waits."""
        if self.look_after is not None:
            await self.look_after(session_id)
        self.wake(session_id)

    async def _start(self, session_id: str, moved: Flag) -> DrainStart:
        moved.head = -1  # before reading, so that a commit during the read is noticed
        return await self._store.drain_start(session_id, self._clock.now(), budgets=self._budgets.revision > 0)

    async def _attempt(
        self, location: Location, force: bool, interrupt: Interrupt, start: DrainStart, moved: Flag
    ) -> bool:
        """One try at draining; False when the lease went to someone else at the last moment. `moved` tells of the
        commits to the Session since before `start` was read."""
        session_id, joined = start.session_id, False

        async def wanted() -> bool:
            nonlocal joined
            joined = True  # asked while another process has the lease
            return await self._wanted(session_id, force)

        interrupt.check()
        lease = await self._ownership.acquire(session_id, location, interrupt, wanted, start)
        if lease is None:
            interrupt.check()
            return True
        if force and session_id in self._resuming:
            force = await self._store.activity(session_id) is not None
        force = force and not joined
        try:
            # Opening it may last, and others are to see who does.
            taking = self._ownership.start_taking(lease) if location not in self._locations else None
            async with self._locations.use(location) as services:
                if taking is not None:
                    await taking
                worked = await self._exclusive.do(session_id, services.runner, lease, interrupt)
                woken = session_id in self._woken
                self._woken.discard(session_id)
                if force or woken or not worked:  # such work takes no turn
                    current = not (joined or lease.from_other) and moved.head <= start.seen.head
                    unmoved = start if current else None
                    cause = self._resuming.get(session_id)
                    await services.runner.drain(session_id, lease, interrupt, forced=force, cause=cause, start=unmoved)
            return True
        except LeaseLost:
            return False
        finally:
            self._ownership.release(lease)

    async def _join(self, session_id: str, interrupt: Interrupt) -> None:
        """Joining across processes: wait for the other one. Nobody runs again on top of it."""
        joined = self._ownership.wait_elsewhere(session_id)
        await interrupt.cancellable(joined, name="another process's drain")

    async def _wanted(self, session_id: str, force: bool) -> bool:
        return (
            force
            or session_id in self._exclusive
            or bool(await self._store.waiting(session_id))
            or await self._answered(session_id)
            or await self._store.pause(session_id) is not None
        )

    async def _answered(self, session_id: str) -> bool:
        """Whether a person answered a call that waited when its process ended."""
        activity = await self._store.activity(session_id)
        return activity is not None and await self._store.answered_calls(session_id)
