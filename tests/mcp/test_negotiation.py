"""How a version is agreed upon."""

from __future__ import annotations

from typing import Any

import pytest
from tests.mcp.support import INFO, SILENCE, Json, Refusal, ScriptedServer, connected

from holdfast.mcp.capabilities import Implementation, ListCapability, ServerCapabilities, read_capabilities
from holdfast.mcp.connect import connect_stdio
from holdfast.mcp.errors import NoCommonVersion, ProtocolError, ServerClosed, ServerError
from holdfast.mcp.timeouts import Timeouts

pytestmark = pytest.mark.anyio

UNSUPPORTED = {"supported": ["2026-07-28"], "requested": "2025-11-25"}


async def test_the_newest_version_is_asked_for_first() -> None:
    """MCP-003, MCP-005"""
    server = ScriptedServer(version="2026-07-28")
    async with await connected(server, last_version=None) as client:
        assert client.version == "2026-07-28"
        assert server.received[0]["params"] == {
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            }
        }
        assert server.methods() == ["server/discover"]


@pytest.mark.parametrize(
    "answer",
    [
        Refusal(-32601, "Method not found"),
        Refusal(-32602, "Invalid request parameters"),
        Refusal(-32022, "Unsupported", {"supported": ["2025-06-18"], "requested": "2026-07-28"}),
        Refusal(-32022, "Unsupported", "nonsense"),
        {"supportedVersions": ["2025-11-25"], "capabilities": {}},
        {"supportedVersions": "2026-07-28"},
        {},
        [],
        SILENCE,
    ],
)
async def test_any_other_answer_leads_to_the_handshake(answer: Any) -> None:
    """MCP-003"""
    server = ScriptedServer({"server/discover": answer})
    async with await connected(server, last_version=None, timeouts=Timeouts(probe=0.01)) as client:
        assert client.version == "2025-11-25"
        assert server.methods() == ["server/discover", "initialize", "notifications/initialized"]
        assert server.received[1]["params"] == {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "tests", "version": "1"},
        }


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_the_server_chooses_an_older_version(version: str) -> None:
    """MCP-001, MCP-003"""
    server = ScriptedServer(version=version)
    async with await connected(server) as client:
        assert client.version == version


@pytest.mark.parametrize("version", ["1999-01-01", "2026-07-28", "2099-01-01", ""])
async def test_a_version_that_is_not_spoken_is_refused(version: str) -> None:
    """MCP-003"""
    opening = {"protocolVersion": version, "capabilities": {}, "serverInfo": {"name": "x"}}
    server = ScriptedServer({"initialize": opening})
    with pytest.raises(NoCommonVersion) as raised:
        await connected(server)
    assert raised.value.offered == (version,)
    assert server.closed


async def test_a_server_of_unknown_versions_only_is_refused() -> None:
    """MCP-003"""
    server = ScriptedServer({"server/discover": Refusal(-32022, "no", {"supported": ["2031-01-01"]})})
    with pytest.raises(NoCommonVersion, match="2031-01-01"):
        await connected(server, last_version=None)


async def test_a_server_without_handshake_is_asked_without_it() -> None:
    """MCP-003"""
    server = ScriptedServer({"initialize": Refusal(-32022, "no", UNSUPPORTED)}, version="2026-07-28")
    async with await connected(server, last_version="2025-11-25") as client:
        assert client.version == "2026-07-28"
        assert server.methods() == ["initialize", "server/discover"]


async def test_a_configured_version_is_the_only_one() -> None:
    """MCP-008"""
    server = ScriptedServer(version="2025-06-18")
    async with await connected(server, version="2025-06-18") as client:
        assert client.version == "2025-06-18"
        assert server.methods()[0] == "initialize"
    with pytest.raises(NoCommonVersion):
        await connected(ScriptedServer(version="2025-06-18"), version="2025-11-25")
    with pytest.raises(ServerError):
        await connected(ScriptedServer(version="2025-06-18"), version="2026-07-28")
    with pytest.raises(ValueError, match="unknown protocol version"):
        await connected(ScriptedServer(), version="2020-01-01")


@pytest.mark.parametrize("last", [None, "2026-07-28"])
async def test_a_process_that_ends_at_an_unknown_question_is_started_again(last: str | None) -> None:
    """MCP-004"""
    started: list[ScriptedServer] = []

    async def start() -> ScriptedServer:
        server = ScriptedServer()

        def end(params: Json) -> Any:
            server.die(1, "expected initialize")
            return SILENCE

        server.answers["server/discover"] = end
        started.append(server)
        return server

    async with await connect_stdio(start, INFO, last_version=last) as client:
        assert client.version == "2025-11-25"
    assert [server.methods()[0] for server in started] == ["server/discover", "initialize"]
    assert started[0].closed


async def test_a_process_that_ends_anyway_is_not_started_again_and_again() -> None:
    """MCP-004, MCP-072"""
    started: list[ScriptedServer] = []

    async def start() -> ScriptedServer:
        started.append(ScriptedServer())
        started[-1].die(1)
        return started[-1]

    with pytest.raises(ServerClosed):
        await connect_stdio(start, INFO, timeouts=Timeouts(startup=5))
    assert len(started) == 2
    with pytest.raises(ServerClosed):
        await connect_stdio(start, INFO, last_version="2025-06-18")
    assert len(started) == 3


@pytest.mark.parametrize("info", [None, 7, [], {}, {"name": 7}, "x"])
async def test_what_a_server_says_of_itself_does_not_fail_the_connection(info: Any) -> None:
    """MCP-002"""
    opening = {"protocolVersion": "2025-11-25", "capabilities": [], "serverInfo": info}
    async with await connected(ScriptedServer({"initialize": opening})) as client:
        assert client.server is None
        assert client.capabilities == ServerCapabilities()


def test_capabilities_are_read_leniently() -> None:
    """MCP-002"""
    found = read_capabilities(
        {"tools": [], "prompts": {"listChanged": "yes"}, "logging": [], "resources": False, "x": 1}
    )
    assert found == ServerCapabilities(tools=ListCapability(), prompts=ListCapability(), logging={})


@pytest.mark.parametrize(
    "answer", [{}, [], None, {"protocolVersion": 7}, {"protocolVersion": "2025-11-25", "instructions": 1}]
)
async def test_a_malformed_answer_to_initialize_is_a_protocol_error(answer: Any) -> None:
    """MCP-026"""
    with pytest.raises(ProtocolError):
        await connected(ScriptedServer({"initialize": answer}))


async def test_the_servers_name_and_instructions_are_known() -> None:
    """MCP-002"""
    opening = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "serverInfo": {"name": "s", "version": "2", "title": "S"},
        "instructions": "Be kind.",
    }
    async with await connected(ScriptedServer({"initialize": opening})) as client:
        assert client.server == Implementation(name="s", version="2", title="S")
        assert client.instructions == "Be kind."
