"""Which store the tests use. With HOLDFAST_TEST_STORE=postgres each file that a runtime would open is a database of the
test's own instead, and processes get its address in HOLDFAST_DATABASE."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import apsw
import pytest
from tests.forked_process import ForkedProcess
from tests.stores.pool import Pool
from tests.stores.server import KEEPER, NoPostgres, shared_server

from holdfast.core.clock import Ids, SystemClock
from holdfast.core.database.database import Database
from holdfast.core.database.opening import open_database
from holdfast.core.database.place import DATABASE, Place
from holdfast.core.database.queries import load_queries
from holdfast.core.event.log import EventLog
from holdfast.core.runtime import storage_choice
from holdfast.core.runtime.runtime import default_paths
from holdfast.core.session.projector import SESSION_PROJECTORS
from holdfast.schema.manifest import MANIFEST

if TYPE_CHECKING:
    from tests.stores.pool import PooledDatabase

STORE = "HOLDFAST_TEST_STORE"
VERIFY = "HOLDFAST_TEST_VERIFY"
"""If it is set, the rows of each test on PostgreSQL are compared with its events afterwards."""
VERIFIED_EVENTS = 300
SQLITE, POSTGRES = "sqlite", "postgres"

FILE = "holdfast.db"
REFUSING = re.compile(
    r"create trigger refuse (?P<event>before \w+) on (?P<table>\w+) begin select raise\(abort, '(?P<message>.*)'\); end"
)
"""The triggers of tests, as SQLite has them."""
Rows = list[tuple[Any, ...]]


@cache  # tests change the environment
def chosen_store() -> str:
    return os.environ.get(STORE) or SQLITE


def on_postgres() -> bool:
    return chosen_store() == POSTGRES


class OpenedDatabase(Database, Protocol):
    """A database with the path of the file for which it stands."""

    path: Path


class Stores:
    """The databases that stand for files, by the path of the file."""

    def __init__(self) -> None:
        self._pool: Pool | None = None
        self._taken: dict[str, PooledDatabase] = {}

    @property
    def pool(self) -> Pool:
        if self._pool is None:
            try:
                self._pool = Pool(shared_server())
            except NoPostgres as error:
                pytest.skip(f"no PostgreSQL here: {error}")
        return self._pool

    def database(self, file: Path) -> PooledDatabase:
        key = os.path.realpath(file)
        if key not in self._taken:
            self._taken[key] = self.pool.take()
        return self._taken[key]

    def place(self, file: Path) -> Place:
        """What stands for this file: itself, or the address of a database."""
        return self.database(file).address if on_postgres() else file

    def open(self, file: Path) -> OpenedDatabase:
        """Open what stands for this file. The result knows the path, as SQLite's does."""
        database: Any = open_database(self.place(file))
        database.path = file
        opened: OpenedDatabase = database
        return opened

    def is_new(self, file: Path) -> bool:
        """Whether nothing was stored there yet."""
        return os.path.realpath(file) not in self._taken if on_postgres() else not file.exists()

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()

    @contextmanager
    def frame(self) -> Iterator[None]:
        """Give back at the end what was taken meanwhile."""
        before = set(self._taken)
        try:
            yield
        finally:
            databases = [self._taken.pop(key) for key in list(self._taken) if key not in before]
            differing = [line for database in databases for line in _mismatches(database)]
            for database in databases:
                self.pool.give_back(database)
            assert not differing, "rows differ from the event log: " + "\n".join(differing)

    def environment(self, given: Mapping[str, str]) -> dict[str, str]:
        """The environment of a `holdfast` process."""
        if not on_postgres() or given.get(DATABASE):
            return dict(given)
        return {**given, DATABASE: self.database(default_paths(dict(given)).database).address}

    def copy(self, data: Path, to: Path) -> None:
        """Copy a data directory as a process would leave that died now: what was committed, and no lock."""
        to.mkdir()
        if data.exists():
            shutil.copytree(data, to, ignore=shutil.ignore_patterns("*-shm", "owners"), dirs_exist_ok=True)
        if on_postgres():
            self.database(data / FILE).copy_to(self.database(to / FILE))

    def unreachable(self) -> str | None:
        """The address of a database that nobody serves; None where the store is a file."""
        return "postgresql://nobody@127.0.0.1:1/none" if on_postgres() else None

    def statements(self) -> dict[str, str]:
        """The named statements of the store."""
        if on_postgres():
            from holdfast.core.database.postgres.statement import postgres_queries

            return postgres_queries()
        return load_queries()

    def columns(self, file: Path, table: str) -> list[str]:
        with self.rows(file) as run:
            if on_postgres():
                named = "select column_name from information_schema.columns where table_schema = 'public'"
                return [row[0] for row in run(f"{named} and table_name = ? order by ordinal_position", table)]
            return [row[1] for row in run(f"pragma table_info({table})")]

    @contextmanager
    def rows(self, file: Path) -> Iterator[Callable[..., Rows]]:
        """A function that runs a statement there, with `?` for parameters, and returns its rows."""
        if on_postgres():
            database = self.database(file)

            def run(sql: str, *parameters: Any) -> Rows:
                database.touched = database.touched or not sql.lstrip().lower().startswith("select")
                if trigger := REFUSING.fullmatch(sql):
                    return database.refuse(trigger["event"], trigger["table"], trigger["message"])
                if sql == "drop trigger refuse":
                    return database.accept()
                return database.run(sql.replace("%", "%%").replace("?", "%s"), parameters)

            yield run
            return
        connection = apsw.Connection(str(file))
        connection.set_busy_timeout(10_000)
        try:
            yield lambda sql, *parameters: list(connection.execute(sql, parameters).fetchall())
        finally:
            connection.close()


def _mismatches(database: PooledDatabase) -> list[str]:
    """Rows that differ from the event log, if there are not many events and the test did not change rows itself."""
    if not os.environ.get(VERIFY) or database.touched or not database.left():
        return []
    if not 0 < database.run("select count(*) from event")[0][0] <= VERIFIED_EVENTS:
        return []
    return asyncio.run(_verify(database.address))


async def _verify(address: str) -> list[str]:
    opened = open_database(address)
    log = EventLog(opened, MANIFEST, SESSION_PROJECTORS, Ids(SystemClock()))
    try:
        return [str(mismatch) async for mismatch in log.verify(await log.aggregates())]
    except Exception:  # noqa: BLE001 - some tests store events that cannot be projected
        return []
    finally:
        await log.close()
        opened.close()


STORES = Stores()


@contextmanager
def installed() -> Iterator[None]:
    """Let every runtime of this process, and every `holdfast` process that it starts, use the chosen store."""
    if not on_postgres():
        yield
        return
    choose, start = storage_choice.storage_place, subprocess.Popen.__init__

    def storage_place(*arguments: Any) -> Place:
        place = choose(*arguments)
        return STORES.place(place) if isinstance(place, Path) else place

    def popen(self: subprocess.Popen[Any], args: Any, *rest: Any, **options: Any) -> None:
        if isinstance(self, ForkedProcess) or _is_holdfast(args):
            given = options.get("env")
            options["env"] = STORES.environment(os.environ if given is None else given)
        start(self, args, *rest, **options)

    with pytest.MonkeyPatch.context() as patch:
        for module in ("holdfast.core.runtime.runtime", "holdfast.embedded.registration"):
            patch.setattr(f"{module}.storage_place", storage_place)
        patch.setattr(subprocess.Popen, "__init__", popen)
        # The server does not restart here, so that a lock that is free says that its owner is dead.
        patch.setattr("holdfast.core.session.liveness.SETTLING_SECONDS", -1.0)
        yield


def _is_holdfast(arguments: Any) -> bool:
    """Whether these are the arguments of a `holdfast` command, or of a Python program about it."""
    if isinstance(arguments, str | bytes | os.PathLike):
        return False
    words = [os.fsdecode(word) for word in arguments]
    if any(os.path.basename(word) == "holdfast" for word in words[:3]):
        return True
    return sys.executable in words[:3] and any("holdfast" in word for word in words) and str(KEEPER) not in words
