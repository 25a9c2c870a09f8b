"""The tools of `holdfast mcp serve`, in their corners."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.outside.scripted_provider import PATIENCE, Model, Turn, calling
from tests.outside.world import World

from holdfast import Holdfast
from holdfast.cli.session_tools import waiting
from holdfast.cli.session_tools.toolbox import SessionToolbox
from holdfast.mcp.content import TextContent
from holdfast.mcp.server import ToolCall, UnknownTool
from holdfast.schema.form import ExternalField, StringField

pytestmark = pytest.mark.anyio


class Agent:
    def __init__(self, hf: Holdfast, directory: Path) -> None:
        self.hf = hf
        self.toolbox = SessionToolbox(self, str(directory))  # type: ignore[arg-type]
        self.waited = asyncio.Event()
        """Progress said that the Session waits for something."""

    async def client(self) -> Holdfast:
        return self.hf

    async def report(self, progress: float, total: float | None, message: str | None) -> None:
        if message is not None and message.startswith("waiting for "):
            self.waited.set()

    async def __call__(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE):
            result = await self.toolbox.call(ToolCall(tool, arguments, self.report))
        assert not result.is_error, result.content
        return result.structured  # type: ignore[no-any-return]

    async def fails(self, tool: str, /, **arguments: Any) -> str:
        result = await self.toolbox.call(ToolCall(tool, arguments, self.report))
        [content] = result.content
        assert isinstance(content, TextContent)
        assert result.is_error
        return content.text


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    model = Model()
    async with model.serving():
        yield World(tmp_path, model)


@pytest.fixture
async def agent(world: World) -> AsyncIterator[Agent]:
    async with world.host() as hf:
        yield Agent(hf, world.project)


async def test_what_cannot_be_done_is_said(agent: Agent) -> None:
    """MCP-287: each failure is a result that names the argument, the value or the way out."""
    assert "`wait`" in await agent.fails("session_wait", session="ses_1", wait=3)
    assert "$.wait_seconds" in await agent.fails("session_wait", session="ses_1", wait_seconds=-1)
    assert "ses_none" in await agent.fails("session_wait", session="ses_none")
    assert "is not a directory" in await agent.fails("session_create", directory="nowhere")
    assert "provider/model" in await agent.fails("session_create", model="m")
    assert "nothing/m" in await agent.fails("session_create", model="nothing/m")
    session = (await agent("session_create"))["session"]
    assert "`cursor`" in await agent.fails("session_read", session=session, cursor="x")
    assert "ursor" in await agent.fails("session_read", session=session, cursor=">x")
    assert "per_…" in await agent.fails("session_answer", session=session, request="x", reply="once")
    assert "`answers`" in await agent.fails("session_answer", session=session, request="que_1", reply="once")
    assert (await agent("session_wait", session=session, wait_seconds=0))["state"] == "idle"
    with pytest.raises(UnknownTool):
        await agent.toolbox.call(ToolCall("nothing", {}, agent.report))


async def test_messages_are_read_in_pieces(agent: Agent, world: World) -> None:
    """MCP-282: by number and by characters, without gaps; the newest first of all."""
    world.model.plays(Turn(text="1" * 900), Turn(text="2"), Turn(text="3"))
    session = (await agent("session_create"))["session"]
    for text in ("a", "b", "c"):
        await agent("session_prompt", session=session, text=text, wait_seconds=30)

    async def texts(**arguments: Any) -> tuple[list[str], str, bool]:
        read = await agent("session_read", session=session, **arguments)
        return [message["text"] for message in read["messages"]], read["cursor"], read.get("more", False)

    newest, end, more = await texts(limit=3)
    assert (newest, more) == (["2", "c", "3"], False)
    assert await texts(cursor=end) == ([], end, False)
    first, cursor, more = await texts(limit=6, characters=300)
    assert (first, more) == (["a"], True)
    cut, cursor, more = await texts(cursor=cursor, characters=300)
    assert cut == [f"{'1' * 300}\n… 600 more characters"]
    rest, cursor, more = await texts(cursor=cursor, limit=2)
    assert (rest, more) == (["b", "2"], True)
    assert (await texts(cursor=cursor))[0] == ["c", "3"]
    world.model.plays(Turn(text="4"))
    await agent("session_prompt", session=session, text="d", wait_seconds=30)
    assert (await texts(cursor=end))[0] == ["d", "4"]


async def test_a_message_that_is_being_written_comes_again(agent: Agent, world: World) -> None:
    """MCP-282: the cursor stays before it, also behind the newest messages of a longer session."""
    begin = asyncio.Event()
    world.model.plays(Turn(text="one"), Turn(text="two", end=begin))
    session = (await agent("session_create"))["session"]
    await agent("session_prompt", session=session, text="a", wait_seconds=30)
    await agent("session_prompt", session=session, text="b", wait_seconds=0)
    for limit in (2, 20):
        async with asyncio.timeout(PATIENCE):
            while True:
                read = await agent("session_read", session=session, limit=limit)
                if read["messages"][-1]["type"] == "assistant" and read["messages"][-1].get("complete") is False:
                    break
                await asyncio.sleep(0.01)
    again = await agent("session_read", session=session, cursor=read["cursor"])
    assert [message["type"] for message in again["messages"]] == ["assistant"]
    begin.set()
    await agent("session_wait", session=session)
    [message] = (await agent("session_read", session=session, cursor=read["cursor"]))["messages"]
    assert (message["text"], message.get("complete", True)) == ("two", True)


async def test_a_budget_is_waited_for_and_told(agent: Agent, world: World) -> None:
    """MCP-281: at its limit the session waits; that ends the call."""
    session = (await agent("session_create", budget={"turns": 1}))["session"]
    world.model.plays(calling("read", path="hello.txt"), Turn(text="done"))
    paused = await agent("session_prompt", session=session, text="go", wait_seconds=30)
    assert (paused["state"], "budget" in paused["error"]) == ("waiting", True)
    again = await agent("session_wait", session=session, wait_seconds=0)
    assert again["state"] == "waiting"


async def test_a_failure_of_the_model_is_the_state(agent: Agent, world: World) -> None:
    """MCP-283"""
    world.configure(holdfast={"titles": False, "retry": {"total_seconds": 0}})
    session = (await agent("session_create"))["session"]
    world.model.plays(Turn(status=400, error="no such thing"))
    failed = await agent("session_prompt", session=session, text="go", wait_seconds=30)
    assert (failed["state"], "no such thing" in failed["error"]) == ("failed", True)


async def test_progress_says_what_it_waits_for(agent: Agent, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """MCP-283: also when nothing happens."""
    monkeypatch.setattr(waiting, "LOOK_SECONDS", 0.01)
    begin = asyncio.Event()
    world.model.plays(Turn(text="x", begin=begin))
    session = (await agent("session_create"))["session"]
    prompt = asyncio.create_task(agent("session_prompt", session=session, text="go", wait_seconds=30))
    async with asyncio.timeout(PATIENCE):
        await agent.waited.wait()
    begin.set()
    assert (await prompt)["state"] == "completed"


async def test_only_a_person_lets_a_command_leave_the_sandbox(agent: Agent) -> None:
    """MCP-284: such a request is marked, can be rejected, and cannot be allowed."""
    session = (await agent("session_create"))["session"]
    made = await agent.hf.permissions.create(session, action="sandbox_escape", resources=["make"])
    state = await agent("session_wait", session=session, wait_seconds=0)
    assert state["requests"][0]["only_a_person"] is True
    assert "Only a person" in await agent.fails("session_answer", session=session, request=made.id, reply="once")
    await agent("session_answer", session=session, request=made.id, reply="reject")


async def test_forms_are_filled_in_or_dismissed(agent: Agent) -> None:
    """MCP-284: values by key; a page is for a person."""
    session = (await agent("session_create"))["session"]
    fields = (StringField(key="name", required=True),)
    form = await agent.hf.forms.create(session, title="Who?", fields=fields)
    [request] = (await agent("session_wait", session=session, wait_seconds=0))["requests"]
    assert (request["kind"], request["title"], request["fields"][0]["key"]) == ("form", "Who?", "name")
    assert "`form`" in await agent.fails("session_answer", session=session, request=form.id, reply="once")
    assert "name" in await agent.fails("session_answer", session=session, request=form.id, form={})
    await agent("session_answer", session=session, request=form.id, form={"name": "Ada"})
    assert (await agent.hf.forms.state(session, form_id=form.id)).answer == {"name": "Ada"}

    page = (ExternalField(key="visit", url="https://example.com"),)
    visit = await agent.hf.forms.create(session, title="Look", fields=page)
    [request] = (await agent("session_wait", session=session, wait_seconds=0))["requests"]
    assert request["only_a_person"] is True
    refused = await agent.fails("session_answer", session=session, request=visit.id, form={"visit": True})
    assert "Only a person" in refused
    await agent("session_answer", session=session, request=visit.id, dismiss=True)
    assert (await agent.hf.forms.state(session, form_id=visit.id)).status == "cancelled"


async def test_sessions_are_listed_by_directory(agent: Agent, world: World) -> None:
    """MCP-282: those of the server's directory, of another, or all; page by page."""
    other = world.home / "other"
    other.mkdir()
    here = (await agent("session_create"))["session"]
    there = (await agent("session_create", directory=str(other)))["session"]

    async def listed(**arguments: Any) -> list[str]:
        return [found["session"] for found in (await agent("session_list", **arguments))["sessions"]]

    assert (await listed(), await listed(directory=str(other))) == ([here], [there])
    assert await listed(everywhere=True) == [there, here]
    page = await agent("session_list", everywhere=True, limit=1)
    assert [found["session"] for found in page["sessions"]] == [there]
    assert await listed(cursor=page["cursor"], limit=5) == [here]
