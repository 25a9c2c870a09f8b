"""Nodes of two versions on one database: the newer one upgrades the tables while the older one is at work."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import pytest
from tests.core.database.postgres.test_flights import stored
from tests.core.database.units import project_row, unit
from tests.stores.pool import TEMPLATE, PooledDatabase
from tests.stores.server import PostgresServer
from tests.stores.stores import STORES

from holdfast.core.database.errors import StorageChanged, StorageTooNew
from holdfast.core.database.postgres import migrate
from holdfast.core.database.postgres.address import Address
from holdfast.core.database.postgres.database import PostgresDatabase
from holdfast.core.database.postgres.migrate import migrations, prepare
from holdfast.core.database.unit import Committed

pytestmark = [pytest.mark.anyio, pytest.mark.store("postgres", reason="nodes of several machines")]

ADDITION = """
alter table session add column mood text not null default 'fine';
alter table event add column weight bigint;
create table session_mood (session_id text primary key);
create index event_weight on event (weight);
"""
BREAK = "alter table holdfast_writer rename to holdfast_writer_2"


@pytest.fixture
def pooled(server: PostgresServer) -> Iterator[PooledDatabase]:
    """Not one of the pool: its tables change."""
    database = PooledDatabase(server, STORES.pool.new(TEMPLATE))
    yield database
    database.retire()


async def upgrade(pooled: PooledDatabase, script: str) -> None:
    """As the next version does it at its start."""
    with pytest.MonkeyPatch.context() as patch:
        newer = [*migrations(), script]
        patch.setattr(migrate, "migrations", lambda: newer)
        if script is BREAK:
            patch.setattr(migrate, "FORGET_WRITERS", migrate.FORGET_WRITERS.replace("_writer", "_writer_2"))
        await asyncio.to_thread(prepare, Address(pooled.address))


async def test_an_older_node_goes_on_after_an_addition(pooled: PooledDatabase, database: PostgresDatabase) -> None:
    """STO-197: with its prepared statements; one that starts then is refused."""
    await database.submit(unit("evt_0", projections=(project_row("p"),)))
    assert await database.fetch("event.head", {"aggregate_id": "ses_one"}) == [(0, None)]
    commits = [database.submit(unit(f"evt_{number}")) for number in range(1, 20)]
    await upgrade(pooled, ADDITION)
    assert [(await commit).first for commit in commits] == list(range(1, 20))
    assert await database.submit(unit("evt_20", projections=(project_row("q"),))) == Committed(20, 20)
    assert await database.fetch("event.head", {"aggregate_id": "ses_one"}) == [(20, None)]
    assert database.outage() is None
    with pytest.raises(StorageTooNew, match="use a newer Holdfast"):
        await asyncio.to_thread(prepare, Address(pooled.address))


async def test_an_older_node_is_refused_after_a_break(
    pooled: PooledDatabase, database: PostgresDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    """STO-197: each commit is stored before the upgrade, or refused; the node says so in its status, and once in its
    log."""
    await database.submit(unit("evt_0"))
    commits = [database.submit(unit(f"evt_{number}", aggregate=f"ses_{number % 5}")) for number in range(1, 40)]
    with caplog.at_level(logging.WARNING, logger="holdfast.core.database.postgres.outages"):
        await upgrade(pooled, BREAK)
        outcomes = await asyncio.gather(*commits, return_exceptions=True)
        with pytest.raises(StorageChanged, match="restart this process"):
            await database.submit(unit("evt_late"))
    assert all(isinstance(outcome, Committed | StorageChanged) for outcome in outcomes)
    acknowledged = sum(isinstance(outcome, Committed) for outcome in outcomes)
    assert sum(map(len, stored(pooled).values())) == acknowledged + 1
    outage = database.outage()
    assert outage is not None
    assert "are not those that this Holdfast knows" in outage.reason
    assert len([message for message in caplog.messages if "are not those" in message]) == 1
