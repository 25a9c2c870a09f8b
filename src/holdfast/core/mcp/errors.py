"""Errors of MCP servers in a Location."""

from __future__ import annotations

from holdfast.schema.exceptions import ServiceUnavailable


class ServerUnavailable(ServiceUnavailable):
    """A server cannot be used now. `reason` is for people and for the model; it has no secrets."""

    def __init__(self, server: str, reason: str) -> None:
        super().__init__(f"The MCP server {server} cannot be used: {reason}", service="mcp")
        self.server = server
        self.reason = reason
