"""Lists in pages, of servers that do not end, repeat, or send nonsense."""

from __future__ import annotations

import time
from typing import Any

import pytest
from tests.mcp.support import SILENCE, Json, ScriptedServer, connected

from holdfast.mcp.catalog import Prompt, PromptArgument, Rejected, Tool, ToolAnnotations
from holdfast.mcp.errors import ProtocolError, Timeout
from holdfast.mcp.listing import ListLimits
from holdfast.mcp.timeouts import Timeouts

pytestmark = pytest.mark.anyio

SCHEMA = {"type": "object"}


def tool(name: Any, **more: Any) -> Json:
    return {"name": name, "inputSchema": SCHEMA, **more}


def pages(total: int, size: int) -> Any:
    def answer(params: Json) -> Json:
        start = int(params.get("cursor", "0"))
        page = {"tools": [tool(f"tool{number}") for number in range(start, min(start + size, total))]}
        return page if start + size >= total else {**page, "nextCursor": str(start + size)}

    return answer


async def test_all_pages_are_read_in_the_order_of_the_server() -> None:
    """MCP-010"""
    server = ScriptedServer({"tools/list": pages(7, 3)})
    async with await connected(server) as client:
        listing = await client.list_tools()
        assert [found.name for found in listing.items] == [f"tool{number}" for number in range(7)]
        assert (listing.rejected, listing.incomplete) == ((), None)
        sent = [message["params"] for message in server.received if message["method"] == "tools/list"]
        assert sent == [{}, {"cursor": "3"}, {"cursor": "6"}]


async def test_ten_thousand_tools_are_read_quickly() -> None:
    """MCP-012"""
    server = ScriptedServer({"tools/list": pages(10_000, 100)})
    async with await connected(server) as client:
        started = time.perf_counter()
        listing = await client.list_tools()
        assert len(listing.items) == 10_000
        assert listing.incomplete is None
        assert time.perf_counter() - started < 5


@pytest.mark.parametrize(
    ("limits", "count", "reason"),
    [
        (ListLimits(pages=3), 6, "there are more than 3 pages"),
        (ListLimits(items=5), 5, "there are more than 5 entries"),
        (ListLimits(total_bytes=150), 4, "it is larger than 150 bytes"),
    ],
)
async def test_a_list_that_is_too_long_ends_and_says_so(limits: ListLimits, count: int, reason: str) -> None:
    """MCP-012"""
    server = ScriptedServer({"tools/list": pages(100, 2)})
    async with await connected(server, limits=limits) as client:
        listing = await client.list_tools()
        assert len(listing.items) == count
        assert listing.incomplete == reason


@pytest.mark.parametrize("entries", [[], [tool("a")]])
async def test_a_cursor_that_leads_nowhere_ends_the_list(entries: list[Json]) -> None:
    """MCP-012"""
    server = ScriptedServer({"tools/list": {"tools": entries, "nextCursor": "again"}})
    async with await connected(server) as client:
        listing = await client.list_tools()
        assert len(listing.items) == len(entries)
        assert listing.incomplete == "the server repeats a page"
        assert server.methods().count("tools/list") == 2


async def test_an_endless_cursor_ends_with_the_pages() -> None:
    """MCP-012"""
    numbers = iter(range(10**9))
    server = ScriptedServer({"tools/list": lambda _: {"tools": [], "nextCursor": str(next(numbers))}})
    async with await connected(server) as client:
        assert (await client.list_tools()).incomplete == "there are more than 500 pages"


async def test_a_malformed_entry_is_left_out_and_named() -> None:
    """MCP-011"""
    entries: list[Any] = [
        tool("good", description="d", title="t", annotations={"readOnlyHint": True}, outputSchema=SCHEMA, x=1),
        {"name": "no schema"},
        tool("schema\nof another type", inputSchema=[]),
        tool(7),
        tool("bad hints", annotations={"readOnlyHint": "yes"}),
        None,
        [],
        "text",
        tool("good"),
        tool("large", description="x" * 2000),
        tool("last", description=None, title=None),
    ]
    server = ScriptedServer({"tools/list": {"tools": entries}})
    async with await connected(server, limits=ListLimits(item_bytes=1000)) as client:
        listing = await client.list_tools()
        assert listing.items == (
            Tool(
                name="good",
                description="d",
                title="t",
                input_schema=SCHEMA,
                output_schema=SCHEMA,
                annotations=ToolAnnotations(read_only_hint=True),
            ),
            Tool(name="last", input_schema=SCHEMA),
        )
        names = [rejected.name for rejected in listing.rejected]
        assert names == ["no schema", "schema of another type", "", "bad hints", "", "", "", "good", "large"]
        assert listing.rejected[0].reason == "Object missing required field `inputSchema`"
        assert listing.rejected[7] == Rejected("good", "another entry before it has the same name")
        assert listing.rejected[8] == Rejected("large", "it is larger than 1000 bytes")


@pytest.mark.parametrize(("version", "left_out"), [("2025-11-25", True), ("2025-06-18", False), ("2026-07-28", False)])
async def test_a_tool_that_can_only_be_a_task_is_left_out(version: str, left_out: bool) -> None:
    """MCP-011"""
    entries = [
        tool("plain", execution={"taskSupport": "optional"}),
        tool("task", execution={"taskSupport": "required"}),
        tool("odd", execution=7),
    ]
    server = ScriptedServer({"tools/list": {"tools": entries}}, version=version)
    async with await connected(server, version=version) as client:
        listing = await client.list_tools()
        assert [rejected.name for rejected in listing.rejected] == (["task"] if left_out else [])


async def test_only_some_malformed_entries_are_named() -> None:
    """MCP-011"""
    server = ScriptedServer({"tools/list": {"tools": [{}] * 5000}})
    async with await connected(server) as client:
        assert len((await client.list_tools()).rejected) == 100


@pytest.mark.parametrize("answer", [{}, [], None, 7, {"tools": None}, {"tools": {}}, {"tools": [], "nextCursor": 7}])
async def test_an_answer_of_another_form_is_a_protocol_error(answer: Any) -> None:
    """MCP-026"""
    server = ScriptedServer({"tools/list": answer})
    async with await connected(server) as client:
        with pytest.raises(ProtocolError):
            await client.list_tools()
        await client.ping()


async def test_what_a_server_does_not_declare_is_not_asked_for() -> None:
    """MCP-013"""
    server = ScriptedServer(capabilities={})
    async with await connected(server) as client:
        for listing in (
            await client.list_tools(),
            await client.list_resources(),
            await client.list_resource_templates(),
            await client.list_prompts(),
        ):
            assert (listing.items, listing.incomplete) == ((), None)
        assert server.methods() == ["initialize", "notifications/initialized"]


async def test_resources_templates_and_prompts_are_listed() -> None:
    """MCP-010"""
    server = ScriptedServer(
        {
            "resources/list": {
                "resources": [{"uri": "a://1", "name": "one", "size": 3}, {"uri": "a://1", "name": "two"}]
            },
            "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "a://{x}", "name": "t"}]},
            "prompts/list": {"prompts": [{"name": "p", "arguments": [{"name": "x", "required": True}]}]},
        }
    )
    async with await connected(server) as client:
        resources = await client.list_resources()
        assert [resource.uri for resource in resources.items] == ["a://1"]
        assert [rejected.name for rejected in resources.rejected] == ["two"]
        assert [template.uri_template for template in (await client.list_resource_templates()).items] == ["a://{x}"]
        [prompt] = (await client.list_prompts()).items
        assert prompt == Prompt(name="p", arguments=[PromptArgument(name="x", required=True)])


async def test_the_whole_list_has_one_time_limit() -> None:
    """MCP-014"""
    answers = iter([{"tools": [], "nextCursor": "1"}, SILENCE])
    server = ScriptedServer({"tools/list": lambda _: next(answers)})
    async with await connected(server, timeouts=Timeouts(catalog=0.05)) as client:
        with pytest.raises(Timeout, match="tools/list"):
            await client.list_tools()
        assert (await server.called("notifications/cancelled"))["params"]["requestId"] == 3
