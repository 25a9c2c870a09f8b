"""Reading: a connection for short reads on the loop, and one named thread for everything else.

A read on the loop never waits for a lock: where SQLite would, the same read moves to the thread."""

from __future__ import annotations

import asyncio
import mmap
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import apsw

from holdfast.core.database.errors import StorageClosed
from holdfast.core.database.sqlite import BusyWait, connect, translate

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.database.unit import Row, Value


INDEX_HEADER = 48


class Reader:
    def __init__(self, path: str, queries: dict[str, str]) -> None:
        self.path = path
        self._sql = queries
        self._near = connect(path, BusyWait(), readonly=True)
        self._near.set_busy_handler(None)
        self._far: apsw.Connection | None = None
        self._closed = False
        self._index = self._shared_index()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="holdfast-reader")

    async def fetch(self, name: str, params: Mapping[str, Value]) -> list[Row]:
        """A short indexed read."""
        try:
            return self._near.execute(self._sql[name], params).fetchall()
        except apsw.BusyError:
            return await self.fetch_large(name, params)
        except apsw.Error as error:
            raise translate(error, self.path) from error

    async def fetch_large(self, name: str, params: Mapping[str, Value]) -> list[Row]:
        """A read whose size or cost is not small; the loop goes on meanwhile."""
        if self._closed:
            raise StorageClosed
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._fetch_far, name, params)

    def version(self) -> int:
        """Changes whenever any process has committed. Costs next to nothing, so it can be asked often.

        It is the header of the index that all connections of a WAL database share: SQLite itself compares it to see
        whether anything happened, and writes it once a commit can be read. Asking in SQL takes locks each time."""
        if self._closed:
            raise StorageClosed
        return int.from_bytes(self._index[:INDEX_HEADER], "little")

    def close(self) -> None:
        self._closed = True
        self._thread.shutdown(wait=True)
        if self._far is not None:
            self._far.close()
        self._near.close()
        self._index.close()

    def _shared_index(self) -> mmap.mmap:
        self._near.execute("select 1 from event_sequence limit 1").fetchall()  # brings the index into being
        with open(f"{self.path}-shm", "rb") as file:
            return mmap.mmap(file.fileno(), INDEX_HEADER, access=mmap.ACCESS_READ)

    def _fetch_far(self, name: str, params: Mapping[str, Value]) -> list[Row]:
        try:
            if self._far is None:
                self._far = connect(self.path, BusyWait(), readonly=True)
            return self._far.execute(self._sql[name], params).fetchall()
        except apsw.Error as error:
            raise translate(error, self.path) from error
