"""A PostgreSQL database as the source or the target of a transfer."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from psycopg import Error

from holdfast.core.database.errors import StorageError, StorageUnavailable, TransferRefused
from holdfast.core.database.postgres.connection import open_connection
from holdfast.core.database.postgres.copy_format import CONVERSIONS, copied_row, copy_line, text
from holdfast.core.database.postgres.errors import StatementFailed, translate
from holdfast.core.database.postgres.plain import PlainConnection
from holdfast.core.database.postgres.text import escape, restore
from holdfast.core.database.transfer.mark import (
    COMPLETE,
    CREATE,
    MARKS,
    PROGRESS,
    SOURCE,
    SQLSTATE,
    TARGET,
    TRIGGER,
    Mark,
    explain,
)
from holdfast.core.database.transfer.places import decode_key, encode_key
from holdfast.core.database.transfer.store import OwnerRow, Place, StoredEvent
from holdfast.core.database.transfer.tables import ALWAYS_THERE, COPIED, EVENTS, GUARDED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from holdfast.core.database.postgres.address import Address
    from holdfast.core.database.transfer.tables import Table
    from holdfast.core.database.unit import Row, Value

LOCK_SECONDS = 10.0
LOCK_KEY = 5  # 0, 1, 4 and numbers with the bit 2 are locks of flights and of migrations
LOCK_TRIES, LOCK_PAUSE = 20, 0.1
SETTINGS = {
    # Whatever the role has: a large table takes as long as it takes.
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "lock_timeout": f"{LOCK_SECONDS * 1000:.0f}",
    # Rows are read in the order of a key: by its index, so that nothing has to be sorted.
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
}
ID = "holdfast.transfer"
"""A setting of the connection that may write to an incomplete copy."""

IDENTITY = """
select concat_ws('/', (select system_identifier from pg_control_system()),
  (select oid from pg_database where datname = current_database()), current_schema())
"""
REFUSE = f"""
create or replace function {TRIGGER}() returns trigger language plpgsql as $$
begin
  if tg_argv[0] <> '{TARGET}' or current_setting('{ID}', true) is distinct from tg_argv[1] then
    raise exception using errcode = '{SQLSTATE}', message = tg_argv[2];
  end if;
  return null;
end $$
"""
AGGREGATES = """
select aggregate_id, first, fork from (
  select aggregate_id, coalesce((
      select position::text::bigint from event where aggregate_id = s.aggregate_id order by seq limit 1), -1) as first,
    exists (select 1 from session where id = s.aggregate_id and fork is not null)::int as fork
  from event_sequence s) begun
"""


class PostgresTransferStore:
    """Writes on one connection, which also has the lock; each stream of rows has one of its own."""

    def __init__(self, address: Address) -> None:
        self.name = address.name
        self._address = address
        self._idle: list[PlainConnection] = []
        self._connection = self._open()
        self._all = self._connection.rows
        with self._translated():
            self.identity = f"postgresql:{self._all(IDENTITY)[0][0]}"

    def lock(self) -> None:
        """The server needs a moment to notice that the process before has ended."""
        for _ in range(LOCK_TRIES):
            with self._translated():
                ((held,),) = self._all(f"select pg_try_advisory_lock({self._address.lock_class}, {LOCK_KEY})")
            if held == "t":
                return
            time.sleep(LOCK_PAUSE)
        raise TransferRefused(f"another `holdfast migrate` works on {self.name}")

    def marks(self) -> dict[str, Mark]:
        with self._translated():
            if self._all(f"select to_regclass('{MARKS}')") == [(None,)]:
                return {}
            rows = self._all(f"select role, id, other, identity, state from {MARKS}")
        found = [Mark(*(restore(str(value)) for value in row)) for row in rows]
        return {mark.role: mark for mark in found}

    def filled_table(self) -> str | None:
        with self._translated():
            names = [EVENTS, *(table.name for table in COPIED if table.name != ALWAYS_THERE)]
            return next((name for name in names if self._all(f"select 1 from {name} limit 1")), None)

    def mark(self, mark: Mark, check: Callable[[list[OwnerRow]], None]) -> None:
        with self._transaction():
            # Waits for every change that is under way, and keeps all others waiting until the mark is there.
            self._all(f"lock table {', '.join(GUARDED)} in share row exclusive mode")
            owners = self._all("select id, pid, name, holdfast_locked(number) from owner")
            check([OwnerRow(id or "", int(pid or 0), name, _whole(locked)) for id, pid, name, locked in owners])
            for statement in (*CREATE.split(";"), REFUSE):
                self._all(statement)
            self._drop_triggers()
            if mark.role == TARGET:
                self._empty()
            self._all(f"delete from {MARKS} where role = $1", (mark.role,))
            self._all(
                f"insert into {MARKS} (role, id, other, identity, state) values ($1, $2, $3, $4, $5)", tuple(mark)
            )
            self._create_triggers(mark)
            if mark.role == TARGET:
                self._all(f"select set_config('{ID}', $1, false)", (mark.id,))

    def resume(self, mark: Mark) -> None:
        with self._translated():
            self._all(f"select set_config('{ID}', $1, false)", (mark.id,))

    def complete(self, role: str) -> None:
        with self._transaction():
            self._all(f"update {MARKS} set state = $1 where role = $2", (COMPLETE, role))
            self._drop_triggers()
            if role == TARGET:
                self._all(f"delete from {PROGRESS}")
            else:
                self._create_triggers(self.marks()[SOURCE])

    def unmark(self, role: str) -> None:
        with self._transaction():
            self._drop_triggers()
            if role == TARGET:
                self._empty()
                self._all(f"insert into {ALWAYS_THERE} (id, revision) values (0, 0)")
            self._all(f"delete from {MARKS} where role = $1", (role,))

    def progress(self) -> dict[str, Place]:
        with self._translated():
            rows = self._all(f"select name, place, copied from {PROGRESS}")
        return {str(name): Place(decode_key(restore(str(place))), int(str(copied))) for name, place, copied in rows}

    def columns(self, table: str) -> list[str]:
        return [name for name, _ in self._types(table) if (table, name) != (EVENTS, "position")]

    def count(self, table: str) -> int:
        with self._translated():
            return int(str(self._all(f"select count(*) from {table}")[0][0]))

    def rows(self, table: Table, columns: Sequence[str], after: tuple[Value, ...] | None = None) -> Iterator[Row]:
        key = ", ".join(table.key)
        where = f" where ({key}) > ({', '.join(map(_literal, after))})" if after is not None else ""
        yield from self._stream(
            f"select {', '.join(columns)} from {table.name}{where} order by {key}", self._converts(table.name, columns)
        )

    def events(self, columns: Sequence[str], after: tuple[Value, ...] | None = None) -> Iterator[StoredEvent]:
        where = reached = ""
        if after is not None:
            first, id, seq = map(_literal, after)
            where = f" where (first, aggregate_id) >= ({first}, {id})"
            reached = f" and (aggregate_id <> {id} or seq > {seq})"
        chosen = ", ".join(columns)
        # The outer rows are sorted, and the inner ones of each are: nothing sorts all events.
        sql = f"""
          select begun.first, begun.fork, found.* from (
            {AGGREGATES}{where} order by first, aggregate_id) begun
          cross join lateral (
            select {chosen} from {EVENTS} where aggregate_id = begun.aggregate_id{reached} order by seq) found
        """
        for first_position, fork, *row in self._stream(sql, [int, int, *self._converts(EVENTS, columns)]):
            yield StoredEvent(int(str(first_position)), bool(fork), tuple(row))

    def events_of(self, aggregate_id: str, columns: Sequence[str]) -> Iterator[Row]:
        chosen = f"select {', '.join(columns)} from {EVENTS} where aggregate_id = {_literal(aggregate_id)} order by seq"
        return self._stream(chosen, self._converts(EVENTS, columns))

    def write(self, table: str, columns: Sequence[str], rows: Sequence[Row], place: Place) -> None:
        with self._transaction():
            self._connection.copy_to(f"copy {table} ({', '.join(columns)}) from stdin", map(copy_line, rows))
            progress = f"""
              insert into {PROGRESS} (name, place, copied) values ($1, $2, $3)
              on conflict (name) do update set place = excluded.place, copied = excluded.copied
            """
            self._all(progress, (table, encode_key(place.key), place.copied))

    def settle(self) -> None:
        with self._translated():
            self._all(f"analyze {EVENTS}, {', '.join(table.name for table in COPIED)}")

    def close(self) -> None:
        for connection in (*self._idle, self._connection):
            connection.close()
        self._idle = []

    def _open(self) -> PlainConnection:
        return PlainConnection(open_connection(self._address, SETTINGS, direct=True))

    def _types(self, table: str) -> list[tuple[str, int]]:
        found = "select attname, atttypid from pg_attribute where attrelid = to_regclass($1)"
        with self._translated():
            rows = self._all(f"{found} and attnum > 0 and not attisdropped order by attnum", (table,))
        return [(str(name), int(str(kind))) for name, kind in rows]

    def _converts(self, table: str, columns: Sequence[str]) -> list[Callable[[bytes], Value]]:
        types = dict(self._types(table))
        return [CONVERSIONS.get(types[name], text) for name in columns]

    def _create_triggers(self, mark: Mark) -> None:
        arguments = ", ".join(map(_literal, (mark.role, mark.id, explain(self.name, mark))))
        for table in GUARDED:
            self._all(
                f"create trigger {TRIGGER} before insert or update or delete or truncate on {table}"
                f" for each statement execute function {TRIGGER}({arguments})"
            )

    def _drop_triggers(self) -> None:
        for table in GUARDED:
            self._all(f"drop trigger if exists {TRIGGER} on {table}")

    def _empty(self) -> None:
        self._all(f"truncate {EVENTS}, {PROGRESS}, {', '.join(table.name for table in COPIED)}")

    def _stream(self, sql: str, converts: Sequence[Callable[[bytes], Value]]) -> Iterator[Row]:
        connection = self._idle.pop() if self._idle else self._open()
        try:
            with self._translated():
                for line in connection.copy_from(f"copy ({sql}) to stdout"):
                    yield copied_row(line, converts)
        except BaseException:  # in the middle of its rows it is of no further use
            connection.close()
            raise
        self._idle.append(connection)

    def _commit(self) -> None:
        self._all("commit")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._translated():
            self._all("begin")
            try:
                yield
                self._commit()
            except (StorageError, UnicodeError):  # the connection is there
                self._all("rollback")
                raise

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except StatementFailed as error:
            raise translate(error, self._address, LOCK_SECONDS) from error
        except Error as error:
            raise StorageUnavailable(self.name, str(error).strip() or "the connection ended") from error
        except UnicodeError as error:
            raise StorageError(f"{self.name}: a text is not valid UTF-8: {error}") from error


def _literal(value: Value) -> str:
    """A value in the text of a statement: COPY takes no parameters."""
    if isinstance(value, int):
        return str(value)
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} in a key")
    return "'" + escape(value).replace("'", "''") + "'"


def _whole(value: str | None) -> int | None:
    return None if value is None else int(value)
