"""A thousand Sessions in one bundle, taken into another database."""

from __future__ import annotations

import asyncio

import pytest
from tests.outside.conftest import model, world
from tests.outside.scripted_provider import calling
from tests.outside.test_bundles import bundle, elsewhere, rows
from tests.outside.world import World, ask

from holdfast import Holdfast

__all__ = ["model", "world"]

pytestmark = [pytest.mark.anyio, pytest.mark.prove, pytest.mark.timeout(1200)]

SESSIONS = 1000
AT_ONCE = 20


async def test_a_thousand_sessions_are_the_same_elsewhere(world: World) -> None:
    """OPS-001, OPS-002, OPS-010, OPS-020: every event byte for byte, every row, and the bundle made from them again."""
    async with world.host() as hf:
        for start in range(0, SESSIONS, AT_ONCE):
            await asyncio.gather(*(_talked(world, hf, number) for number in range(start, start + AT_ONCE)))
        report = await hf.export_bundle(bundle(world))
        assert await hf.verify_bundle(bundle(world)) == report
    assert report.sessions >= SESSIONS
    async with elsewhere(world) as other:
        imported = await other.import_bundle(bundle(world))
        assert {session.outcome for session in imported.sessions} == {"imported"}
        assert imported.events == report.events
        assert await other.verify() == []
        assert await other.export_bundle(bundle(world, "again.holdfast")) == report
    assert rows(world.data) == rows(world.home / "elsewhere")
    assert bundle(world).read_bytes() == bundle(world, "again.holdfast").read_bytes()


async def _talked(world: World, hf: Holdfast, number: int) -> None:
    session = await hf.sessions.create()
    if number % 10 == 0:
        world.model.plays(calling("bash", command="seq 1 20000", description="count"))
    for text in ("one", "two"):
        await ask(hf, session, f"{text} {number}")
