"""Counts round trips to the database: operations that are under way at the same time are answered together."""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import holdfast
from holdfast.core.database.database import Database
from holdfast.core.database.read import Read
from holdfast.core.database.unit import Committed, Unit, Value

SOURCE = f"{Path(holdfast.__file__).parent}/"
QUIET_SECONDS = 0.003
"""After this long without another operation, those that wait are answered."""


class Operation(NamedTuple):
    number: int
    """Of the round trip that answered it."""
    what: str
    where: str
    """The functions that led to it, innermost first."""


class RoundTrips:
    """Holds back each read and each commit of a database until nothing more is asked for, and answers all that wait at
    once, as a server does that is far away."""

    def __init__(self, database: Database) -> None:
        self.operations: list[Operation] = []
        """Those of drains and of callers; not of tasks that look after the process."""
        self._done = 0
        self._running = 0
        self._waiting: list[Callable[[], None]] = []
        self._due: asyncio.TimerHandle | None = None
        self._fetch, self._fetch_large = database.fetch, database.fetch_large
        self._fetch_many, self._submit = database.fetch_many, database.submit
        near = {"fetch": self.fetch, "fetch_large": self.fetch_large, "fetch_many": self.fetch_many}
        vars(database).update(near, submit=self.submit)

    async def fetch(self, name: str, params: Mapping[str, Value], into: Any = None) -> list[Any]:
        return await self._read(name, self._fetch(name, params, into))

    async def fetch_large(self, name: str, params: Mapping[str, Value], into: Any = None) -> list[Any]:
        return await self._read(f"large {name}", self._fetch_large(name, params, into))

    async def fetch_many(self, *reads: Read) -> list[list[Any]]:
        return await self._read(", ".join(read.name for read in reads), self._fetch_many(*reads))

    def submit(self, unit: Unit, on_commit: Callable[[Committed], None] | None = None) -> asyncio.Future[Committed]:
        future: asyncio.Future[Committed] = asyncio.get_running_loop().create_future()
        events = [event.type.removeprefix("session.next.") for event in unit.events]
        self._begin(f"commit {', '.join(events) or [it.name for it in (*unit.before, *unit.local)]}")
        self._submit(unit).add_done_callback(partial(self._end, partial(_answer, future, on_commit)))
        return future

    async def _read(self, what: str, reading: Awaitable[list[Any]]) -> list[Any]:
        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._begin(what)
        try:
            return await reading
        finally:
            self._end(partial(_arrived, answered))
            await answered

    def _begin(self, what: str) -> None:
        task = asyncio.current_task()
        if task is not None and not task.get_name().startswith("holdfast-"):
            self.operations.append(Operation(self._done + 1, what, _stack()))
        self._running += 1

    def _end(self, answer: Callable[[Any], None], outcome: Any = None) -> None:
        self._running -= 1
        self._waiting.append(partial(answer, outcome))
        if self._due is not None:
            self._due.cancel()
        self._due = asyncio.get_running_loop().call_later(QUIET_SECONDS, self._arrive)

    def _arrive(self) -> None:
        self._due = None
        if self._running:
            return  # the last of them comes here again
        waiting, self._waiting = self._waiting, []
        self._done += 1
        for answer in waiting:
            answer()


def _answer(
    future: asyncio.Future[Committed],
    on_commit: Callable[[Committed], None] | None,
    real: asyncio.Future[Committed],
) -> None:
    error = real.exception()
    if error is None and on_commit is not None:
        on_commit(real.result())
    if future.done():
        return
    if error is None:
        future.set_result(real.result())
    else:
        future.set_exception(error)
        future.exception()


def _arrived(answered: asyncio.Future[None], outcome: None) -> None:
    if not answered.done():
        answered.set_result(outcome)


def _stack() -> str:
    frames = traceback.walk_stack(sys._getframe(2))
    codes = [frame.f_code for frame, _ in frames if frame.f_code.co_filename.startswith(SOURCE)]
    return " < ".join(f"{Path(code.co_filename).stem}.{code.co_name}" for code in codes)


def told(operations: Sequence[Operation]) -> str:
    """One line for each operation, for people."""
    first = operations[0].number if operations else 0
    return "\n".join(f"{it.number - first + 1:3} {it.what:60} {it.where}" for it in operations)


def round_trips(operations: Sequence[Operation]) -> int:
    return len({it.number for it in operations})
