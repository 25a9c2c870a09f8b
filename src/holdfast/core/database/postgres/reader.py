"""Reads: a pipelined connection on the event loop for short ones, and threads with connections of their own for others.

Invariants
- A read that begins after a commit was acknowledged sees it: the server that commits is asked, each time.
- Reads are answered in the order in which they were sent; one that fails, or whose caller has gone, concerns no other.
- A large result does not hold the event loop: most of it is converted on a thread.
- While the database is away, reads wait, and fail with StorageUnavailable after `AWAY_SECONDS`. What was sent over a
  lost connection is sent again."""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar, overload

from psycopg.pq import ExecStatus

from holdfast.core.database.errors import StorageClosed, StorageError, StorageUnavailable
from holdfast.core.database.postgres.address import LARGE_READ_SECONDS, READ_SECONDS, READING, READING_LARGE
from holdfast.core.database.postgres.connection import Connection, open_connection
from holdfast.core.database.postgres.errors import ConnectionLost, StatementFailed, failure, translate
from holdfast.core.database.postgres.rows import RowReaders
from holdfast.core.database.read import Read

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import msgspec
    from psycopg.pq.abc import PGresult

    from holdfast.core.database.postgres.address import Address
    from holdfast.core.database.postgres.statement import Compiled, Statements
    from holdfast.core.database.unit import Row, Value

T = TypeVar("T", bound="msgspec.Struct")

AWAY_SECONDS = 10.0
SILENT_SECONDS = READ_SECONDS + 10
LOSSES = 5
LARGE_READERS = 2
PLANNED_BY_VALUES = frozenset(
    f"{kind}_{order}" for kind in ("session.list", "session.children", "overview.roots") for order in ("asc", "desc")
)
"""Lists, whose conditions are optional: which index serves depends on those that are given."""
FIRST_DELAY, LAST_DELAY = 0.05, 1.0

log = logging.getLogger(__name__)


class Request:
    """Reads that one caller waits for."""

    __slots__ = ("future", "losses", "reads", "sent", "steps", "until")

    def __init__(self, reads: Sequence[Read], steps: list[tuple[Compiled, list[bytes | None]]], future: Any) -> None:
        self.reads = reads
        self.steps = steps
        self.future: asyncio.Future[list[PGresult]] = future
        self.until = 0.0
        self.sent = 0.0
        self.losses = 0
        """How many connections ended while it was under way."""


class Reader:
    def __init__(self, address: Address, statements: Statements) -> None:
        self._address = address
        self._statements = statements
        self._readers = RowReaders()
        self._pipelines: dict[asyncio.AbstractEventLoop, Pipeline] = {}
        self._large = LargeReader(address)
        self._closed = False

    @overload
    async def fetch(self, name: str, params: Mapping[str, Value]) -> list[Row]: ...

    @overload
    async def fetch(self, name: str, params: Mapping[str, Value], into: type[T]) -> list[T]: ...

    async def fetch(self, name: str, params: Mapping[str, Value], into: Any = None) -> list[Any]:
        """A short indexed read."""
        if name in PLANNED_BY_VALUES:
            return await self.fetch_large(name, params, into)
        (result,) = await self._ask((Read(name, params, into),))
        return await self._rows(name, into, result)

    async def fetch_many(self, *reads: Read) -> list[list[Any]]:
        """Short indexed reads, in one round trip."""
        if not reads:
            return []
        results = await self._ask(reads)
        return [await self._rows(read.name, read.into, result) for read, result in zip(reads, results, strict=True)]

    @overload
    async def fetch_large(self, name: str, params: Mapping[str, Value]) -> list[Row]: ...

    @overload
    async def fetch_large(self, name: str, params: Mapping[str, Value], into: type[T]) -> list[T]: ...

    async def fetch_large(self, name: str, params: Mapping[str, Value], into: Any = None) -> list[Any]:
        """A read whose size or cost is not small. It runs on a thread."""
        (found,) = await self.fetch_large_many(Read(name, params, into))
        return found

    async def fetch_large_many(self, *reads: Read) -> list[list[Any]]:
        if self._closed:
            raise StorageClosed
        compiled = [self._statements.get(read.name) for read in reads]
        values = [statement.values(read.params) for statement, read in zip(compiled, reads, strict=True)]

        def read_all() -> list[list[Any]]:
            found = []
            for statement, given, read in zip(compiled, values, reads, strict=True):
                result = self._large.read(statement, given)
                found.append(self._readers.of(read.name, read.into, result).rows(result))
            return found

        return await asyncio.get_running_loop().run_in_executor(self._large.threads, read_all)

    def close(self) -> None:
        self._closed = True
        for pipeline in self._pipelines.values():
            pipeline.close()
        self._large.close()

    async def _rows(self, name: str, into: Any, result: PGresult) -> list[Any]:
        reader = self._readers.of(name, into, result)
        found, next_row = reader.short_rows(result)
        if next_row < result.ntuples:
            found += await asyncio.to_thread(reader.rows, result, next_row)
        return found

    def _ask(self, reads: Sequence[Read]) -> asyncio.Future[list[PGresult]]:
        if self._closed:
            raise StorageClosed
        loop = asyncio.get_running_loop()
        pipeline = self._pipelines.get(loop)
        if pipeline is None:
            for other in [other for other in self._pipelines if other.is_closed()]:
                self._pipelines.pop(other).abandon()
            pipeline = self._pipelines[loop] = Pipeline(loop, self._address)
        get = self._statements.get
        steps = [((compiled := get(read.name)), compiled.values(read.params)) for read in reads]
        request = Request(reads, steps, loop.create_future())
        pipeline.ask(request)
        return request.future


class Pipeline:
    """The connection of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, address: Address) -> None:
        self._loop = loop
        self._address = address
        self._connection: Connection | None = None
        self._socket = -1
        self._sent: deque[Request] = deque()
        self._waiting: list[Request] = []
        """What is to be sent when there is a connection."""
        self._connecting: asyncio.Task[None] | None = None
        self._writing = False
        self._watch: asyncio.TimerHandle | None = None
        self._closed = False

    def ask(self, request: Request) -> None:
        if self._connection is None:
            request.until = time.monotonic() + AWAY_SECONDS
            self._waiting.append(request)
            self._connect()
            return
        try:
            self._send(self._connection, request)
        except ConnectionLost as error:
            self._lose(error)

    def close(self) -> None:
        self._closed = True
        self._drop()
        for request in (*self._sent, *self._waiting):
            _fail(request, StorageClosed())
        self._sent.clear()
        self._waiting.clear()

    def abandon(self) -> None:
        """The loop is closed: nobody waits any more."""
        if self._connection is not None:
            self._connection.close()

    def _send(self, connection: Connection, request: Request) -> None:
        self._sent.append(request)
        request.sent = time.monotonic()
        if self._watch is None:
            self._watch = self._loop.call_later(SILENT_SECONDS, self._look)
        connection.queue_settings()
        for compiled, values in request.steps:
            connection.queue(compiled, values)
        connection.sync()
        if connection.flush() and not self._writing:
            self._writing = True
            self._loop.add_writer(self._socket, self._writable)

    def _look(self) -> None:
        """The server ends what takes too long; one that does not even do that is not there."""
        self._watch = None
        if not self._sent:
            return
        left = self._sent[0].sent + SILENT_SECONDS - time.monotonic()
        if left <= 0:
            self._lose(ConnectionLost("the server does not answer"))
        else:
            self._watch = self._loop.call_later(left, self._look)

    def _writable(self) -> None:
        assert self._connection is not None
        try:
            if not self._connection.flush():
                self._loop.remove_writer(self._socket)
                self._writing = False
        except ConnectionLost as error:
            self._lose(error)

    def _readable(self) -> None:
        connection = self._connection
        assert connection is not None
        try:
            connection.consume()
            while (results := connection.receive()) is not None:
                self._answer(self._sent.popleft(), results)
        except ConnectionLost as error:
            self._lose(error)
        except Exception as error:
            # An exception in a callback would leave every caller waiting.
            log.exception("reading from %s", self._address.name)
            self._lose(ConnectionLost(str(error)))

    def _answer(self, request: Request, results: list[PGresult]) -> None:
        if request.future.done():
            return
        for result in results:
            if result.status == ExecStatus.FATAL_ERROR:
                _fail(request, translate(failure(result), self._address, READ_SECONDS))
                return
        request.future.set_result(results)

    def _lose(self, error: ConnectionLost) -> None:
        log.info("%s: the connection for reads was lost: %s", self._address.name, error)
        self._drop()
        until = time.monotonic() + AWAY_SECONDS
        for request in self._sent:
            request.until = request.until or until
            request.losses += 1
        self._waiting = [*self._sent, *self._waiting]
        self._sent.clear()
        if self._waiting:
            self._connect()

    def _drop(self) -> None:
        if self._connection is not None:
            if not self._loop.is_closed():
                self._loop.remove_reader(self._socket)
                self._loop.remove_writer(self._socket)
            self._writing = False
            self._connection.close()
            self._connection = None
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    def _connect(self) -> None:
        if self._connecting is None and not self._closed:
            self._connecting = self._loop.create_task(self._reconnect(), name="holdfast-reader")

    async def _reconnect(self) -> None:
        """Connect, however long that takes, while anybody waits."""
        delay = FIRST_DELAY
        try:
            while self._waiting and not self._closed:
                try:
                    connection = await self._open()
                except StorageUnavailable as error:
                    self._expire(error)
                    await asyncio.sleep(random.uniform(delay / 2, delay))
                    delay = min(delay * 2, LAST_DELAY)
                    continue
                self._use(connection)
                return
        finally:
            self._connecting = None

    async def _open(self) -> Connection:
        return await asyncio.to_thread(open_connection, self._address, READING, seconds=AWAY_SECONDS)

    def _use(self, connection: Connection) -> None:
        if self._closed:
            connection.close()
            return
        self._connection = connection
        self._socket = connection.pgconn.socket
        self._loop.add_reader(self._socket, self._readable)
        self._give_up_on_culprits()
        waiting, self._waiting = self._waiting, []
        self._connecting = None
        for place, request in enumerate(waiting):
            if request.future.done():
                continue
            try:
                self._send(connection, request)
            except ConnectionLost as error:
                self._waiting = waiting[place + 1 :]
                self._lose(error)
                return

    def _give_up_on_culprits(self) -> None:
        """A read with which every connection ends is not tried for ever."""
        now = time.monotonic()
        for request in self._waiting:
            if request.losses >= LOSSES and now >= request.until:
                _fail(request, StorageUnavailable(self._address.name, "connections end while this is read"))

    def _expire(self, error: StorageError) -> None:
        now = time.monotonic()
        for request in self._waiting:
            if now >= request.until:
                _fail(request, error)
        self._waiting = [request for request in self._waiting if not request.future.done()]


class LargeReader:
    """Threads with a connection each."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._idle: list[Connection] = []
        self._lock = threading.Lock()
        self._closed = False
        self.threads = ThreadPoolExecutor(max_workers=LARGE_READERS, thread_name_prefix="holdfast-reader")

    def read(self, compiled: Compiled, values: list[bytes | None]) -> PGresult:
        until = time.monotonic() + AWAY_SECONDS
        delay = FIRST_DELAY
        while True:
            try:
                connection = self._take(until)
                (result,) = connection.run([(compiled, values)], LARGE_READ_SECONDS + 10)
            except StatementFailed as error:
                self._give_back(connection)
                raise translate(error, self._address, LARGE_READ_SECONDS) from error
            except (ConnectionLost, StorageUnavailable, TimeoutError) as error:
                if not isinstance(error, StorageUnavailable):
                    connection.close()
                if self._closed:
                    raise StorageClosed from error
                if time.monotonic() > until:
                    raise StorageUnavailable(self._address.name, str(error)) from error
                time.sleep(random.uniform(delay / 2, delay))
                delay = min(delay * 2, LAST_DELAY)
                continue
            self._give_back(connection)
            return result

    def close(self) -> None:
        self._closed = True
        self.threads.shutdown(wait=True)
        for connection in self._idle:
            connection.close()

    def _take(self, until: float) -> Connection:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return open_connection(self._address, READING_LARGE, seconds=max(until - time.monotonic(), 0.1))

    def _give_back(self, connection: Connection) -> None:
        with self._lock:
            self._idle.append(connection)


def _fail(request: Request, error: Exception) -> None:
    if not request.future.done():
        request.future.set_exception(error)
