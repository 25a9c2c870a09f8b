"""Opening: addresses, schemas, and servers that cannot be used."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import psycopg
import pytest
from tests.core.database.postgres.proxy import Proxy
from tests.stores.server import PostgresServer
from tests.stores.stores import STORES

from holdfast.core.database.errors import (
    InvalidAddress,
    StorageConnections,
    StorageCorrupt,
    StorageDenied,
    StorageReadOnly,
    StorageTooNew,
    StorageUnavailable,
)
from holdfast.core.database.postgres import connection
from holdfast.core.database.postgres.address import Address
from holdfast.core.database.postgres.database import PostgresDatabase
from holdfast.core.database.postgres.errors import refused_connection
from holdfast.core.database.postgres.migrate import migrations, prepare

pytestmark = pytest.mark.store("postgres", reason="addresses are those of servers")


@pytest.fixture
def empty(server: PostgresServer) -> Iterator[str]:
    """The name of an empty database."""
    name = STORES.pool.new()
    yield name
    STORES.pool._admin.execute(f"drop database {name} with (force)")


def test_nodes_that_start_at_once_make_one_schema(server: PostgresServer, empty: str) -> None:
    """STO-015"""
    errors: list[BaseException] = []

    def start() -> None:
        try:
            PostgresDatabase(server.address(empty) + "&schema=ours").close()
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=start) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    with psycopg.connect(server.address(empty)) as looking:
        found = looking.execute("select version from ours.holdfast_schema order by version").fetchall()
        assert found == [(number,) for number in range(1, len(migrations()) + 1)]
        assert looking.execute("select to_regclass('public.event')").fetchall() == [(None,)]


def test_a_newer_schema_is_refused(server: PostgresServer, empty: str) -> None:
    """STO-016"""
    prepare(Address(server.address(empty)))
    with psycopg.connect(server.address(empty)) as other:
        other.execute("insert into holdfast_schema values (999)")
    with pytest.raises(StorageTooNew, match="has schema 999"):
        prepare(Address(server.address(empty)))


def test_tables_of_another_program_are_left_alone(server: PostgresServer, empty: str) -> None:
    """STO-016"""
    with psycopg.connect(server.address(empty)) as other:
        other.execute("create table session (id int)")
    with pytest.raises(StorageCorrupt, match="tables of another program"):
        prepare(Address(server.address(empty)))
    prepare(Address(server.address(empty) + "&schema=beside"))
    with psycopg.connect(server.address(empty)) as other:
        tables = other.execute("select tablename from pg_tables where schemaname = 'public'").fetchall()
    assert tables == [("session",)]


def test_a_migration_that_fails_leaves_nothing(
    server: PostgresServer, empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STO-015"""
    monkeypatch.setattr("holdfast.core.database.postgres.migrate.migrations", lambda: [*migrations(), "select 1 / 0"])
    with pytest.raises(Exception, match="division by zero"):
        prepare(Address(server.address(empty)))
    with psycopg.connect(server.address(empty)) as other:
        assert other.execute("select count(*) from pg_tables where schemaname = 'public'").fetchall() == [(0,)]


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (
            'connection to server at "h", port 5432 failed: FATAL:  password authentication failed for user "u"',
            StorageDenied,
        ),
        ('failed: FATAL:  role "nobody" does not exist', StorageDenied),
        ("failed: fe_sendauth: no password supplied", StorageDenied),
        ('FATAL:  no pg_hba.conf entry for host "1.2.3.4"', StorageDenied),
        ("failed: session is read-only", StorageReadOnly),
        ("failed: server is in hot standby mode", StorageReadOnly),
        ("FATAL:  sorry, too many clients already", StorageConnections),
        ("FATAL:  remaining connection slots are reserved for roles with the SUPERUSER attribute", StorageConnections),
        ('FATAL:  database "x" does not exist', StorageUnavailable),
        (
            "Connection refused\n\tIs the server running on that host and accepting TCP/IP connections?",
            StorageUnavailable,
        ),
    ],
)
def test_what_libpq_says_becomes_a_typed_error(message: str, kind: type) -> None:
    """STO-017"""
    error = refused_connection(Address("postgresql://u:secret@h/x"), message)
    assert type(error) is kind
    assert "postgresql://h/x" in str(error)
    assert "secret" not in str(error)
    assert "\n" not in str(error)


def test_servers_that_cannot_be_used_are_different_errors(server: PostgresServer, empty: str) -> None:
    """STO-017: asked of a real server."""
    with pytest.raises(StorageUnavailable, match='database "nothing" does not exist'):
        prepare(Address(server.address("nothing")))
    with pytest.raises(StorageDenied, match='role "stranger" does not exist'):
        prepare(Address(server.address(empty, user="stranger")))
    with pytest.raises(StorageUnavailable, match="refused"):
        prepare(Address("postgresql://u@127.0.0.1:1/x"))
    STORES.pool._admin.execute(f"alter database {empty} set default_transaction_read_only = on")
    with pytest.raises(StorageReadOnly, match="primary"):
        prepare(Address(server.address(empty)))


def test_a_role_that_may_not_create_tables_is_told_so(server: PostgresServer, empty: str) -> None:
    """STO-017"""
    STORES.pool._admin.execute("drop role if exists limited")
    STORES.pool._admin.execute("create role limited login")
    with pytest.raises(StorageDenied, match="permission denied"):
        prepare(Address(server.address(empty, user="limited") + "&schema=ours"))


def test_a_server_that_does_not_answer_is_given_up(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """STO-017"""
    monkeypatch.setattr(connection.open_connection, "__kwdefaults__", {"direct": False, "seconds": 0.1})
    proxy.moves.clear()
    with pytest.raises(StorageUnavailable, match="no answer within"):
        prepare(Address(proxy.address("postgres")))


def test_old_servers_are_refused(server: PostgresServer, empty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """STO-017"""
    monkeypatch.setattr(connection, "OLDEST_SERVER", 990_000)
    with pytest.raises(StorageUnavailable, match="it runs PostgreSQL 1"):
        prepare(Address(server.address(empty)))


@pytest.mark.parametrize(
    "url",
    [
        "mysql://u:hunter2@h/x",
        "postgresql://u:hunter2@h:notaport:9/x",
        "postgresql://u:hunter2%zz@h/x",
        "postgresql://u:hunter2@h/x?nosuch=1",
        "postgresql://u:hunter2@h/x?schema=a;drop",
        "postgresql://u:hunter2@h/x?direct=nowhere",
        "postgresql://u:hunter2@[::1/x",
    ],
)
def test_a_wrong_address_is_refused_without_its_password(url: str) -> None:
    """STO-017"""
    with pytest.raises(InvalidAddress) as caught:
        Address(url)
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in repr(caught.value.__context__ or "")


def test_an_address_keeps_what_libpq_understands() -> None:
    """STO-018"""
    address = Address("postgresql://u:hunter2@a:1,b:2/x?sslmode=verify-full&connect_timeout=3&schema=s&direct=db:5432")
    found = address.parameters({"a": "1"})
    assert (found["host"], found["port"], found["sslmode"]) == ("a,b", "1,2", "verify-full")
    assert found["password"] == "hunter2"
    assert '-c a=1 -c standard_conforming_strings=on -c search_path="s"' in found["options"]
    direct = address.parameters({}, direct=True)
    assert (direct["host"], direct["port"]) == ("db", "5432")
    assert "options" not in address.parameters({}, pooled=True)
    assert address.name == "postgresql://a,b:1,2/x?schema=s"
    assert "hunter2" not in repr(address)
