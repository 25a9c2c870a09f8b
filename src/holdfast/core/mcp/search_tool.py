"""The `mcp_search` tool: finds tools of MCP servers among all that are known now, and tells what they take."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from holdfast.core.mcp.call_tool import SILENT
from holdfast.core.mcp.stranger_text import one_line
from holdfast.core.mcp.tool_definition import input_schema
from holdfast.core.mcp.tool_names import SEARCH
from holdfast.core.tool.codec import JsonSchema
from holdfast.core.tool.registration import Registration
from holdfast.core.tool.tool import CallOutput, Tool
from holdfast.schema.codec import encode
from holdfast.schema.session_message import TextContent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.mcp.catalogue import Catalogue
    from holdfast.core.mcp.seam import Servers
    from holdfast.core.mcp.tool_names import NamedTool
    from holdfast.core.tool.builtin.authorize import AuthorityOf
    from holdfast.core.tool.tool import ToolContext

DESCRIPTION = (
    "Find tools of the connected MCP servers by what they do. Returns names, descriptions and input schemas. Call what "
    "you find with mcp_call, unless it is also one of your own tools."
)
DEFAULT_LIMIT = 5
MOST = 20
DESCRIPTION_CHARACTERS = 300
SCHEMA_CHARACTERS = 4_000
ONLY_SCHEMA_CHARACTERS = 30_000
"""Of the only tool that is found."""
ALL_CHARACTERS = 40_000
NONE = "No tool of an MCP server matches."
EMPTY = "No tool of an MCP server is known yet."


class McpSearchInput(msgspec.Struct, frozen=True, omit_defaults=True):
    query: Annotated[str, msgspec.Meta(description="Words, or the name of a tool. Empty lists all.")]
    server: Annotated[str, msgspec.Meta(description="Only tools of this server")] | msgspec.UnsetType = msgspec.UNSET
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST)] = DEFAULT_LIMIT


def search_tool(servers: Servers, catalogue: Callable[[], Catalogue], authority: AuthorityOf) -> Registration:
    async def execute(given: McpSearchInput, context: ToolContext) -> CallOutput:
        own = await authority(context)

        def search() -> tuple[list[NamedTool], list[NamedTool]]:
            known = catalogue()
            usable = known.usable(own.rules, own.fences)
            names = {tool.name for tool in usable if given.server in (msgspec.UNSET, tool.server)}
            return usable, known.index.search(given.query, lambda tool: tool.name in names)

        usable, found = search()
        if not found and await servers.learn():
            usable, found = search()
        text = _told(found, given.limit) if found else _nothing(usable, servers.unknown())
        listed = [_listed(tool) for tool in found[: given.limit]]
        return CallOutput({"tools": listed, "total": len(found)}, (TextContent(text=text),))

    return Registration(
        SEARCH,
        Tool(description=DESCRIPTION, input=McpSearchInput, output=JsonSchema({}), execute=execute, read_only=True),
    )


def _told(found: list[NamedTool], limit: int) -> str:
    shown = found[:limit]
    room = ONLY_SCHEMA_CHARACTERS if len(shown) == 1 else SCHEMA_CHARACTERS
    left = ALL_CHARACTERS
    parts: list[str] = []
    for tool in shown:
        part = _described(tool, room)
        if len(part) > left:
            part = _described(tool, 0)
        left -= len(part)
        parts.append(part)
    if len(found) > limit:
        parts.append(f"{len(found) - limit} more match. Narrow the query, or ask for more with `limit`.")
    return "\n\n".join(parts)


def _described(named: NamedTool, room: int) -> str:
    schema = encode(input_schema(named)).decode()
    if len(schema) > room:
        schema = f"too long to show here; search for {named.name} alone. {_arguments(named)}"
    text = one_line(named.tool.description or named.tool.title or "", DESCRIPTION_CHARACTERS)
    return f"{named.name}: {text}\n  server: {named.server}\n  input: {schema}"


def _arguments(named: NamedTool) -> str:
    schema = named.tool.input_schema
    properties = schema.get("properties")
    names = [one_line(name, 60) for name in list(properties)[:40]] if isinstance(properties, dict) else []
    required = schema.get("required")
    needed = [one_line(str(name), 60) for name in required[:40]] if isinstance(required, list) else []
    return f"Arguments: {', '.join(names) or 'none'}. Required: {', '.join(needed) or 'none'}."


def _nothing(usable: list[NamedTool], unknown: Sequence[str]) -> str:
    silent = f" {SILENT.format(names=', '.join(one_line(name, 60) for name in unknown[:50]))}" if unknown else ""
    return _matches_nothing(usable) + silent


def _matches_nothing(usable: list[NamedTool]) -> str:
    counts = Counter(tool.server for tool in usable)
    if not counts:
        return EMPTY
    servers = ", ".join(f"{one_line(name, 60)} ({count} tools)" for name, count in list(counts.items())[:50])
    return f"{NONE} Servers: {servers}."


def _listed(named: NamedTool) -> dict[str, Any]:
    text = one_line(named.tool.description or named.tool.title or "", DESCRIPTION_CHARACTERS)
    return {"name": named.name, "server": named.server, "tool": named.tool.name, "description": text}
