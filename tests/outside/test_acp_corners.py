"""Corners of sessions in an editor: a server beside it, running commands at its end, long lists, slow readers."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
from acp.exceptions import RequestError
from tests.cli.conftest import HOLDFAST
from tests.outside.acp_editor import acp_environment, editor
from tests.outside.scripted_provider import PATIENCE, Turn, calling
from tests.outside.tree_script import Cast, delegating
from tests.outside.world import World

from holdfast import Budget

pytestmark = pytest.mark.anyio

LONG = 300


async def test_an_editor_that_goes_away_during_a_command_leaves_no_process_and_the_work_goes_on_later(
    world: World,
) -> None:
    """ACP-041, ACP-073"""
    world.model.plays(calling("bash", command="echo $$ > pid; exec sleep 300"), Turn(text="Went on."))
    async with editor(world) as ed:
        session = await ed.open(world)
        running = asyncio.create_task(ed.prompt(session, "Sleep"))
        pid = world.project / "pid"
        while not pid.exists() or not pid.read_text().strip():  # noqa: ASYNC110 - a command writes it
            await asyncio.sleep(0.02)
        began = time.monotonic()
    with pytest.raises(ConnectionError):
        await running
    assert ed.process.returncode == 0
    print(f"ended after {time.monotonic() - began:.2f} s")
    sleeper = int((world.project / "pid").read_text())
    assert not _runs(sleeper)
    async with editor(world) as ed:
        await ed.connection.load_session(cwd=str(world.project), session_id=session, mcp_servers=[])
        await ed.until(lambda: "Went on." in ed.text())
        [call] = ed.calls().values()
        assert call["status"] == "failed"


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


async def test_long_lists_come_in_pages_without_subagents(world: World) -> None:
    """ACP-011"""
    async with world.host(recover=False) as host:
        made = {(await host.sessions.create()).id for _ in range(60)}
    async with editor(world) as ed:
        first = await ed.connection.list_sessions(cwd=str(world.project))
        assert first.next_cursor is not None
        second = await ed.connection.list_sessions(cwd=str(world.project), cursor=first.next_cursor)
        assert second.next_cursor is None
        assert {one.session_id for one in (*first.sessions, *second.sessions)} == made


async def test_a_session_that_a_server_executes_is_shown_live(world: World) -> None:
    """ACP-017, ACP-042: text of another process arrives before its block has ended, if that process is a server."""
    held = asyncio.Event()
    world.model.plays(Turn(text="Ready."), Turn(text="Half and half.", end=held))
    environment = acp_environment(world)
    server = await asyncio.create_subprocess_exec(
        HOLDFAST, "serve", "--port", "0", cwd=world.project, env=environment, stdout=-1, stderr=-1
    )
    try:
        assert server.stdout is not None
        async with asyncio.timeout(PATIENCE):
            await server.stdout.readline()
        async with editor(world) as ed:
            session = await ed.open(world)

            async def run(text: str) -> asyncio.subprocess.Process:
                arguments = ("run", "--session", session, text)
                return await asyncio.create_subprocess_exec(
                    HOLDFAST, *arguments, cwd=world.project, env=environment, stdout=-1, stderr=-1
                )

            # A server is linked within a moment. What it announces before that comes with the end of its block.
            await (await run("First. ")).communicate()
            process = await run("Write")
            await ed.until(lambda: "Half" in ed.text())
            held.set()
            await ed.until(lambda: "Half and half." in ed.text())
            await process.communicate()
            assert ed.text("user_message_chunk") == "First. Write"
    finally:
        server.terminate()
        await server.communicate()


async def test_an_editor_that_reads_slowly_gets_everything(world: World) -> None:
    """ACP-030, ACP-063: nothing is kept for it; what it misses is read from the log."""
    words = " ".join(str(number) for number in range(20_000))
    world.model.plays(Turn(text=words, reasoning=words), Turn(text="After."))
    process = await asyncio.create_subprocess_exec(
        HOLDFAST, "acp", cwd=world.project, env=acp_environment(world), stdin=-1, stdout=-1, limit=2**24
    )
    assert process.stdin is not None
    assert process.stdout is not None

    async def send(id: int, method: str, **params: Any) -> None:
        assert process.stdin is not None
        process.stdin.write(
            json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode() + b"\n"
        )
        await process.stdin.drain()

    async def until(id: int) -> tuple[Any, dict[str, str]]:
        texts: dict[str, str] = {}
        assert process.stdout is not None
        while line := await process.stdout.readline():
            message = json.loads(line)
            if message.get("id") == id:
                return message, texts
            update = message["params"]["update"]
            if update["sessionUpdate"].endswith("_chunk"):
                kind = update["sessionUpdate"]
                texts[kind] = texts.get(kind, "") + update["content"]["text"]
        raise AssertionError("the process has ended")

    async with asyncio.timeout(PATIENCE):
        await send(1, "initialize", protocolVersion=1)
        await until(1)
        await send(2, "session/new", cwd=str(world.project), mcpServers=[])
        made, _ = await until(2)
        session = made["result"]["sessionId"]
        await send(3, "session/prompt", sessionId=session, prompt=[{"type": "text", "text": "Count"}])
        async with world.host(recover=False) as host:  # the editor reads nothing until the answer is stored
            while (await host.sessions.outcome(session)).type != "completed":  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.05)
        answer, texts = await until(3)
        assert answer["result"]["stopReason"] == "end_turn"
        assert texts["agent_message_chunk"] == words
        assert texts["agent_thought_chunk"] == words
        process.stdin.close()
        assert await process.wait() == 0


async def test_a_prompt_that_a_budget_pauses_says_so(world: World) -> None:
    """ACP-024"""
    world.model.plays(calling("read", path="hello.txt"), Turn(text="Never."))
    async with editor(world) as ed:
        session = await ed.open(world)
        async with world.host(recover=False) as host:
            await host.sessions.set_budget(session, budget=Budget(turns=1))
        with pytest.raises(RequestError, match="waits for the budget"):
            await ed.prompt(session, "Read")


async def test_a_request_of_a_subagent_is_asked_again_after_kill_9(world: World) -> None:
    """ACP-072, ACP-073"""
    world.configure(permission={"edit": "ask"})
    child = calling("write", path="new.txt", content="one\n")
    world.model.always = Cast(root=[delegating("child")], child=[child])
    async with editor(world) as ed:
        ed.answering.clear()
        session = await ed.open(world)
        prompted = asyncio.create_task(ed.prompt(session, "root"))
        await ed.until(lambda: ed.asked)
        ed.process.kill()
        with pytest.raises(ConnectionError):
            await prompted
    async with editor(world) as ed:
        await ed.connection.load_session(cwd=str(world.project), session_id=session, mcp_servers=[])
        [asked] = await ed.until(lambda: ed.asked)
        assert asked["sessionId"] == session
        await ed.until(lambda: "root done" in ed.text())
    assert (world.project / "new.txt").read_text() == "one\n"


async def test_a_long_conversation_is_loaded_whole(world: World) -> None:
    """ACP-040"""
    async with world.host(recover=False) as host:
        session = (await host.sessions.create()).id
        for number in range(LONG):
            await host.sessions.prompt(session, text=f"message {number}", no_reply=True, resume=False)
        await host.run("last", session=session)
    async with editor(world) as ed:
        began = time.monotonic()
        await ed.connection.load_session(cwd=str(world.project), session_id=session, mcp_servers=[])
        print(f"{LONG} messages in {time.monotonic() - began:.2f} s")
        assert len(ed.of("user_message_chunk")) == LONG + 1


async def test_a_program_can_give_a_host_the_files_of_an_editor_and_wait_for_what_it_admits(world: World) -> None:
    """ACP-020, ACP-080: the two things that `holdfast acp` needs of the embedded host, for other programs."""

    class Files:
        async def read(self, session_id: str, path: Any) -> str | None:
            return "hello unsaved\n" if path.name == "hello.txt" else None

        async def write(self, session_id: str, path: Any, text: str) -> bool:
            return False

    world.configure(command={"look": {"template": "Read $ARGUMENTS"}})
    world.model.plays(calling("read", path="hello.txt"), Turn(text="Read."))
    async with world.host(editor=Files()) as host:
        session = await host.sessions.create()
        assert await host.default_model(world.project) == await host.default_model()
        answer = await host.answer(
            session, lambda: host.sessions.command(session.id, command="look", arguments="hello.txt")
        )
        assert answer.text == "Read."
        assert "hello unsaved" in world.model.last.results[-1]
