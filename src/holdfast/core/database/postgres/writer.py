"""Writer threads: each commits all of its waiting units as one flight, then answers their callers.

A unit goes to the writer that its aggregate selects, so units of an aggregate commit in the order of `submit`.

Invariants
- No caller is told "committed" before the server has said so, and every caller gets an answer.
- A unit that fails does not affect other units, and nothing of it is written: the units before it are sent again
  without it, it is sent alone, then those after it.
- What only concurrency can cause (a unique key, a deadlock) is tried again alone, a few times: then the unit's own
  checks see what the other transaction wrote."""

from __future__ import annotations

import asyncio
import logging
import queue
import random
import threading
import time
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.core.database.errors import Fenced, InvalidDurableEvent, Moved, Refused, StorageClosed, StorageUnavailable
from holdfast.core.database.job import Job, Outcome, answer
from holdfast.core.database.postgres.address import LOCK_SECONDS
from holdfast.core.database.postgres.batch import Batches
from holdfast.core.database.postgres.course import Course
from holdfast.core.database.postgres.errors import CONFLICTS, EXPECTATION, LOCK_TIMEOUT, UNIQUE, translate
from holdfast.core.database.postgres.flight import APPEND, CHECK, FENCE, REPLAY, Failure, Plan, Planner
from holdfast.core.database.replay import Verdict, invalid_event, judge_replay
from holdfast.core.database.unit import Committed, Statement, Unit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.database.postgres.address import Address
    from holdfast.core.database.postgres.statement import Statements

WRITERS = 2
BATCH_LIMIT = 256
BATCH_BYTES = 1024 * 1024
"""Limit on the events of one flight. A larger unit is committed alone."""
CLOSE_SECONDS = 10.0
GATHER_SECONDS = 0.002
"""For how long units wait at most for those that are about to be submitted, should the loop be busy."""
CONFLICT_TRIES = 10
UNIQUE_TRIES = 2

log = logging.getLogger(__name__)


class Writers:
    """All writers of a process."""

    def __init__(
        self, address: Address, statements: Statements, committed: Callable[[], None], count: int = WRITERS
    ) -> None:
        """`committed` is called after each commit, on a thread."""
        self._writers: list[Writer] = []
        self._closed = False
        try:
            for number in range(count):
                self._writers.append(
                    Writer(number, Course(address, Batches(statements.queries)), Planner(statements), committed)
                )
        except BaseException:
            self.close()
            raise

    def submit(self, unit: Unit, on_commit: Callable[[Committed], None] | None = None) -> asyncio.Future[Committed]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Committed] = loop.create_future()
        if self._closed:
            future.set_exception(StorageClosed())
            future.exception()  # marks the exception as retrieved: the caller may await it later, or never
        else:
            place = zlib.crc32(unit.aggregate_id.encode("utf-8", "surrogatepass")) % len(self._writers)
            self._writers[place].put(Job(unit, loop, future, on_commit))
        return future

    def waiting_since(self) -> float | None:
        """When the first of them began to wait for a database that is away (monotonic seconds)."""
        return min((since for writer in self._writers if (since := writer.waiting_since()) is not None), default=None)

    def queued(self) -> int:
        return sum(writer.queued() for writer in self._writers)

    def close(self) -> None:
        """Commit all queued units, then stop. What cannot be committed in time fails."""
        if self._closed:
            return
        self._closed = True
        until = time.monotonic() + CLOSE_SECONDS
        for writer in self._writers:
            writer.end()
        for writer in self._writers:
            writer.join(until)


class Writer:
    def __init__(self, number: int, course: Course, planner: Planner, committed: Callable[[], None]) -> None:
        self._course = course
        self._planner = planner
        self._committed = committed
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._postponed: Job | None = None
        self._random = random.Random()
        self._thread = threading.Thread(target=self._work, name=f"holdfast-writer-{number}", daemon=True)
        self._thread.start()

    def put(self, job: Job) -> None:
        self._jobs.put(job)

    def queued(self) -> int:
        return self._jobs.qsize()

    def waiting_since(self) -> float | None:
        return self._course.waiting_since()

    def end(self) -> None:
        self._jobs.put(None)

    def join(self, until: float) -> None:
        self._thread.join(max(until - time.monotonic(), 0))
        if self._thread.is_alive():
            self._course.give_up()
            self._thread.join(CLOSE_SECONDS)

    def _work(self) -> None:
        running = True
        while running:
            batch, running = self._next_batch()
            if batch:
                _Batch(self, batch).commit()
                self._gather(batch)
        self._course.close()

    def _gather(self, answered: Sequence[Job]) -> None:
        """If units wait already, let the callers that were just answered run: what they submit next comes along. So the
        callers of a writer share one flight, instead of taking turns with two smaller ones."""
        if self._jobs.empty():
            return
        loop, ran = answered[0].loop, threading.Event()
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(loop.call_soon, ran.set)
            ran.wait(GATHER_SECONDS)

    def _next_batch(self) -> tuple[list[Job], bool]:
        job = self._postponed or self._jobs.get()
        self._postponed = None
        if job is None:
            return [], False
        batch, size = [job], job.unit.size
        while len(batch) < BATCH_LIMIT:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                break
            if job is None:
                return batch, False
            size += job.unit.size
            if size > BATCH_BYTES or job.unit.rebuild or batch[-1].unit.rebuild:
                self._postponed = job
                break
            batch.append(job)
        return batch, True


class _Batch:
    """The units of one batch, on their way to an answer each."""

    def __init__(self, writer: Writer, jobs: Sequence[Job]) -> None:
        self._writer = writer
        self._course = writer._course
        self._jobs = jobs
        self._busy: set[str] = set()
        """Aggregates that another transaction kept locked: nobody waits for them twice."""

    def commit(self) -> None:
        work: list[tuple[Job, Plan]] = []
        for job in self._jobs:
            try:
                work.append((job, self._writer._planner.plan(job.unit)))
            except Exception as error:  # noqa: BLE001 - a unit that cannot be sent concerns its caller alone
                answer([(job, error)])
        try:
            self._commit(work)
        except Exception as error:
            # If the thread ended here, all later commits would hang: every caller gets the error, and it goes on.
            if not isinstance(error, StorageUnavailable):
                log.exception("a batch of %d units failed", len(work))
            answer([(job, error) for job, _ in work])

    def _commit(self, work: Sequence[tuple[Job, Plan]]) -> None:
        while work:
            outcome = self._course.fly([plan for _, plan in work])
            if not isinstance(outcome, Failure):
                self._answer(work, outcome)
                return
            if len(work) == 1:
                self._answer(work, [self._alone(work[0][1], outcome)])
                return
            if outcome.plan is None:
                for item in work:
                    self._commit([item])
                return
            self._commit(work[: outcome.plan])
            self._commit(work[outcome.plan : outcome.plan + 1])
            work = work[outcome.plan + 1 :]

    def _answer(self, work: Sequence[tuple[Job, Plan]], outcomes: Sequence[Outcome]) -> None:
        if any(isinstance(outcome, Committed) for outcome in outcomes):
            self._writer._committed()
        answer([(job, outcome) for (job, _), outcome in zip(work, outcomes, strict=True)])

    def _alone(self, plan: Plan, failure: Failure) -> Outcome:
        """What became of a unit that failed although it was alone, after as many tries as its error deserves."""
        tries = 1
        if failure.error.sqlstate == LOCK_TIMEOUT and self._course.end_stalled():
            outcome = self._course.fly([plan])
            if not isinstance(outcome, Failure):
                return outcome[0]
            failure = outcome
        while failure.error.sqlstate in CONFLICTS or _is_replay(failure):
            if _is_replay(failure) and (committed := self._judge_replay(plan.unit)) is not None:
                return committed
            if tries >= (UNIQUE_TRIES if failure.error.sqlstate == UNIQUE else CONFLICT_TRIES):
                break
            time.sleep(self._writer._random.uniform(0, 0.002 * 2**tries))
            tries += 1
            outcome = self._course.fly([plan])
            if not isinstance(outcome, Failure):
                return outcome[0]
            failure = outcome
        return self._explain(plan, failure)

    def _judge_replay(self, unit: Unit) -> Outcome | None:
        """The outcome of a replay that is not the next event, or None if it is by now."""
        replay = unit.replay
        assert replay is not None
        latest, owner, stored = self._course.head(unit.aggregate_id, replay.seq)
        if latest < 0 and (begins_at := unit.events[0].begins_at) is not None:
            latest = begins_at - 1
        try:
            verdict = judge_replay(unit, replay, latest, owner, lambda: stored)
        except InvalidDurableEvent as error:
            return error
        if verdict is Verdict.NEXT:
            return None
        if verdict is Verdict.STORED and replay.owner_id is not None and owner is None:
            claim = Statement("event.claim", {"aggregate_id": unit.aggregate_id, "owner_id": replay.owner_id})
            claimed = self._course.fly([self._writer._planner.plan(Unit(unit.aggregate_id, local=(claim,)))])
            if isinstance(claimed, Failure):
                return translate(claimed.error, self._course.address, LOCK_SECONDS)
        return Committed(replay.seq, replay.seq, applied=False)

    def _explain(self, plan: Plan, failure: Failure) -> Exception:
        unit, step, error = plan.unit, failure.step, failure.error
        if step is not None and step.stage == APPEND:
            reused = self._reused(unit)
            if reused is not None:
                reused.__cause__ = error
                return reused
        if error.sqlstate != EXPECTATION or step is None:
            return translate(error, self._course.address, LOCK_SECONDS)
        if step.stage == FENCE:
            assert unit.fence is not None
            return Fenced(unit.fence.session_id)
        if step.stage == CHECK:
            return Moved(unit.aggregate_id)
        if step.statement is None:
            return translate(error, self._course.address, LOCK_SECONDS)
        refused = Refused(f"{step.statement.name}: {_expectation(step.statement.changes, step.statement.found)}")
        if step.statement.error is None:
            return refused
        raised = step.statement.error()
        raised.__cause__ = refused
        return raised

    def _reused(self, unit: Unit) -> InvalidDurableEvent | None:
        """A reused event id is the reason for whatever else failed."""
        places = self._course.places([event.id for event in unit.events])
        for event in unit.events:
            if event.id in places:
                aggregate_id, seq = places[event.id]
                return invalid_event(event, f"Event {event.id} already exists at {aggregate_id}:{seq}")
        return None


def _is_replay(failure: Failure) -> bool:
    return failure.step is not None and failure.step.stage == REPLAY and failure.error.sqlstate == EXPECTATION


def _expectation(changes: int | None, found: bool | None) -> str:
    if found is not None:
        return "nothing found" if found else "something found"
    return f"did not change {changes} rows"
