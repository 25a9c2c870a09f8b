"""Several servers on one database: what one executes is followed, answered and stopped from another."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import aclosing
from http.server import BaseHTTPRequestHandler

import pytest
from tests.cli.conftest import Machine, Provider, Server, frame
from tests.outside.test_left_behind import Behaviour, asked, calling, client_of, in_turn, new_session, until

from holdfast import PromptInput
from holdfast.client.call import Options
from holdfast.client.http import HttpTransport
from holdfast.client.transport import Request
from holdfast.schema.form import StringField

pytestmark = pytest.mark.anyio

Serve = Callable[..., Server]


def on_release(provider: Provider) -> Behaviour:
    """Answers when the test lets it."""

    def behave(handler: BaseHTTPRequestHandler) -> None:
        Provider.head(handler)
        assert provider.released.wait(30)
        handler.wfile.write(frame({"content": "one "}) + frame({"content": "two"}))
        handler.wfile.write(frame({}, "stop") + b"data: [DONE]\n\n")

    return behave


async def test_live_events_come_from_the_node_that_executes(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """STO-105: a follower of the other server sees the text while it is written."""
    holdfast.use_provider(provider.url)
    in_turn(provider, on_release(provider))
    first, second = serve(), serve()
    async with client_of(first, holdfast) as here, client_of(second, holdfast) as there:
        session_id = await new_session(here, holdfast)
        await here.sessions.prompt(session_id, prompt=PromptInput(text="what is it?"))
        assert await asyncio.to_thread(provider.asked.acquire, timeout=30)
        written = ""
        options = Options(on_heartbeat=provider.released.set)  # where live events begin
        async with aclosing(aiter(there.sessions.events(session_id, live=True, options=options))) as events:
            async for event in events:
                if event.type == "session.next.text.delta":
                    written += event.data.delta  # type: ignore[union-attr]
                if event.type == "session.next.step.ended":
                    break
        assert written == "one two"


async def test_a_session_is_waited_for_and_interrupted_from_another_node(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """STO-106: active, wait and interrupt do not depend on where it is executed."""
    holdfast.use_provider(provider.url)
    in_turn(provider, provider.hang)
    first, second = serve(), serve()
    async with client_of(first, holdfast) as here, client_of(second, holdfast) as there:
        session_id = await new_session(here, holdfast)
        await here.sessions.prompt(session_id, prompt=PromptInput(text="what is it?"))
        assert await asyncio.to_thread(provider.asked.acquire, timeout=30)
        assert session_id in await there.sessions.active()
        waiting = asyncio.create_task(there.sessions.wait(session_id))
        await there.sessions.interrupt(session_id)
        await waiting
        assert await here.sessions.active() == {}


async def test_a_permission_is_granted_from_another_node(holdfast: Machine, serve: Serve, provider: Provider) -> None:
    """STO-106: the call that waits in one server goes on when a client of another replies."""
    holdfast.use_provider(provider.url)
    config = holdfast.home / "config" / "opencode" / "opencode.json"
    document = json.loads(config.read_text(encoding="utf-8"))
    config.write_text(json.dumps({**document, "permission": {"bash": "ask"}}), encoding="utf-8")
    in_turn(provider, calling("bash", {"command": "echo granted", "description": "x"}), Provider.answer)
    first, second = serve(), serve()
    async with client_of(first, holdfast) as here, client_of(second, holdfast) as there:
        session_id = await new_session(here, holdfast)
        await here.sessions.prompt(session_id, prompt=PromptInput(text="what is it?"))
        (request,) = await until(lambda: there.permissions.list(session_id))
        await there.permissions.reply(session_id, request_id=request.id, reply="once")
        assert (await here.sessions.outcome(session_id)).type == "completed"
    assert len(asked(provider)) == 2


async def test_a_permission_is_refused_from_another_node(holdfast: Machine, serve: Serve, provider: Provider) -> None:
    """STO-106: the call is declined where it waits, and its command never runs."""
    holdfast.use_provider(provider.url)
    config = holdfast.home / "config" / "opencode" / "opencode.json"
    document = json.loads(config.read_text(encoding="utf-8"))
    config.write_text(json.dumps({**document, "permission": {"bash": "ask"}}), encoding="utf-8")
    in_turn(provider, calling("bash", {"command": "touch ran", "description": "x"}), Provider.answer)
    first, second = serve(), serve()
    async with client_of(first, holdfast) as here, client_of(second, holdfast) as there:
        session_id = await new_session(here, holdfast)
        await here.sessions.prompt(session_id, prompt=PromptInput(text="what is it?"))
        (request,) = await until(lambda: there.permissions.list(session_id))
        waiting = asyncio.create_task(there.sessions.wait(session_id))
        await there.permissions.reply(session_id, request_id=request.id, reply="reject")
        await waiting
        await here.sessions.wait(session_id)  # it gives the Session free a moment before its drain ends
        assert await here.sessions.active() == await there.sessions.active() == {}
        assert await here.permissions.list(session_id) == []
    assert not (holdfast.project / "ran").exists()


@pytest.mark.parametrize("answered", [True, False])
async def test_a_question_is_answered_from_another_node(
    holdfast: Machine, serve: Serve, provider: Provider, answered: bool
) -> None:
    """STO-106: or rejected; the call that waits in one server goes on when a client of another replies."""
    holdfast.use_provider(provider.url)
    options = [{"label": "red", "description": "r"}, {"label": "blue", "description": "b"}]
    question = {"question": "Which colour?", "header": "colour", "options": options}
    in_turn(provider, calling("question", {"questions": [question]}), Provider.answer)
    first, second = serve(), serve()
    async with client_of(first, holdfast) as here, client_of(second, holdfast) as there:
        session_id = await new_session(here, holdfast)
        await here.sessions.prompt(session_id, prompt=PromptInput(text="ask me"))
        (request,) = await until(lambda: there.questions.list(session_id))
        if answered:
            await there.questions.reply(session_id, request_id=request.id, answers=(("blue",),))
            assert (await there.sessions.outcome(session_id)).type == "completed"
            assert "blue" in json.dumps(asked(provider)[-1]["messages"][-1])
        else:
            await there.questions.reject(session_id, request_id=request.id)
            await there.sessions.wait(session_id)
            assert len(asked(provider)) == 1
        assert await here.questions.list(session_id) == []


async def test_a_form_is_answered_from_another_node(holdfast: Machine, serve: Serve) -> None:
    """STO-106: both see what became of it."""
    first, second = serve(), serve()
    async with client_of(first, holdfast) as here, client_of(second, holdfast) as there:
        session_id = await new_session(here, holdfast)
        made = await here.forms.create(session_id, title="Who?", fields=(StringField(key="name", required=True),))
        assert [form.id for form in await there.forms.list(session_id)] == [made.id]
        await there.forms.reply(session_id, form_id=made.id, answer={"name": "Ada"})
        state = await here.forms.state(session_id, form_id=made.id)
        assert state == await there.forms.state(session_id, form_id=made.id)
        assert await here.forms.list(session_id) == []


async def test_a_wrong_token_of_a_node_is_refused(holdfast: Machine, serve: Serve) -> None:
    """STO-105: as a request without credentials."""
    server = serve()
    transport = HttpTransport(server.url)
    try:
        headers = {"x-holdfast-relay": "1", "x-holdfast-node": "0" * 64}
        response = await transport.send(Request("GET", "/api/event", headers, timeout=10))
        assert response.status == 401
        await response.read()
    finally:
        await transport.close()
