"""Any messages at any time: the client goes on."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.mcp.support import SILENCE, ScriptedServer, connected

from holdfast.mcp.errors import McpError
from holdfast.mcp.handlers import Asked, Handlers
from holdfast.mcp.input import Elicitation, ElicitationAnswer, Root, Sampling, SamplingAnswer

VALUES: list[Any] = [
    None,
    True,
    0,
    1,
    2,
    3,
    "1",
    1.5,
    "",
    "x",
    [],
    [7],
    {},
    {"x": 1},
    {"progressToken": 3, "progress": 1},
]
NAMES = [
    "message",
    "requestedSchema",
    "mode",
    "url",
    "uri",
    "level",
    "data",
    "requestId",
    "progressToken",
    "_meta",
    "maxTokens",
]
METHODS: list[Any] = [
    "ping",
    "roots/list",
    "elicitation/create",
    "sampling/createMessage",
    "notifications/progress",
    "notifications/cancelled",
    "notifications/message",
    "notifications/tools/list_changed",
    "notifications/resources/updated",
    "notifications/elicitation/complete",
    "",
    7,
    None,
]
PARAMS = st.sampled_from(VALUES) | st.dictionaries(st.sampled_from(NAMES), st.sampled_from(VALUES), max_size=4)
MESSAGES = st.fixed_dictionaries(
    {"jsonrpc": st.sampled_from(["2.0", "2.0", "2.0", "1.0", 2])},
    optional={
        "id": st.sampled_from(VALUES),
        "method": st.sampled_from(METHODS),
        "params": PARAMS,
        "result": st.sampled_from(VALUES),
        "error": st.sampled_from([*VALUES, {"code": 1, "message": "no"}]),
    },
)


def ignore(*_: Any) -> None:
    pass


async def elicit(elicitation: Elicitation, asked: Asked) -> ElicitationAnswer:
    return ElicitationAnswer(action="cancel")


async def sample(sampling: Sampling, asked: Asked) -> SamplingAnswer:
    raise AssertionError  # nothing above is a whole request for it


async def roots() -> list[Root]:
    return []


HANDLERS = Handlers(
    elicit=elicit,
    sample=sample,
    roots=roots,
    on_tools_changed=ignore,
    on_resource_updated=ignore,
    on_elicitation_complete=ignore,
    on_log=ignore,
    on_garbage=ignore,
)


@pytest.mark.parametrize("version", ["2025-03-26", "2025-11-25", "2026-07-28"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(messages=st.lists(MESSAGES | st.lists(MESSAGES, max_size=2), max_size=6))
def test_any_messages_leave_the_connection_usable(
    version: str, messages: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    """MCP-025, MCP-026, MCP-044"""
    caplog.set_level(logging.WARNING)
    asyncio.run(_exchange(version, messages))
    assert caplog.records == []


async def _exchange(version: str, messages: list[Any]) -> None:
    server = ScriptedServer({"tools/call": SILENCE, "tools/list": {"tools": []}}, version=version)
    server.answers["subscriptions/listen"] = SILENCE
    async with await connected(server, HANDLERS, version=version) as client:
        call = asyncio.create_task(client.call_tool("a", {}, on_progress=ignore))
        await server.called("tools/call")
        for message in messages:
            server.send(message)
        for _ in range(2):
            try:
                await client.list_tools()
            except McpError:  # one of the messages has answered it
                continue
        assert client.end is None
        call.cancel()
        await asyncio.wait([call])
