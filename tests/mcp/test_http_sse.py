"""The old transport."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from tests.mcp.http_support import BREAK_OFF, FOREVER, INFO, OPENING, RESULT, HttpServer, Incoming, Reply, stream
from tests.mcp.support import Json

from holdfast.mcp.connect import connect_http
from holdfast.mcp.content import TextContent
from holdfast.mcp.errors import HttpRefused, NeedsAuthorization, ProtocolError, ServerClosed, Timeout, TooLarge
from holdfast.mcp.results import ToolResult
from holdfast.mcp.timeouts import Timeouts

pytestmark = pytest.mark.anyio

OLD: Json = {**OPENING, "protocolVersion": "2024-11-05"}


class OldServer(HttpServer):
    """Answers `GET /mcp` with a stream whose first event names the address for messages."""

    def __init__(self, endpoint: bytes = b"/messages?session=1", answers: Json | None = None) -> None:
        super().__init__()
        self.answers: Json = {"initialize": OLD, "tools/call": RESULT, **(answers or {})}
        self._endpoint = endpoint
        self._out: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.routes = {"GET": stream(FOREVER)}

    async def _reply(self, reply: Reply, writer: asyncio.StreamWriter) -> bool:
        if reply.events != [FOREVER]:
            return await super()._reply(self._take(self.received[-1]), writer)
        writer.write(b"HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\n\r\n")
        writer.write(b"event: endpoint\r\ndata: " + self._endpoint + b"\r\n\r\n")
        while data := await self._out.get():
            writer.write(data)
        return False

    def _take(self, request: Incoming) -> Reply:
        if request.verb != "POST" or not request.path.startswith("/messages"):
            return Reply(405)
        message = request.message
        if "id" in message and message["method"] in self.answers:
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": self.answers[message["method"]]}
            self.send(b"event: message\ndata: " + msgspec.json.encode(answer) + b"\n\n")
        return Reply(202, {}, b"Accepted")

    def send(self, data: bytes) -> None:
        self._out.put_nowait(data)

    def leave(self) -> None:
        self._out.put_nowait(None)


async def connect(url: str, **options: Any) -> Any:
    return await connect_http(url, INFO, **options)


async def test_a_server_that_refuses_the_new_transport_is_asked_with_the_old_one() -> None:
    """MCP-064, MCP-001"""
    server = OldServer()
    async with server.serving() as url, await connect(url, headers={"authorization": "Bearer x"}) as client:
        assert client.version == "2024-11-05"
        assert await client.call_tool("a", {}) == ToolResult((TextContent(text="done"),))
        posted = [(request.verb, request.path) for request in server.received]
        assert posted[:3] == [("POST", "/mcp"), ("POST", "/mcp"), ("GET", "/mcp")]
        assert set(posted[3:]) == {("POST", "/messages?session=1")}
        assert {request.headers["authorization"] for request in server.received} == {"Bearer x"}


@pytest.mark.parametrize("endpoint", [b"http://127.0.0.1:1/messages", b"//evil.test/messages", b"javascript:alert(1)"])
async def test_messages_go_to_the_same_origin_only(endpoint: bytes) -> None:
    """MCP-064"""
    server = OldServer(endpoint)
    async with server.serving() as url:
        with pytest.raises(ProtocolError):
            await connect(url)
        assert [request.verb for request in server.received] == ["POST", "POST", "GET"]


async def test_a_stream_that_ends_ends_the_connection() -> None:
    """MCP-064, MCP-072"""
    server = OldServer(answers={"tools/call": RESULT})
    async with server.serving() as url, await connect(url) as client:
        del server.answers["tools/call"]
        call = asyncio.create_task(client.call_tool("a", {}))
        await server.request("tools/call")
        server.leave()
        with pytest.raises(ServerClosed):
            await call


async def test_an_event_that_is_too_large_ends_the_connection() -> None:
    """MCP-069"""
    server = OldServer()
    async with server.serving() as url, await connect(url, frame_limit=10_000) as client:
        server.answers["tools/call"] = {"content": [{"type": "text", "text": "x" * 20_000}]}
        with pytest.raises(TooLarge):
            await client.call_tool("a", {})


async def test_a_stream_without_address_is_given_up() -> None:
    """MCP-064, MCP-023"""
    server = HttpServer({"initialize": Reply(405), "GET": stream(b": nothing\n\n", FOREVER)})
    async with server.serving() as url:
        with pytest.raises(Timeout):
            await connect(url, timeouts=Timeouts(startup=0.05))
    server = HttpServer({"initialize": Reply(405), "GET": stream(b": nothing\n\n", BREAK_OFF)})
    async with server.serving() as url:
        with pytest.raises(ServerClosed):
            await connect(url)


async def test_what_is_no_server_at_all_is_refused_with_the_first_reason() -> None:
    """MCP-064"""
    server = HttpServer({"initialize": Reply(404, {"content-type": "text/plain"}, b"no such page"), "GET": Reply(404)})
    async with server.serving() as url:
        with pytest.raises(HttpRefused, match="no such page"):
            await connect(url)
    server = HttpServer({"initialize": Reply(404), "GET": Reply(200, {"content-type": "text/html"}, b"<html>")})
    async with server.serving() as url:
        with pytest.raises(ProtocolError, match="without a stream of events"):
            await connect(url)


@pytest.mark.parametrize("status", [401, 500, 503])
async def test_other_failures_do_not_lead_to_the_old_transport(status: int) -> None:
    """MCP-064, MCP-003"""
    server = HttpServer({"initialize": Reply(status), "server/discover": Reply(status)})
    async with server.serving() as url:
        with pytest.raises((HttpRefused, NeedsAuthorization)):
            await connect(url)
        assert [request.verb for request in server.received] == ["POST"]
