"""Remote MCP servers: reached with their headers, down, back again."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.mcp_servers.http_server import HttpServer
from tests.mcp_servers.support import server_of, text_of_call, until
from tests.outside.world import World

from holdfast import ServiceUnavailable

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.core.mcp.servers.UNASKED_SECONDS", 0.0)
    monkeypatch.setattr("holdfast.core.mcp.start_delay.LONGEST_CALL_DELAY", 0.05)


@pytest.fixture
async def remote() -> AsyncIterator[HttpServer]:
    server = HttpServer()
    await server.start()
    yield server
    await server.stop()


async def test_a_remote_server_gets_its_headers(world: World, remote: HttpServer) -> None:
    """MCP-154, API-590: connected like a local one; without OAuth it is no integration."""
    remote.token = "open-sesame"
    headers = {"Authorization": "Bearer open-sesame", "X-Team": "{env:TEAM}"}
    world.environment["TEAM"] = "sea"
    world.configure(mcp={"far": {"type": "remote", "url": remote.url, "headers": headers, "oauth": False}})
    async with world.host() as hf:
        found = await until(hf, "far", "connected")
        assert (found.tools, found.integration_id) == (1, None)
        assert await text_of_call(hf, "far", "echo", text="hi") == "hi"
    assert {sent["x-team"] for sent in remote.headers} == {"sea"}


async def test_a_refused_header_is_not_shown(world: World, remote: HttpServer) -> None:
    """MCP-164: also if the server repeats it."""
    remote.token = "another"
    headers = {"Authorization": "Bearer open-sesame"}
    world.configure(mcp={"far": {"type": "remote", "url": remote.url, "headers": headers, "oauth": False}})
    async with world.host() as hf:
        found = await until(hf, "far", "failed", "needs_auth")
        assert "***" in str(found.error)
        with pytest.raises(ServiceUnavailable) as failed:
            await hf.mcp.call("far", tool="echo")
        log = (await hf.mcp.log("far")).data.text
    assert "open-sesame" not in f"{found}{failed.value}{log}"


async def test_a_server_that_was_down_is_used_when_it_is_back(world: World, remote: HttpServer) -> None:
    """MCP-156, MCP-157, MCP-158: a call while it is down tells that; a later one reaches it."""
    world.configure(mcp={"far": {"type": "remote", "url": remote.url, "oauth": False}})
    async with world.host() as hf:
        await until(hf, "far", "connected")
        await remote.stop()
        with pytest.raises(ServiceUnavailable, match=r"reached|closed|ended|lost"):
            await hf.mcp.call("far", tool="echo")
        await remote.start()
        assert await text_of_call(hf, "far", "echo", text="back") == "back"
        assert (await server_of(hf, "far")).tools == 1
    await remote.stop()
    async with world.host() as hf:
        assert (await server_of(hf, "far")).state == "known"
        with pytest.raises(ServiceUnavailable, match="cannot be reached"):
            await hf.mcp.call("far", tool="echo")
        assert (await server_of(hf, "far")).state == "failed"
    await remote.start()
