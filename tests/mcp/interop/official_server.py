"""A server written with the official package. `official_server.py stdio` speaks on stdin and stdout. The argument
`ports` prints the ports of four servers: `streamable` (with an event store), `json` (answers as JSON, no streams),
`sse` (the old transport alone) and `lines` (what is spoken on stdin and stdout, one server for each connection). It
ends with its stdin."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from typing import Annotated, Any

import anyio
import mcp_types as types
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.resolve import Elicit, ListRoots, Resolve, Sample
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from pydantic import BaseModel, Field


class Sum(BaseModel):
    total: int


class Person(BaseModel):
    name: str


class Events(EventStore):
    def __init__(self) -> None:
        self._events: list[tuple[str, Any]] = []

    async def store_event(self, stream_id: str, message: Any) -> str:
        self._events.append((stream_id, message))
        return str(len(self._events))

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        last = int(last_event_id)
        stream = self._events[last - 1][0]
        for number, (stream_id, message) in enumerate(self._events[last:], last + 1):
            if stream_id == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


def ask() -> Elicit[Person]:
    return Elicit("Who are you?", Person)


def sample() -> Sample:
    message = types.SamplingMessage(role="user", content=types.TextContent(text="Say something"))
    return Sample([message], max_tokens=10, system_prompt="Be short")


def roots() -> ListRoots:
    return ListRoots()


def make() -> MCPServer:
    server = MCPServer("official", instructions="Use the tools.", version="7", log_level="ERROR")
    cancelled: list[str] = []

    @server.tool()
    def add(a: int, b: int) -> Sum:
        """Adds two numbers."""
        return Sum(total=a + b)

    @server.tool()
    def fail() -> str:
        """Fails."""
        raise ToolError("it does not work")

    @server.tool()
    async def steps(count: int, context: Context[Any]) -> str:
        """Reports progress."""
        for number in range(count):
            await context.report_progress(number + 1, count, f"step {number + 1}")
        return f"{count} steps"

    @server.tool()
    async def wait(context: Context[Any]) -> str:
        """Never ends by itself."""
        await context.report_progress(0, None, "waiting")
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append("wait")
        return ""

    @server.tool()
    def cancellations() -> int:
        """How many calls were cancelled."""
        return len(cancelled)

    @server.tool()
    def contents() -> list[types.ContentBlock]:
        """All kinds of content."""
        return [
            types.TextContent(text="text"),
            types.ImageContent(data="aGk=", mime_type="image/png"),
            types.AudioContent(data="aGk=", mime_type="audio/wav"),
            types.EmbeddedResource(resource=types.TextResourceContents(uri="memo://1", text="memo")),
            types.ResourceLink(uri="memo://2", name="two"),
        ]

    @server.tool()
    def weather(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> str:
        """Over HTTP the region is repeated in a header."""
        return f"rain in {region}"

    @server.tool()
    def greet_person(person: Annotated[Person, Resolve(ask)]) -> str:
        """Asks for a name."""
        return f"Hello {person.name}"

    @server.tool()
    def think(answer: Annotated[types.CreateMessageResult, Resolve(sample)]) -> str:
        """Asks a model."""
        assert isinstance(answer.content, types.TextContent)
        return f"{answer.model}: {answer.content.text}"

    @server.tool()
    def places(found: Annotated[types.ListRootsResult, Resolve(roots)]) -> str:
        """Asks for the roots."""
        return ", ".join(str(root.uri) for root in found.roots)

    @server.tool()
    async def change(context: Context[Any]) -> str:
        """Announces that the tools have changed."""
        await context.notify_tools_changed()
        if context.protocol_version != "2026-07-28":
            await context.session.send_tool_list_changed()
        return "announced"

    @server.tool()
    async def interrupted(context: Context[Any]) -> str:
        """Closes the stream of its answer before it answers."""
        await context.close_sse_stream()
        return "after the interruption"

    @server.resource("memo://one", description="A memo", mime_type="text/plain")
    def memo() -> str:
        return "the memo"

    @server.resource("memo://{name}/part")
    def part(name: str) -> str:
        return f"part of {name}"

    @server.prompt()
    def greet(name: str) -> str:
        """Greets."""
        return f"Greet {name}"

    return server


async def serve_lines(listening: socket.socket) -> None:
    running = set[Any]()
    while True:
        connection, _ = await asyncio.to_thread(listening.accept)
        running.add(asyncio.create_task(serve_connection(connection)))


async def serve_connection(connection: socket.socket) -> None:
    server = make()._lowlevel_server
    incoming = anyio.wrap_file(connection.makefile("r", encoding="utf-8"))
    outgoing = anyio.wrap_file(connection.makefile("w", encoding="utf-8"))
    async with stdio_server(incoming, outgoing) as (read, write):
        await server.run(read, write, server.create_initialization_options())
    connection.close()


async def serve_ports() -> None:
    import uvicorn

    apps = {
        "streamable": make().streamable_http_app(event_store=Events(), retry_interval=0),
        "json": make().streamable_http_app(json_response=True, stateless_http=True),
        "sse": make().sse_app(),
    }
    ports, serving = dict[str, int](), list[Any]()
    for name, app in apps.items():
        # With the number of TCP asyncio switches off the delay of small packets; create_server leaves it out.
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.bind(("127.0.0.1", 0))
        ports[name] = listening.getsockname()[1]
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=0))
        serving.append(asyncio.create_task(server.serve([listening])))
        while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.005)
    listening = socket.create_server(("127.0.0.1", 0))
    ports["lines"] = listening.getsockname()[1]
    serving.append(asyncio.create_task(serve_lines(listening)))
    print(json.dumps(ports), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    os._exit(0)


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        make().run("stdio")
    else:
        asyncio.run(serve_ports())
