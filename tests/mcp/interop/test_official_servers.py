"""The client with servers of the official package: every version, over pipes and over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.mcp.interop.conftest import SCRIPT
from tests.mcp.local_process import starter

from holdfast.mcp.capabilities import Implementation
from holdfast.mcp.client import Client
from holdfast.mcp.connect import connect_http, connect_stdio
from holdfast.mcp.content import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    ResourceLink,
    TextContent,
)
from holdfast.mcp.handlers import Asked, Handlers
from holdfast.mcp.input import (
    Elicitation,
    ElicitationAnswer,
    InputRequired,
    Root,
    RootsAnswer,
    RootsRequest,
    Sampling,
    SamplingAnswer,
)
from holdfast.mcp.results import Progress, ToolResult
from holdfast.mcp.stdio import ProcessEnd

pytestmark = pytest.mark.anyio

INFO = Implementation(name="tests", version="1")
VERSIONS = ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
WAYS = ["lines", "streamable", "json", "sse"]


class SocketPipes:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def read(self) -> bytes:
        return await self._reader.read(65536)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def close(self) -> ProcessEnd:
        self._writer.close()
        return ProcessEnd()


class Notes:
    """What the handlers were called with."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, tuple[str, ...]]] = []
        self.tools_changed = asyncio.Event()
        self.progress: list[Progress] = []

    def handlers(self) -> Handlers:
        return Handlers(
            elicit=self.elicit, sample=self.sample, roots=self.roots, on_tools_changed=self.tools_changed.set
        )

    async def elicit(self, elicitation: Elicitation, asked: Asked) -> ElicitationAnswer:
        self.asked.append((elicitation.message, asked.keys))
        return ElicitationAnswer(action="accept", content={"name": "Ada"})

    async def sample(self, sampling: Sampling, asked: Asked) -> SamplingAnswer:
        self.asked.append((sampling.system_prompt or "", asked.keys))
        return SamplingAnswer(role="assistant", content=TextContent(text="something"), model="echo")

    async def roots(self) -> list[Root]:
        return [Root(uri="file:///project")]


@asynccontextmanager
async def connected(way: str, version: str | None, ports: dict[str, int], notes: Notes) -> AsyncIterator[Client]:
    if way == "lines":

        async def start() -> SocketPipes:
            return SocketPipes(*await asyncio.open_connection("127.0.0.1", ports[way]))

        client = await connect_stdio(start, INFO, handlers=notes.handlers(), version=version)
    else:
        path = "sse" if way == "sse" else "mcp"
        url = f"http://127.0.0.1:{ports[way]}/{path}"
        client = await connect_http(url, INFO, handlers=notes.handlers(), version=version)
    async with client:
        yield client


async def answered(call: Callable[..., Any], notes: Notes) -> ToolResult:
    """Answers what a result asks for, as the handlers do."""
    result = await call()
    while isinstance(result, InputRequired):
        answers: dict[str, Any] = {}
        for key, request in result.requests.items():
            match request:
                case Elicitation():
                    answers[key] = await notes.elicit(request, Asked(("call",)))
                case Sampling():
                    answers[key] = await notes.sample(request, Asked(("call",)))
                case RootsRequest():
                    answers[key] = RootsAnswer(roots=await notes.roots())
        result = await call(answers=answers, state=result.state)
    assert isinstance(result, ToolResult)
    return result


def text(result: ToolResult | InputRequired) -> str:
    assert isinstance(result, ToolResult)
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text


@pytest.mark.parametrize(
    ("way", "version"),
    # There is no old transport in the newest version.
    [(way, version) for way in WAYS for version in VERSIONS if (way, version) != ("sse", "2026-07-28")],
)
async def test_a_client_uses_everything_that_a_server_offers(way: str, version: str, ports: dict[str, int]) -> None:
    """MCP-001, MCP-010, MCP-020, MCP-030, MCP-060"""
    notes = Notes()
    async with connected(way, version, ports, notes) as client:
        assert client.version == version
        assert client.server == Implementation(name="official", version="7")
        assert client.instructions == "Use the tools."
        tools = await client.list_tools()
        assert tools.incomplete is None
        assert tools.rejected == ()
        assert {"add", "fail", "steps"} <= {tool.name for tool in tools.items}
        added = await client.call_tool("add", {"a": 1, "b": 2})
        assert isinstance(added, ToolResult)
        assert added.structured == {"total": 3}
        failed = await client.call_tool("fail", {})
        assert "it does not work" in text(failed)
        assert isinstance(failed, ToolResult)
        assert failed.is_error
        contents = await client.call_tool("contents", {})
        assert isinstance(contents, ToolResult)
        kinds = [type(content) for content in contents.content]
        assert kinds == [TextContent, ImageContent, AudioContent, EmbeddedResource, ResourceLink]
        [resource] = (await client.list_resources()).items
        [template] = (await client.list_resource_templates()).items
        [prompt] = (await client.list_prompts()).items
        assert (resource.uri, template.uri_template, prompt.name) == ("memo://one", "memo://{name}/part", "greet")
        read = await client.read_resource("memo://one")
        assert not isinstance(read, InputRequired)
        assert read.contents == (ResourceContents(uri="memo://one", mime_type="text/plain", text="the memo"),)
        got = await client.get_prompt("greet", {"name": "Bo"})
        assert not isinstance(got, InputRequired)
        assert [message.content for message in got.messages] == [TextContent(text="Greet Bo")]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("way", ["lines", "streamable"])
async def test_progress_and_cancellation_reach_the_other_side(way: str, version: str, ports: dict[str, int]) -> None:
    """MCP-021, MCP-022"""
    notes = Notes()
    async with connected(way, version, ports, notes) as client:
        result = await client.call_tool("steps", {"count": 2}, on_progress=notes.progress.append)
        assert text(result) == "2 steps"
        assert notes.progress == [Progress(1, 2, "step 1"), Progress(2, 2, "step 2")]
        before = int(text(await client.call_tool("cancellations", {})))
        waiting = asyncio.Event()
        call = asyncio.create_task(client.call_tool("wait", {}, on_progress=lambda _: waiting.set()))
        await waiting.wait()
        call.cancel()
        async with asyncio.timeout(10):
            while int(text(await client.call_tool("cancellations", {}))) == before:  # noqa: ASYNC110 - not our process
                await asyncio.sleep(0.01)


@pytest.mark.parametrize("version", VERSIONS[1:])
@pytest.mark.parametrize("way", ["lines", "streamable"])
async def test_a_server_asks_a_person_a_model_and_for_the_roots(way: str, version: str, ports: dict[str, int]) -> None:
    """MCP-040, MCP-041, MCP-042"""
    notes = Notes()
    async with connected(way, version, ports, notes) as client:

        async def call(name: str, **options: Any) -> ToolResult | InputRequired:
            return await client.call_tool(name, {}, key="call", **options)

        greeted = await answered(lambda **options: call("greet_person", **options), notes)
        assert text(greeted) == "Hello Ada"
        assert notes.asked == [("Who are you?", ("call",))]
        thought = await answered(lambda **options: call("think", **options), notes)
        assert text(thought) == "echo: something"
        assert notes.asked[1:] == [("Be short", ("call",))]
        assert text(await answered(lambda **options: call("places", **options), notes)) == "file:///project"


@pytest.mark.parametrize("version", [VERSIONS[0], VERSIONS[-2], VERSIONS[-1]])
@pytest.mark.parametrize("way", ["lines", "streamable"])
async def test_a_server_announces_that_its_tools_have_changed(way: str, version: str, ports: dict[str, int]) -> None:
    """MCP-050, MCP-051"""
    notes = Notes()
    async with connected(way, version, ports, notes) as client:
        async with asyncio.timeout(10):
            while not notes.tools_changed.is_set():
                # The stream for announcements may not be open at the first one.
                assert text(await client.call_tool("change", {})) == "announced"
                await asyncio.sleep(0.01)


@pytest.mark.parametrize("way", ["lines", "streamable", "json"])
async def test_marked_arguments_are_repeated_as_headers(way: str, ports: dict[str, int]) -> None:
    """MCP-027, MCP-068"""
    async with connected(way, "2026-07-28", ports, Notes()) as client:
        for region in ("north", "Köln"):  # the tools have not been listed at first
            assert text(await client.call_tool("weather", {"region": region})) == f"rain in {region}"
        assert bool(client._param_headers) == (way != "lines")  # the refused call has led to a list


async def test_a_call_whose_stream_is_interrupted_is_taken_up_again(ports: dict[str, int]) -> None:
    """MCP-062"""
    async with connected("streamable", "2025-11-25", ports, Notes()) as client:
        assert text(await client.call_tool("interrupted", {})) == "after the interruption"


@pytest.mark.parametrize(("way", "version"), [("lines", "2026-07-28"), ("json", "2026-07-28"), ("sse", "2025-11-25")])
async def test_the_newest_common_version_is_agreed_upon(way: str, version: str, ports: dict[str, int]) -> None:
    """MCP-003, MCP-064"""
    async with connected(way, None, ports, Notes()) as client:
        assert client.version == version


async def test_a_server_is_started_and_ended_as_a_process() -> None:
    """MCP-001, MCP-073"""
    client = await connect_stdio(starter(SCRIPT, "stdio"), INFO)
    async with client:
        assert client.version == "2026-07-28"
        assert isinstance(await client.call_tool("add", {"a": 1, "b": 2}), ToolResult)
