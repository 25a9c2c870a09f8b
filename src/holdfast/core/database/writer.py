"""The writer thread: commits all waiting units together, then answers all their callers.

Units commit in the order of `submit`, so awaiting one also covers all units before it."""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import apsw

from holdfast.core.database.errors import StorageClosed
from holdfast.core.database.execute import Executor
from holdfast.core.database.job import Job, Outcome, answer
from holdfast.core.database.sqlite import BusyWait, connect, translate
from holdfast.core.database.wal import preallocate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from holdfast.core.database.unit import Committed, Unit

BATCH_LIMIT = 256
BATCH_BYTES = 1024 * 1024
"""Limit on the events of one commit. A larger unit is committed alone, so that no other waits for its sync."""
CHECKPOINT_PAGES = 1_000
TRUNCATE_PAGES = 16_000
PREALLOCATED_PAGES = CHECKPOINT_PAGES + 100
"""The size to which the log usually grows before a checkpoint."""
IDLE_SECONDS = 0.25
"""After this long without work, the log is preallocated."""
TOLD_SECONDS = 1.0
"""A wait for another process is told in the log if it was as long as this."""

log = logging.getLogger(__name__)


class Writer:
    def __init__(self, path: str, queries: dict[str, str], *, busy: BusyWait | None = None) -> None:
        self.path = path
        self._busy = busy or BusyWait()
        self._connection = connect(path, self._busy)
        self._executor = Executor(self._connection, queries)
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._wal_pages = _existing_pages(path)
        self._folded_pages = 0
        """How large the log was at the last checkpoint, if it goes on: while others read, it cannot begin anew."""
        self._connection.set_wal_hook(self._note_wal)
        self._closed = False
        self._postponed: Job | None = None
        """The first job of the next batch, already taken from the queue."""
        self._preallocated = False
        self._thread = threading.Thread(target=self._work, name="holdfast-writer", daemon=True)
        self._thread.start()

    def submit(self, unit: Unit, on_commit: Callable[[Committed], None] | None = None) -> asyncio.Future[Committed]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Committed] = loop.create_future()
        if self._closed:
            future.set_exception(StorageClosed())
            future.exception()  # marks the exception as retrieved: the caller may await it later, or never
        else:
            self._jobs.put(Job(unit, loop, future, on_commit))
        return future

    def waiting_since(self) -> float | None:
        """When the thread began to wait for another process (monotonic seconds), for a status display."""
        return self._busy.since

    def queued(self) -> int:
        return self._jobs.qsize()

    def close(self) -> None:
        """Commit all queued units, then stop. Blocks until they are committed."""
        if self._closed:
            return
        self._closed = True
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        running = True
        while running:
            batch, running = self._next_batch()
            if batch:
                self._commit(batch)
            unfolded = self._wal_pages - self._folded_pages
            if self._postponed is None and self._jobs.empty() and unfolded > CHECKPOINT_PAGES:
                self._checkpoint()
        try:
            self._connection.close()
        except apsw.Error:
            log.exception("closing %s", self.path)

    def _next_batch(self) -> tuple[list[Job], bool]:
        job = self._next_job()
        if job is None:
            return [], False
        batch, size = [job], job.unit.size
        while len(batch) < BATCH_LIMIT and not batch[-1].unit.rebuild:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                break
            if job is None:
                return batch, False
            size += job.unit.size
            if size > BATCH_BYTES:
                self._postponed = job
                break
            batch.append(job)
        return batch, True

    def _next_job(self) -> Job | None:
        if self._postponed is not None:
            job, self._postponed = self._postponed, None
            return job
        if not self._preallocated:
            try:
                return self._jobs.get(timeout=IDLE_SECONDS)
            except queue.Empty:
                self._preallocated = True
                with self._short_busy_wait():
                    preallocate(self._connection, self.path, PREALLOCATED_PAGES)
        return self._jobs.get()

    def _commit(self, batch: Sequence[Job]) -> None:
        try:
            outcomes = self._outcomes(batch)
        except Exception as error:
            # If the thread ended here, all later commits would hang: every caller gets the error, and it goes on.
            log.exception("a batch of %d units failed", len(batch))
            outcomes = [error] * len(batch)
        self._tell_wait()
        self._busy.since = None
        answer([(job, self._explain(outcome)) for job, outcome in zip(batch, outcomes, strict=True)])

    def _tell_wait(self) -> None:
        since = self._busy.since
        if since is not None and (waited := time.monotonic() - since) >= TOLD_SECONDS:
            log.warning("another process kept %s locked for %.1f s", self.path, waited)

    def _outcomes(self, batch: Sequence[Job]) -> list[Outcome]:
        if batch[-1].unit.rebuild:
            outcomes = self._executor.run_batch([job.unit for job in batch[:-1]]) if len(batch) > 1 else []
            outcomes.append(self._executor.run_rebuild(batch[-1].unit))
            return outcomes
        return self._executor.run_batch([job.unit for job in batch])

    def _explain(self, outcome: Outcome) -> Outcome:
        return translate(outcome, self.path, self._busy.limit) if isinstance(outcome, apsw.Error) else outcome

    def _checkpoint(self) -> None:
        # A passive checkpoint never waits for readers. A large log is also truncated, which may wait briefly.
        mode = apsw.SQLITE_CHECKPOINT_TRUNCATE if self._wal_pages > TRUNCATE_PAGES else apsw.SQLITE_CHECKPOINT_PASSIVE
        with self._short_busy_wait():
            try:
                if mode == apsw.SQLITE_CHECKPOINT_TRUNCATE:  # which keeps others from writing: little is left for it
                    self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
                self._connection.wal_checkpoint(mode=mode)
                self._preallocated = self._preallocated and mode == apsw.SQLITE_CHECKPOINT_PASSIVE
            except apsw.Error as error:
                log.debug("checkpoint postponed: %s", error)
        self._folded_pages = self._wal_pages

    @contextmanager
    def _short_busy_wait(self) -> Iterator[None]:
        """Wait at most 50 ms for other processes: this is optional maintenance."""
        limit, self._busy.limit = self._busy.limit, 0.05
        try:
            yield
        finally:
            self._busy.limit = limit
            self._busy.since = None

    def _note_wal(self, connection: apsw.Connection, database: str, pages: int) -> int:
        if pages <= self._wal_pages:
            self._folded_pages = 0
        self._wal_pages = pages
        return apsw.SQLITE_OK


def _existing_pages(path: str) -> int:
    """Pages of a log that an earlier process left. They are checkpointed when the writer is idle."""
    try:
        return os.stat(f"{path}-wal").st_size // 4096
    except OSError:
        return 0
