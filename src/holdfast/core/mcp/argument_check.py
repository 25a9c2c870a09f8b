"""Checks the arguments of a call that is made outside of a Session, as a call of a model is checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core.mcp.tool_definition import input_schema
from holdfast.core.mcp.tool_names import NamedTool
from holdfast.core.tool.codec import JsonSchema, SchemaMismatch, codec_of
from holdfast.core.tool.registration import INVALID_INPUT
from holdfast.schema.exceptions import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.mcp.server import Server


async def check_arguments(server: Server, tool: str, arguments: Mapping[str, Any]) -> None:
    """Raises InvalidRequest. A stored schema may be out of date, so only what the connected server says counts for a
    refusal: the server is started if needed. A tool that is not known is left to the server."""
    if server.known is None or _mismatch(server, tool, arguments) is not None:
        await server.learn()
    if (detail := _mismatch(server, tool, arguments)) is not None:
        raise InvalidRequest(INVALID_INPUT.format(detail=detail), field="arguments")


def _mismatch(server: Server, tool: str, arguments: Mapping[str, Any]) -> str | None:
    tools = server.known.manifest.tools if server.known is not None else ()
    found = next((one for one in tools if one.name == tool), None)
    if found is None:
        return None
    try:
        codec_of(JsonSchema(input_schema(NamedTool(tool, server.name, found)))).decode(dict(arguments))
    except SchemaMismatch as error:
        return str(error)
    return None
