"""Time limits of MCP servers, as a user configures them."""

from __future__ import annotations

import asyncio

import pytest
from tests.mcp_servers.support import PATIENCE, server_of
from tests.outside.mcp_world import Peer, known, peer, servers, tool
from tests.outside.world import World, called, result_of

from holdfast import Holdfast, ServiceUnavailable
from holdfast.schema.mcp import McpServer
from holdfast.schema.session_message import ToolError

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unknown servers are started as soon as the Location is open, and stubborn ones are closed soon."""
    monkeypatch.setattr("holdfast.core.mcp.servers.UNASKED_SECONDS", 0.0)
    monkeypatch.setattr("holdfast.core.process.piped.INPUT_END_SECONDS", 0.1)
    monkeypatch.setattr("holdfast.core.process.piped.TERM_SECONDS", 0.1)


async def settled(hf: Holdfast, server: Peer) -> McpServer:
    """The server, once it is connected or a connection has failed."""
    async with asyncio.timeout(PATIENCE):
        while True:
            found = await server_of(hf, server.name)
            if found.state == "connected" or found.error is not None:
                return found
            await asyncio.sleep(0.01)


async def test_a_call_ends_at_the_configured_limit(world: World) -> None:
    """MCP-023, MCP-151: for a model and for a program; the server is told, and the Session continues."""
    slow = peer(world, "slow", tool("think"))
    slow.answers("think", hangs=True)
    rules = [{"action": "slow_*", "resource": "*", "effect": "allow"}]
    servers(world, slow, permissions=rules, slow={"timeout": {"execution": 300}})
    async with world.host() as hf, asyncio.timeout(PATIENCE):
        await known(hf, slow)
        part = await called(world, hf, await hf.sessions.create(), "slow_think")
        assert isinstance(part.state, ToolError)
        assert "did not answer tools/call within 0.3 s" in part.state.error.message
        assert part.state.error.message in result_of(world)
        if not slow.heard("notifications/cancelled"):
            await slow.hears("notifications/cancelled")
        with pytest.raises(ServiceUnavailable, match=r"did not answer tools/call within 0\.3 s"):
            await hf.mcp.call("slow", tool="think", arguments={})


async def test_one_number_of_an_older_configuration_limits_calls(world: World) -> None:
    """MCP-151: `"timeout": 300`."""
    slow = peer(world, "slow", tool("think"))
    slow.answers("think", hangs=True)
    servers(world, slow, slow={"timeout": 300})
    async with world.host() as hf, asyncio.timeout(PATIENCE):
        await known(hf, slow)
        with pytest.raises(ServiceUnavailable, match=r"did not answer tools/call within 0\.3 s"):
            await hf.mcp.call("slow", tool="think", arguments={})


async def test_a_server_that_never_lists_its_tools_fails_at_the_limit(world: World) -> None:
    """MCP-151: instead of being started for ever."""
    mute = peer(world, "mute", unlisted=True)
    servers(world, mute, mute={"timeout": {"catalog": 300}})
    async with world.host() as hf:
        found = await settled(hf, mute)
    assert found.state == "failed"
    assert "tools/list" in str(found.error)
    assert "within 0.3 s" in str(found.error)


async def test_an_older_server_that_ignores_unknown_questions_connects(world: World) -> None:
    """MCP-004, MCP-370: the question that it does not know takes at most half of the time for a start."""
    old = peer(world, "old", tool("log"), silent=True)
    servers(world, old, old={"timeout": {"startup": 2000}})
    async with world.host() as hf:
        found = await settled(hf, old)
        assert (found.state, found.error) == ("connected", None)
        assert (await hf.mcp.call("old", tool="log", arguments={})).data.content


DEEP = "[" * 200_000


@pytest.mark.parametrize(
    "raw",
    ['{"jsonrpc":"2.0","id":ID,"result":' + DEEP, '{"result":' + DEEP + ', "id": ID}', '{"id":ID,"result":{"a":}}'],
)
async def test_an_answer_that_cannot_be_read_fails_its_call_at_once(world: World, raw: str) -> None:
    """MCP-377: long before its limit, and the connection stays."""
    odd = peer(world, "odd", tool("think"), raw=raw)
    servers(world, odd)
    async with world.host() as hf, asyncio.timeout(PATIENCE):
        await known(hf, odd)
        with pytest.raises(ServiceUnavailable, match="The answer cannot be read"):
            await hf.mcp.call("odd", tool="think", arguments={})
        assert (await server_of(hf, "odd")).state == "connected"
