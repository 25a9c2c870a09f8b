"""Notifications between nodes, and the lock of a node."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from tests.core.database.postgres.proxy import Proxy
from tests.core.database.units import unit, until
from tests.stores.pool import PooledDatabase
from tests.stores.server import PostgresServer

from holdfast.core.database.errors import StorageError
from holdfast.core.database.postgres import listener
from holdfast.core.database.postgres.address import LISTENING, Address
from holdfast.core.database.postgres.connection import Connection, open_connection
from holdfast.core.database.postgres.database import PostgresDatabase

pytestmark = [pytest.mark.anyio, pytest.mark.store("postgres", reason="only servers have notifications")]


@pytest.fixture
def other(pooled: PooledDatabase) -> Iterator[PostgresDatabase]:
    database = PostgresDatabase(pooled.address)
    yield database
    database.close()


async def test_other_nodes_hear_of_a_commit(
    database: PostgresDatabase, other: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STO-012: the own node too, at once."""
    monkeypatch.setattr(listener, "LOOK_SECONDS", 1e9)
    await until(lambda: None not in (database.listener.connected_since, other.listener.connected_since))
    before, theirs = database.version(), other.version()
    await database.submit(unit("evt_0"))
    assert database.version() != before
    await until(lambda: other.version() != theirs)


async def test_without_notifications_it_is_time_to_look_now_and_then(
    database: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STO-012"""
    monkeypatch.setattr(listener, "LOOK_SECONDS", 0.01)
    before = database.version()
    await until(lambda: database.version() != before)


async def test_commits_are_told_of_together(
    database: PostgresDatabase, other: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STO-012"""
    monkeypatch.setattr(listener, "NOTIFY_SECONDS", 0.1)
    told: list[float] = []
    tell = database.listener._tell

    def noted(connection: Connection) -> None:
        told.append(time.monotonic())
        tell(connection)

    monkeypatch.setattr(database.listener, "_tell", noted)
    for number in range(30):
        await database.submit(unit(f"evt_{number}"))
    await until(lambda: not database.listener._dirty)
    assert 1 <= len(told) < 20


async def test_a_number_has_one_holder(database: PostgresDatabase, other: PostgresDatabase) -> None:
    """STO-013"""
    database.listener.hold(7)
    with pytest.raises(StorageError, match="another node"):
        other.listener.hold(7)
    other.listener.hold(8)
    database.listener.release(7)
    await until(lambda: not database.listener.holds(7))
    other.listener.hold(7)
    database.close()
    assert other.listener.holds(7)


async def test_the_lock_ends_with_the_connection_and_is_taken_again(
    far: PostgresDatabase, proxy: Proxy, other: PostgresDatabase
) -> None:
    """STO-013"""
    far.listener.hold(7)
    proxy.refuses = True
    proxy.cut()
    await until(lambda: not far.listener.holds(7))
    proxy.heal()
    await until(lambda: far.listener.holds(7))
    with pytest.raises(StorageError, match="another node"):
        other.listener.hold(7)


def test_the_server_asks_for_signs_of_life(server: PostgresServer, pooled: PooledDatabase) -> None:
    """STO-013: otherwise it would keep the lock of a machine that vanished for two hours."""
    connection = open_connection(Address(server.address(pooled.name, tcp=True)), LISTENING, direct=True)
    try:
        connection.pgconn.exit_pipeline_mode()
        asked = "current_setting('tcp_keepalives_idle'), current_setting('tcp_keepalives_count')"
        result = connection.pgconn.exec_(f"select {asked}, current_setting('tcp_user_timeout')".encode())
        assert [result.get_value(0, place) for place in range(3)] == [b"2", b"3", b"5000"]
    finally:
        connection.close()
