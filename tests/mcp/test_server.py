"""The core of a server, with the client of this package and with messages by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.mcp.local_process import starter
from tests.mcp.support import INFO, Json

from holdfast.mcp.capabilities import Implementation
from holdfast.mcp.catalog import Tool
from holdfast.mcp.client import Client
from holdfast.mcp.connect import connect_stdio
from holdfast.mcp.content import ResourceLink, TextContent
from holdfast.mcp.errors import ServerError
from holdfast.mcp.handlers import Asked, Handlers
from holdfast.mcp.input import Elicitation, ElicitationAnswer, InputAnswer, InputRequired
from holdfast.mcp.results import Progress, ToolResult
from holdfast.mcp.server import Server, ToolCall, UnknownTool
from holdfast.mcp.stdio import ProcessEnd, StdioTransport

pytestmark = pytest.mark.anyio

VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
META = "io.modelcontextprotocol/"
STATELESS: Json = {f"{META}protocolVersion": "2026-07-28", f"{META}clientCapabilities": {}}
OBJECT: Json = {"type": "object"}


class Pipe:
    """One end of a pair of pipes."""

    def __init__(self, incoming: asyncio.Queue[bytes], outgoing: asyncio.Queue[bytes]) -> None:
        self._incoming, self._outgoing = incoming, outgoing

    async def read(self) -> bytes:
        return await self._incoming.get()

    async def write(self, data: bytes) -> None:
        self._outgoing.put_nowait(data)

    async def close(self) -> ProcessEnd:
        self._outgoing.put_nowait(b"")
        return ProcessEnd()


def pipes() -> tuple[Pipe, Pipe]:
    one: asyncio.Queue[bytes] = asyncio.Queue()
    other: asyncio.Queue[bytes] = asyncio.Queue()
    return Pipe(one, other), Pipe(other, one)


class Tools:
    def __init__(self, run: Callable[[ToolCall], Any]) -> None:
        self._run = run

    async def tools(self) -> Sequence[Tool]:
        return [
            Tool(name="a", input_schema=OBJECT, output_schema=OBJECT),
            Tool(name="b", input_schema=OBJECT, output_schema={"type": "array"}),
        ]

    async def call(self, call: ToolCall) -> ToolResult | InputRequired:
        result = self._run(call)
        result = await result if asyncio.iscoroutine(result) else result
        assert isinstance(result, ToolResult | InputRequired)
        return result


@asynccontextmanager
async def serving(run: Callable[[ToolCall], Any]) -> AsyncIterator[tuple[Server, Callable[[], Pipe]]]:
    server = Server(Implementation(name="s", version="1"), Tools(run), instructions="Go.")
    tasks: list[asyncio.Task[Any]] = []

    def connect() -> Pipe:
        ours, theirs = pipes()
        tasks.append(asyncio.create_task(server.serve(StdioTransport(theirs))))
        return ours

    try:
        yield server, connect
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def client_of(connect: Callable[[], Pipe], version: str, handlers: Handlers | None = None) -> Client:
    async def start() -> Pipe:
        return connect()

    return await connect_stdio(start, INFO, version=version, handlers=handlers)


def said(text: str) -> ToolResult:
    return ToolResult((TextContent(text=text),))


@pytest.mark.parametrize("version", VERSIONS)
async def test_tools_are_offered_in_every_version(version: str) -> None:
    """MCP-080, MCP-081, MCP-085"""
    link = ResourceLink(uri="a://1", name="one")

    def run(call: ToolCall) -> ToolResult:
        return ToolResult((TextContent(text=str(call.arguments)), link), [1] if call.name == "b" else {"x": 1})

    async with serving(run) as (_, connect), await client_of(connect, version) as client:
        assert client.version == version
        assert client.instructions == "Go."
        assert client.server == Implementation(name="s", version="1")
        tools = (await client.list_tools()).items
        schemas = [tool.output_schema for tool in tools]
        results = [await client.call_tool(name, {"n": 1}) for name in ("a", "b")]
        structured = []
        for result in results:
            assert isinstance(result, ToolResult)
            assert result.content[0] == TextContent(text="{'n': 1}")
            structured.append(result.structured if result.has_structured else None)
        assert isinstance(results[0], ToolResult)
        if version < "2025-06-18":
            assert (schemas, structured) == ([None, None], [None, None])
            assert results[0].content[1] == TextContent(text="a://1")
        else:
            newest = version == "2026-07-28"
            assert schemas == [OBJECT, {"type": "array"} if newest else None]
            assert structured == [{"x": 1}, [1] if newest else None]
            assert results[0].content[1] == link


@pytest.mark.parametrize("version", ["2025-06-18", "2026-07-28"])
async def test_a_call_reports_is_cancelled_and_fails(version: str, caplog: pytest.LogCaptureFixture) -> None:
    """MCP-081, MCP-082, MCP-086"""
    stopped = asyncio.Event()

    async def run(call: ToolCall) -> ToolResult:
        if call.name == "unknown":
            raise UnknownTool
        if call.name == "broken":
            raise RuntimeError("secret")
        await call.report(1, 2, "half")
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        raise AssertionError

    async with serving(run) as (_, connect), await client_of(connect, version) as client:
        reported = asyncio.Event()
        seen: list[Progress] = []

        def note(progress: Progress) -> None:
            seen.append(progress)
            reported.set()

        call = asyncio.create_task(client.call_tool("a", {}, on_progress=note))
        await reported.wait()
        assert seen == [Progress(1, 2, "half")]
        call.cancel()
        await stopped.wait()
        with pytest.raises(ServerError, match=r"-32602: Unknown tool: unknown"):
            await client.call_tool("unknown", {})
        with pytest.raises(ServerError, match=r"-32603: Internal error"):
            await client.call_tool("broken", {})
        stopped.clear()
        call = asyncio.create_task(client.call_tool("a", {}, on_progress=lambda _: reported.set()))
        reported.clear()
        await reported.wait()
        await client.close()
        await stopped.wait()
        await asyncio.gather(call, return_exceptions=True)


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25", "2026-07-28"])
async def test_a_tool_that_asks_is_written_once(version: str) -> None:
    """MCP-083"""

    def run(call: ToolCall) -> ToolResult | InputRequired:
        if not call.answers:
            return InputRequired({"who": Elicitation(message="Who?", requested_schema=OBJECT)}, "state")
        answer = call.answers["who"]
        assert isinstance(answer, ElicitationAnswer)
        return said(f"{answer.action} {answer.content} {call.state}")

    async def elicit(elicitation: Elicitation, asked: Asked) -> ElicitationAnswer:
        return ElicitationAnswer(action="accept", content={"name": elicitation.message})

    async with serving(run) as (_, connect):
        async with await client_of(connect, version, Handlers(elicit=elicit)) as client:
            result = await client.call_tool("a", {})
            if isinstance(result, InputRequired):
                answers: dict[str, InputAnswer] = {"who": ElicitationAnswer(action="accept", content={"name": "Who?"})}
                result = await client.call_tool("a", {}, answers=answers, state=result.state)
            assert isinstance(result, ToolResult)
            assert result.content == said("accept {'name': 'Who?'} state").content
        async with await client_of(connect, version) as client:
            code = -32021 if version == "2026-07-28" else -32600
            with pytest.raises(ServerError, match=f"{code}: The client lacks a capability"):
                await client.call_tool("a", {})


async def test_a_tool_that_asks_without_end_is_stopped() -> None:
    """MCP-083"""

    async def elicit(elicitation: Elicitation, asked: Asked) -> ElicitationAnswer:
        return ElicitationAnswer(action="decline")

    calls: list[ToolCall] = []

    def ask(call: ToolCall) -> InputRequired:
        calls.append(call)
        return InputRequired({"who": Elicitation(message="Who?", requested_schema=OBJECT)})

    handlers = Handlers(elicit=elicit)
    async with serving(ask) as (_, connect), await client_of(connect, "2025-11-25", handlers) as client:
        with pytest.raises(ServerError, match="more than 10 times"):
            await client.call_tool("a", {})
        assert len(calls) == 10


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_changed_tools_are_announced_to_every_client(version: str) -> None:
    """MCP-084"""
    async with serving(lambda _: said("")) as (server, connect):
        heard = [asyncio.Event(), asyncio.Event()]
        clients = [await client_of(connect, version, Handlers(on_tools_changed=event.set)) for event in heard]
        async with asyncio.timeout(10):
            while not all(event.is_set() for event in heard):
                await clients[0].call_tool("a", {})
                await server.tools_changed()  # nobody may listen yet
        for client in clients:
            await client.close()
        await server.tools_changed()


class Hand:
    """A client by hand."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe

    async def send(self, message: Any) -> Any:
        await self._pipe.write(msgspec.json.encode(message) + b"\n")
        return msgspec.json.decode(await self._pipe.read())

    async def call(self, method: str, **params: Any) -> Json:
        answer: Json = await self.send({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        return answer

    async def initialize(self, version: str) -> Json:
        return await self.call("initialize", protocolVersion=version, capabilities={}, clientInfo={"name": "x"})


@asynccontextmanager
async def hand() -> AsyncIterator[Hand]:
    async with serving(lambda _: said("done")) as (_, connect):
        yield Hand(connect())


@pytest.mark.parametrize(
    ("asked", "given"), [("2025-03-26", "2025-03-26"), ("1999-01-01", "2025-11-25"), ("2026-07-28", "2025-11-25")]
)
async def test_a_version_that_is_not_spoken_is_answered_with_one_that_is(asked: str, given: str) -> None:
    """MCP-080"""
    async with hand() as peer:
        assert (await peer.initialize(asked))["result"]["protocolVersion"] == given


async def test_the_two_kinds_of_versions_do_not_mix_on_one_connection() -> None:
    """MCP-080"""
    async with hand() as peer:
        assert "result" in await peer.call("server/discover", _meta=STATELESS)
        assert (await peer.initialize("2025-11-25"))["error"]["code"] == -32022
        assert (await peer.call("tools/list"))["error"]["code"] == -32600
    async with hand() as peer:
        await peer.initialize("2025-11-25")
        assert (await peer.call("tools/list", _meta=STATELESS))["error"]["code"] == -32600
        assert (await peer.call("server/discover"))["error"]["code"] == -32601


async def test_an_unknown_stateless_version_is_refused_with_those_that_are_spoken() -> None:
    """MCP-080"""
    async with hand() as peer:
        error = (await peer.call("tools/list", _meta={**STATELESS, f"{META}protocolVersion": "2031-01-01"}))["error"]
        assert error["code"] == -32022
        assert error["data"] == {"supported": ["2026-07-28"], "requested": "2031-01-01"}


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("tools/list", {}, -32600),
        ("tools/list", {"_meta": {f"{META}protocolVersion": 7, f"{META}clientCapabilities": {}}}, -32602),
        ("tools/list", {"_meta": {f"{META}protocolVersion": "2026-07-28"}}, -32602),
        ("tools/list", {"_meta": {**STATELESS, f"{META}clientCapabilities": 7}}, -32602),
        ("tools/list", {"_meta": STATELESS, "cursor": "x"}, -32602),
        ("tools/list", {"_meta": 7}, -32602),
        ("tools/call", {"_meta": STATELESS}, -32602),
        ("tools/call", {"_meta": STATELESS, "name": "a", "arguments": []}, -32602),
        ("tools/call", {"_meta": STATELESS, "name": "a", "inputResponses": {"x": 7}}, -32602),
        ("resources/list", {"_meta": STATELESS}, -32601),
        ("ping", {"_meta": STATELESS}, -32601),
        ("initialize", {}, -32602),
    ],
)
async def test_bad_requests_are_refused(method: str, params: Json, code: int) -> None:
    """MCP-086"""
    async with hand() as peer:
        assert (await peer.call(method, **params))["error"]["code"] == code
        assert (await peer.call("ping"))["result"] == {}


async def test_what_is_no_message_is_answered_with_an_error() -> None:
    """MCP-086"""
    async with hand() as peer:
        nothing: list[Any] = ["text", [], {"id": 7}]
        for nonsense in nothing:
            assert (await peer.send(nonsense))["error"]["code"] == -32700
        assert (await peer.call("ping"))["result"] == {}


async def test_what_is_printed_by_mistake_does_not_reach_the_client() -> None:
    """MCP-087"""
    script = Path(__file__).parent / "interop" / "our_server.py"
    process = await starter(script)()
    async with await connect_stdio(lambda: asyncio.sleep(0, process), INFO, version="2025-11-25") as client:
        assert len((await client.list_tools()).items) == 7
        assert client.garbage == 0
    end = await process.close()
    assert (end.exit_status, end.last_stderr) == (0, "printed by mistake")


async def test_an_array_of_requests_is_answered_one_by_one() -> None:
    """MCP-006"""
    async with hand() as peer:
        await peer.initialize("2025-03-26")
        first = await peer.send([{"jsonrpc": "2.0", "id": id, "method": "ping"} for id in (7, 8)])
        assert first == {"jsonrpc": "2.0", "id": 7, "result": {}}


async def test_a_stateless_result_has_what_the_version_demands() -> None:
    """MCP-080"""
    async with hand() as peer:
        listed = (await peer.call("tools/list", _meta=STATELESS))["result"]
        assert (listed["resultType"], listed["ttlMs"], listed["cacheScope"]) == ("complete", 0, "private")
        assert listed["_meta"] == {f"{META}serverInfo": {"name": "s", "version": "1"}}
        called = (await peer.call("tools/call", _meta=STATELESS, name="a"))["result"]
        assert called["resultType"] == "complete"
        assert "ttlMs" not in called
