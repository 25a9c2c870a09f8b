"""The interface of storage: `Database` is the protocol, `SqliteDatabase` its implementation."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

import apsw

from holdfast.core.database.errors import StorageUnavailable
from holdfast.core.database.outage import Outage
from holdfast.core.database.queries import load_queries
from holdfast.core.database.reader import Reader
from holdfast.core.database.rehearsal import PROJECTIONS as PROJECTIONS
from holdfast.core.database.sqlite import BusyWait as BusyWait
from holdfast.core.database.sqlite import prepare, translate
from holdfast.core.database.writer import Writer

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import msgspec

    from holdfast.core.database.read import Read
    from holdfast.core.database.unit import Committed, Row, Unit, Value

T = TypeVar("T", bound="msgspec.Struct")


class Reads(Protocol):
    """The part of a database that those need who only read."""

    @overload
    async def fetch(self, name: str, params: Mapping[str, Value]) -> list[Row]:
        """Run a short indexed query by name."""

    @overload
    async def fetch(self, name: str, params: Mapping[str, Value], into: type[T]) -> list[T]:
        """As above, with each row as a struct: columns and fields have the same names, see `rows.py`."""

    async def fetch_many(self, *reads: Read) -> list[list[Any]]:
        """The rows of several short queries, in one round trip. They run in this order, each as `fetch` does: a later
        one sees at least what an earlier one saw, and commits may fall between them."""

    @overload
    async def fetch_large(self, name: str, params: Mapping[str, Value]) -> list[Row]:
        """Run a query by name that may take long, without blocking the loop."""

    @overload
    async def fetch_large(self, name: str, params: Mapping[str, Value], into: type[T]) -> list[T]:
        """As above, with each row as a struct."""

    async def fetch_large_many(self, *reads: Read) -> list[list[Any]]:
        """The rows of several queries that may take long, one after the other, with one change of thread."""


class Database(Reads, Protocol):
    def submit(self, unit: Unit, on_commit: Callable[[Committed], None] | None = None) -> asyncio.Future[Committed]:
        """Queue a unit. Units of an aggregate commit in this order; the future resolves when the commit is synced."""

    def version(self) -> int:
        """A number that changes when another connection, of any process, has committed."""

    def waiting_since(self) -> float | None:
        """When the writer began to wait for another process (monotonic seconds), if it waits."""

    def queued(self) -> int:
        """How many units wait for a writer."""

    def identity(self) -> str:
        """Tells the server whose positions of the log these are from others; empty for a file."""

    def outage(self) -> Outage | None:
        """What commits or reads wait for, while the database cannot be used; for a status display."""

    def close(self) -> None:
        """Commit all queued units, then close the file."""


class SqliteDatabase:
    """One file, shared by any number of processes. Each has one writer thread and two readers."""

    def __init__(self, path: Path, *, busy: BusyWait | None = None) -> None:
        self.path = path
        self._queries = load_queries()
        prepare(path)
        try:
            self._writer = Writer(str(path), self._queries, busy=busy)
            self._reader = Reader(str(path), self._queries)
        except apsw.Error as error:
            raise translate(error, str(path)) from error
        except OSError as error:
            raise StorageUnavailable(str(path), str(error)) from error
        self.submit = self._writer.submit
        self.fetch = self._reader.fetch
        self.fetch_many = self._reader.fetch_many
        self.fetch_large = self._reader.fetch_large
        self.fetch_large_many = self._reader.fetch_large_many
        self.version = self._reader.version
        self.waiting_since = self._writer.waiting_since
        self.queued = self._writer.queued

    def identity(self) -> str:
        return ""

    def outage(self) -> Outage | None:
        since = self._writer.waiting_since()
        if since is None:
            return None
        return Outage(time.monotonic() - since, f"another process keeps {self.path} locked; commits wait")

    def close(self) -> None:
        # The writer goes last: only a connection that may write can fold the log back into the file.
        self._reader.close()
        self._writer.close()
