"""Answers of a model that MCP servers ask for."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.outside.mcp_world import Peer, known, servers, tool
from tests.outside.scripted_provider import PATIENCE, Turn, calling
from tests.outside.world import World, ask, result_of

from holdfast import Budget
from holdfast.schema.permission import PermissionRequest

pytestmark = pytest.mark.anyio

CALL = calling("mcp_call", tool="helper_ask", arguments={})
AUDIO = {"type": "audio", "data": "", "mimeType": "x"}
USAGE = {"prompt_tokens": 1000, "completion_tokens": 10}
ALLOWED = {"permission": {"helper_ask": "allow", "helper_sampling": "allow"}}


def asks(text: str = "Name a colour.", **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": {"type": "text", "text": text}}]
    return {"messages": messages, "maxTokens": 50, **more}


@pytest.fixture
def helper(world: World) -> Peer:
    found = Peer(world.home / "peers" / "helper", "helper", tool("ask"))
    found.says(samples=[asks(systemPrompt="Be brief.", temperature=0.5, stopSequences=["."])])
    servers(world, found, **ALLOWED)
    return found


async def test_a_server_gets_an_answer_of_the_sessions_model(world: World, helper: Peer) -> None:
    """MCP-310, MCP-311: what the server says and nothing else; counted for the Session; nothing is added."""
    servers(world, helper, **ALLOWED, provider={"mock": world.provider(cost={"input": 1, "output": 2})})
    async with world.host() as hf:
        await known(hf, helper)
        session = await hf.sessions.create()
        world.model.plays(CALL, Turn(text="Blue.", usage=USAGE), Turn(text="It said blue."))
        await ask(hf, session, "remember 42")
        assert "Blue." in result_of(world)
        used = (await hf.sessions.usage(session.id)).own
        assert (used.turns, used.cost > 0.001) == (3, True)
        assert "Blue." not in [message.text for message in await hf.sessions.context(session.id)]
        assert await hf.verify() == []
    sampled = world.model.requests[1]
    assert (sampled.system, sampled.tools) == ("Be brief.", [])
    assert sampled.said == [("user", "Name a colour.")]
    assert [sampled.body.get(name) for name in ("max_tokens", "temperature", "stop")] == [50, 0.5, ["."]]
    [answer] = helper.heard("answered")
    assert answer == {
        "role": "assistant",
        "content": {"type": "text", "text": "Blue."},
        "model": "mock/m",
        "stopReason": "endTurn",
    }


async def test_permission_is_asked_for_each_answer(world: World, helper: Peer) -> None:
    """MCP-310: by default, with what the server asks; a rejection is told to the server, and the turn goes on."""
    servers(world, helper, permission={"helper_ask": "allow"})
    asked: list[PermissionRequest] = []

    def decide(request: PermissionRequest) -> Any:
        asked.append(request)
        return "once" if len(asked) == 1 else "reject"

    async with world.host() as hf:
        await known(hf, helper)
        hf.on_permission(decide)
        session = await hf.sessions.create()
        world.model.plays(CALL, Turn(text="Blue."), Turn(text="done"), CALL, Turn(text="done"))
        await ask(hf, session, "one")
        await ask(hf, session, "two")
        assert (await hf.sessions.outcome(session.id)).type == "completed"
    assert [request.action for request in asked] == ["helper_sampling"] * 2
    assert asked[0].metadata == {
        "server": "helper",
        "maxTokens": 50,
        "asks": "system: Be brief.\nuser: Name a colour.",
    }
    assert asked[0].source is not None
    assert [answer.get("code") for answer in helper.heard("answered")] == [None, -1]
    assert "rejected" in result_of(world)


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        (asks(tools=[{"name": "x", "inputSchema": {}}]), "tools"),
        ({"messages": [], "maxTokens": 5}, "1 to 100 messages"),
        ({**asks(), "maxTokens": 0}, "not positive"),
        ({"messages": [{"role": "user", "content": AUDIO}], "maxTokens": 5}, "text"),
        (asks("x" * (1024 * 1024 + 1)), "at most"),
    ],
)
async def test_what_cannot_be_asked_is_refused(
    world: World, helper: Peer, request_: dict[str, Any], problem: str
) -> None:
    """MCP-312"""
    helper.says(samples=[request_])
    async with world.host() as hf:
        await known(hf, helper)
        session = await hf.sessions.create()
        world.model.plays(CALL, Turn(text="done"))
        await ask(hf, session, "go")
    [answer] = helper.heard("answered")
    assert (answer["code"], problem in answer["message"]) == (-32602, True)
    assert len(world.model.requests) == 2


async def test_answers_are_limited_by_number_length_and_budget(world: World, helper: Peer) -> None:
    """MCP-311, MCP-312: a budget that is used up gives none, and waits as usual."""
    helper.says(samples=[asks(maxTokens=1_000_000)])
    async with world.host() as hf:
        await known(hf, helper)
        session = await hf.sessions.create()
        world.model.plays(CALL, Turn(text="Blue."), Turn(text="done"))
        await ask(hf, session, "go")
        assert world.model.requests[1].body["max_tokens"] == 16_384

        poor = await hf.sessions.create(budget=Budget(turns=1))
        world.model.plays(CALL)
        await ask(hf, poor, "go")
        assert (await hf.sessions.outcome(poor.id)).type == "waiting"
    assert "budget" in helper.heard("answered")[-1]["message"]
    assert len(world.model.requests) == 4


@pytest.mark.parametrize("usage", [None, USAGE])
async def test_each_answer_is_a_turn_of_the_budget(world: World, helper: Peer, usage: Any) -> None:
    """MCP-311: also one of a provider that does not tell what it used."""
    async with world.host() as hf:
        await known(hf, helper)
        session = await hf.sessions.create(budget=Budget(turns=2))
        world.model.plays(CALL, Turn(text="Blue.", usage=usage), Turn(text="done"))
        await ask(hf, session, "go")
        assert (await hf.sessions.outcome(session.id)).type == "waiting"
        assert (await hf.sessions.usage(session.id)).own.turns == 2


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("status", [200, 400])
async def test_an_answer_that_breaks_off_is_counted(world: World, helper: Peer, status: int, told: bool) -> None:
    """MCP-311: as a turn, with what is known of its usage."""
    servers(world, helper, **ALLOWED, provider={"mock": world.provider(cost={"input": 1, "output": 2})})
    chunk = {"choices": [{"delta": {"content": "Bl"}}], **({"usage": USAGE} if told else {})}
    broken = Turn(status=status, raw=f"data: {json.dumps(chunk)}\n\n".encode())
    async with world.host() as hf:
        await known(hf, helper)
        session = await hf.sessions.create()
        world.model.plays(CALL, broken, Turn(text="done"))
        await ask(hf, session, "go")
        used = (await hf.sessions.usage(session.id)).own
        assert (used.turns, used.cost > 0.001) == (3, told and status == 200)
        assert await hf.verify() == []
    assert helper.heard("answered") == [{"code": -32603, "message": "The model gave no answer"}]


async def test_an_answer_that_nobody_waits_for_is_counted(world: World, helper: Peer) -> None:
    """MCP-311: an interruption ends the request to the model, too."""
    async with world.host() as hf:
        await known(hf, helper)
        session = await hf.sessions.create()
        hanging = Turn(text="Bl", end=asyncio.Event())
        world.model.plays(CALL, hanging)
        await hf.sessions.prompt(session.id, text="go")
        async with asyncio.timeout(PATIENCE):
            while len(world.model.requests) < 2:  # noqa: ASYNC110 - another process asks
                await asyncio.sleep(0.005)
            await hf.sessions.interrupt(session.id)
        assert (await hf.sessions.usage(session.id)).own.turns == 2
        assert await hf.verify() == []


async def test_a_failing_model_is_told_without_its_details(world: World, helper: Peer) -> None:
    """MCP-312"""
    servers(world, helper, **ALLOWED, holdfast={"titles": False, "retry": {"total_seconds": 0}})
    async with world.host() as hf:
        await known(hf, helper)
        session = await hf.sessions.create()
        world.model.plays(CALL, Turn(status=400, error="the key sk-scripted is wrong"), Turn(text="done"))
        await ask(hf, session, "go")
    assert helper.heard("answered") == [{"code": -32603, "message": "The model gave no answer"}]


async def test_without_a_session_there_is_no_model(world: World, helper: Peer) -> None:
    """MCP-310"""
    async with world.host() as hf:
        await known(hf, helper)
        result = (await hf.mcp.call("helper", tool="ask")).data
    assert json.loads(result.content[0]["text"])["code"] == -32600
    assert world.model.requests == []


async def test_an_interruption_ends_what_waits_for_an_answer(world: World, helper: Peer) -> None:
    """MCP-311: the request to the person goes away with the call."""
    servers(world, helper, permission={"helper_ask": "allow"})
    async with world.host() as hf:
        await known(hf, helper)
        session = await hf.sessions.create()
        world.model.plays(CALL)
        asked = asyncio.Event()

        async def notice(request: PermissionRequest) -> None:
            asked.set()

        hf.on_permission(notice)
        await hf.sessions.prompt(session.id, text="go")
        async with asyncio.timeout(PATIENCE):
            await asked.wait()
            await hf.sessions.interrupt(session.id)
        assert await hf.permissions.list(session.id) == []
        assert (await hf.sessions.outcome(session.id)).type == "interrupted"
        assert await hf.verify() == []
    assert len(world.model.requests) == 1


async def test_a_result_that_asks_gets_its_answer(world: World) -> None:
    """MCP-310: in the newest version of the protocol a result asks, and the call goes on with the answer."""
    script = str(Path(__file__).with_name("mcp_sampling_server.py"))
    world.configure(
        mcp={"servers": {"helper": {"type": "local", "command": [sys.executable, script]}}},
        **ALLOWED,
    )
    async with world.host() as hf:
        await hf.mcp.connect("helper")
        session = await hf.sessions.create()
        world.model.plays(CALL, Turn(text="a bird"), Turn(text="done"))
        await ask(hf, session, "go")
    assert "mock/m says a bird" in result_of(world)
    assert world.model.requests[1].said == [("user", "What is it?")]


async def test_a_request_that_waits_survives_a_restart(world: World, helper: Peer) -> None:
    """MCP-311: the next process makes the call again, and the answer to the request counts there."""
    servers(world, helper, permission={"helper_ask": "allow"})
    asked = asyncio.Event()

    async def notice(request: PermissionRequest) -> None:
        asked.set()

    world.model.plays(CALL, Turn(text="Blue."), Turn(text="done"))
    async with world.host() as hf:
        await known(hf, helper)
        session = await hf.sessions.create()
        hf.on_permission(notice)
        await hf.sessions.prompt(session.id, text="go")
        async with asyncio.timeout(PATIENCE):
            await asked.wait()
    async with world.host() as hf:
        [request] = await hf.permissions.list(session.id)
        assert request.action == "helper_sampling"
        await hf.permissions.reply(session.id, request_id=request.id, reply="once")
        async with asyncio.timeout(PATIENCE):
            await hf.sessions.wait(session.id)
        assert (await hf.sessions.outcome(session.id)).type == "completed"
        assert await hf.verify() == []
    assert [call["name"] for call in helper.heard()] == ["ask", "ask"]
    assert "Blue." in result_of(world)
