"""The MCP client with public servers from npm."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.acceptance.conftest import npm_package
from tests.mcp.local_process import LocalProcess

from holdfast import Holdfast
from holdfast.mcp.capabilities import Implementation
from holdfast.mcp.client import Client
from holdfast.mcp.connect import connect_http, connect_stdio
from holdfast.mcp.content import ImageContent, TextContent
from holdfast.mcp.handlers import Asked, Handlers
from holdfast.mcp.input import Elicitation, ElicitationAnswer, Root, Sampling, SamplingAnswer
from holdfast.mcp.results import Progress, PromptResult, ReadResult, ToolResult

VERSION = "2026.8.31"
INFO = Implementation(name="holdfast", version="1")

pytestmark = [pytest.mark.acceptance, pytest.mark.anyio, pytest.mark.timeout(180)]


def program(name: str) -> str:
    modules = npm_package(f"@modelcontextprotocol/{name}", VERSION)
    return str(modules / ".bin" / f"mcp-{name}")


def starter(node: str, *command: str) -> Callable[[], Awaitable[LocalProcess]]:
    async def start() -> LocalProcess:
        environment = {"PATH": f"{Path(node).parent}:{os.defpath}"}
        process = await asyncio.create_subprocess_exec(
            *command, stdin=-1, stdout=-1, stderr=-1, env=environment, start_new_session=True
        )
        return LocalProcess(process)

    return start


async def elicit(elicitation: Elicitation, asked: Asked) -> ElicitationAnswer:
    assert asked.keys == ("call",)
    return ElicitationAnswer(action="accept", content={"name": "Ada"})


async def sample(sampling: Sampling, asked: Asked) -> SamplingAnswer:
    return SamplingAnswer(role="assistant", content=TextContent(text="a sampled answer"), model="echo")


async def roots() -> list[Root]:
    return [Root(uri="file:///project")]


HANDLERS = Handlers(elicit=elicit, sample=sample, roots=roots)


def text(result: object) -> str:
    assert isinstance(result, ToolResult)
    return "\n".join(part.text for part in result.content if isinstance(part, TextContent))


@contextmanager
def everything_over_http(node: str, transport: str) -> Iterator[str]:
    """The address of the server."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {"PATH": f"{Path(node).parent}:{os.defpath}", "PORT": str(port)}
    command = [program("server-everything"), transport]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            until = time.monotonic() + 30
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    assert time.monotonic() < until
                    time.sleep(0.05)
            yield f"http://127.0.0.1:{port}/{'sse' if transport == 'sse' else 'mcp'}"
        finally:
            process.kill()


async def use_everything(client: Client) -> None:
    tools = await client.list_tools()
    assert {rejected.name for rejected in tools.rejected} <= {"simulate-research-query"}  # it can only be a task
    assert {"echo", "get-tiny-image"} <= {tool.name for tool in tools.items}
    assert text(await client.call_tool("echo", {"message": "hello"})) == "Echo: hello"
    structured = await client.call_tool("get-structured-content", {"location": "New York"})
    assert isinstance(structured, ToolResult)
    assert set(structured.structured) == {"temperature", "conditions", "humidity"}
    picture = await client.call_tool("get-tiny-image", {})
    assert isinstance(picture, ToolResult)
    assert any(isinstance(part, ImageContent) for part in picture.content)
    seen: list[Progress] = []
    steps = {"duration": 0.2, "steps": 2}
    await client.call_tool("trigger-long-running-operation", steps, on_progress=seen.append)
    assert [progress.progress for progress in seen] == [1, 2]
    resources = await client.list_resources()
    assert isinstance(await client.read_resource(resources.items[0].uri), ReadResult)
    assert {"simple-prompt"} <= {prompt.name for prompt in (await client.list_prompts()).items}
    assert isinstance(await client.get_prompt("simple-prompt"), PromptResult)


async def test_everything_over_pipes(node: str) -> None:
    """MCP-001, MCP-003, MCP-010, MCP-020, MCP-021, MCP-040, MCP-041"""
    async with await connect_stdio(starter(node, program("server-everything")), INFO, handlers=HANDLERS) as client:
        await use_everything(client)
        asked = await client.call_tool("trigger-elicitation-request", {}, key="call")
        assert "Ada" in text(asked)
        sampled = await client.call_tool("trigger-sampling-request", {"prompt": "x", "maxTokens": 5}, key="call")
        assert "a sampled answer" in text(sampled)
        assert "file:///project" in text(await client.call_tool("get-roots-list", {}))


@pytest.mark.parametrize("transport", ["streamableHttp", "sse"])
async def test_everything_over_http(node: str, transport: str) -> None:
    """MCP-060, MCP-061, MCP-064"""
    with everything_over_http(node, transport) as url:
        async with await connect_http(url, INFO, handlers=HANDLERS) as client:
            await use_everything(client)
            assert "Ada" in text(await client.call_tool("trigger-elicitation-request", {}, key="call"))


async def test_files(node: str, tmp_path: Path) -> None:
    """MCP-001, MCP-020"""
    (tmp_path / "a.txt").write_text("from a file")
    start = starter(node, program("server-filesystem"), str(tmp_path))
    async with await connect_stdio(start, INFO) as client:
        read = await client.call_tool("read_text_file", {"path": str(tmp_path / "a.txt")})
        assert text(read) == "from a file"
        outside = await client.call_tool("read_text_file", {"path": "/etc/hostname"})
        assert isinstance(outside, ToolResult)
        assert outside.is_error


async def test_memory(node: str) -> None:
    """MCP-001, MCP-020"""
    async with await connect_stdio(starter(node, program("server-memory")), INFO) as client:
        graph = await client.call_tool("read_graph", {})
        assert isinstance(graph, ToolResult)
        assert set(graph.structured) == {"entities", "relations"}


@pytest.mark.parametrize("trusted", [True, False])
async def test_npx_runs_no_package_of_an_untrusted_project(node: str, tmp_path: Path, trusted: bool) -> None:
    """MCP-360: it prefers what lies in `node_modules` of the directory that it starts in, and of those above."""
    project, home = tmp_path / "project", tmp_path / "home"
    planted = project / "node_modules" / ".bin" / "holdfast-planted"
    planted.parent.mkdir(parents=True)
    home.mkdir()
    (project / "package.json").write_text('{"name": "p", "version": "1.0.0"}')
    planted.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    planted.chmod(0o755)
    offline = {"npm_config_offline": "true"}
    server = {"type": "local", "command": ["npx", "-y", "holdfast-planted"], "environment": offline}
    environment = {"PATH": f"{Path(node).parent}:{os.environ['PATH']}", "HOME": str(home)}
    async with Holdfast(
        project, data=tmp_path / "data", environment=environment, config={"mcp": {"s": server}}, trust=trusted
    ) as hf:
        await hf.mcp.connect("s")
        assert [found.state for found in (await hf.mcp.list()).data] == ["failed"]
    assert (tmp_path / "ran").exists() == trusted
