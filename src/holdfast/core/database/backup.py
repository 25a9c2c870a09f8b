"""Copies of a database file that others are using, and the way back. Everything here blocks.

A backup is a database file of its own, with two tables more: `backup_info`, one row about it, and `backup_file`, the
managed files with their hashes.

Invariants
- A backup is one state of the database: a read transaction lasts from its first to its last page. Commits of others go
  on meanwhile, and are not in it.
- A backup, and a restored database, has its name when it is complete and synced. A restore replaces nothing.
- A file with tables, indexes, views or triggers that Holdfast does not make is not restored."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Mapping  # noqa: TC003 - msgspec reads the annotations of records
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from holdfast.core.database.errors import BackupInvalid, RestoreRefused, StorageError
from holdfast.core.database.queries import load_migrations
from holdfast.core.database.schema_check import OBJECTS, SchemaObject, foreign_objects
from holdfast.core.database.sqlite import APPLICATION_ID, BusyWait, connect, exclusive, translate
from holdfast.private_files import make_directory
from holdfast.schema.frozen import Frozen
from holdfast.schema.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Told = Callable[[str, int, int], None]
    """Gets what is done, how much of it is done, and how much there is. What it raises ends the work."""

STEP_PAGES = 500
MANAGED = "tool_"
UNFINISHED = ".part"
TABLES = """
create table backup_info (version text not null, time integer not null);
create table backup_file (name text primary key not null, sha256 text not null, content blob not null);
"""
COUNTS = """
select (select count(*) from session), (select count(*) from event), (select count(*) from backup_file),
  (select version from backup_info), (select time from backup_info)
"""
NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")


MOST_NAMED = 10
"""Foreign parts of a schema that an error names."""


class BackupInfo(Frozen):
    path: str
    bytes: int
    sessions: int
    events: int
    files: int
    """Managed files."""
    version: str
    """Of the program that made it."""
    time: int
    """When it was made, in milliseconds since the epoch."""
    schema: int
    left_out: Mapping[str, int] | None = None
    """What a restore did not take over, and how much of it."""


def back_up(database: Path, managed: Path, target: Path, told: Told) -> BackupInfo:
    """Write a backup, with the files of the folder `managed`. Whatever is there under the name is replaced when the
    backup is complete. Raises StorageError."""
    with _errors(target), _draft(target.parent, target.name) as draft:
        with closing(connect(str(database), BusyWait(), readonly=True)) as source, closing(_written(draft)) as copy:
            _copy(source, copy, told)
            _add_files(copy, managed, told)
        _sync(draft)
        info = _described(draft, target)
        os.replace(draft, target)
        _sync(target.parent)
    return info


def check(path: Path, told: Told) -> BackupInfo:
    """Read a backup to its end. Raises BackupInvalid."""
    told("checking", 0, 0)
    with _errors(path):
        info = _described(path, path, foreign=True)
        with closing(_opened(path)) as connection:
            for (problem,) in connection.execute("pragma integrity_check(1)"):
                if problem != "ok":
                    raise BackupInvalid(path, f"it is damaged: {problem}")
            if connection.execute("pragma foreign_key_check").fetchall():
                raise BackupInvalid(path, "it is damaged: rows refer to others that are not there")
            for name, sha256, content in connection.execute("select name, sha256, content from backup_file"):
                if not _is_managed(str(name)) or hashlib.sha256(bytes(content)).hexdigest() != sha256:
                    raise BackupInvalid(path, f"its file {str(name)[:100]!r} is not what it was")
    return info


def restore(
    path: Path, database: Path, managed: Path, told: Told, prepare: Callable[[Path], None] = lambda draft: None
) -> BackupInfo:
    """Make a database of a backup, where there is none, with its managed files. `prepare` changes the file before it
    gets its name. Raises BackupInvalid and RestoreRefused."""
    info = check(path, told)
    make_directory(database.parent)
    with _errors(database), exclusive(database.with_name(database.name + ".lock")):
        _refuse_existing(database)
        with _draft(database.parent, database.name) as draft:
            told("copying", 0, 0)
            shutil.copyfile(path, draft)
            with closing(_written(draft)) as connection:
                _extract(connection, managed)
                connection.execute("drop table backup_file; drop table backup_info").fetchall()
            prepare(draft)
            _sync(draft)
            try:
                os.link(draft, database)
            except FileExistsError:
                _refuse_existing(database)
            _sync(database.parent)
    return info


def _copy(source: apsw.Connection, copy: apsw.Connection, told: Told) -> None:
    source.execute("begin; select 1 from sqlite_master").fetchall()
    try:
        with copy.backup("main", source, "main") as backup:
            while not backup.done:
                backup.step(STEP_PAGES)
                told("copying pages", backup.page_count - backup.remaining, backup.page_count)
    finally:
        source.execute("rollback")
    copy.execute("pragma journal_mode=delete").fetchall()  # one file, without companions


def _add_files(copy: apsw.Connection, managed: Path, told: Told) -> None:
    names = sorted(os.listdir(managed)) if managed.is_dir() else []
    names = [name for name in names if _is_managed(name)]
    with copy:
        copy.execute(TABLES).fetchall()
        for number, name in enumerate(names):
            told("copying files", number, len(names))
            try:
                content = (managed / name).read_bytes()
            except FileNotFoundError:  # swept meanwhile
                continue
            row = (name, hashlib.sha256(content).hexdigest(), content)
            copy.execute("insert into backup_file values (?, ?, ?)", row)
        copy.execute("insert into backup_info values (?, ?)", (__version__, round(time.time() * 1000)))


def _extract(connection: apsw.Connection, managed: Path) -> None:
    """A file that is there stays as it is: no name is used twice."""
    make_directory(managed)
    for name, content in connection.execute("select name, content from backup_file").fetchall():
        with suppress(FileExistsError):
            handle = os.open(managed / str(name), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with open(handle, "wb") as file:
                file.write(bytes(content))  # type: ignore[arg-type]


def _check_schema(connection: apsw.Connection, named: Path) -> None:
    """Raises BackupInvalid for a file that has something else than the schema of its version."""
    version = int(connection.pragma("user_version"))
    objects = [SchemaObject(*row) for row in connection.execute(OBJECTS)]
    if foreign := foreign_objects(objects, version, TABLES):
        more = f" and {len(foreign) - MOST_NAMED} more" if len(foreign) > MOST_NAMED else ""
        raise BackupInvalid(
            named,
            f"it is not as Holdfast made it: it has {', '.join(foreign[:MOST_NAMED])}{more}. Restore another backup; "
            "if you added these yourself, remove them from a copy of the file",
        )


def _described(path: Path, named: Path, *, foreign: bool = False) -> BackupInfo:
    """`foreign`: somebody else may have made it."""
    try:
        with closing(_opened(path)) as connection:
            if int(connection.pragma("application_id")) != APPLICATION_ID:
                raise BackupInvalid(named, "it is a database of another program")
            if not connection.execute("select 1 from sqlite_master where name = 'backup_info'").fetchall():
                raise BackupInvalid(named, "it is a database, but no backup")
            known, schema = len(load_migrations()), int(connection.pragma("user_version"))
            if schema > known:
                raise BackupInvalid(named, f"it is of a newer version of Holdfast (schema {schema}, known are {known})")
            if foreign:
                _check_schema(connection, named)
            ((sessions, events, files, version, moment),) = connection.execute(COUNTS).fetchall()
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise BackupInvalid(named, f"it is damaged, or no backup ({error})") from error
    return BackupInfo(
        path=str(named),
        bytes=path.stat().st_size,
        sessions=int(sessions),  # type: ignore[arg-type]
        events=int(events),  # type: ignore[arg-type]
        files=int(files),  # type: ignore[arg-type]
        version=str(version),
        time=int(moment),  # type: ignore[arg-type]
        schema=schema,
    )


def _opened(path: Path) -> apsw.Connection:
    if not path.is_file():
        raise BackupInvalid(path, "there is no such file")
    return apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)


def _written(path: str | Path) -> apsw.Connection:
    """A connection without a log: the file is nobody else's."""
    connection = apsw.Connection(str(path))
    connection.execute("pragma synchronous=full; pragma secure_delete=off").fetchall()
    return connection


def _is_managed(name: str) -> bool:
    return name.startswith(MANAGED) and NAME_CHARACTERS.issuperset(name)


def _refuse_existing(database: Path) -> None:
    for path in (database, *(database.with_name(database.name + end) for end in ("-wal", "-shm"))):
        if path.exists():
            raise RestoreRefused(
                f"{path} exists, and a restore replaces nothing. Move it away, or name another folder with "
                "HOLDFAST_DATA."
            )


@contextmanager
def _draft(folder: Path, name: str) -> Iterator[Path]:
    """A file of our own that is removed, unless it was renamed."""
    try:
        handle, draft = tempfile.mkstemp(dir=folder, prefix=f".{name}.")  # mode 0600
    except OSError as error:
        raise StorageError(f"{folder}: {error.strerror}") from error
    os.close(handle)
    try:
        yield Path(draft)
    finally:
        for end in ("", "-journal", "-wal", "-shm"):
            Path(draft + end).unlink(missing_ok=True)


@contextmanager
def _errors(path: Path) -> Iterator[None]:
    try:
        yield
    except apsw.Error as error:
        raise translate(error, str(path)) from error
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror or error}") from error


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
