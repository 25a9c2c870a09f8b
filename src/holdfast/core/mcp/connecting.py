"""Connects to one configured server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.config.schema import LocalServer
from holdfast.core.mcp.manifest import MOST_RESOURCES, TOOLS_BYTES
from holdfast.core.mcp.server_process import start_server
from holdfast.mcp.capabilities import Implementation
from holdfast.mcp.connect import connect_http, connect_stdio
from holdfast.mcp.listing import ListLimits
from holdfast.schema.version import __version__

if TYPE_CHECKING:
    from holdfast.core.mcp.configured_servers import ConfiguredServer
    from holdfast.core.mcp.server_host import ServerHost
    from holdfast.core.mcp.server_log import ServerLog
    from holdfast.core.mcp.server_process import ServerProcess
    from holdfast.mcp.client import Client
    from holdfast.mcp.handlers import Handlers

INFO = Implementation(name="holdfast", title="Holdfast", version=__version__)
LIMITS = ListLimits(
    pages=200, items=2 * MOST_RESOURCES, total_bytes=4 * TOOLS_BYTES, item_bytes=256 * 1024, rejected=20
)


async def open_client(
    server: ConfiguredServer, host: ServerHost, log: ServerLog, handlers: Handlers, last_version: str | None
) -> Client:
    """`last_version` is that of the protocol which the server spoke last time. Raises McpError and ProcessError."""
    config = server.config
    if isinstance(config, LocalServer):
        local = config

        async def start() -> ServerProcess:
            return start_server(host.processes, server, local, host.places, log)

        return await connect_stdio(
            start, INFO, handlers=handlers, timeouts=server.timeouts, limits=LIMITS, last_version=last_version
        )
    authorization = host.authorizations().of(server.name)
    return await connect_http(
        config.url,
        INFO,
        headers=config.headers,
        authorizer=authorization.authorizer if authorization is not None else None,
        handlers=handlers,
        timeouts=server.timeouts,
        limits=LIMITS,
        last_version=last_version,
    )
