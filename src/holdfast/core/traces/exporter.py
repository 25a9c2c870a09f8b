"""Exports the trace of each activity in the background when it has ended.

Invariants
- Nobody waits for an export, and none makes a turn fail: a commit only puts the id of its Session into a queue.
- The queue is bounded. What does not fit, and what a collector does not take, is dropped and counted; it can be
  exported later from the log, as the same trace."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.core.database.errors import StorageError
from holdfast.core.traces.sending import TracesRefused
from holdfast.core.traces.session_traces import ActivityTooLong
from holdfast.schema import session_event as ev

if TYPE_CHECKING:
    from holdfast.core.observe.counters import Counters
    from holdfast.core.traces.sending import TraceSender
    from holdfast.core.traces.session_traces import SessionTraces
    from holdfast.core.traces.span import Span
    from holdfast.schema.record import Record

QUEUE = 1_000
"""Activities that wait for their export."""
BATCH_SPANS = 2_000
GATHER_SECONDS = 0.5
"""For how long ended activities wait for others, so that they travel together."""
CLOSE_SECONDS = 2.0
ENDS = (ev.StepEnded, ev.StepFailed, ev.ActivityEnded)
WITH_CALLS = "tool-calls"

log = logging.getLogger(__name__)


class TraceExporter:
    def __init__(self, traces: SessionTraces, sender: TraceSender, counters: Counters) -> None:
        self._traces = traces
        self._sender = sender
        self._counters = counters
        self._waiting: dict[str, int] = {}
        """Sessions, each with the time of the first end that was not exported."""
        self._added = asyncio.Event()
        self._closing = asyncio.Event()
        self._failing = False
        self._task = asyncio.get_running_loop().create_task(self._work(), name="holdfast-traces")

    def committed(self, event: Record) -> None:
        """An activity may have ended with this."""
        if not isinstance(event, ENDS) or (isinstance(event, ev.StepEnded) and event.finish == WITH_CALLS):
            return
        if len(self._waiting) >= QUEUE and event.session_id not in self._waiting:
            self._counters.traces.add(1, "dropped")
            return
        self._waiting.setdefault(event.session_id, event.timestamp)
        self._added.set()

    async def close(self) -> None:
        """Export what waits, but not for long."""
        self._closing.set()
        self._added.set()
        await asyncio.wait({self._task}, timeout=CLOSE_SECONDS)
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task})
        if self._waiting:
            self._counters.traces.add(len(self._waiting), "dropped")
            log.warning("%d traces were not exported; `holdfast traces export` does", len(self._waiting))
        await self._sender.close()

    async def _work(self) -> None:
        while True:
            await self._added.wait()
            if not self._closing.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._closing.wait(), GATHER_SECONDS)
            while self._waiting:
                try:
                    await self._export()
                except Exception:
                    log.exception("exporting traces")  # the next activity may fare better
            if self._closing.is_set():
                return
            self._added.clear()

    async def _export(self) -> None:
        """One batch."""
        batch: list[Span] = []
        while self._waiting and len(batch) < BATCH_SPANS:
            session_id, since = next(iter(self._waiting.items()))
            del self._waiting[session_id]  # before reading: what ends meanwhile is another entry
            batch += await self._spans(session_id, since)
        if batch:
            await self._send(batch)

    async def _spans(self, session_id: str, since: int) -> list[Span]:
        try:
            return await self._traces.ended_since(session_id, since)
        except (StorageError, ActivityTooLong) as error:
            self._counters.traces.add(1, "dropped")
            log.warning("the trace of %s was not read: %s", session_id, error)
        except Exception:
            self._counters.traces.add(1, "dropped")
            log.exception("the trace of %s", session_id)
        return []

    async def _send(self, batch: list[Span]) -> None:
        count = len({span.trace_id for span in batch})
        try:
            await self._sender.send(batch)
        except TracesRefused as error:
            self._counters.traces.add(count, "dropped")
            self._counters.spans.add(len(batch), "dropped")
            if not self._failing:  # once, not for each batch
                log.warning("%s", error)
            self._failing = True
        except asyncio.CancelledError:
            self._counters.traces.add(count, "dropped")
            self._counters.spans.add(len(batch), "dropped")
            raise
        else:
            if self._failing:
                log.warning("traces are taken again by %s", self._sender.settings.endpoint)
            self._failing = False
            self._counters.traces.add(count, "exported")
            self._counters.spans.add(len(batch), "exported")
