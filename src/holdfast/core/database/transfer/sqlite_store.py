"""A file as the source or the target of a transfer."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import apsw

from holdfast.core.database.errors import StorageCorrupt, StorageUnavailable, TransferRefused
from holdfast.core.database.sqlite import BusyWait, connect, translate
from holdfast.core.database.transfer.mark import (
    BEGUN,
    COMPLETE,
    CREATE,
    MARKS,
    PROGRESS,
    REFUSAL,
    SOURCE,
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
    from pathlib import Path

    from holdfast.core.database.transfer.tables import Table
    from holdfast.core.database.unit import Row, Value

WRITES = ""
"""A name in the table of progress that is there inside the transactions of a transfer only. Nobody else ever sees it;
the triggers of an incomplete copy let changes pass while it is there."""
CHECKPOINT_PAGES = 2_000
LOCK_TRIES = 100

AGGREGATES = """
select aggregate_id, first, fork from (
  select aggregate_id, coalesce((
      select position from event where aggregate_id = s.aggregate_id order by seq limit 1), -1) as first,
    exists (select 1 from session where id = s.aggregate_id and fork is not null) as fork
  from event_sequence s)
where (first, aggregate_id) >= (?, ?) order by first, aggregate_id
"""


class SqliteTransferStore:
    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self.identity = f"file:{os.path.realpath(path)}"
        self._path = path
        self._lock: int | None = None
        with self._translated():
            self._connection = connect(str(path), BusyWait())
            for pragma in ("foreign_keys=off", f"wal_autocheckpoint={CHECKPOINT_PAGES}", "temp_store=file"):
                self._connection.execute(f"pragma {pragma}").fetchall()

    def lock(self) -> None:
        """A lock on a file beside the database, which ends with the process. The file is removed with the lock, so that
        a new one may be there by the time the lock is got."""
        path = self._lock_path
        for _ in range(LOCK_TRIES):
            try:
                handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError as error:
                raise StorageUnavailable(self.name, f"{path}: {error.strerror}") from error
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(handle), os.stat(path)):
                    self._lock = handle
                    return
            except BlockingIOError:
                os.close(handle)
                break
            except FileNotFoundError:
                pass
            os.close(handle)
        raise TransferRefused(f"another `holdfast migrate` works on {self.name}")

    def marks(self) -> dict[str, Mark]:
        with self._translated():
            if not self._has_table(MARKS):
                return {}
            found = [Mark(*map(str, row)) for row in self._all(f"select role, id, other, identity, state from {MARKS}")]
        return {mark.role: mark for mark in found}

    def filled_table(self) -> str | None:
        with self._translated():
            names = [EVENTS, *(table.name for table in COPIED if table.name != ALWAYS_THERE)]
            return next((name for name in names if self._all(f"select 1 from {name} limit 1")), None)

    def mark(self, mark: Mark, check: Callable[[list[OwnerRow]], None]) -> None:
        with self._transaction():
            check([OwnerRow(*row) for row in self._all("select id, pid, name, null from owner")])  # type: ignore[arg-type]
            self._connection.execute(CREATE).fetchall()
            self._drop_triggers()
            if mark.role == TARGET:
                self._empty()
            row = f"insert or replace into {MARKS} (role, id, other, identity, state) values (?, ?, ?, ?, ?)"
            self._all(row, tuple(mark))
            self._create_triggers(mark)

    def resume(self, mark: Mark) -> None:
        """Each transaction says itself that it may write."""

    def complete(self, role: str) -> None:
        with self._transaction():
            self._all(f"update {MARKS} set state = ? where role = ?", (COMPLETE, role))
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
            self._all(f"delete from {MARKS} where role = ?", (role,))

    def progress(self) -> dict[str, Place]:
        with self._translated():
            rows = self._all(f"select name, place, copied from {PROGRESS}")
        return {str(name): Place(decode_key(str(place)), int(str(copied))) for name, place, copied in rows}

    def columns(self, table: str) -> list[str]:
        with self._translated():
            found = [str(row[1]) for row in self._all(f"pragma table_info({table})")]
        return [name for name in found if (table, name) != (EVENTS, "position")]

    def count(self, table: str) -> int:
        with self._translated():
            return int(str(self._all(f"select count(*) from {table}")[0][0]))

    def rows(self, table: Table, columns: Sequence[str], after: tuple[Value, ...] | None = None) -> Iterator[Row]:
        key = ", ".join(table.key)
        where = f" where ({key}) > ({', '.join('?' for _ in table.key)})" if after is not None else ""
        yield from self._stream(f"select {', '.join(columns)} from {table.name}{where} order by {key}", after or ())

    def events(self, columns: Sequence[str], after: tuple[Value, ...] | None = None) -> Iterator[StoredEvent]:
        first, id, seq = after if after is not None else (-1, "", -1)
        for aggregate_id, begun, fork in self._stream(AGGREGATES, (first, id)):
            reached = seq if aggregate_id == id else None
            for row in self._events(str(aggregate_id), columns, reached):
                yield StoredEvent(int(str(begun)), bool(fork), row)

    def events_of(self, aggregate_id: str, columns: Sequence[str]) -> Iterator[Row]:
        return self._events(aggregate_id, columns, None)

    def write(self, table: str, columns: Sequence[str], rows: Sequence[Row], place: Place) -> None:
        values = ", ".join("?" for _ in columns)
        blobs = self._blob_places(table, columns)
        with self._transaction():
            self._all(f"insert into {PROGRESS} (name, place, copied) values (?, '', 0)", (WRITES,))
            self._connection.executemany(
                f"insert into {table} ({', '.join(columns)}) values ({values})",
                [_with_bytes(row, blobs) for row in rows] if blobs else rows,
            )
            progress = f"insert or replace into {PROGRESS} (name, place, copied) values (?, ?, ?)"
            self._all(progress, (table, encode_key(place.key), place.copied))
            self._all(f"delete from {PROGRESS} where name = ?", (WRITES,))

    def settle(self) -> None:
        with self._translated():
            self._connection.execute("pragma wal_checkpoint(truncate)").fetchall()

    def close(self) -> None:
        with suppress(apsw.Error):
            self._connection.close(True)
        if self._lock is not None:
            with suppress(OSError):
                os.unlink(self._lock_path)
            os.close(self._lock)
            self._lock = None

    @property
    def _lock_path(self) -> str:
        return f"{self._path}.transfer"

    def _events(self, aggregate_id: str, columns: Sequence[str], after: Value) -> Iterator[Row]:
        chosen = f"select {', '.join(columns)} from {EVENTS} where aggregate_id = ?"
        reached = () if after is None else (after,)
        yield from self._stream(f"{chosen}{' and seq > ?' if reached else ''} order by seq", (aggregate_id, *reached))

    def _create_triggers(self, mark: Mark) -> None:
        text = (REFUSAL + explain(self.name, mark)).replace("'", "''")
        passing = f" when not exists (select 1 from {PROGRESS} where name = '{WRITES}')"
        when = passing if mark.role == TARGET and mark.state == BEGUN else ""
        for table in GUARDED:
            for change in ("insert", "update", "delete"):
                name = f"{TRIGGER}_{table}_{change}"
                refuse = f"begin select raise(abort, '{text}'); end"
                self._connection.execute(f"create trigger {name} before {change} on {table}{when} {refuse}").fetchall()

    def _drop_triggers(self) -> None:
        for name in [str(row[0]) for row in self._all("select name from sqlite_master where type = 'trigger'")]:
            if name.startswith(f"{TRIGGER}_"):
                self._connection.execute(f"drop trigger {name}").fetchall()

    def _empty(self) -> None:
        """Children first."""
        for name in (EVENTS, *(table.name for table in reversed(COPIED)), PROGRESS):
            self._all(f"delete from {name}")
        self._all("delete from sqlite_sequence where name = ?", (EVENTS,))

    def _blob_places(self, table: str, columns: Sequence[str]) -> list[int]:
        types = {str(row[1]): str(row[2]).lower() for row in self._all(f"pragma table_info({table})")}
        return [place for place, name in enumerate(columns) if types[name] == "blob"]

    def _has_table(self, name: str) -> bool:
        return bool(self._all("select 1 from sqlite_master where type = 'table' and name = ?", (name,)))

    def _all(self, sql: str, parameters: tuple[Value, ...] = ()) -> list[Row]:
        return self._connection.execute(sql, parameters).fetchall()

    def _stream(self, sql: str, parameters: tuple[Value, ...]) -> Iterator[Row]:
        with self._translated():
            yield from self._connection.execute(sql, parameters)

    def _commit(self) -> None:
        self._connection.execute("commit")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._translated():
            self._connection.execute("begin immediate")
            try:
                yield
                self._commit()
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("rollback")
                raise

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except apsw.Error as error:
            raise translate(error, self.name) from error
        except UnicodeDecodeError as error:
            raise StorageCorrupt(self.name, f"a text in it is not valid UTF-8: {error}") from error


def _with_bytes(row: Row, places: Sequence[int]) -> Row:
    """As SQLite stores what is no text to it."""
    values = list(row)
    for place in places:
        if isinstance(value := values[place], str):
            values[place] = value.encode()
    return tuple(values)
