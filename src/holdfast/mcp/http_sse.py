"""The HTTP transport of 2024-11-05: one stream of events from the server, messages as POST to the address that its
first event names. Used for servers that refuse the streamable one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import urljoin

from holdfast.mcp.errors import HttpRefused, McpError, ProtocolError, ServerClosed
from holdfast.mcp.http_exchange import Body, content_type, refusal
from holdfast.mcp.messages import FRAME_LIMIT
from holdfast.mcp.sse import Events

if TYPE_CHECKING:
    from holdfast.http.connection import Response
    from holdfast.mcp.http_exchange import HttpExchange
    from holdfast.mcp.transport import Receiver, Route
    from holdfast.mcp.versions import Version


class HttpSse:
    cancels_by_closing = False
    has_headers = False

    def __init__(self, exchange: HttpExchange, *, frame_limit: int = FRAME_LIMIT) -> None:
        self._exchange = exchange
        self._limit = frame_limit
        self._version: Version | None = None
        self._endpoint: asyncio.Future[str] | None = None
        self._reader: asyncio.Task[None] | None = None

    async def start(self, receiver: Receiver) -> None:
        response = await self._exchange.send("GET", {"accept": "text/event-stream"})
        if response.status != 200 or content_type(response) != "text/event-stream":
            raise (await refusal(response))[0] if response.status != 200 else _no_stream(response)
        self._endpoint = asyncio.get_running_loop().create_future()
        self._reader = asyncio.create_task(self._read(response, receiver, self._endpoint))
        await self._endpoint

    async def send(self, frame: bytes, route: Route) -> None:
        assert self._endpoint is not None
        headers = {"content-type": "application/json"}
        if self._version is not None:
            headers["mcp-protocol-version"] = self._version.name
        response = await self._exchange.send(
            "POST", headers, frame, url=await self._endpoint, repeatable=route.repeatable
        )
        if not 200 <= response.status < 300:
            raise (await refusal(response))[0]
        response.release()

    def adopt(self, version: Version) -> None:
        self._version = version

    def listen(self) -> None:
        pass

    async def close(self) -> None:
        if self._reader is not None and self._reader is not asyncio.current_task():
            self._reader.cancel()
            await asyncio.wait([self._reader])
        await self._exchange.close()

    async def _read(self, response: Response, receiver: Receiver, endpoint: asyncio.Future[str]) -> None:
        error: McpError = ServerClosed("The MCP server ended the stream of events")
        try:
            body, events = Body(response, self._limit), Events(self._limit)
            while data := await body.read():
                for event in events.feed(data):
                    if event.kind == "endpoint" and not endpoint.done():
                        address = event.data[:4096].decode("utf-8", "replace")
                        endpoint.set_result(urljoin(self._exchange.url, address))
                    elif event.kind == "message" and event.data:
                        receiver.received(event.data)
                await asyncio.sleep(0)  # others have their turn, however much is sent
        except McpError as failure:
            error = failure
        finally:
            response.close()
            if not endpoint.done():
                endpoint.set_exception(error)
                endpoint.exception()
            receiver.closed(error)


def _no_stream(response: Response) -> McpError:
    response.close()
    return ProtocolError("The MCP server answered without a stream of events")


def is_refusal(error: McpError) -> bool:
    """Whether a server that refuses `initialize` like this may be one of the old transport."""
    return isinstance(error, HttpRefused) and 400 <= error.status < 500
