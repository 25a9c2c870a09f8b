"""What is true at the moment of a scrape: read then, with a fixed number of queries, and not at all otherwise."""

from __future__ import annotations

import os
import platform
import resource
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.core.database.errors import StorageError
from holdfast.core.observe.families import Family
from holdfast.schema.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.core.database.database import Database
    from holdfast.core.database.place import Place
    from holdfast.core.observe.families import Sample
    from holdfast.core.runtime.execution import Execution
    from holdfast.core.runtime.overview import Overview
    from holdfast.core.runtime.placement import Placement
    from holdfast.schema.tree import NodeState

STATES: tuple[NodeState, ...] = ("running", "waiting", "unfinished", "blocked", "pending")

BUILD = Family("holdfast_build_info", "gauge", "Always 1.", ("version", "python", "store"))
SESSIONS = Family(
    "holdfast_sessions", "gauge", "Sessions of the database that are not idle, of all processes, by state.", ("state",)
)
WAITING = Family("holdfast_waiting", "gauge", "What these Sessions wait for at present, by cause.", ("cause",))
INPUTS = Family("holdfast_inputs_pending", "gauge", "Inputs of these Sessions that the model has not seen.")
EXECUTING = Family("holdfast_executing", "gauge", "Sessions that this process executes.")
DRAINING = Family("holdfast_draining", "gauge", "1 while the server drains.")
QUEUE = Family("holdfast_commit_queue", "gauge", "Commits that wait for the writer.")
STORAGE = Family("holdfast_storage_up", "gauge", "0 while the database cannot be used.")
MEMORY = Family("process_resident_memory_bytes", "gauge", "Resident memory.")
CPU = Family("process_cpu_seconds_total", "counter", "User and system time of the process.")
STARTED = Family("process_start_time_seconds", "gauge", "When the process started, in seconds since the epoch.")
FILES = Family("process_open_fds", "gauge", "Open file descriptors.")

Read = tuple[Family, "Iterable[Sample]"]


class Gauges:
    def __init__(
        self,
        database: Database,
        place: Place,
        overview: Overview,
        execution: Execution,
        placement: Placement,
        started: float,
    ) -> None:
        """`started` is when the process did, in seconds since the epoch."""
        self._database = database
        self._place = place
        self._overview = overview
        self._execution = execution
        self._placement = placement
        self._started = started

    async def read(self) -> list[Read]:
        found = [*self._process(), _one(QUEUE, self._database.queued())]
        found += [_one(EXECUTING, self._execution.executing), _one(DRAINING, self._placement.draining)]
        lost = (outage := self._database.outage()) is not None and outage.is_loss
        if not lost:
            try:
                found += await self._sessions()
            except StorageError:
                lost = True
        return [*found, _one(STORAGE, not lost)]

    async def _sessions(self) -> list[Read]:
        """Nothing while the database is lost: a wrong number is worse than none."""
        open_sessions = await self._overview.states()
        states = Counter(found.state for found in open_sessions)
        causes = Counter(kind for found in open_sessions for kind in found.waits)
        return [
            (SESSIONS, [SESSIONS.sample(states[state], state) for state in STATES]),
            (WAITING, [WAITING.sample(count, cause) for cause, count in sorted(causes.items())]),
            _one(INPUTS, sum(found.pending for found in open_sessions)),
        ]

    def _process(self) -> Iterator[Read]:
        used = resource.getrusage(resource.RUSAGE_SELF)
        store = "sqlite" if isinstance(self._place, Path) else "postgresql"
        yield BUILD, [BUILD.sample(1, __version__, platform.python_version(), store)]
        yield _one(STARTED, self._started)
        yield _one(CPU, used.ru_utime + used.ru_stime)
        yield _one(MEMORY, _resident(used.ru_maxrss))
        if (files := _open_files()) is not None:
            yield _one(FILES, files)


def _one(family: Family, value: float) -> Read:
    return family, [family.sample(value)]


def _resident(largest: int) -> int:
    """Where the system does not tell the present size, the largest so far."""
    try:
        with open("/proc/self/statm", encoding="ascii") as status:
            return int(status.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return largest if sys.platform == "darwin" else largest * 1024


def _open_files() -> int | None:
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return None
