"""A PostgreSQL server that goes away and comes back, seen from a program that embeds Holdfast."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.core.database.postgres.proxy import Proxy
from tests.stores.pool import PooledDatabase
from tests.stores.stores import STORES

from holdfast import Holdfast
from holdfast.schema.exceptions import HoldfastError
from holdfast.testing import ScriptedModel, ToolCall

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


async def test_a_prompt_outlives_the_loss_of_the_database(tmp_path: Path, pooled: PooledDatabase, proxy: Proxy) -> None:
    """STO-005, STO-006: it is answered once, each call is made once, and history is whole."""
    model = ScriptedModel(
        ToolCall("bash", command="echo one >> made"), ToolCall("bash", command="echo two >> made"), "done", "again"
    )
    async with model.host(tmp_path, database=proxy.address(pooled.name), unattended="allow") as hf:
        disturbed = asyncio.create_task(_disturb(proxy))
        try:
            result = await hf.run("go")
            assert result.text == "done"
        finally:
            disturbed.cancel()
            proxy.heal()
        assert (await hf.run("more")).text == "again"
    assert len(model.requests) == 4
    (made,) = tmp_path.rglob("made")
    assert made.read_text(encoding="utf-8") == "one\ntwo\n"


async def _disturb(proxy: Proxy) -> None:
    """Away for a moment, again and again, and back for longer each time."""
    for back in (0.1, 0.2, 0.3, 0.5):
        proxy.refuses = True
        proxy.cut()
        await asyncio.sleep(0.03)
        proxy.refuses = False
        await asyncio.sleep(back)


async def test_reads_fail_after_a_while_and_work_again(
    tmp_path: Path, pooled: PooledDatabase, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STO-006, STO-007: the error names the database; closing does not hang."""
    monkeypatch.setattr("holdfast.core.database.postgres.reader.AWAY_SECONDS", 0.3)
    monkeypatch.setattr("holdfast.core.database.postgres.writer.CLOSE_SECONDS", 0.3)
    monkeypatch.setattr("holdfast.core.session.ownership.LEAVE_SECONDS", 0.3)
    model = ScriptedModel("one", "two")
    async with model.host(tmp_path, database=proxy.address(pooled.name)) as hf:
        assert (await hf.run("go")).text == "one"
        proxy.refuses = True
        proxy.cut()
        with pytest.raises(HoldfastError):
            await hf.sessions.list()
        proxy.heal()
        assert (await hf.run("go")).text == "two"
        proxy.refuses = True
        proxy.cut()
        closing = time.monotonic()
    assert time.monotonic() - closing < 20


async def test_a_database_that_cannot_be_used_says_why(tmp_path: Path) -> None:
    """STO-017: before anything starts."""
    server = STORES.pool.server
    for address, reason in (
        (server.address("nothing"), 'database "nothing" does not exist'),
        (server.address("postgres", user="stranger"), 'role "stranger" does not exist'),
        ("postgresql://u:hunter2@127.0.0.1:1/x", "onnection refused"),
    ):
        with pytest.raises(HoldfastError, match=reason) as caught:
            async with Holdfast(tmp_path, database=address):
                pass
        assert "hunter2" not in str(caught.value)
