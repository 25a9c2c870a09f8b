"""A database on a PostgreSQL server for each test, and a connection to it that can be cut."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.core.database.postgres.proxy import Proxy
from tests.stores.pool import PooledDatabase
from tests.stores.server import PostgresServer
from tests.stores.stores import STORES

from holdfast.core.database.postgres.database import PostgresDatabase


@pytest.fixture
def server() -> PostgresServer:
    return STORES.pool.server


@pytest.fixture
def pooled() -> Iterator[PooledDatabase]:
    """A database with the tables, and a way to look into it."""
    database = STORES.pool.take()
    yield database
    STORES.pool.give_back(database)


@pytest.fixture
def database(pooled: PooledDatabase) -> Iterator[PostgresDatabase]:
    database = PostgresDatabase(pooled.address)
    yield database
    database.close()


@pytest.fixture
def proxy(server: PostgresServer) -> Iterator[Proxy]:
    proxy = Proxy(server.port)
    yield proxy
    proxy.close()


@pytest.fixture
def far(pooled: PooledDatabase, proxy: Proxy) -> Iterator[PostgresDatabase]:
    """The same database through a proxy."""
    database = PostgresDatabase(proxy.address(pooled.name), writers=1)
    yield database
    proxy.heal()
    database.close()
