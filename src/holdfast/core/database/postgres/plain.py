"""One statement after the other on a connection, with COPY in both directions. Blocks.

Waiting is done here and not in libpq: a wait inside libpq's functions for COPY keeps the interpreter, so that no other
thread would run and no signal would be noticed."""

from __future__ import annotations

import select
from contextlib import suppress
from typing import TYPE_CHECKING

from psycopg import OperationalError
from psycopg.pq import ConnStatus, ExecStatus

from holdfast.core.database.postgres.errors import StatementFailed, failure
from holdfast.core.database.postgres.statement import encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from psycopg.pq.abc import PGresult

    from holdfast.core.database.postgres.connection import Connection
    from holdfast.core.database.unit import Value

FLUSHED_BYTES = 64 * 1024


class PlainConnection:
    """Raises StatementFailed, and OperationalError when the connection has ended."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._pgconn = connection.pgconn
        self._pgconn.exit_pipeline_mode()
        self._poll = select.poll()
        self._poll.register(self._pgconn.socket, select.POLLIN)

    def rows(self, sql: str, parameters: Sequence[Value] = ()) -> list[tuple[str | None, ...]]:
        """Run a statement; its rows as the server writes them."""
        self._pgconn.send_query_params(sql.encode(), [encode(value) for value in parameters])
        result = self._finish()
        return [] if result is None else _rows(result)

    def copy_from(self, sql: str) -> Iterator[bytes]:
        """The lines of `copy … to stdout`."""
        self._begin_copy(sql, ExecStatus.COPY_OUT)
        while True:
            size, data = self._pgconn.get_copy_data(1)
            if size > 0:
                yield bytes(data)
            elif size < 0:
                break
            else:
                self._wait(select.POLLIN)
                self._pgconn.consume_input()
        self._finish()

    def copy_to(self, sql: str, lines: Iterable[bytes]) -> None:
        """`copy … from stdin` with these lines."""
        self._begin_copy(sql, ExecStatus.COPY_IN)
        waiting = 0
        try:
            for line in lines:
                while not self._pgconn.put_copy_data(line):
                    self._flush()
                waiting += len(line)
                if waiting >= FLUSHED_BYTES:  # libpq keeps the rest in memory
                    self._flush()
                    waiting = 0
        except UnicodeError:  # a line cannot be made
            self._pgconn.put_copy_end(b"given up")
            with suppress(StatementFailed):
                self._finish()
            raise
        while not self._pgconn.put_copy_end():
            self._flush()
        self._finish()

    def close(self) -> None:
        self._connection.close()

    def _begin_copy(self, sql: str, expected: ExecStatus) -> None:
        self._pgconn.send_query(sql.encode())
        self._flush()
        result = self._next_result()
        if result is None or result.status != expected:
            self._finish()
            raise OperationalError("the server does not begin to copy") if result is None else failure(result)

    def _finish(self) -> PGresult | None:
        """Read what is left of a statement; its last result. Raises for one that failed."""
        self._flush()
        last: PGresult | None = None
        failed: PGresult | None = None
        while (result := self._next_result()) is not None:
            last = result
            if result.status == ExecStatus.FATAL_ERROR:
                failed = result
        if failed is not None:
            raise failure(failed)
        return last

    def _next_result(self) -> PGresult | None:
        while self._pgconn.is_busy():
            self._wait(select.POLLIN)
            self._pgconn.consume_input()
        result = self._pgconn.get_result()
        if result is None and self._pgconn.status == ConnStatus.BAD:
            raise OperationalError(self._pgconn.get_error_message().strip() or "the connection ended")
        return result

    def _flush(self) -> None:
        """Send all. The server may want to be read meanwhile."""
        while self._pgconn.flush():
            if self._wait(select.POLLIN | select.POLLOUT) & ~select.POLLOUT:
                self._pgconn.consume_input()

    def _wait(self, events: int) -> int:
        self._poll.modify(self._pgconn.socket, events)
        return self._poll.poll()[0][1]


def _rows(result: PGresult) -> list[tuple[str | None, ...]]:
    return [
        tuple(
            None if (value := result.get_value(row, column)) is None else value.decode()
            for column in range(result.nfields)
        )
        for row in range(result.ntuples)
    ]
