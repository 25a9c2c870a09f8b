"""Tasks: a tool call gives work to a child Session, and gets its result.

Invariants
- A task is recorded while its call runs, before anything of the child exists. The ids of child, prompt and result
  follow from the call, so that every step may be repeated: by this process, or by the one that executes the call again.
- Only whoever drains the parent settles the call. A call whose task goes on is not settled by a shutdown or a crash: it
  is executed again, finds its task, and waits for the same child.
- The result arrives once. A foreground task brings it with the settlement. A background task brings it as an input with
  an id of its own; what moves a task to the background is recorded with the settlement that says so.
- A task is over when its prompt was withdrawn, or when the activity ended that the prompt began or joined. Both are
  read from rows of the child, so every process can tell."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.core.database.errors import StorageError
from holdfast.core.database.unit import Statement
from holdfast.core.session.errors import SessionDeleted, SessionNotFound
from holdfast.core.session.inbox import nothing
from holdfast.core.session.input_errors import InputNotFound, InputNotPending, PromptConflict, PromptWithdrawn
from holdfast.core.session.records import NewSession
from holdfast.core.session.stored_tasks import Task
from holdfast.core.session.task_result import GONE, JOINED, TaskEnd, cancelled, delivered_input, no_changes, result_of
from holdfast.core.session.task_waiting import Place, Waiter
from holdfast.core.session.task_work import CallSettled, TooManyTasks, derived
from holdfast.core.work_time import not_working
from holdfast.schema.task_event import TaskMoved, TaskStarted

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator

    from holdfast.core.clock import Clock
    from holdfast.core.database.database import Database
    from holdfast.core.event.log import EventLog
    from holdfast.core.session.inbox import Inbox
    from holdfast.core.session.records import SessionRecords
    from holdfast.core.session.store import SessionStore
    from holdfast.core.session.stored_tasks import CallKey, Giving
    from holdfast.core.session.task_work import Work
    from holdfast.core.session.wakeups import Wakeups
    from holdfast.schema.session import Session

T = TypeVar("T")

CHILDREN = 50
"""Of which a Session is told the state."""
UNDELIVERED = 10_000
"""Children that are looked at when a process starts."""

log = logging.getLogger(__name__)


class Tasks:
    """One per process."""

    def __init__(
        self,
        log: EventLog,
        database: Database,
        store: SessionStore,
        inbox: Inbox,
        records: SessionRecords,
        wakeups: Wakeups,
        clock: Clock,
        changes: Callable[[str], Awaitable[str]] = no_changes,
    ) -> None:
        """`changes` tells what a child has to offer beside its text, for results that come as an input."""
        self._log = log
        self._database = database
        self._store = store
        self._inbox = inbox
        self._records = records
        self._wakeups = wakeups
        self._clock = clock
        self._changes = changes
        self._waiting: dict[str, set[Waiter]] = {}
        """Calls of this process that wait for a child or their turn, by Session."""
        self._waiting_for: dict[str, set[Waiter]] = {}
        """Those that wait for a child, by child."""
        self._foreground: Counter[str] = Counter()
        """How many of them have started, by root."""
        self._recorded = 0
        """Background tasks that this process has recorded."""
        self._quiet: Counter[str] = Counter()
        """Sessions that results do not wake, because somebody stops them."""
        self._ongoing: set[asyncio.Task[Any]] = set()

    @contextmanager
    def quietly(self, *session_ids: str) -> Iterator[None]:
        """Meanwhile results are admitted to these Sessions without waking them."""
        self._quiet.update(session_ids)
        try:
            yield
        finally:
            self._quiet.subtract(session_ids)
            self._quiet = +self._quiet

    async def ends_quietly(self, child_id: str) -> bool:
        """Whether the end of this child wakes nobody, because somebody stops a Session that waits for it."""
        return bool(self._quiet) and not self._quiet.keys().isdisjoint(await self.callers(child_id))

    async def callers(self, child_id: str) -> set[str]:
        """The Sessions that wait for this child, or for its result."""
        return {task.session_id for task in await self._store.awaited_tasks(child_id)}

    async def of_call(self, call: CallKey) -> Task | None:
        """The task that an earlier execution of this call started."""
        return await self._store.task_of_call(call)

    async def perform(
        self,
        call: CallKey,
        work: Work,
        *,
        slots: asyncio.Semaphore | None = None,
        started: Callable[[Task], None] = lambda task: None,
    ) -> tuple[Task, TaskEnd | None]:
        """Give the work to a child and wait until it is over. Without an end it goes on in the background. A call that
        is executed again goes on with the task that it started before. It begins when one of the `slots` is free, and
        keeps that until it returns. `started` is called when the child has the work. Whoever cancels it asks
        `cancelled` what became of the task."""
        if work.background or slots is None:
            return await self._perform(call, work, Waiter(), started)
        with _listed(self._waiting, call.session_id, Waiter()) as waiter:
            with not_working():
                await slots.acquire()
            try:
                work = work.replace(background=waiter.moved)
                return await self._perform(call, work, waiter, started)
            finally:
                slots.release()

    async def cancelled(self, call: CallKey) -> tuple[Task, TaskEnd | None] | None:
        """What becomes of the task of a call that was cancelled. An interruption stops the child, and tells what that
        had done; a background task goes on. None without a task, and in a shutdown, which leaves everything to the next
        execution of the call."""
        task = None if self._wakeups.ending() else await self.of_call(call)
        if task is None:
            return None
        return task, None if task.background else await self.stop(task)

    async def _perform(
        self, call: CallKey, work: Work, waiter: Waiter, started: Callable[[Task], None]
    ) -> tuple[Task, TaskEnd | None]:
        place = Place(self._foreground, work.root_id)
        if work.prepare is not None:
            work = await work.prepare(work, work.child_id or derived("ses", call))
        starting = self._own(self._start(call, work, place))
        try:
            task = await asyncio.shield(starting)
            started(task)
            with not_working():
                return task, None if task.background else await self._end_or_move(task, waiter)
        except asyncio.CancelledError:
            await asyncio.wait({starting})
            raise
        finally:
            place.free()

    async def running(self, root_id: str) -> int:
        """How many tasks of a tree are under way: those that calls of this process wait for, and background ones."""
        return self._foreground[root_id] + await self._store.background_tasks(root_id)

    def move(self, session_id: str) -> int:
        """Let the tasks that calls of this Session wait for go on in the background; how many there are here."""
        waiting = self._waiting.get(session_id, set())
        for waiter in waiting:
            waiter.move()
        return len(waiting)

    def moved(self, task: Task) -> TaskMoved:
        """What the settlement of a call carries that leaves its task to the background."""
        return TaskMoved(
            timestamp=self._clock.now(),
            session_id=task.session_id,
            assistant_message_id=task.message_id,
            call_id=task.call_id,
        )

    async def stop(self, task: Task) -> TaskEnd:
        """Interrupt the child, with everything below it, and give up what it owes."""
        await self._inbox.hold_back(task.child_id)
        with suppress(SessionNotFound):
            await self._wakeups.stop(task.child_id)
        await self._give_up(task)
        if task.background:
            await self._deliver(task)  # a child that was not executed has no drain that does it
        return await self._end(task) or cancelled(task, ())

    async def stop_waited_for(self, session_id: str) -> dict[tuple[str, str], str]:
        """Stop the children that calls of this Session wait for, without waking it. Returns what the calls are told, by
        message and call id."""
        told = {}
        with self.quietly(session_id):
            for task in await self._store.open_tasks(session_id):
                if not task.background and (end := await self.stop(task)).status != "completed":
                    told[task.message_id, task.call_id] = end.text
        return told

    async def stop_left_behind(self, session_id: str) -> None:
        """Stop the children for which no call of this Session waits any more, although their tasks go on: the calls
        were ended before they could be executed again."""
        for task in await self._store.tasks_left_behind(session_id):
            await self.stop(task)

    async def children(self, session_id: str) -> list[tuple[Task, TaskEnd | None]]:
        """The newest task of each child of a Session, newest first, and how it ended."""
        return [(task, await self._end(task)) for task in await self._store.newest_tasks(session_id, CHILDREN)]

    async def wait(self, session_id: str, child_id: str | None, seconds: float) -> None:
        """Wait until a child of this Session, or the one that is named, has ended its task, or input for this Session
        arrives: the result of a background task is such an input."""
        with self._log.signals.follow(session_id) as flag, suppress(TimeoutError), not_working():
            async with asyncio.timeout(seconds):
                while "steer" not in await self._store.waiting(session_id):
                    flag.clear()
                    states = await self.children(session_id)
                    if all(end is not None for task, end in states if child_id in (None, task.child_id)):
                        return
                    await flag.wait()

    async def child_ended(self, child_id: str) -> None:
        """A drain of this child has ended: whoever waits for it is served. May be repeated."""
        for waiter in self._waiting_for.get(child_id, ()):
            waiter.tell()
        for task in await self._store.awaited_tasks(child_id):
            await self._give_up(task)
            if task.background:
                await self._deliver(task)
            elif not self._wakeups.executing(task.session_id) and task.session_id not in self._quiet:
                self._wakeups.session(task.session_id)

    async def deliver_to(self, session_id: str) -> None:
        """Deliver the results of this Session that a committed revert took out of its inbox unread."""
        for task in await self._store.undelivered_of(session_id):
            await self._deliver(task)

    async def deliver_all(self) -> None:
        """At the start of a process: results that another one did not deliver."""
        for child_id in await self._store.undelivered(UNDELIVERED):
            if not self._wakeups.executing(child_id):
                try:
                    await self.child_ended(child_id)
                except Exception as error:  # noqa: BLE001 - one task's trouble is not the host's
                    log.warning("the result of %s was not delivered: %s: %s", child_id, type(error).__name__, error)

    async def close(self) -> None:
        for work in tuple(self._ongoing):
            work.cancel()
        if self._ongoing:
            await asyncio.wait(self._ongoing)

    # -- giving --------------------------------------------------------------------------------------------------

    async def _start(self, call: CallKey, work: Work, place: Place) -> Task:
        giving = await self._giving(call, work.root_id)
        parent, task, known = giving.parent, giving.task, True
        if task is None:
            if not place.take(work.most - giving.background):
                raise TooManyTasks(work.most)
            task, known = await self._record(call, work, parent), work.child_id is not None
        else:
            place.take()
        if task.background:
            self._recorded += 1
            place.free()  # its row counts
        await self._hand_over(task, work, parent, known=known)
        return task

    async def _giving(self, call: CallKey, root_id: str) -> Giving:
        """What has to be known to start a task. Read again if a background task was recorded meanwhile: it has no place
        any more, and the count that was read may not contain it."""
        while True:
            recorded = self._recorded
            giving = await self._store.giving(call, root_id)
            if recorded == self._recorded or giving.task is not None:
                return giving

    async def _record(self, call: CallKey, work: Work, parent: Session) -> Task:
        started = TaskStarted(
            timestamp=self._clock.now(),
            session_id=call.session_id,
            assistant_message_id=call.message_id,
            call_id=call.call_id,
            child_id=work.child_id or derived("ses", call),
            root_id=work.root_id,
            prompt_id=derived("msg", call, "prompt"),
            result_id=derived("msg", call, "result"),
            caller=work.caller,
            agent=work.agent,
            description=work.description,
            background=work.background,
        )
        runs = Statement("task.call_runs", call._asdict(), found=True, error=partial(CallSettled, call.call_id))
        await self._log.publish(started, location=parent.location, before=(runs,))
        return Task(
            *call,
            child_id=started.child_id,
            root_id=started.root_id,
            prompt_id=started.prompt_id,
            result_id=started.result_id,
            agent=work.agent,
            description=work.description,
            background=work.background,
            delivered=False,
            started=started.timestamp,
        )

    async def _hand_over(self, task: Task, work: Work, parent: Session, *, known: bool) -> None:
        """Make the child, if there is none, and admit the prompt, if it was not admitted. `known`: there may be."""
        try:
            child = await self._store.find(task.child_id) if known else None
            new = NewSession(
                id=task.child_id,
                project_id=parent.project_id,
                location=work.location or parent.location,
                subpath=parent.subpath,
                parent_id=parent.id,
                agent=task.agent,
                model=work.model,
                title=task.description,
            )
            child = child or await self._records.add(new)
            if not known or await self._store.admission(task.prompt_id) is None:
                await self._inbox.admit(
                    task.child_id,
                    work.prompt,
                    id=task.prompt_id,
                    delivery="steer",
                    location=child.location if child is not None else new.location,
                    wake=True,
                    first=nothing,
                    new=not known,
                )
        except (SessionDeleted, SessionNotFound, PromptConflict, PromptWithdrawn):
            return  # somebody took it away: the task is over
        if known and not task.background:
            self._wakeups.go_on(task.child_id)  # the process that worked on it may be gone
        else:
            self._wakeups.session(task.child_id)

    # -- waiting -------------------------------------------------------------------------------------------------

    async def _end_or_move(self, task: Task, waiter: Waiter) -> TaskEnd | None:
        """Wait until the task is over, or is moved to the background: then there is no end yet."""
        with self._log.signals.follow(task.child_id) as commits, _listed(self._waiting_for, task.child_id, waiter):
            waiter.commits = commits
            while True:
                waiter.clear()
                if not await self._store.task_goes_on(task) and (end := await self._end(task)) is not None:
                    return end
                if waiter.moved:
                    self._own(self._deliver_when_moved(task))
                    return None
                await waiter.news(partial(self._wakeups.executing, task.child_id))

    async def _end(self, task: Task) -> TaskEnd | None:
        state = await self._store.task_state(task)
        if state is None:
            return cancelled(task, (), because=GONE)
        return await result_of(self._database, self._store, task, state) if state.over else None

    async def _give_up(self, task: Task) -> None:
        """Withdraw a prompt with which nobody will begin: the child could not, or was interrupted before."""
        state = await self._store.task_state(task)
        if state is None or not state.pending or (state.wanted and state.blocked is None):
            return
        try:
            child = await self._store.get(task.child_id)
            await self._inbox.withdraw(task.child_id, task.prompt_id, child.location)
        except (InputNotPending, InputNotFound, SessionNotFound):
            pass  # somebody was a moment faster

    # -- background ----------------------------------------------------------------------------------------------

    async def _deliver(self, task: Task) -> None:
        """Admit the result to the parent's inbox, if the task is over."""
        state = await self._store.task_state(task)
        if state is None and await self._store.call_runs(task.call):
            return  # not handed over yet: the call is executed again
        end = await self._end(task)
        if end is not None and state is not None and state.ended_seq and await self._store.joined(task, state):
            end = end.replace(text=JOINED)
        parent = await self._store.find(task.session_id)
        if end is None or parent is None:
            return
        end = end.replace(changes=await self._changes(task.child_id))
        wake = parent.revert is None and parent.id not in self._quiet
        try:
            await self._inbox.admit_synthetic(
                parent.id,
                delivered_input(task, end),
                id=task.result_id,
                delivery="steer",
                location=parent.location,
                wake=wake,
            )
        except (PromptConflict, PromptWithdrawn, SessionNotFound):
            return  # it was delivered, and a person withdrew it; or nobody is left to hear of it
        if wake:
            self._wakeups.session(parent.id)

    async def _deliver_when_moved(self, task: Task) -> None:
        """The child may have ended before the settlement that moves its task was on disk."""
        with self._log.signals.follow(task.session_id) as flag:
            while True:
                flag.clear()
                runs = await self._store.call_runs(task.call)  # first: what is read after a settlement contains it
                known = await self._store.task_of_call(task.call)
                if known is None or known.background or not runs:
                    break
                await flag.wait()
        if known is not None and known.background:
            await self._deliver(known)  # the child's own end may have seen the task before it was moved

    def _own(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._ongoing.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._ongoing.discard(task)
        if not task.cancelled() and isinstance(error := task.exception(), StorageError):
            log.warning("a task could not be recorded: %s", error)


@contextmanager
def _listed(waiting: dict[str, set[Waiter]], id: str, waiter: Waiter) -> Iterator[Waiter]:
    waiting.setdefault(id, set()).add(waiter)
    try:
        yield waiter
    finally:
        waiting[id].discard(waiter)
        if not waiting[id]:
            del waiting[id]
