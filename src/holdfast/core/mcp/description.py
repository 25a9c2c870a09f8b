"""MCP servers as the API shows them. No secrets are in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.config.schema import RemoteServer
from holdfast.core.mcp.remote_servers import integration_id
from holdfast.schema.mcp import (
    McpConnected,
    McpDisabled,
    McpFailed,
    McpNeedsAuth,
    McpPending,
    McpResource,
    McpResourceCatalog,
    McpResourceTemplate,
    McpServer,
    McpStatus,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.mcp.seam import KnownServer
    from holdfast.core.mcp.server import Server, ServerState


def describe(server: Server) -> McpServer:
    config, state, place = server.configured.config, server.status, server.place
    url = config.url if isinstance(config, RemoteServer) and config.oauth is not False else None
    return McpServer(
        name=server.name,
        status=_status(state),
        integration_id=integration_id(server.name, url) if url is not None else None,
        state=state.state,
        since=state.since,
        error=state.error,
        tools=len(server.known.manifest.tools) if server.known is not None else None,
        version=server.version,
        problems=server.problems or None,
        directory=str(place.directory) if place is not None and place.directory is not None else None,
        directory_reason=place.reason if place is not None else None,
    )


def resource_catalog(servers: Iterable[KnownServer]) -> McpResourceCatalog:
    resources: list[McpResource] = []
    templates: list[McpResourceTemplate] = []
    for server in servers:
        resources += [
            McpResource(
                server=server.name,
                name=found.title or found.name,
                uri=found.uri,
                description=found.description,
                mime_type=found.mime_type,
            )
            for found in server.manifest.resources
        ]
        templates += [
            McpResourceTemplate(
                server=server.name,
                name=found.title or found.name,
                uri_template=found.uri_template,
                description=found.description,
                mime_type=found.mime_type,
            )
            for found in server.manifest.templates
        ]
    return McpResourceCatalog(resources=tuple(resources), templates=tuple(templates))


def _status(state: ServerState) -> McpStatus:
    match state.state:
        case "connected":
            return McpConnected()
        case "disabled":
            return McpDisabled()
        case "needs_auth":
            return McpNeedsAuth()
        case "failed":
            return McpFailed(error=state.error or "")
        case "configured" | "known" | "starting":
            return McpPending()
