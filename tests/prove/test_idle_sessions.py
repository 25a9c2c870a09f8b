"""What two idle nodes ask of PostgreSQL, with no Session and with ten thousand."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import psycopg
import pytest
from tests.outside.scripted_provider import Model
from tests.prove.cluster import Cluster
from tests.prove.postgres_cluster import Store, postgres_cluster

pytestmark = [pytest.mark.anyio, pytest.mark.prove, pytest.mark.timeout(900)]

SESSIONS = int(os.environ.get("HOLDFAST_IDLE_SESSIONS", "10000"))
SECONDS = 30.0
SETTLE_SECONDS = 12.0
"""Backends report their counters after ten idle seconds at the latest."""
WORKERS = 24
COUNTERS = "select xact_commit + xact_rollback, tup_returned, tup_fetched from pg_stat_database where datname = 'nodes'"


class Load(NamedTuple):
    """On the server, each second."""

    transactions: float
    rows_scanned: float
    rows_by_index: float


async def measured(store: Store) -> Load:
    """Of everybody who is connected to the database of the nodes."""
    await asyncio.sleep(SETTLE_SECONDS)
    before = _counters(store)
    await asyncio.sleep(SECONDS)
    after = _counters(store)
    return Load(*((now - then) / SECONDS for now, then in zip(after, before, strict=True)))


def _counters(store: Store) -> Sequence[int]:
    with psycopg.connect(store.server.admin, autocommit=True) as admin:  # in another database: it is not counted
        (found,) = admin.execute(COUNTERS).fetchall()
    return found


async def create(cluster: Cluster) -> None:
    left = iter(range(SESSIONS))

    async def worker() -> None:
        for _ in left:
            await cluster.create()

    await asyncio.gather(*(worker() for _ in range(WORKERS)))


async def test_idle_sessions_cost_the_server_nothing(tmp_path: Path) -> None:
    """STO-184"""
    model, store = Model(), Store()
    async with model.serving(), postgres_cluster(tmp_path, store, model, random.Random(1), shifts=(0, 0)) as cluster:
        with psycopg.connect(store.server.admin, autocommit=True) as admin:  # it would be counted
            admin.execute("alter system set autovacuum = off")
            admin.execute("select pg_reload_conf()")
        empty = await measured(store)
        await create(cluster)
        store.run("vacuum analyze")
        full = await measured(store)
    stored = len(cluster.acknowledged)
    for name, load in (("no Session", empty), (f"{stored} Sessions", full)):
        print(
            f"{name}: {load.transactions:.1f} transactions/s, {load.rows_scanned:.0f} rows scanned and "
            f"{load.rows_by_index:.0f} read by index each second"
        )
    assert stored == SESSIONS
    assert empty.transactions > 0, "the server did not report what the nodes ask it"
    assert full.transactions <= empty.transactions * 1.1 + 0.5
    assert full.rows_scanned <= empty.rows_scanned * 1.25 + 50
