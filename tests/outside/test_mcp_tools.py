"""Tools of MCP servers in a Session: what is offered, what stays, and what a call does."""

from __future__ import annotations

from itertools import pairwise

import pytest
from tests.outside.mcp_world import TEXT, known, peer, servers, tool
from tests.outside.scripted_provider import calling
from tests.outside.world import World, ask, called, result_of

pytestmark = pytest.mark.anyio

ALLOWED = [{"action": "git_*", "resource": "*", "effect": "allow"}]


async def test_the_tools_of_a_known_server_are_offered_by_name_and_called(world: World) -> None:
    """MCP-200, MCP-230, TOL-281."""
    git = peer(world, "git", tool("log", "Show the log", path=TEXT), tool("diff"))
    servers(world, git, permissions=ALLOWED)
    async with world.host() as hf:
        await known(hf, git)
        session = await hf.sessions.create()
        part = await called(world, hf, session, "git_log", path="a")
        assert part.state.status == "completed"
        assert world.model.last.tools[-4:] == ["mcp_search", "mcp_call", "git_diff", "git_log"]
        assert result_of(world) == 'log {"path": "a"}'
        assert git.heard() == [{"name": "log", "arguments": {"path": "a"}}]
