"""What a model is told of one tool of an MCP server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core.mcp.stranger_text import printable
from holdfast.llm.request import ToolDefinition

if TYPE_CHECKING:
    from holdfast.core.mcp.tool_names import NamedTool

DESCRIPTION_CHARACTERS = 4096


def tool_definition(named: NamedTool) -> ToolDefinition:
    return ToolDefinition(name=named.name, description=description(named), input_schema=input_schema(named))


def description(named: NamedTool) -> str:
    tool = named.tool
    text = printable(tool.description or tool.title or "").strip()
    return text[:DESCRIPTION_CHARACTERS] or f"The tool {tool.name[:100]} of the MCP server {named.server}."


def input_schema(named: NamedTool) -> dict[str, Any]:
    """As the server gave it, with every keyword. Providers want to read that it is an object."""
    schema = named.tool.input_schema
    return schema if schema.get("type") == "object" else {**schema, "type": "object"}
