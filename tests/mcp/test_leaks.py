"""Calls that are cancelled at any moment leave nothing behind."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from tests.mcp.http_support import RESULT, HttpServer, Incoming, Reply, answer, event, http_client, result_event, stream
from tests.mcp.support import SILENCE, ScriptedServer, connected

from holdfast.mcp.client import Client

pytestmark = pytest.mark.anyio


async def cancel_at_random(client: Client, rounds: int) -> None:
    choose = random.Random(7)

    async def one() -> None:
        call = asyncio.create_task(client.call_tool("a", {}, on_progress=lambda _: None))
        for _ in range(choose.randrange(12)):
            await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait([call])

    before = len(asyncio.all_tasks())
    for _ in range(rounds):
        await asyncio.gather(*(one() for _ in range(10)))
    async with asyncio.timeout(10):
        while client._connection._tasks:
            await asyncio.wait(client._connection._tasks)
        # Connections of the server in this process end later.
        while len(asyncio.all_tasks()) > before + 20:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert client._connection._calls == {}


async def test_over_pipes() -> None:
    """MCP-022, MCP-023"""
    choose = random.Random(1)

    def call(_: Any) -> Any:
        return RESULT if choose.random() < 0.5 else SILENCE

    server = ScriptedServer({"tools/call": call})
    async with await connected(server) as client:
        await cancel_at_random(client, 30)
        await client.ping()
        started = [message["id"] for message in server.received if message.get("method") == "tools/call"]
        cancelled = {m["params"]["requestId"] for m in server.received if m.get("method") == "notifications/cancelled"}
        assert len(started) > 100
        assert cancelled <= set(range(1000))
        assert len(cancelled) > 50


async def test_over_http() -> None:
    """MCP-022, MCP-023"""
    choose = random.Random(2)

    def call(request: Incoming) -> Reply:
        match choose.randrange(3):
            case 0:
                return answer(request, RESULT)
            case 1:
                return stream(event(None, id="1"), result_event(request, RESULT))
            case _:
                return stream(event({"jsonrpc": "2.0", "method": "x"}))

    server = HttpServer({"tools/call": call, "ping": lambda request: answer(request, {})})
    async with http_client(server) as client:
        await cancel_at_random(client, 10)
        await client.ping()
