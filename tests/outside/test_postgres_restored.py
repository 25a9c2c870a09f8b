"""A dump of one PostgreSQL server, restored into another: what was stored is there, and followers see once what is
new."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest
from tests.stores.private import PrivateServer, private_server
from tests.stores.server import NoPostgres

from holdfast import ApiError, Event, Holdfast
from holdfast.schema.exceptions import HoldfastError
from holdfast.testing import ScriptedModel

pytestmark = [pytest.mark.anyio, pytest.mark.store("postgres", reason="dumps are PostgreSQL's")]

CONNECTED = "session.tree.connected"
PATIENCE = 30.0


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[PrivateServer, PrivateServer]]:
    """The first one has given more than four thousand million numbers to transactions, the second is new."""
    try:
        with private_server() as old, private_server() as new:
            old.stop()
            old.run("pg_resetwal", "-e", "1", "-D", old.data)
            old.start()
            yield old, new
    except NoPostgres as error:
        pytest.skip(str(error))


def restore(old: PrivateServer, new: PrivateServer, name: str) -> None:
    dump = old.run("pg_dump", "-d", old.admin(name), "--no-owner")
    new.sql(f"create database {name} owner holdfast")
    restoring = f"set role holdfast; {dump.decode()}"
    new.run("psql", "-q", "-v", "ON_ERROR_STOP=1", "-d", new.admin(name), given=restoring.encode())


async def tree(hf: Holdfast, session_id: str, after: str | None = None) -> list[Event]:
    """The events of a tree up to now."""
    found = []
    async with asyncio.timeout(PATIENCE), aclosing(aiter(hf.sessions.tree_events(session_id, after=after))) as events:
        async for event in events:
            found.append(event)
            if event.type == CONNECTED:
                break
    return found


async def test_followers_go_on_after_a_dump_was_restored(
    tmp_path: Path, servers: tuple[PrivateServer, PrivateServer]
) -> None:
    """STO-195: nothing that was stored is new again, nothing new is left out, and cursors of the old server are
    refused, also when the new one has counted as far."""
    old, new = servers
    old.sql("create database moved owner holdfast")
    model = ScriptedModel("one", "two", "three")
    async with model.host(tmp_path, database=old.address("moved")) as hf:
        session = await hf.sessions.create()
        assert (await hf.run("go", session=session.id)).text == "one"
    async with model.host(tmp_path, database=old.address("moved")) as hf:  # the first one has told everything
        earlier = await tree(hf, session.id)
        stale = earlier[-1].cursor
        assert stale is not None
    restore(old, new, "moved")
    async with model.host(tmp_path, database=new.address("moved")) as hf:
        at_first = await tree(hf, session.id)
        assert [event.id for event in at_first[:-1]] == [event.id for event in earlier[:-1]]
        cursor = at_first[-1].cursor
        assert cursor is not None
        assert [event.type for event in await tree(hf, session.id, after=cursor)] == [CONNECTED]
        assert (await hf.run("go on", session=session.id)).text == "two"
    async with model.host(tmp_path, database=new.address("moved")) as hf:
        later = [event.id for event in await tree(hf, session.id, after=cursor)][:-1]
        whole = [event.id for event in await tree(hf, session.id)][:-1]
        assert later
        assert [event.id for event in earlier[:-1]] + later == whole
        with pytest.raises(ApiError) as refused:
            await tree(hf, session.id, after=stale)
        assert refused.value.code == "InvalidCursorError"
        assert await hf.verify() == []
    new.stop()
    new.run("pg_resetwal", "-e", "2", "-D", new.data)
    new.start()
    async with model.host(tmp_path, database=new.address("moved")) as hf:
        with pytest.raises(ApiError):
            await tree(hf, session.id, after=stale)
        assert [event.type for event in await tree(hf, session.id, after=cursor)][-1] == CONNECTED
        assert [event.id for event in await tree(hf, session.id, after=cursor)][:-1] == later


async def test_a_server_that_takes_the_place_of_another_is_refused_until_the_restart(
    tmp_path: Path, servers: tuple[PrivateServer, PrivateServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """STO-196: the address is the same, and what this process knows comes from the other server."""
    monkeypatch.setattr("holdfast.core.database.postgres.reader.AWAY_SECONDS", 0.5)
    monkeypatch.setattr("holdfast.core.database.postgres.writer.CLOSE_SECONDS", 0.3)
    monkeypatch.setattr("holdfast.core.session.ownership.LEAVE_SECONDS", 0.3)
    old, new = servers
    old.sql("create database swapped owner holdfast")
    model = ScriptedModel("one", "two")
    async with model.host(tmp_path, database=old.address("swapped")) as hf:
        assert (await hf.run("go")).text == "one"
        restore(old, new, "swapped")
        port = old.port
        old.stop()
        new.stop()
        old.port, new.port = new.port, port
        new.start()
        try:
            with pytest.raises(HoldfastError, match="another server answers there"):
                await hf.sessions.list()
        finally:
            old.start()
    async with model.host(tmp_path, database=new.address("swapped")) as hf:
        assert (await hf.run("again")).text == "two"
