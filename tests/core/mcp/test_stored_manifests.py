"""Manifests in the database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import ManualClock
from tests.stores.stores import STORES, OpenedDatabase

from holdfast.core.config.schema import LocalServer, RemoteServer
from holdfast.core.mcp.configured_servers import ConfiguredServer, configured_server
from holdfast.core.mcp.manifest import Lists, MadeManifest, make_manifest
from holdfast.core.mcp.stored_manifests import KEPT_MILLIS, StoredManifests
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
    clock.advance(KEPT_MILLIS + 1)
    await stored.store(server("x"), made[3], "v")
    kept = [await stored.get(manifest.hash) is not None for manifest in made]
    assert kept == [True, True, False, True]  # another server's newest, an offered one, forgotten, the newest
    assert await stored.get(offering("e").hash) is not None  # the newest until now, as others may still believe


async def test_what_cannot_be_read_is_unknown(database: OpenedDatabase, tmp_path: Path) -> None:
    stored = StoredManifests(database, ManualClock(), "/here")
    await stored.store(server("x"), offering("a").replace(data=b"not json"), "v")
    assert await stored.newest(server("x")) is None
