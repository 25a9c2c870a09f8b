"""Databases for tests: made from a template, emptied after each test and used again.

A new database takes 40 ms, emptying one takes 2 ms. A database to which somebody is still connected when its test has
ended is not used again, because that somebody may still write. A pooler stays connected, so that each test has a new
one there."""

from __future__ import annotations

import fcntl
import itertools
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.stores.server import OWNER, PostgresServer

TEMPLATE = "holdfast_template"
OURS = "tests"
"""The application's name of the connections that empty databases."""
LEAVE_SECONDS = 0.5
"""How long others may take to disconnect after a test."""
USES = 200
"""After so many tests a database has too many dead rows."""


DIALECT = """
create schema tests;
create function tests.json_path(path text) returns text[] language sql immutable as
  $$ select string_to_array(replace(replace(substr(path, 3), '[', '.'), ']', ''), '.') $$;
create function tests.json_set(doc text, path text, value anyelement) returns text language sql as
  $$ select jsonb_set(doc::jsonb, tests.json_path(path), to_jsonb(value))::text $$;
create function tests.json_set(doc text, path text, value text) returns text language sql as
  $$ select jsonb_set(doc::jsonb, tests.json_path(path), to_jsonb(value))::text $$;
create function tests.json_remove(doc text, path text) returns text language sql as
  $$ select (doc::jsonb #- tests.json_path(path))::text $$;
create function tests.json_extract(doc text, path text) returns text language sql as
  $$ select doc::jsonb #>> tests.json_path(path) $$;
create operator tests.->> (leftarg = text, rightarg = text, function = tests.json_extract);
"""
"""What the statements of tests use of SQLite's own functions; the product uses nothing of it."""


class Pool:
    def __init__(self, server: PostgresServer) -> None:
        import psycopg

        self.server = server
        self._prefix = f"t{os.getpid()}"
        self._numbers = itertools.count()
        self._free: list[PooledDatabase] = []
        self._admin = psycopg.connect(server.admin, autocommit=True, application_name=OURS)
        with _locked(server.folder / "template.lock"):
            if not self._exists(TEMPLATE):
                self._make_template()

    def take(self) -> PooledDatabase:
        return self._free.pop() if self._free else self._make()

    def give_back(self, database: PooledDatabase) -> None:
        database.uses += 1
        if self.server.pooler is None and database.left() and database.uses < USES:
            database.empty()
            self._free.append(database)
        else:
            database.retire()

    def new(self, template: str = "template0") -> str:
        """A database of one's own, empty without a template; its name."""
        name = f"{self._prefix}_{next(self._numbers)}"
        strategy = "strategy file_copy" if self._admin.info.server_version >= 150_000 else ""
        self._admin.execute(f"create database {name} template {template} owner {OWNER} {strategy}")
        return name

    def close(self) -> None:
        for database in self._free:
            database.close()
        self._admin.close()

    def _make(self) -> PooledDatabase:
        return PooledDatabase(self.server, self.new(TEMPLATE))

    def _make_template(self) -> None:
        import psycopg

        from holdfast.core.database.opening import open_database

        if not self._admin.execute("select 1 from pg_roles where rolname = %s", [OWNER]).fetchall():
            self._admin.execute(f"create role {OWNER} login")
        name = f"{TEMPLATE}_{os.getpid()}"
        self._admin.execute(f"create database {name} owner {OWNER}")
        open_database(self.server.address(name)).close()
        with psycopg.connect(self.server.address(name, user="postgres"), autocommit=True) as connection:
            connection.execute(DIALECT)
        deadline = time.monotonic() + LEAVE_SECONDS * 10
        asked = "select count(*) from pg_stat_activity where datname = %s"
        while self._admin.execute(asked, [name]).fetchall() != [(0,)] and time.monotonic() < deadline:
            time.sleep(0.01)
        self._admin.execute(f"alter database {name} rename to {TEMPLATE}")

    def _exists(self, name: str) -> bool:
        return bool(self._admin.execute("select 1 from pg_database where datname = %s", [name]).fetchall())


class PooledDatabase:
    def __init__(self, server: PostgresServer, name: str) -> None:
        import psycopg

        self.name = name
        self.address = server.address(name)
        self.uses = 0
        self.touched = False
        """Whether a test has changed rows itself."""
        self._connection = psycopg.connect(
            server.address(name, user="postgres"), autocommit=True, application_name=OURS
        )
        self._delete = ""
        self._refusing = ""
        """The table with a trigger of a test."""
        self.run("set search_path = public, tests")

    def run(self, sql: str, parameters: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Any statement; `%s` are the parameters."""
        cursor = self._connection.execute(sql.encode(), parameters or None)
        return cursor.fetchall() if cursor.description is not None else []

    def refuse(self, event: str, table: str, message: str) -> list[tuple[Any, ...]]:
        """Let this change of a table fail."""
        raising = f"begin raise exception '{message}'; end"
        self.run(f"create function tests.refuse() returns trigger language plpgsql as $$ {raising} $$")
        self._refusing = table
        return self.run(f"create trigger refuse {event} on {table} for each row execute function tests.refuse()")

    def accept(self) -> list[tuple[Any, ...]]:
        self.run(f"drop trigger refuse on {self._refusing}; drop function tests.refuse()")
        self._refusing = ""
        return []

    def left(self) -> bool:
        """Whether all others have disconnected."""
        asked = "select count(*) from pg_stat_activity where datname = %s and application_name <> %s"
        deadline = time.monotonic() + LEAVE_SECONDS
        while self.run(asked, (self.name, OURS)) != [(0,)]:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.005)
        return True

    def empty(self) -> None:
        if self._refusing:
            self.accept()
        if not self._delete:
            statements = [f'delete from "{name}"' for name in self._tables() if name != "budget_revision"]
            self._delete = ";".join([*statements, "update budget_revision set revision = 0"])
        self.run(self._delete)
        self.touched = False

    def copy_to(self, other: PooledDatabase) -> None:
        """All rows, as one transaction sees them."""
        other.empty()
        other.run("delete from budget_revision")
        self.run("begin isolation level repeatable read read only")
        try:
            with self._connection.cursor() as source, other._connection.cursor() as target:
                for table in self._tables():
                    with (
                        source.copy(f'copy "{table}" to stdout') as rows,
                        target.copy(f'copy "{table}" from stdin') as to,
                    ):
                        for row in rows:
                            to.write(row)
        finally:
            self.run("commit")

    def _tables(self) -> list[str]:
        found = self.run("select tablename from pg_tables where schemaname = 'public'")
        return [name for (name,) in found if name != "holdfast_schema"]

    def retire(self) -> None:
        asked = "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s and application_name <> %s"
        self.run(asked, (self.name, OURS))
        self.close()

    def close(self) -> None:
        self._connection.close()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
