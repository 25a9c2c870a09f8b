"""Clients that were connected before their server was started anew."""

from __future__ import annotations

import asyncio
import gc
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.cli.conftest import Machine, finish, free_port
from tests.outside.test_clients import Serve

from holdfast import connect, connect_sync

pytestmark = pytest.mark.anyio

AT_ONCE = 8


async def test_requests_at_once_find_a_restarted_server(holdfast: Machine, serve: Serve) -> None:
    """API-456: each of them, not only the first that fails to connect."""
    port = str(free_port())
    server = serve("--port", port)
    async with connect(server.url, environment=holdfast.environment) as client, asyncio.timeout(30):
        session = await client.sessions.create()
        server.process.kill()
        finish(server.process)
        await asyncio.to_thread(serve, "--port", port)

        found = await asyncio.gather(*(client.sessions.get(session.id) for _ in range(AT_ONCE)))

    assert [item.id for item in found] == [session.id] * AT_ONCE


# The HTTP library leaves the socket of a failed connection to the garbage collector, which warns of it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_threads_at_once_find_a_restarted_server(holdfast: Machine, serve: Serve) -> None:
    """API-456: with the blocking client."""
    port = str(free_port())
    server = serve("--port", port)
    with connect_sync(server.url, environment=holdfast.environment) as client:
        session = client.sessions.create()
        server.process.kill()
        finish(server.process)
        serve("--port", port)

        with ThreadPoolExecutor(AT_ONCE) as threads:
            found = list(threads.map(lambda _: client.sessions.get(session.id), range(AT_ONCE)))

    assert [item.id for item in found] == [session.id] * AT_ONCE
    gc.collect()  # here, where such warnings are ignored, and not in another test
