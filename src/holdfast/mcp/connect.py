"""Connects to servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.mcp.client import Client
from holdfast.mcp.errors import McpError, ServerClosed
from holdfast.mcp.handlers import Handlers
from holdfast.mcp.messages import FRAME_LIMIT
from holdfast.mcp.versions import LATEST_HANDSHAKE, STATELESS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from holdfast.mcp.authorization import Authorizer
    from holdfast.mcp.capabilities import Implementation
    from holdfast.mcp.listing import ListLimits
    from holdfast.mcp.stdio import Process
    from holdfast.mcp.timeouts import Timeouts
    from holdfast.mcp.transport import Transport


class _Connector:
    def __init__(
        self,
        info: Implementation,
        handlers: Handlers | None,
        timeouts: Timeouts | None,
        limits: ListLimits | None,
    ) -> None:
        self._info = info
        self._handlers = handlers or Handlers()
        self._timeouts = timeouts
        self._limits = limits

    async def connect(self, transport: Transport, version: str | None, last_version: str | None) -> Client:
        client = Client(transport, self._info, self._handlers, timeouts=self._timeouts, limits=self._limits)
        try:
            await client.start(version=version, last_version=last_version)
        except BaseException:
            await client.close()
            raise
        return client


async def connect_stdio(
    start: Callable[[], Awaitable[Process]],
    info: Implementation,
    *,
    handlers: Handlers | None = None,
    timeouts: Timeouts | None = None,
    limits: ListLimits | None = None,
    frame_limit: int = FRAME_LIMIT,
    version: str | None = None,
    last_version: str | None = None,
) -> Client:
    """`start` starts the server; the client ends it. A server that ends because it is asked in a newer version of the
    protocol is started a second time and asked in an older one. Raises McpError, and what `start` raises."""
    from holdfast.mcp.stdio import StdioTransport

    connector = _Connector(info, handlers, timeouts, limits)
    try:
        return await connector.connect(StdioTransport(await start(), frame_limit=frame_limit), version, last_version)
    except ServerClosed:
        if version is not None or (last_version is not None and last_version not in STATELESS):
            raise
    return await connector.connect(StdioTransport(await start(), frame_limit=frame_limit), None, LATEST_HANDSHAKE)


async def connect_http(
    url: str,
    info: Implementation,
    *,
    headers: Mapping[str, str] | None = None,
    authorizer: Authorizer | None = None,
    handlers: Handlers | None = None,
    timeouts: Timeouts | None = None,
    limits: ListLimits | None = None,
    frame_limit: int = FRAME_LIMIT,
    version: str | None = None,
    last_version: str | None = None,
) -> Client:
    """A server that refuses the streamable transport with a 4xx is asked with the old one (HTTP and SSE). `headers` are
    sent with every request. Raises McpError."""
    from holdfast.mcp.http_exchange import HttpExchange
    from holdfast.mcp.http_sse import HttpSse, is_refusal
    from holdfast.mcp.streamable_http import StreamableHttp

    connector = _Connector(info, handlers, timeouts, limits)
    exchange = HttpExchange(url, headers=headers, authorizer=authorizer)
    try:
        return await connector.connect(StreamableHttp(exchange, frame_limit=frame_limit), version, last_version)
    except McpError as error:
        if not is_refusal(error) or version in STATELESS:
            raise
        refused = error
    exchange = HttpExchange(url, headers=headers, authorizer=authorizer)
    try:
        return await connector.connect(HttpSse(exchange, frame_limit=frame_limit), version, version or LATEST_HANDSHAKE)
    except McpError as error:
        if is_refusal(error):
            raise refused from error  # neither transport: the first refusal is the better reason
        raise
