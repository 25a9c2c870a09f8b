"""The configured remote MCP servers, and the id under which the credential of each is kept."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from holdfast.core.config import schema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.mcp.configured_servers import ConfiguredServer


def remote_servers(servers: Mapping[str, ConfiguredServer]) -> dict[str, schema.RemoteServer]:
    """By name."""
    return {name: server.config for name, server in servers.items() if isinstance(server.config, schema.RemoteServer)}


def integration_id(name: str, url: str) -> str:
    digest = hashlib.sha1(b"\0".join((name.encode(), url.encode())), usedforsecurity=False)
    return f"mcp_{digest.hexdigest()[:16]}"
