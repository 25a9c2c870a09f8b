"""MCP servers of a Location."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec.structs import replace

from holdfast.protocol.endpoint import Endpoint, LocationQuery, endpoint
from holdfast.protocol.scope import at_location
from holdfast.schema.errors import McpServerNotFoundError, ServiceUnavailableError
from holdfast.schema.mcp import McpCallResult, McpConfig, McpLog, McpResourceCatalog, McpServer
from holdfast.schema.record import Record


class McpServerPath(Record):
    server: str


class AddPayload(Record):
    config: McpConfig


class CallPayload(Record):
    tool: Annotated[str, msgspec.Meta(max_length=1000)]
    arguments: dict[str, Any] | None = None


class LogQuery(LocationQuery):
    position: Annotated[str, msgspec.Meta(max_length=100)] | None = None
    """Of an earlier part; without one, the end of the log."""


_AT_LOCATION = at_location(
    endpoint(
        "mcp.list",
        "GET /api/mcp",
        "v2.mcp.list",
        "The MCP servers by name, with their status.",
        role="read",
        location=list[McpServer],
    ),
    endpoint(
        "mcp.resources",
        "GET /api/mcp/resource",
        "v2.mcp.resource.catalog",
        "The resources and templates of resources that the servers are known to offer.",
        role="read",
        location=McpResourceCatalog,
    ),
    endpoint(
        "mcp.add",
        "PUT /api/mcp/{server}",
        "v2.mcp.add",
        "Add a server, or replace the one of this name, until the process ends. It is started in the background.",
        role="admin",
        params=McpServerPath,
        payload=AddPayload,
    ),
    endpoint(
        "mcp.remove",
        "DELETE /api/mcp/{server}",
        "v2.mcp.remove",
        "Close a server and forget it until the process ends. Its credential stays.",
        role="admin",
        params=McpServerPath,
        errors=(McpServerNotFoundError,),
    ),
    endpoint(
        "mcp.connect",
        "POST /api/mcp/{server}/connect",
        "v2.mcp.connect",
        "Start a server, also a disabled one. Answers when it is connected or has failed; its status tells which.",
        role="admin",
        params=McpServerPath,
        errors=(McpServerNotFoundError,),
    ),
    endpoint(
        "mcp.disconnect",
        "POST /api/mcp/{server}/disconnect",
        "v2.mcp.disconnect",
        "Close a server. It is not used again before it is connected, or the process ends.",
        role="admin",
        params=McpServerPath,
        errors=(McpServerNotFoundError,),
    ),
    endpoint(
        "mcp.call",
        "POST /api/mcp/{server}/call",
        "holdfast.mcp.call",
        "Call a tool outside of a Session. Nobody is asked: neither for permission nor for input.",
        role="admin",
        params=McpServerPath,
        payload=CallPayload,
        location=McpCallResult,
        errors=(McpServerNotFoundError, ServiceUnavailableError),
    ),
    endpoint(
        "mcp.log",
        "GET /api/mcp/{server}/log",
        "holdfast.mcp.log",
        "What a server wrote to standard error, its log messages and its changes of state: the end of it, or what was "
        "added after a position.",
        role="admin",
        params=McpServerPath,
        query=LogQuery,
        location=McpLog,
        errors=(McpServerNotFoundError,),
    ),
)
ENDPOINTS: tuple[Endpoint, ...] = tuple(replace(endpoint, extension=True) for endpoint in _AT_LOCATION)
