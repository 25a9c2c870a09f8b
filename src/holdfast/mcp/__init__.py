"""The Model Context Protocol: a client for servers over stdio and HTTP, and the core of a server.

Owns the protocol and nothing else: which servers there are, when they are started and reconnected, and what becomes of
their tools is the caller's. Imports `holdfast.http`, msgspec and the standard library. Nothing of it is imported while
no server is configured.

    client = await connect_stdio(start_process, Implementation(name="holdfast", version="1"), handlers=Handlers(...))
    listing = await client.list_tools()
    result = await client.call_tool("search", {"query": "x"}, on_progress=print)
    await client.close()

Everything that a server sends is hostile. Messages, lists, counts and waits are bounded; a malformed entry of a list is
left out and named; bytes that are no message are counted and reported. A call ends with its result, one McpError
(`errors.py` draws the tree) or its own cancellation, which cancels it at the server.

| module | owns |
| --- | --- |
| `connect.py`, `client.py` | `connect_stdio`, `connect_http`, `Client` |
| `handlers.py` | what a client does when a server asks or announces something |
| `catalog.py`, `content.py`, `results.py`, `input.py`, `capabilities.py` | the records, for client and server alike |
| `versions.py`, `negotiation.py` | what differs between versions, and how one is agreed upon |
| `connection.py`, `messages.py` | JSON-RPC: many calls under way, in both directions |
| `transport.py`, `stdio.py`, `streamable_http.py`, `http_sse.py` | how messages travel |
| `authorization.py` | the seam for credentials; `oauth/` implements it |
| `server.py` | the core of a server |"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.mcp.capabilities import Implementation
    from holdfast.mcp.client import Client
    from holdfast.mcp.connect import connect_http, connect_stdio
    from holdfast.mcp.errors import (
        McpError,
        NeedsAuthorization,
        NotOffered,
        ProtocolError,
        ServerClosed,
        ServerError,
        Timeout,
        TooLarge,
    )
    from holdfast.mcp.handlers import Handlers
    from holdfast.mcp.timeouts import Timeouts

_PUBLIC = {
    "Client": "holdfast.mcp.client",
    "Handlers": "holdfast.mcp.handlers",
    "Implementation": "holdfast.mcp.capabilities",
    "McpError": "holdfast.mcp.errors",
    "NeedsAuthorization": "holdfast.mcp.errors",
    "NotOffered": "holdfast.mcp.errors",
    "ProtocolError": "holdfast.mcp.errors",
    "ServerClosed": "holdfast.mcp.errors",
    "ServerError": "holdfast.mcp.errors",
    "Timeout": "holdfast.mcp.errors",
    "Timeouts": "holdfast.mcp.timeouts",
    "TooLarge": "holdfast.mcp.errors",
    "connect_http": "holdfast.mcp.connect",
    "connect_stdio": "holdfast.mcp.connect",
}
__all__ = [
    "Client",
    "Handlers",
    "Implementation",
    "McpError",
    "NeedsAuthorization",
    "NotOffered",
    "ProtocolError",
    "ServerClosed",
    "ServerError",
    "Timeout",
    "Timeouts",
    "TooLarge",
    "connect_http",
    "connect_stdio",
]


def __getattr__(name: str) -> Any:
    """Names load on first use."""
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_PUBLIC[name]), name)
