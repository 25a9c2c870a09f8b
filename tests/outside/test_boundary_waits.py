"""For what a Session waits between two turns, and after an answer is complete."""

from __future__ import annotations

import asyncio
import shutil
from typing import Any

import pytest
from tests.outside.scripted_provider import Turn, calling
from tests.outside.test_overview import begin, until
from tests.outside.tree_script import Cast, delegating
from tests.outside.world import World

from holdfast import Holdfast, PromptInput

pytestmark = pytest.mark.anyio


async def test_a_slow_remote_instruction_is_named(world: World) -> None:
    """SES-209, SES-491: while the boundary waits for it, with when it began and what ends it."""
    asked, answer = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        await answer.wait()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nRULES")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/rules.md"
    world.configure(instructions=[url])
    async with server, world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="go"))
        await asked.wait()
        (wait,) = await hf.sessions.waits(session.id)
        assert (wait.kind, wait.what) == ("context", f"instructions from {url}")
        assert "last good copy" in wait.ends
        answer.set()
        assert (await hf.sessions.outcome(session.id)).type == "completed"
        assert await hf.sessions.waits(session.id) == []


@pytest.mark.store("sqlite", reason="a copy of the files is what a crash leaves")
async def test_an_answer_that_is_complete_is_not_waited_for_after_a_crash(world: World) -> None:
    """SES-491: its process died in the second before that was recorded; the next one waits for the child alone."""
    world.configure(permission={"bash": "ask"})
    world.model.always = Cast(
        tree=[delegating({"prompt": "deep", "description": "deep"})],
        deep=[calling("bash", command="ls", description="d"), Turn(text="done")],
    )
    left = world.home / "left"

    async def kinds(hf: Holdfast, id: str) -> list[str]:
        return [wait.kind for wait in await hf.sessions.waits(id)]

    async with world.host() as hf:
        root = await begin(hf, "tree")

        async def asks() -> Any:
            return await hf.sessions.open_requests()

        await until(asks)
        assert "provider" in await kinds(hf, root.id)
        shutil.copytree(world.data, left)
    async with world.host(data=left) as hf:

        async def resumed() -> bool:
            return root.id in await hf.sessions.active() and await kinds(hf, root.id) == ["subagent", "permission"]

        await until(resumed)
