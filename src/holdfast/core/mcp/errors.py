"""Errors of MCP servers in a Location."""

from __future__ import annotations

from holdfast.schema.exceptions import HoldfastError


class ServerUnavailable(HoldfastError):
    """A server cannot be used now. `reason` is for people and for the model; it has no secrets."""

    def __init__(self, server: str, reason: str) -> None:
        super().__init__(f"The MCP server {server} cannot be used: {reason}")
        self.server = server
        self.reason = reason


class UnknownServer(HoldfastError):
    """There is no server with this name in the Location."""

    def __init__(self, server: str) -> None:
        super().__init__(f"No MCP server {server} is configured here. `holdfast mcp list` lists the servers.")
        self.server = server
