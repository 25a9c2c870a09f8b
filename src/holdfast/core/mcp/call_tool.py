"""The `mcp_call` tool: calls any tool of an MCP server that is known now, with the checks of a direct call and under
the same permission action."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from holdfast.core.mcp.tool_names import CALL, server_prefix
from holdfast.core.tool.codec import JsonSchema
from holdfast.core.tool.registration import Registration
from holdfast.core.tool.tool import Tool, ToolFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

    from holdfast.core.mcp.calls import McpCalls
    from holdfast.core.mcp.catalogue import Catalogue
    from holdfast.core.mcp.seam import Servers
    from holdfast.core.mcp.tool_names import NamedTool
    from holdfast.core.tool.tool import CallOutput, ToolContext

DESCRIPTION = (
    "Call a tool of an MCP server that mcp_search found or that a list of MCP servers names. Its input schema says "
    "which arguments it takes."
)
NAME_CHARACTERS = 200
SILENT = "It is not known yet what these MCP servers offer: {names}."


class McpCallInput(msgspec.Struct, frozen=True, omit_defaults=True):
    tool: Annotated[str, msgspec.Meta(description="The name that mcp_search gives")]
    arguments: dict[str, Any] = msgspec.field(default_factory=dict)
    server: str | msgspec.UnsetType = msgspec.UNSET


def call_tool(
    calls: McpCalls, servers: Servers, catalogue: Callable[[], Catalogue], taken: Callable[[], Container[str]]
) -> Registration:
    """`taken` gives the names of the registered tools."""

    async def execute(given: McpCallInput, context: ToolContext) -> CallOutput:
        named = _find(given, catalogue())
        if named is None and await servers.learn(_asked_for(given, servers)):
            named = _find(given, catalogue())
        if named is None:
            raise ToolFailure(_unknown(given, catalogue(), _asked_for(given, servers)))
        if named.name in taken():
            raise ToolFailure(f"{named.name} is the name of another tool here, so this one cannot be called.")
        return await calls.call(named, given.arguments, context)

    return Registration(CALL, Tool(description=DESCRIPTION, input=McpCallInput, output=JsonSchema({}), execute=execute))


def _find(given: McpCallInput, known: Catalogue) -> NamedTool | None:
    asked, server = given.tool.strip(), _server(given)
    if (named := known.by_name.get(asked)) is not None and server in (None, named.server):
        return named
    own = [tool for tool in known.tools if tool.tool.name == asked and server in (None, tool.server)]
    return own[0] if len(own) == 1 else None


def _asked_for(given: McpCallInput, servers: Servers) -> list[str]:
    """The servers of which nothing is known and to which the tool may belong."""
    asked, server = given.tool.strip(), _server(given)
    return [name for name in servers.unknown() if name == server or asked.startswith(server_prefix(name))]


def _server(given: McpCallInput) -> str | None:
    return None if given.server is msgspec.UNSET else given.server


def _unknown(given: McpCallInput, known: Catalogue, silent: Sequence[str]) -> str:
    import difflib

    asked, server = given.tool.strip(), _server(given)
    candidates = [tool.name for tool in known.tools if server in (None, tool.server)]
    near = difflib.get_close_matches(asked[:64], candidates, n=3, cutoff=0.5)
    hint = f" Close to it: {', '.join(near)}." if near else ""
    if silent:
        hint = f" {SILENT.format(names=', '.join(silent))}{hint}"
    return f"There is no MCP tool {asked[:NAME_CHARACTERS]}.{hint} mcp_search finds tools by what they do."
