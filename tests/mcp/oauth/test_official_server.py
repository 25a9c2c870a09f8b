"""A sign-in at a server of the official package, and calls through the client with the tokens of it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import ManualClock
from tests.mcp.oauth.authorization_server import browse
from tests.mcp.oauth.conftest import IDENTITY, LoopbackOnly, MemoryStore

from holdfast.mcp.capabilities import Implementation
from holdfast.mcp.connect import connect_http
from holdfast.mcp.content import TextContent
from holdfast.mcp.errors import NeedsAuthorization
from holdfast.mcp.oauth.authorizer import FRESH_MS, OAuthAuthorizer
from holdfast.mcp.oauth.begin import begin_sign_in
from holdfast.mcp.oauth.challenge import read_challenge
from holdfast.mcp.oauth.requests import OAuthRequests
from holdfast.mcp.oauth.settings import ServerSettings
from holdfast.mcp.results import ToolResult

pytestmark = pytest.mark.anyio
INFO = Implementation(name="tests", version="1")
SCRIPT = Path(__file__).parent / "official_server.py"


@pytest.fixture(scope="module")
def official() -> Iterator[str]:
    process = subprocess.Popen([sys.executable, str(SCRIPT)], stdin=-1, stdout=-1)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait()


@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
async def test_a_sign_in_lasts_through_calls(official: str, clock: ManualClock, version: str) -> None:
    """MCP-101, MCP-107, MCP-108, MCP-116, MCP-117: refused, signed in, called, renewed in a call, withdrawn."""
    requests, store, settings = OAuthRequests(LoopbackOnly()), MemoryStore(), ServerSettings(official)
    authorizer = OAuthAuthorizer(settings, store, requests, clock.now)

    with pytest.raises(NeedsAuthorization, match="nobody has signed in") as refused:
        await connect_http(official, INFO, authorizer=authorizer, version=version)

    challenge = read_challenge(refused.value.challenge.headers)
    begun = await begin_sign_in(settings, IDENTITY, requests, clock.now, challenge=challenge)
    assert "scope=use" in begun.url
    await browse(begun.url)
    store.credential = first = await begun.finish()
    await begun.close()
    assert (first.granted, first.resource, first.client.kind) == (("use",), official, "registered")

    async with await connect_http(official, INFO, authorizer=authorizer, version=version) as client:
        assert [tool.name for tool in (await client.list_tools()).items] == ["end_token", "end_all"]
        clock.advance(FRESH_MS)
        for _ in range(2):
            result = await client.call_tool("end_token", {})
            assert isinstance(result, ToolResult)
            assert list(result.content) == [TextContent(text="ended")]
            clock.advance(FRESH_MS)
        assert store.credential is not None
        assert store.credential.access != first.access
        assert store.saved == 1
        await client.list_tools()
        await client.call_tool("end_all", {})
        clock.advance(FRESH_MS)
        with pytest.raises(NeedsAuthorization, match="cannot be renewed"):
            await client.list_tools()
        assert store.load() is None
    await requests.close()
