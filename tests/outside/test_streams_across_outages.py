"""Streams of events while a PostgreSQL server is away, seen from a program that embeds Holdfast."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest
from tests.core.database.postgres.proxy import Proxy
from tests.stores.pool import PooledDatabase
from tests.stores.stores import STORES

from holdfast.testing import ScriptedModel

pytestmark = [pytest.mark.anyio, pytest.mark.store("postgres", reason="a file does not go away")]


@pytest.fixture
def pooled() -> Iterator[PooledDatabase]:
    database = STORES.pool.take()
    yield database
    STORES.pool.give_back(database)


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    proxy = Proxy(STORES.pool.server.port)
    yield proxy
    proxy.close()


@pytest.mark.parametrize("kind", ["events", "tree"])
async def test_a_stream_goes_on_when_the_database_is_back(
    tmp_path: Path, pooled: PooledDatabase, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """STO-182: with everything that another process did meanwhile, once and in order."""
    monkeypatch.setattr("holdfast.core.database.postgres.reader.AWAY_SECONDS", 0.1)
    monkeypatch.setattr("holdfast.core.event.relay.AGAIN_SECONDS", 0.05)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    model = ScriptedModel("one", "two", "three", "four")
    async with (
        ScriptedModel().host(tmp_path / "a", database=proxy.address(pooled.name)) as here,
        model.host(tmp_path / "b", database=pooled.address) as there,
    ):
        session = await there.sessions.create()
        stream = here.events.subscribe() if kind == "events" else here.sessions.tree_events(session.id, replay=False)
        seen: list[int] = []
        async with asyncio.timeout(20), aclosing(aiter(stream)) as events:
            await anext(events)  # connected
            await there.run("go", session=session.id)
            proxy.refuses = True
            proxy.cut()
            for text in ("more", "and more"):
                await there.run(text, session=session.id)
            await asyncio.sleep(0.5)  # reads fail meanwhile
            proxy.heal()
            await there.run("the last", session=session.id)
            head = (await there.sessions.history(session.id, limit=100)).events[-1].durable.seq
            async for event in events:
                if event.durable is not None:
                    seen.append(event.durable.seq)
                    if event.durable.seq == head:
                        break
        stored = [event.durable.seq for event in (await there.sessions.history(session.id, limit=100)).events]
    assert [place for place in seen if place in stored] == stored
    assert seen == sorted(set(seen))
