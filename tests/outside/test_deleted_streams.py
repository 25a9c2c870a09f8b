"""The stream of a Session ends when the Session is deleted, in every process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.outside.scripted_provider import PATIENCE
from tests.outside.test_overview import until
from tests.outside.world import World, ask

from holdfast import SessionNotFound, follow

pytestmark = pytest.mark.anyio


async def read(events: AsyncIterator[Any], types: list[str]) -> None:
    async for event in events:
        types.append(event.type)


async def answered(streams: list[list[str]]) -> bool:
    return all("session.next.step.ended" in types for types in streams)


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize("way", ["delete", "purge"])
async def test_a_deleted_session_ends_its_stream_in_every_process(world: World, way: str, live: bool) -> None:
    """SES-490: what was committed before comes first; who follows is told that there is no such Session."""
    async with world.host() as hf, world.host() as other:
        session, kept = await hf.sessions.create(), await hf.sessions.create()
        await ask(hf, session, "go")
        streams = [aiter(host.sessions.events(session.id, live=live or None)) for host in (hf, other)]
        followers = [follow(host, session.id, live=live) for host in (hf, other)]
        rest = aiter(other.sessions.events(kept.id, live=True))
        types: list[list[str]] = [[] for _ in range(5)]
        tasks = [asyncio.create_task(read(*each)) for each in zip((*streams, *followers, rest), types, strict=True)]
        await hf.sessions.rename(session.id, title="another")
        await until(lambda: answered(types[:4]))
        await (hf.sessions.delete(session.id) if way == "delete" else hf.sessions.purge(sessions=[session.id]))
        async with asyncio.timeout(PATIENCE):
            ends = await asyncio.gather(*tasks[:4], return_exceptions=True)
        assert [type(end) for end in ends] == [type(None), type(None), SessionNotFound, SessionNotFound]
        assert not any("session.deleted" in each for each in types)
        assert not tasks[4].done()
        tasks[4].cancel()
