"""The core of an MCP server: it offers tools in every version of the protocol, on whatever carries the messages.

The tools are written once. One that needs input of a person returns `InputRequired`; up to 2025-11-25 the client is
asked in the course of the call, since 2026-07-28 the result asks. In both cases the tool is called again, with the
answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from holdfast.mcp.input import InputAnswer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.mcp.capabilities import Implementation
    from holdfast.mcp.catalog import Tool
    from holdfast.mcp.errors import McpError
    from holdfast.mcp.input import InputRequired
    from holdfast.mcp.results import ToolResult
    from holdfast.mcp.server_peer import ServerPeer
    from holdfast.mcp.transport import Transport

REQUEST_LIMIT = 1000
"""Of requests that one client may have under way; one that sends more has to connect again."""

Report = Callable[[float, float | None, str | None], Awaitable[None]]


class ToolCall(msgspec.Struct, frozen=True):
    """`answers` and `state` belong to an InputRequired that the tool returned before. Both come from the client: a
    state that matters must be one that a client cannot make up."""

    name: str
    arguments: dict[str, Any]
    report: Report
    """Tells the client of progress: how far, of how much, a message. Does nothing if the client does not want it."""
    answers: Mapping[str, InputAnswer] = {}
    state: str | None = None


class UnknownTool(Exception):
    """There is no tool of that name."""


class Toolbox(Protocol):
    async def tools(self) -> Sequence[Tool]:
        """In an order that does not change by itself."""

    async def call(self, call: ToolCall) -> ToolResult | InputRequired:
        """Cancelled when the client cancels the call or leaves. Raises UnknownTool. What else it raises is logged, and
        the client is told of an internal error."""


class Server:
    """Any number of clients may be served at a time."""

    def __init__(self, info: Implementation, toolbox: Toolbox, *, instructions: str | None = None) -> None:
        self._info = info
        self._toolbox = toolbox
        self._instructions = instructions
        self._peers: set[ServerPeer] = set()

    async def serve(self, transport: Transport) -> McpError:
        """Serves one client until it leaves; returns how that happened."""
        from holdfast.mcp.connection import Connection
        from holdfast.mcp.server_peer import ServerPeer

        peer = ServerPeer(self._info, self._toolbox, self._instructions)
        connection = peer.connection = Connection(transport, peer, request_limit=REQUEST_LIMIT)
        self._peers.add(peer)
        try:
            await connection.start()
            return await peer.ended
        finally:
            self._peers.discard(peer)
            await connection.close()

    async def tools_changed(self) -> None:
        """Tells every client that the list of tools is another one."""
        await asyncio.gather(*(peer.tools_changed() for peer in list(self._peers)))
