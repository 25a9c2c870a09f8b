"""Reading: a connection for short reads on the loop, and one named thread for everything else.

Invariants
- A read on the loop never waits for a lock: where SQLite would, the same read moves to the thread.
- A read on the loop copies no large value: where one is met, the same read moves to the thread."""

from __future__ import annotations

import asyncio
import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import apsw

from holdfast.core.database.errors import StorageClosed
from holdfast.core.database.sqlite import BusyWait, connect, translate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.database.unit import Row, Value


VALUE_BYTES = 256 * 1024
"""The largest value that is read on the loop, which takes about 0.1 ms."""
# How long after a write SQLite is asked at every look, and how often it is asked in any case.
RECENT_SECONDS = 1.0
ASK_SECONDS = 0.15


class Reader:
    def __init__(self, path: str, queries: dict[str, str]) -> None:
        self.path = path
        self._sql = queries
        self._near = connect(path, BusyWait(), readonly=True)
        self._near.set_busy_handler(None)
        self._near.limit(apsw.SQLITE_LIMIT_LENGTH, VALUE_BYTES)
        self._far: apsw.Connection | None = None
        self._closed = False
        self._stamp = 0
        self._busy_until = self._asked = 0.0
        self._version = -1
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="holdfast-reader")

    async def fetch(self, name: str, params: Mapping[str, Value]) -> list[Row]:
        """A short indexed read."""
        try:
            return self._near.execute(self._sql[name], params).fetchall()
        except (apsw.BusyError, apsw.TooBigError):
            return await self.fetch_large(name, params)
        except apsw.Error as error:
            raise translate(error, self.path) from error

    async def fetch_large(self, name: str, params: Mapping[str, Value]) -> list[Row]:
        """A read whose size or cost is not small; the loop goes on meanwhile."""
        if self._closed:
            raise StorageClosed
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._fetch_far, name, params)

    def version(self) -> int:
        """Changes whenever any process has committed. Cheap enough to be asked often.

        SQLite is asked when the log was written to lately, and otherwise a few times a second: looking at the file's
        time costs a fraction of taking a read lock, but says nothing about when a commit can be read."""
        now = time.monotonic()
        stamp = _modified(f"{self.path}-wal")
        if stamp != self._stamp:
            self._stamp, self._busy_until = stamp, now + RECENT_SECONDS
        if now < self._busy_until or now - self._asked >= ASK_SECONDS:
            self._asked = now
            self._version = self._ask_version()
        return self._version

    def close(self) -> None:
        self._closed = True
        self._thread.shutdown(wait=True)
        if self._far is not None:
            self._far.close()
        self._near.close()

    def _ask_version(self) -> int:
        try:
            return int(str(self._near.execute("pragma data_version").get))
        except apsw.BusyError:
            return -1
        except apsw.Error as error:
            raise translate(error, self.path) from error

    def _fetch_far(self, name: str, params: Mapping[str, Value]) -> list[Row]:
        try:
            if self._far is None:
                self._far = connect(self.path, BusyWait(), readonly=True)
            return self._far.execute(self._sql[name], params).fetchall()
        except apsw.Error as error:
            raise translate(error, self.path) from error


def _modified(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0
