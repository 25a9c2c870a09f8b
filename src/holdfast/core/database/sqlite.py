"""Opens SQLite: settings, busy handler, schema, and the mapping of its errors."""

from __future__ import annotations

import fcntl
import logging
import os
import random
import time
from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING

import apsw

from holdfast.core.database.errors import (
    StorageBusy,
    StorageClosed,
    StorageCorrupt,
    StorageError,
    StorageFull,
    StorageTooNew,
    StorageTransferred,
    StorageUnavailable,
)
from holdfast.core.database.queries import load_migrations
from holdfast.core.database.transfer.mark import MARKS, REFUSAL, REFUSING, Mark, explain
from holdfast.private_files import make_directory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

APPLICATION_ID = 0x484F4C44  # "HOLD"
BUSY_SECONDS = 10.0
MEMORY = ":memory:"
UPGRADE_BYTES = 64 * 1024 * 1024
"""Upgrades of larger files are logged: they copy tables, 30 to 100 MB per second."""
UPGRADE_SECONDS = 5.0
PROGRESS_STEPS = 1_000_000
# Small on purpose: appends touch the same few pages, the operating system keeps the rest, and memory stays flat.
CACHE = "cache_size=-4000"
SYNCHRONOUS = "synchronous=full"
# What is deleted or replaced is overwritten with zeros, so that nothing of a purged Session stays in the file.
ERASING = "secure_delete=on"

log = logging.getLogger(__name__)


class BusyWait:
    """Waits for another process's lock in short sleeps of random length, which is fairer than SQLite's own back-off.

    `since` is when the connection began to wait, for a status display."""

    def __init__(self, limit: float = BUSY_SECONDS) -> None:
        self.limit = limit
        self.since: float | None = None
        # Not the module's generator: this runs in threads beside programs that seed it and count on its numbers.
        self._random = random.Random()

    def __call__(self, attempts: int) -> bool:
        now = time.monotonic()
        if attempts == 0 or self.since is None:
            self.since = now
        if now - self.since > self.limit:
            return False
        time.sleep(self._random.uniform(0.00015, 0.00045))
        return True


def connect(path: str, busy: BusyWait, *, readonly: bool = False) -> apsw.Connection:
    # One connection is used by one thread at a time, so SQLite's own mutexes are not needed.
    flags = apsw.SQLITE_OPEN_READONLY if readonly else apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    connection = apsw.Connection(path, flags=flags | apsw.SQLITE_OPEN_NOMUTEX)
    # Before the first statement: after a crash even opening meets a lock while the log is recovered.
    connection.set_busy_handler(busy)
    # Plans do not depend on bound values; otherwise SQLite prepares some statements again at each execution.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    for pragma in ("foreign_keys=on", SYNCHRONOUS, CACHE, ERASING, "wal_autocheckpoint=0", "temp_store=memory"):
        connection.execute(f"pragma {pragma}").fetchall()
    if readonly:
        connection.execute("pragma query_only=on").fetchall()
    return connection


def prepare(path: Path, *, transferring: bool = False) -> None:
    """Create the file if necessary and upgrade its schema. A file lock admits one process at a time: two that switch a
    new file to WAL at once can fail even with a busy handler. Only a transfer opens a file that has the mark of one."""
    try:
        make_directory(path.parent)
        with exclusive(path.with_name(path.name + ".lock")):
            # Made here, for its owner only: SQLite gives its companions the same mode.
            # Only if it is new: closing any descriptor of a database drops the locks that this process has on it.
            with suppress(FileExistsError):
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            connection = connect(str(path), BusyWait())
            try:
                migrate(connection, str(path), transferring=transferring)
            finally:
                connection.close()
    except OSError as error:
        raise StorageUnavailable(str(path), error.strerror or str(error)) from error
    except apsw.Error as error:
        raise translate(error, str(path)) from error


def migrate(connection: apsw.Connection, path: str, *, transferring: bool = False) -> None:
    migrations = load_migrations()
    found = int(connection.pragma("user_version"))
    application = int(connection.pragma("application_id"))
    if found > len(migrations) and application == APPLICATION_ID:
        raise StorageTooNew(path, found, len(migrations))
    used = application or found or connection.execute("select 1 from sqlite_master limit 1").fetchall()
    if used and application != APPLICATION_ID:
        raise StorageCorrupt(path, "it belongs to another program")
    if used and (not transferring or found < len(migrations)):  # a file that takes no changes cannot be upgraded
        _refuse_transferred(connection, path)
    if path != MEMORY:
        if not used:  # only possible before the first table; see shrinking.py
            connection.execute("pragma auto_vacuum=incremental").fetchall()
        connection.execute("pragma journal_mode=wal").fetchall()
    if found == len(migrations):
        return
    # Off while tables are replaced: dropping one would delete what refers to it. Not possible inside a transaction.
    connection.execute("pragma foreign_keys=off").fetchall()
    try:
        with _logged_upgrade(connection, path, found, len(migrations)):
            _run(connection, migrations, found, path)
            if found:  # as long as people are told: closing would do it too
                _map_pages(connection, path)
                connection.execute("pragma wal_checkpoint(truncate)").fetchall()
    finally:
        connection.execute("pragma foreign_keys=on").fetchall()


def _map_pages(connection: apsw.Connection, path: str) -> None:
    """Write a small file of an earlier version anew, so that it can shrink. A large one is left to `compact`."""
    size = int(connection.pragma("page_count")) * int(connection.pragma("page_size"))
    if path == MEMORY or size > UPGRADE_BYTES or int(connection.pragma("auto_vacuum")):
        return
    try:
        connection.execute("pragma auto_vacuum=incremental").fetchall()
        connection.execute("vacuum").fetchall()
    except (apsw.FullError, apsw.BusyError, apsw.IOError) as error:
        log.warning("%s was not written anew and keeps its size: %s", path, error)


def _refuse_transferred(connection: apsw.Connection, path: str) -> None:
    if connection.execute("select 1 from sqlite_master where type = 'table' and name = ?", (MARKS,)).fetchall():
        for row in connection.execute(REFUSING).fetchall():
            raise StorageTransferred(explain(path, Mark(*map(str, row))))


@cache
def latest_schema() -> str:
    """The statements that create the schema which the migrations lead to: 1 ms for an empty database, not 12."""
    connection = connect(MEMORY, BusyWait())
    try:
        migrate(connection, MEMORY)
        statements = "select sql from sqlite_master where sql is not null and name not like 'sqlite_%' order by rowid"
        return ";\n".join(str(sql) for (sql,) in connection.execute(statements))
    finally:
        connection.close()


def _run(connection: apsw.Connection, migrations: list[str], found: int, path: str) -> None:
    connection.execute("begin immediate")
    try:
        for script in migrations[found:]:
            for row in connection.execute(script).fetchall():  # rows of a migration are messages for the log
                log.warning("%s: %s", path, row[0])
        connection.execute(f"pragma application_id={APPLICATION_ID}").fetchall()
        connection.execute(f"pragma user_version={len(migrations)}").fetchall()
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise


@contextmanager
def _logged_upgrade(connection: apsw.Connection, path: str, found: int, known: int) -> Iterator[None]:
    """Log the upgrade of a large file, and its progress."""
    size = int(connection.pragma("page_count")) * int(connection.pragma("page_size"))
    if not found or size < UPGRADE_BYTES:
        yield
        return
    began = told = time.monotonic()
    log.warning("upgrading %s (%d MB) from schema %d to %d; this happens once", path, size // 10**6, found, known)

    def tell() -> bool:
        nonlocal told
        if (now := time.monotonic()) - told >= UPGRADE_SECONDS:
            told = now
            log.warning("still upgrading %s, for %d s now", path, now - began)
        return False

    connection.set_progress_handler(tell, PROGRESS_STEPS)
    try:
        yield
    finally:
        connection.set_progress_handler(None)
    log.warning("upgraded %s in %.0f s", path, time.monotonic() - began)


def translate(error: apsw.Error, path: str, waited: float = BUSY_SECONDS) -> StorageError:
    match error:
        case apsw.ConnectionClosedError():
            return StorageClosed()
        case apsw.ConstraintError() if str(error).startswith(REFUSAL):
            return StorageTransferred(str(error).removeprefix(REFUSAL))
        case apsw.BusyError() | apsw.LockedError():
            return StorageBusy(path, waited)
        case apsw.FullError():
            return StorageFull(path)
        case apsw.CorruptError() | apsw.NotADBError():
            return StorageCorrupt(path, str(error))
        case apsw.CantOpenError() | apsw.ReadOnlyError() | apsw.PermissionsError() | apsw.IOError() | apsw.AuthError():
            return StorageUnavailable(path, str(error))
        case _:
            return StorageError(f"{type(error).__name__}: {error}")


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold a lock on a file beside the database, which everybody takes who creates or upgrades it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
