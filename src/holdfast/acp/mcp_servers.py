"""The MCP servers that an editor passes with a session. They are added to the Session's Location in this process, are
stored nowhere, and go when the last session that named them is closed.

A server is started when its session is opened. A prompt waits for it for a bounded time, so that the model is offered
its tools from the first turn on."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.acp.errors import invalid
from holdfast.acp.text import title
from holdfast.client.errors import ApiError, ClientError
from holdfast.schema.exceptions import McpServerNotFound
from holdfast.schema.mcp import McpLocalConfig, McpRemoteConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.acp.requests import ServerInput
    from holdfast.client.generated.async_client import AsyncClient
    from holdfast.schema.location import Location
    from holdfast.schema.mcp import McpConfig

START_SECONDS = 15.0
"""How long a prompt waits for servers that start. After that they are there when they are."""
NOT_STARTED = "The MCP server {name} of the editor is not connected: {reason}"

Key = tuple[str, str]
"""A directory and the name of a server there."""


class PassedServers:
    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._added: dict[Key, McpConfig] = {}
        self._users: dict[Key, set[str]] = {}
        self._starting: dict[Key, asyncio.Task[str | None]] = {}

    async def add(self, session_id: str, location: Location, given: Sequence[ServerInput]) -> None:
        """Raises RpcError for a server that cannot be used; then none of them is added."""
        configs = {server.name: server_config(server) for server in given}
        for name, config in configs.items():
            key = (location.directory, name)
            if self._added.get(key) != config:
                await self._client.mcp.add(name, config=config, location=location)
                self._added[key] = config
                await self._stop(key)
                work = self._connect(name, location)
                self._starting[key] = asyncio.get_running_loop().create_task(work, name=f"holdfast-mcp {name}")
            self._users.setdefault(key, set()).add(session_id)

    async def ready(self, session_id: str) -> list[str]:
        """Wait until the servers of a session have started, for a bounded time. Returns what went wrong, once."""
        keys = [key for key in self._starting if session_id in self._users.get(key, ())]
        if not keys:
            return []
        await asyncio.wait([self._starting[key] for key in keys], timeout=START_SECONDS)
        told = []
        for key in keys:
            if (task := self._starting.get(key)) is not None and task.done():
                del self._starting[key]
                if not task.cancelled() and (problem := task.result()) is not None:
                    told.append(problem)
        return told

    async def remove(self, session_id: str, location: Location) -> None:
        """The session is closed."""
        for key in [key for key, users in self._users.items() if session_id in users]:
            self._users[key].discard(session_id)
            if not self._users[key]:
                del self._users[key], self._added[key]
                await self._stop(key)
                with suppress(McpServerNotFound):
                    await self._client.mcp.remove(key[1], location=location)

    async def close(self) -> None:
        for key in list(self._starting):
            await self._stop(key)

    async def _stop(self, key: Key) -> None:
        if (task := self._starting.pop(key, None)) is not None:
            task.cancel()
            await asyncio.wait({task})

    async def _connect(self, name: str, location: Location) -> str | None:
        """Why it is not connected."""
        try:
            await self._client.mcp.connect(name, location=location)
            servers = (await self._client.mcp.list(location=location)).data
        except (ApiError, ClientError) as error:
            return NOT_STARTED.format(name=title(name), reason=title(str(error)))
        found = next((server for server in servers if server.name == name), None)
        if found is None or found.state == "connected":
            return None
        return NOT_STARTED.format(name=title(name), reason=title(found.error or found.state or "unknown"))


def server_config(server: ServerInput) -> McpConfig:
    """Raises RpcError."""
    if server.type not in (None, "stdio", "http"):
        raise invalid(
            f"The MCP server {server.name!r} uses the transport {server.type!r}, which Holdfast does not offer: "
            "mcpCapabilities names the transports"
        )
    if server.type == "http":
        if not (server.url or "").startswith(("https://", "http://")):
            raise invalid(f"The MCP server {server.name!r} has no address that starts with https:// or http://")
        headers = {one.name: one.value for one in server.headers}
        return McpRemoteConfig(url=server.url or "", headers=headers or None)
    if not server.command or not os.path.isabs(server.command):
        raise invalid(f"The command of the MCP server {server.name!r} is not an absolute path")
    environment = {one.name: one.value for one in server.env}
    return McpLocalConfig(command=(server.command, *server.args), environment=environment or None)
