"""Reads: a connection for short reads on the event loop, and a thread with its own connection for all others.

Invariants
- A read on the loop never waits for a lock. If SQLite would wait, the read moves to the thread.
- A read on the loop copies no large value. If it finds one, it moves to the thread."""

from __future__ import annotations

import asyncio
import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar, overload

import apsw

from holdfast.core.database.errors import StorageClosed
from holdfast.core.database.rows import row_mapper
from holdfast.core.database.sqlite import BusyWait, connect, translate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import msgspec

    from holdfast.core.database.read import Read
    from holdfast.core.database.unit import Row, Value

T = TypeVar("T", bound="msgspec.Struct")

VALUE_BYTES = 256 * 1024
"""The largest value that is read on the loop, which takes about 0.1 ms."""
# For this long after a write, each call of `version` asks SQLite; otherwise this often.
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
        self._mappers: dict[tuple[str, type], Callable[[Iterable[Row]], list[Any]]] = {}
        self._stamp = 0
        self._busy_until = self._asked = 0.0
        self._version = -1
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="holdfast-reader")

    @overload
    async def fetch(self, name: str, params: Mapping[str, Value]) -> list[Row]: ...

    @overload
    async def fetch(self, name: str, params: Mapping[str, Value], into: type[T]) -> list[T]: ...

    async def fetch(self, name: str, params: Mapping[str, Value], into: Any = None) -> list[Any]:
        """A short indexed read."""
        try:
            return self._read(self._near, name, params, into)
        except (apsw.BusyError, apsw.TooBigError):
            return await self.fetch_large(name, params, into)
        except apsw.Error as error:
            raise translate(error, self.path) from error

    async def fetch_many(self, *reads: Read) -> list[list[Any]]:
        """Short indexed reads, one after the other."""
        found = []
        for read in reads:
            into: Any = read.into
            try:
                found.append(self._read(self._near, read.name, read.params, into))
            except (apsw.BusyError, apsw.TooBigError):
                found.append(await self.fetch_large(read.name, read.params, into))
            except apsw.Error as error:
                raise translate(error, self.path) from error
        return found

    @overload
    async def fetch_large(self, name: str, params: Mapping[str, Value]) -> list[Row]: ...

    @overload
    async def fetch_large(self, name: str, params: Mapping[str, Value], into: type[T]) -> list[T]: ...

    async def fetch_large(self, name: str, params: Mapping[str, Value], into: Any = None) -> list[Any]:
        """A read whose size or cost is not small. It runs on the reader's thread."""
        if self._closed:
            raise StorageClosed
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._fetch_far, name, params, into)

    async def fetch_large_many(self, *reads: Read) -> list[list[Any]]:
        if self._closed:
            raise StorageClosed

        def read_all() -> list[list[Any]]:
            return [self._fetch_far(read.name, read.params, read.into) for read in reads]

        return await asyncio.get_running_loop().run_in_executor(self._thread, read_all)

    def version(self) -> int:
        """A number that changes when any process has committed. Cheap enough to be called often.

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
            return int(self._near.execute("pragma data_version").get)
        except apsw.BusyError:
            return -1
        except apsw.Error as error:
            raise translate(error, self.path) from error

    def _fetch_far(self, name: str, params: Mapping[str, Value], into: Any) -> list[Any]:
        try:
            if self._far is None:
                self._far = connect(self.path, BusyWait(), readonly=True)
            return self._read(self._far, name, params, into)
        except apsw.Error as error:
            raise translate(error, self.path) from error

    def _read(self, connection: apsw.Connection, name: str, params: Mapping[str, Value], into: Any) -> list[Any]:
        cursor = connection.execute(self._sql[name], params)
        if into is None:
            return cursor.fetchall()
        mapper = self._mappers.get((name, into))
        if mapper is None:
            try:
                columns = [column[0] for column in cursor.get_description()]
            except apsw.ExecutionCompleteError:  # there are no rows
                return []
            mapper = self._mappers[name, into] = row_mapper(into, columns)
        return mapper(cursor.fetchall())


def _modified(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0
