"""One connection in pipeline mode: statements are queued, a sync ends a group, and a group's results come together.

Invariants
- Results are matched to statements by order alone. A statement that fails makes the server skip the rest of its group,
  and no other group.
- A statement is prepared at its first use, in the group that uses it, and counts as prepared only if that succeeded.
- Sending never blocks while the server waits for us to read.
- After ConnectionLost a connection is of no use; what it had sent may have been executed."""

from __future__ import annotations

import logging
import os
import select
import socket
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from psycopg import Error, pq
from psycopg.pq import ConnStatus, ExecStatus, Format, PollingStatus

from holdfast.core.database.errors import StoragePooled, StorageReplaced, StorageTooOld, StorageUnavailable
from holdfast.core.database.postgres.address import LISTENING, READING, WRITING, conninfo
from holdfast.core.database.postgres.errors import (
    GONE,
    READ_ONLY,
    STALE_PLAN,
    UNPREPARED,
    ConnectionLost,
    failure,
    refused_connection,
)
from holdfast.core.database.postgres.outages import COMMITS, NOTICES, READS
from holdfast.core.database.postgres.statement import SETTINGS, Compiled, encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from psycopg.pq.abc import PGconn, PGresult

    from holdfast.core.database.postgres.address import Address

CONNECT_SECONDS = 10.0
OLDEST_SERVER = 140_000
PROCESS = Compiled("select pg_backend_pid()")
IDENTITY = Compiled("select system_identifier from pg_control_system()")
PURPOSES = ((WRITING, COMMITS), (READING, READS), (LISTENING, NOTICES))

# What a queued message is, to match its result.
QUERY, SETTING = None, b""

log = logging.getLogger(__name__)


class Connection:
    """Used by one thread at a time."""

    def __init__(
        self, pgconn: PGconn, address: Address, settings: Mapping[str, str], *, pooled: bool, prepares: bool
    ) -> None:
        self.pgconn = pgconn
        self.address = address
        self.opened = time.monotonic()
        self._prepares = prepares
        self._writes = "default_transaction_read_only" not in settings
        self._prepared: set[bytes] = set()
        self._settings = (
            [encode(part) for pair in address.settings(settings).items() for part in pair] if pooled else []
        )
        self._sent: list[bytes | None] = []
        """The group being queued: the name of a statement to prepare, or what else it is."""
        self._groups: deque[list[bytes | None]] = deque()
        self._results: list[PGresult] = []
        self._current: PGresult | None = None
        self._poll = select.poll()
        self._poll.register(pgconn.socket, select.POLLIN)
        pgconn.nonblocking = 1
        pgconn.enter_pipeline_mode()

    def queue(self, statement: Compiled, values: Sequence[bytes | None]) -> None:
        formats = [Format.BINARY] * len(values) if statement.binary else None
        try:
            if self._prepares:
                key = statement.key
                if key not in self._prepared:
                    self.pgconn.send_prepare(key, statement.sql)
                    self._prepared.add(key)
                    self._sent.append(key)
                self.pgconn.send_query_prepared(key, values, formats)
            else:
                self.pgconn.send_query_params(statement.sql, values, param_formats=formats)
        except Error as error:
            raise ConnectionLost(str(error).strip()) from error
        self._sent.append(QUERY)

    def queue_once(self, statement: Compiled) -> None:
        """A statement without values that is not prepared."""
        try:
            self.pgconn.send_query_params(statement.sql, None)
        except Error as error:
            raise ConnectionLost(str(error).strip()) from error
        self._sent.append(QUERY)

    def queue_settings(self) -> None:
        """Behind a pooler, each transaction has to be told what other connections have for good."""
        if self._settings:
            self.queue(SETTINGS.of(len(self._settings) // 2), self._settings)
            self._sent[-1] = SETTING

    def sync(self) -> None:
        """End the group. What fits into the socket's buffer is sent."""
        self._groups.append(self._sent)
        self._sent = []
        try:
            self.pgconn.pipeline_sync()
        except Error as error:
            raise ConnectionLost(str(error).strip()) from error

    def flush(self) -> bool:
        """Send what can be sent; whether something is left."""
        try:
            return bool(self.pgconn.flush())
        except Error as error:
            raise ConnectionLost(str(error).strip()) from error

    def consume(self) -> None:
        try:
            self.pgconn.consume_input()
        except Error as error:
            raise ConnectionLost(str(error).strip()) from error

    def receive(self) -> list[PGresult] | None:
        """The results of the oldest group, if all have arrived. The error of a hidden statement stands for the next."""
        pgconn = self.pgconn
        ends = 0
        while self._groups and not pgconn.is_busy():
            result = pgconn.get_result()
            if result is None:
                if self._current is not None:
                    self._results.append(self._current)
                    self._current = None
                    ends = 0
                elif (ends := ends + 1) > 1:
                    raise ConnectionLost(_message(pgconn))
                continue
            if result.status == ExecStatus.PIPELINE_SYNC:
                results, self._results = self._results, []
                return self._visible(self._groups.popleft(), results)
            if result.status == ExecStatus.FATAL_ERROR:
                self._look_at_error(result)
            self._current = result
        return None

    def exchange(self, timeout: float | None = None) -> list[PGresult]:
        """End the group, and wait for its results. Raises TimeoutError, after which the connection is of no use."""
        until = None if timeout is None else time.monotonic() + timeout
        self.sync()
        while self.flush():
            if self._wait(select.POLLIN | select.POLLOUT, until) & ~select.POLLOUT:
                self.consume()
        while (results := self.receive()) is None:
            self._wait(select.POLLIN, until)
            self.consume()
        return results

    def run(
        self, steps: Iterable[tuple[Compiled, Sequence[bytes | None]]], timeout: float | None = None
    ) -> list[PGresult]:
        """Run statements as one implicit transaction. Raises StatementFailed for the first that fails."""
        self.queue_settings()
        for statement, values in steps:
            self.queue(statement, values)
        results = self.exchange(timeout)
        for result in results:
            if result.status == ExecStatus.FATAL_ERROR:
                raise failure(result)
        return results

    def close(self) -> None:
        self.pgconn.finish()

    def break_off(self) -> None:
        """End it from another thread: whoever waits for an answer gets ConnectionLost."""
        with suppress(OSError, Error), socket.socket(fileno=os.dup(self.pgconn.socket)) as handle:
            handle.shutdown(socket.SHUT_RDWR)

    def _wait(self, events: int, until: float | None) -> int:
        self._poll.modify(self.pgconn.socket, events)
        left = None if until is None else max(until - time.monotonic(), 0) * 1000
        ready = self._poll.poll(left)
        if not ready:
            raise TimeoutError
        return ready[0][1]

    def _look_at_error(self, result: PGresult) -> None:
        """Raise for what ends the use of the connection."""
        error = failure(result)
        state = error.sqlstate
        if state in GONE or (state == READ_ONLY and self._writes) or self.pgconn.status == ConnStatus.BAD:
            raise ConnectionLost(error.message)
        if self._prepares and state in UNPREPARED:
            if self.address.prepares:
                self.address.prepares = False
                log.warning(
                    "%s: the pooler in between keeps no prepared statements; each is parsed anew", self.address.name
                )
            raise ConnectionLost(error.message)
        if state[:2] == "08":
            raise ConnectionLost(error.message)
        if state == STALE_PLAN and self._prepares and "cached plan" in error.message:
            raise ConnectionLost(error.message)

    def _visible(self, group: list[bytes | None], results: list[PGresult]) -> list[PGresult]:
        if not any(mark is not QUERY for mark in group):
            return results
        found: list[PGresult] = []
        failed: PGresult | None = None
        for mark, result in zip(group, results, strict=True):
            if mark is QUERY:
                found.append(failed or result)
                failed = None
                continue
            if result.status == ExecStatus.FATAL_ERROR:
                failed = result
            if mark and result.status != ExecStatus.COMMAND_OK:
                self._prepared.discard(mark)
        return found


def open_connection(
    address: Address, settings: Mapping[str, str], *, direct: bool = False, seconds: float = CONNECT_SECONDS
) -> Connection:
    """Connect, in at most `seconds`. Blocks: only threads may call it. Raises StorageUnavailable."""
    purpose = next((name for known, name in PURPOSES if settings is known), None)
    try:
        connection = _open(address, settings, direct=direct, seconds=seconds)
    except StorageUnavailable as error:
        if purpose is not None:
            address.outages.failed(purpose, error)
        raise
    address.outages.connected(purpose or "")
    return connection


def _open(address: Address, settings: Mapping[str, str], *, direct: bool, seconds: float) -> Connection:
    pooled = address.pooled and not direct
    parameters = address.parameters(settings, direct=direct, pooled=pooled)
    try:
        pgconn = _connect(conninfo(parameters), time.monotonic() + seconds)
    except Error as error:
        if "unsupported startup parameter" in str(error) and not pooled:
            return _open_pooled(address, settings, direct=direct, seconds=seconds)
        raise refused_connection(address, str(error)) from None
    except TimeoutError:
        raise StorageUnavailable(address.name, f"no answer within {seconds:.0f} s") from None
    if pgconn.server_version < OLDEST_SERVER:
        version = pgconn.server_version // 10_000
        pgconn.finish()
        raise StorageTooOld(address.name, version)
    try:
        connection = Connection(pgconn, address, settings, pooled=pooled, prepares=direct or address.prepares)
    except Error as error:
        raise refused_connection(address, str(error)) from None
    try:
        process, server = _who_answers(connection, seconds)
        if server is not None:
            _recognise(address, server)
    except BaseException:
        connection.close()
        raise
    if process != pgconn.backend_pid and not pooled:
        # A pooler that was told to ignore the settings of a connection. It has numbers of its own.
        connection.close()
        return _open_pooled(address, settings, direct=direct, seconds=seconds)
    return connection


def _open_pooled(address: Address, settings: Mapping[str, str], *, direct: bool, seconds: float) -> Connection:
    if direct:
        raise StoragePooled(address.name)
    log.info("%s leads to a pooler", address.name)
    address.pooled = True
    return _open(address, settings, direct=False, seconds=seconds)


def _who_answers(connection: Connection, seconds: float) -> tuple[int, str | None]:
    """The number of the server's process, and the identifier of the server; None if this role may not ask for it."""
    connection.queue_once(PROCESS)
    connection.queue_once(IDENTITY)
    try:
        process, server = connection.exchange(seconds)
        if process.status != ExecStatus.TUPLES_OK:
            raise refused_connection(connection.address, failure(process).message)
        found = server.get_value(0, 0) if server.status == ExecStatus.TUPLES_OK else None
        return int(process.get_value(0, 0) or 0), None if found is None else found.decode()
    except (ConnectionLost, TimeoutError) as error:
        raise StorageUnavailable(connection.address.name, str(error) or f"no answer within {seconds:.0f} s") from None


def _recognise(address: Address, server: str) -> None:
    """Refuse a server that has taken the place of another one. Positions in the log are numbers of its transactions:
    those that this process has read mean nothing on the new one."""
    if address.server is None:
        address.server = server
    elif address.server != server:
        raise StorageReplaced(address.name)


def _connect(parameters: bytes, until: float) -> PGconn:
    pgconn = pq.PGconn.connect_start(parameters)
    try:
        while True:
            if pgconn.status == ConnStatus.BAD:
                raise Error(_message(pgconn))
            match pgconn.connect_poll():
                case PollingStatus.OK:
                    return pgconn
                case PollingStatus.READING:
                    events = select.POLLIN
                case PollingStatus.WRITING:
                    events = select.POLLOUT
                case _:
                    raise Error(_message(pgconn))
            poll = select.poll()  # anew each time: the socket is another one for each host that is tried
            poll.register(pgconn.socket, events)
            if not poll.poll(max(until - time.monotonic(), 0) * 1000):
                raise TimeoutError
    except BaseException:
        pgconn.finish()
        raise


def _message(pgconn: PGconn) -> str:
    return pgconn.get_error_message().strip() or "the connection was closed"
