"""Handlers of `protocol/mcp.py`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from holdfast.schema.exceptions import InvalidRequest, ServiceUnavailable
from holdfast.schema.mcp import McpCallResult, McpLog, McpResourceCatalog

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.protocol import mcp as protocol
    from holdfast.schema.mcp import McpServer
    from holdfast.server.types import ApiCall

NAME_CHARACTERS = 200


async def list(call: ApiCall) -> Sequence[McpServer]:
    from holdfast.core.mcp.description import describe

    async with call.services as services:
        await services.config.refresh()
        return [describe(server) for server in services.mcp.all()]


async def resources(call: ApiCall) -> McpResourceCatalog:
    from holdfast.core.mcp.description import resource_catalog

    async with call.services as services:
        return resource_catalog(services.mcp.known())


async def add(call: ApiCall) -> None:
    from holdfast.core.mcp.configured_servers import ServerConfig, configured_server

    name: str = call.params.server
    payload: protocol.AddPayload = call.payload
    if not name.strip() or len(name) > NAME_CHARACTERS or not name.isprintable():
        raise InvalidRequest(f"No MCP server can be called {name[:NAME_CHARACTERS]!r}", field="server")
    url = getattr(payload.config, "url", None)
    if url is not None and not url.startswith(("https://", "http://")):
        raise InvalidRequest("The address of an MCP server starts with https:// or http://", field="config.url")
    config: ServerConfig = msgspec.convert(msgspec.to_builtins(payload.config), ServerConfig)
    async with call.services as services:
        services.mcp.add(configured_server(name, config))


async def remove(call: ApiCall) -> None:
    async with call.services as services:
        await services.mcp.remove(call.params.server)


async def connect(call: ApiCall) -> None:
    async with call.services as services:
        await services.mcp.connect(call.params.server)


async def disconnect(call: ApiCall) -> None:
    async with call.services as services:
        await services.mcp.disconnect(call.params.server)


async def call(call: ApiCall) -> McpCallResult:
    payload: protocol.CallPayload = call.payload
    async with call.services as services:
        server, arguments = services.mcp.get(call.params.server), payload.arguments or {}
        from holdfast.core.mcp.argument_check import check_arguments
        from holdfast.mcp.errors import McpError

        try:
            await call.while_connected(check_arguments(server, payload.tool, arguments))
            result = await call.while_connected(services.mcp.call(server.name, payload.tool, arguments, None))
        except McpError as error:
            raise ServiceUnavailable(str(error), service="mcp") from error
    return McpCallResult(
        content=tuple(msgspec.to_builtins(part) for part in result.content),
        structured_content=result.structured if result.has_structured else None,
        is_error=result.is_error,
    )


async def log(call: ApiCall) -> McpLog:
    """The Location is opened only if there is no log: its servers need not be started for this."""
    from holdfast.core.mcp.server_log import log_path, read_log

    assert call.location is not None
    name: str = call.params.server
    path = log_path(call.runtime.paths.data / "mcp", call.location.directory, name)
    if not path.exists():
        async with call.services as services:
            services.mcp.get(name)
    part = await asyncio.to_thread(read_log, path, call.query.position)
    return McpLog(text=part.text, position=part.position)
