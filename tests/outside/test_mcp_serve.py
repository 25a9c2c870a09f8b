"""Holdfast as an MCP server: another agent uses Sessions as tools."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import HOLDFAST, Machine, Server
from tests.mcp.local_process import LocalProcess
from tests.outside.scripted_provider import PATIENCE, Turn, calling
from tests.outside.world import World

from holdfast.client.connect import connect
from holdfast.mcp import Client, Implementation, connect_stdio
from holdfast.mcp.content import TextContent
from holdfast.mcp.results import Progress, ToolResult

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
WRITE = {"permission": {"write": "ask", "edit": "ask"}}


class Caller:
    """Another agent."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.progress: list[Progress] = []

    async def __call__(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        result = await self.client.call_tool(tool, arguments, on_progress=self.progress.append)
        assert isinstance(result, ToolResult)
        [content] = result.content
        assert isinstance(content, TextContent)
        assert not result.is_error, content.text
        assert json.loads(content.text) == result.structured
        return result.structured  # type: ignore[no-any-return]

    async def fails(self, tool: str, /, **arguments: Any) -> str:
        result = await self.client.call_tool(tool, arguments)
        assert isinstance(result, ToolResult)
        [content] = result.content
        assert isinstance(content, TextContent)
        assert result.is_error
        return content.text


@asynccontextmanager
async def served(
    project: Path, environment: dict[str, str], *arguments: str, version: str | None = None
) -> AsyncIterator[Caller]:
    async def start() -> LocalProcess:
        command = (HOLDFAST, "mcp", "serve", *arguments)
        process = await asyncio.create_subprocess_exec(
            *command, cwd=project, env=environment, stdin=-1, stdout=-1, stderr=-1, start_new_session=True
        )
        return LocalProcess(process)

    client = await connect_stdio(start, Implementation(name="test", version="1"), version=version)
    try:
        async with asyncio.timeout(PATIENCE):
            yield Caller(client)
    finally:
        await client.close()


@asynccontextmanager
async def serving(world: World, *arguments: str) -> AsyncIterator[Caller]:
    """A process on the world's data, which uses the scripted model."""
    if not (world.user_folder / "opencode.json").exists():
        world.configure()
    environment = {**world.environment, "HOLDFAST_DATA": str(world.data), "NO_PROXY": "127.0.0.1"}
    async with served(world.project, environment, *arguments) as caller:
        yield caller


async def test_another_agent_gives_work_to_a_session(world: World) -> None:
    """MCP-280, MCP-281, MCP-282: create, prompt, wait for the answer, read it, find it again."""
    world.model.plays(calling("read", path="hello.txt"), Turn(text="It says hello."), Turn(text="Again."))
    async with serving(world) as agent:
        listing = await agent.client.list_tools()
        assert [tool.name for tool in listing.items] == [
            "session_create",
            "session_prompt",
            "session_wait",
            "session_read",
            "session_list",
            "session_answer",
            "session_interrupt",
        ]
        made = await agent("session_create", title="Greeting", budget={"turns": 5})
        assert made["directory"] == str(world.project.resolve())
        done = await agent("session_prompt", session=made["session"], text="What does it say?", wait_seconds=30)
        assert (done["state"], done["answer"]) == ("completed", "It says hello.")

        read = await agent("session_read", session=made["session"])
        assert [(message["type"], message["text"]) for message in read["messages"]] == [
            ("user", "What does it say?"),
            ("assistant", ""),
            ("assistant", "It says hello."),
        ]
        [call] = read["messages"][1]["calls"]
        assert (call["tool"], call["status"]) == ("read", "completed")
        assert "hello world" in call["output"]

        await agent("session_prompt", session=made["session"], text="And now?", wait_seconds=30)
        later = await agent("session_read", session=made["session"], cursor=read["cursor"])
        assert [message["text"] for message in later["messages"]] == ["And now?", "Again."]
        [listed] = (await agent("session_list"))["sessions"]
        assert (listed["session"], listed["title"], listed["working"]) == (made["session"], "Greeting", False)
    assert any("read hello.txt" in (report.message or "") for report in agent.progress)


async def test_requests_are_answered_by_the_agent(world: World) -> None:
    """MCP-284: a permission request and a question are seen while waiting, and answered."""
    world.configure(**WRITE)
    question = {"question": "Which?", "header": "h", "options": [{"label": "a", "description": "A"}]}
    world.model.plays(
        calling("write", path="new.txt", content="x"), calling("question", questions=[question]), Turn(text="Done.")
    )
    async with serving(world) as agent:
        session = (await agent("session_create"))["session"]
        asked = await agent("session_prompt", session=session, text="go", wait_seconds=30)
        [request] = asked["requests"]
        assert (asked["state"], request["kind"], request["action"]) == ("asking", "permission", "edit")
        assert not (world.project / "new.txt").exists()
        wrong = await agent.fails("session_answer", session=session, request=request["id"], answers=[["a"]])
        assert "`reply`: once or reject" in wrong
        always = await agent.fails("session_answer", session=session, request=request["id"], reply="always")
        assert "$.reply" in always

        then = await agent("session_answer", session=session, request=request["id"], reply="once", wait_seconds=30)
        [question_asked] = then["requests"]
        assert question_asked["questions"][0]["question"] == "Which?"
        done = await agent(
            "session_answer", session=session, request=question_asked["id"], answers=[["a"]], wait_seconds=30
        )
        assert (done["state"], done["answer"]) == ("completed", "Done.")
        assert (world.project / "new.txt").exists()
        gone = await agent.fails("session_answer", session=session, request=request["id"], reply="once")
        assert request["id"] in gone


async def test_a_cancelled_call_leaves_the_session_at_work(world: World) -> None:
    """MCP-283, MCP-285: waiting ends with the call, with its time, or with an interruption; the work does not."""
    release = asyncio.Event()
    world.model.plays(Turn(text="slow", end=release))
    async with serving(world) as agent:
        session = (await agent("session_create"))["session"]
        sent = await agent("session_prompt", session=session, text="go", wait_seconds=0)
        assert sent["state"] == "working"
        assert sent["prompt"].startswith("msg_")
        waiting = asyncio.create_task(agent("session_wait", session=session, wait_seconds=600))
        await world.model.asked(1)
        waiting.cancel()
        await asyncio.wait({waiting})
        [listed] = (await agent("session_list"))["sessions"]
        assert listed["working"]
        still = await agent("session_wait", session=session, wait_seconds=0.05)
        assert still["state"] == "working"
        assert "mock/m" in still["waits"][0]
        stopped = await agent("session_interrupt", session=session)
        assert stopped["state"] == "interrupted"
        release.set()


async def test_it_uses_the_server_on_the_same_data_and_finds_another(
    holdfast: Machine, serve: Callable[..., Server]
) -> None:
    """MCP-286: the Session lives in the server; after its end the next call opens the runtime here."""
    server = serve()
    async with served(holdfast.project, holdfast.environment) as agent:
        session = (await agent("session_create", model="demo/echo"))["session"]
        async with connect(server.url, environment=holdfast.environment) as client:
            assert (await client.sessions.get(session)).id == session
        server.process.kill()
        server.process.wait()
        lost = await agent.fails("session_prompt", session=session, text="one")
        assert "call again" in lost
        done = await agent("session_prompt", session=session, text="one", wait_seconds=30)
        assert (done["state"], done["answer"]) == ("completed", "one")


@pytest.mark.parametrize("name", ["input", "output"])
def test_what_is_no_pipe_is_refused_with_a_reason(holdfast: Machine, name: str) -> None:
    """MCP-342"""
    with Path(os.devnull).open("r+b") as nothing:
        streams: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, f"std{name[:-3]}": nothing}
        ran = subprocess.run(
            [HOLDFAST, "mcp", "serve"],
            cwd=holdfast.project,
            env=holdfast.environment,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=PATIENCE,
            **streams,
        )
    assert (ran.returncode, len(ran.stderr.splitlines())) == (1, 1), ran.stderr
    assert f"Standard {name} is not a pipe" in ran.stderr


def test_a_client_that_reads_nothing_is_given_up(holdfast: Machine) -> None:
    """MCP-342"""
    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    asked = [("initialize", client), *(("tools/list", {}) for _ in range(3000))]
    lines = [json.dumps({"jsonrpc": "2.0", "id": n, "method": m, "params": p}) for n, (m, p) in enumerate(asked)]
    with subprocess.Popen(
        [HOLDFAST, "mcp", "serve"],
        cwd=holdfast.project,
        env=holdfast.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        with suppress(BrokenPipeError):
            process.stdin.write("\n".join(lines).encode() + b"\n")
            process.stdin.flush()
        assert process.wait(PATIENCE) == 1
        assert process.stderr.read() == (
            b"holdfast: The client was given up: The other side sent 1000 requests without waiting for an answer\n"
        )
        with suppress(BrokenPipeError):
            process.stdin.close()


def test_a_client_of_the_official_package_gives_work_to_a_session(holdfast: Machine) -> None:
    """MCP-280"""
    script = ROOT / "tests" / "mcp" / "interop" / "session_agent.py"
    ran = subprocess.run(
        [sys.executable, str(script), HOLDFAST],
        cwd=holdfast.project,
        env=holdfast.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert ran.returncode == 0, ran.stderr
    common = {"tools": 7, "answer": ["completed", "one"], "read": ["one", "one"], "failed": True}
    assert json.loads(ran.stdout) == [{"version": "2025-11-25", **common}, {"version": "2026-07-28", **common}]


async def test_work_goes_on_in_the_next_process(world: World) -> None:
    """MCP-285, MCP-286: a client that leaves takes its process with it, and nothing of the Session."""
    never = asyncio.Event()
    world.model.plays(Turn(text="cut off", begin=never), Turn(text="Done."))
    async with serving(world) as agent:
        session = (await agent("session_create"))["session"]
        await agent("session_prompt", session=session, text="go", wait_seconds=0)
        await world.model.asked(1)
    async with serving(world) as agent:
        done = await agent("session_wait", session=session, wait_seconds=30)
        assert (done["state"], done["answer"]) == ("completed", "Done.")
    never.set()
