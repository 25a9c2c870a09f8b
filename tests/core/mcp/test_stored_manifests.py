"""Manifests in the database."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.conftest import ManualClock
from tests.stores.stores import STORES, OpenedDatabase

from holdfast.core.config.schema import LocalServer, RemoteServer
from holdfast.core.mcp.configured_servers import ConfiguredServer, configured_server
from holdfast.core.mcp.leftovers import DAY_MILLIS, MANIFEST_MILLIS, SERVER_MILLIS, McpLeftovers
from holdfast.core.mcp.manifest import Lists, MadeManifest, make_manifest
from holdfast.core.mcp.stored_manifests import StoredManifests
from holdfast.mcp.catalog import Listing, Tool

pytestmark = pytest.mark.anyio


@pytest.fixture
def database(tmp_path: Path) -> Iterator[OpenedDatabase]:
    opened = STORES.open(tmp_path / "x.db")
    yield opened
    opened.close()


def server(*command: str) -> ConfiguredServer:
    return configured_server("s", LocalServer(command=list(command)))


def offering(*names: str) -> MadeManifest:
    tools = tuple(Tool(name=name, input_schema={"type": "object"}) for name in names)
    nothing: Listing[Any] = Listing(())
    return make_manifest(Lists(None, Listing(tools), nothing, nothing, nothing))


async def test_the_newest_of_each_configuration_is_known(database: OpenedDatabase) -> None:
    """MCP-165: an earlier one can still be read by its hash."""
    stored = StoredManifests(database, ManualClock(), "/here")
    old, new = offering("a"), offering("b")
    await stored.store(server("x"), old, "2025-11-25")
    await stored.store(server("x"), new, "2026-07-28")
    found = await stored.newest(server("x"))
    assert found is not None
    assert (found.known.hash, found.known.manifest, found.version) == (new.hash, new.manifest, "2026-07-28")
    assert await stored.newest(server("y")) is None
    assert await stored.get(old.hash) == old.manifest
    assert await stored.get("none") is None


async def test_each_location_has_a_newest_of_its_own(database: OpenedDatabase) -> None:
    """MCP-320: until then it takes what another one has stored."""
    here, there = (StoredManifests(database, ManualClock(), place) for place in ("/here", "/there"))
    one, other = offering("a"), offering("b")
    remote = configured_server("r", RemoteServer(url="https://example.com/mcp"))
    await here.store(server("x"), one, "v")
    taken = await there.newest(server("x"))
    assert taken is not None
    assert (taken.known.hash, taken.own) == (one.hash, False)
    await there.store(server("x"), other, "v")
    own = await here.newest(server("x"))
    assert own is not None
    assert (own.known.hash, own.own) == (one.hash, True)
    await there.store(remote, other, "v")
    assert await here.hashes([server("x"), remote]) == {"s": one.hash, "r": other.hash}
    assert await there.hashes([server("x")]) == {"s": other.hash}
    assert await StoredManifests(database, ManualClock(), "/third").hashes([server("x")]) == {}


async def test_old_manifests_are_removed_unless_an_epoch_offers_them(database: OpenedDatabase, tmp_path: Path) -> None:
    """MCP-166: nothing that was sent can change because of it."""
    clock = ManualClock()
    stored = StoredManifests(database, clock, "/here")
    made = [offering(name) for name in "abcd"]
    for manifest in (made[2], *made[:2], offering("e")):
        await stored.store(server("x"), manifest, "v")
    await stored.store(server("other"), made[0], "v")
    with STORES.rows(tmp_path / "x.db") as run:
        rows = [("1", f'{{"s":"{made[1].hash}"}}'), ("2", ""), ("3", '{"s":"another"}'), ("4", '{"s":"another"}')]
        for id, offer in rows:
            run(
                "insert into session_context_epoch (session_id, baseline_id, snapshot_id, baseline_seq, revision,"
                " observed, offer) values (?, '1', '1', 0, 0, '0', ?)",
                id,
                offer,
            )
    clock.advance(MANIFEST_MILLIS + 1)
    await stored.store(server("x"), made[3], "v")
    kept = [await stored.get(manifest.hash) is not None for manifest in made]
    assert kept == [True, True, False, True]  # another server's newest, an offered one, forgotten, the newest
    assert await stored.get(offering("e").hash) is not None  # the newest until now, as others may still believe


async def test_servers_that_nobody_has_any_more_are_forgotten(database: OpenedDatabase, tmp_path: Path) -> None:
    """MCP-367: what a Location still has is kept, and so is what an epoch offers."""
    clock = ManualClock()
    here, there = (StoredManifests(database, clock, place) for place in ("/here", "/there"))
    leftovers = McpLeftovers(database, clock, tmp_path / "logs")
    (tmp_path / "logs").mkdir()
    await here.store(server("kept"), offering("a"), "v")
    await here.store(server("gone"), offering("b"), "v")
    await there.store(server("kept"), offering("c"), "v")
    clock.advance(SERVER_MILLIS)
    await here.touch([server("kept")])
    clock.advance(1)
    assert await here.newest(server("gone")) is None  # a day before it is removed
    assert await here.newest(server("kept")) is not None
    await leftovers.sweep()
    assert await here.get(offering("b").hash) is not None
    clock.advance(DAY_MILLIS)
    await leftovers.sweep()
    kept = [await here.get(offering(name).hash) is not None for name in "abc"]
    assert kept == [True, False, True]  # the last one is the newest of all Locations
    assert await there.hashes([server("kept")]) == {}
    assert await here.hashes([server("kept")]) == {"s": offering("a").hash}


@pytest.mark.store("sqlite", reason="its file tells whether anything was written")
async def test_a_touch_writes_at_most_once_a_day(database: OpenedDatabase, tmp_path: Path) -> None:
    """MCP-367: opening a Location costs no commit."""
    clock = ManualClock()
    stored = StoredManifests(database, clock, "/here")
    await stored.store(server("x"), offering("a"), "v")
    connection = apsw.Connection(str(tmp_path / "x.db"))

    def version() -> object:
        return connection.execute("pragma data_version").get

    before = version()
    await stored.touch([server("x"), server("unknown")])
    assert version() == before
    clock.advance(DAY_MILLIS + 1)
    await stored.touch([server("x")])
    assert version() != before
    connection.close()


async def test_logs_that_nothing_is_added_to_are_removed(database: OpenedDatabase, tmp_path: Path) -> None:
    """MCP-367: nothing is looked for where no server ever ran."""
    clock = ManualClock()
    folder = tmp_path / "logs"
    leftovers = McpLeftovers(database, clock, folder)
    await leftovers.sweep()
    folder.mkdir()
    now = clock.now() / 1000
    for name, age in (("old.log", 31), ("old.log.1", 31), ("young.log", 29)):
        (folder / name).touch()
        os.utime(folder / name, (now, now - age * 24 * 3600))
    await leftovers.sweep()
    assert [file.name for file in folder.iterdir()] == ["young.log"]


async def test_what_cannot_be_read_is_unknown(database: OpenedDatabase, tmp_path: Path) -> None:
    stored = StoredManifests(database, ManualClock(), "/here")
    await stored.store(server("x"), offering("a").replace(data=b"not json"), "v")
    assert await stored.newest(server("x")) is None
