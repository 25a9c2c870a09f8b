"""The generated clients and the embedded host, as a program uses them: calls, failures, streams, life and end."""

from __future__ import annotations

import asyncio
import inspect
import json
from contextlib import aclosing
from typing import Any

import pytest
from tests.outside.scripted_provider import PATIENCE, Model, Request, Turn
from tests.outside.world import World, ask

import holdfast
from holdfast import ApiError, AsyncClient, Client, ClientError, ModelRef, Options, PromptInput, connect
from holdfast.schema.session_message import UserMessage

pytestmark = pytest.mark.anyio

SESSION = {
    "id": "ses_1",
    "projectID": "global",
    "cost": 0,
    "tokens": {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}},
    "time": {"created": 1, "updated": 1},
    "title": "t",
    "location": {"directory": "/"},
}


class Elsewhere:
    """A server that answers what the test says."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.url = model.url.removesuffix("/v1")

    def says(self, body: Any, status: int = 200, kind: str = "application/json") -> None:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.model.always = Turn(status=status, raw=raw, headers={"content-type": kind})

    @property
    def asked(self) -> Request:
        return self.model.last


@pytest.fixture
def elsewhere(model: Model) -> Elsewhere:
    return Elsewhere(model)


async def test_a_call_is_one_request(elsewhere: Elsewhere) -> None:
    """API-303, API-304, API-307, API-308: nothing is sent before; paths, queries and payloads are one list of
    arguments; a header of the call wins; a content type only with a body; the data comes without its envelope."""
    async with connect(elsewhere.url, password="pw", environment={}) as client:
        assert elsewhere.model.requests == []
        elsewhere.says({"data": SESSION})
        made = await client.sessions.create(
            agent="build", model=ModelRef(id="m", provider_id="p"), options=Options(headers={"X-Trace": "7"})
        )
        assert (made.id, made.title) == ("ses_1", "t")
        asked = elsewhere.asked
        assert (asked.method, asked.path) == ("POST", "/api/session")
        assert asked.body == {"agent": "build", "model": {"id": "m", "providerID": "p"}}
        assert asked.headers["x-trace"] == "7"
        assert asked.headers["authorization"].startswith("Basic ")
        elsewhere.says({"data": [], "cursor": {"previous": None, "next": None}})
        page = await client.sessions.list(limit=3, search="a b&c", archived=True)
        assert (page.items, page.previous, page.next) == ([], None, None)
        assert elsewhere.asked.path == "/api/session?limit=3&search=a+b%26c&archived=true"
        assert "content-type" not in elsewhere.asked.headers
        elsewhere.says({"location": {"directory": "/x", "project": {"id": "global", "directory": "/"}}, "data": []})
        await client.agents.list(location=holdfast.Location(directory="/x", workspace_id="wrk_1"))
        assert elsewhere.asked.path == "/api/agent?location%5Bdirectory%5D=%2Fx&location%5Bworkspace%5D=wrk_1"
        elsewhere.says(b"", status=204)
        assert await client.sessions.interrupt("ses_1") is None  # type: ignore[func-returns-value]


@pytest.mark.parametrize("id", ["", ".", ".."])
async def test_an_id_that_would_name_something_else_is_not_sent(elsewhere: Elsewhere, id: str) -> None:
    """API-307: an empty one, and those that a path loses."""
    async with connect(elsewhere.url, password="pw", environment={}) as client:
        with pytest.raises(ValueError, match="session"):
            await client.sessions.delete(id)
    assert elsewhere.model.requests == []


async def test_a_failure_is_the_servers_or_the_ways(elsewhere: Elsewhere) -> None:
    """API-309, API-310, API-311: what the operation declares has a tag, a status and its body; everything else says
    which part of the way failed."""
    async with connect(elsewhere.url, password="pw", environment={}) as client:
        body = {"_tag": "SessionNotFoundError", "sessionID": "ses_1", "message": "No such session"}
        elsewhere.says(body, status=404)
        with pytest.raises(ApiError, match="No such session") as declared:
            await client.sessions.get("ses_1")
        assert (declared.value.code, declared.value.status, declared.value.body) == ("SessionNotFoundError", 404, body)
        for answer, status, kind, reason in (
            (b"oops", 500, "text/plain", "UnexpectedStatus"),
            (b"<html>", 200, "text/html", "UnsupportedContentType"),
            (b"{", 200, "application/json", "MalformedResponse"),
            (b'{"data": {"id": 5}}', 200, "application/json", "MalformedResponse"),
            (b"{}", 404, "application/json", "MalformedResponse"),
        ):
            elsewhere.says(answer, status, kind)
            with pytest.raises(ClientError) as failed:
                await client.sessions.get("ses_1")
            assert failed.value.reason == reason
    async with connect("http://127.0.0.1:1", password="pw", environment={}) as nobody:
        with pytest.raises(ClientError) as unreachable:
            await nobody.health.get()
        assert unreachable.value.reason == "Transport"


async def test_a_stream_is_lazy_and_reads_what_servers_write(elsewhere: Elsewhere) -> None:
    """API-200, API-312, API-313, API-314: no request at the call; other line ends, several lines, comments, no end; it
    is not opened again by itself."""
    first = '{"id":"evt_1","type":"server.connected",\r\ndata: "data":{}}'
    raw = f": comment\r\n\r\ndata: {first}\r\n\r\ndata:\n\n"
    raw += 'data: {"id":"evt_2","type":"something.new","data":{"a":1}}'
    async with connect(elsewhere.url, password="pw", environment={}) as client:
        elsewhere.says(raw.encode(), kind="text/event-stream")
        beats: list[str] = []
        stream = client.events.subscribe(
            options=Options(on_open=lambda: beats.append("open"), on_heartbeat=lambda: beats.append("beat"))
        )
        assert elsewhere.model.requests == []
        seen = [event.type async for event in stream]
        assert seen == ["server.connected", "something.new"]
        assert beats == ["open", "beat"]
        assert len(elsewhere.model.requests) == 1
        elsewhere.says(b"data: {broken\n\n", kind="text/event-stream")
        with pytest.raises(ClientError) as malformed:
            await anext(aiter(client.events.subscribe()))
        assert malformed.value.reason == "MalformedResponse"


def test_both_clients_have_the_same_operations() -> None:
    """API-301, API-302, API-319: group by group and argument by argument; messages belong to sessions; the names
    of the package are all there is to import."""

    def groups(client: type) -> dict[str, Any]:
        module = inspect.getmodule(client)
        found = {name: kind for name, kind in vars(module).items() if name.endswith("Group")}
        return {
            f"{group}.{name}": list(inspect.signature(method).parameters)
            for group, kind in found.items()
            for name, method in vars(kind).items()
            if not name.startswith("_")
        }

    asynchronous, blocking = groups(AsyncClient), groups(Client)
    assert asynchronous == blocking
    assert {"SessionsGroup.messages", "SessionsGroup.message", "FilesGroup.read", "PtysGroup.connect"} <= set(blocking)
    assert all(hasattr(holdfast, name) for name in holdfast.__all__)


async def test_client_records_are_compared_by_value_and_immutable(world: World) -> None:
    """API-320: compared by what they hold, and not to be changed."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        again = await hf.sessions.get(session.id)
        assert session == again
        assert session is not again
        with pytest.raises(AttributeError):
            session.title = "other"  # type: ignore[misc]


async def test_a_host_answers_while_it_is_open(world: World) -> None:
    """API-400, API-402, API-404, API-213: a failure before and after; closing ends streams with a farewell and
    interrupts what runs, which is recorded; another host finds all of it."""
    never = asyncio.Event()
    world.model.plays(Turn(text="half", end=never))
    hf = world.host()
    with pytest.raises(ClientError):
        await hf.health.get()
    heard: list[str] = []
    async with hf:
        assert (await hf.health.get()).healthy
        session = await hf.sessions.create()
        greeted = asyncio.Event()

        async def listen() -> None:
            async with aclosing(aiter(hf.events.subscribe())) as live:
                async for event in live:
                    heard.append(event.type)
                    greeted.set()

        listening = asyncio.create_task(listen())
        await greeted.wait()
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="go"))
        await world.model.asked(1)
    await asyncio.wait_for(listening, PATIENCE)
    assert (heard[0], heard[-1]) == ("server.connected", "global.disposed")
    with pytest.raises((ClientError, ApiError)):
        await hf.sessions.get(session.id)
    async with world.host(recover=False) as second:  # so that nothing runs before the prompt
        user, half = await second.sessions.context(session.id)
        assert isinstance(user, UserMessage)
        assert getattr(half, "finish", None) == "error"
        assert await second.sessions.active() == {}
        await ask(second, session, "go on")
        assert await second.verify() == []


async def test_two_hosts_on_one_database_take_turns(world: World) -> None:
    """SES-078, SES-079, API-405, SES-061: whoever is asked, one executes; nothing is done twice; an interruption finds
    its way to the one that does it."""
    gate = asyncio.Event()
    world.model.plays(Turn(text="first", begin=gate))
    async with world.host() as one, world.host() as two:
        session = await one.sessions.create()
        await one.sessions.prompt(session.id, prompt=PromptInput(text="a"))
        await world.model.asked(1)
        await two.sessions.prompt(session.id, prompt=PromptInput(text="b"))
        assert len(world.model.requests) == 1
        gate.set()
        async with asyncio.timeout(PATIENCE):
            await two.sessions.wait(session.id)
        assert [text for role, text in world.model.last.said if role == "user"] == ["a", "b"]
        assert len(world.model.requests) == 2
        never = asyncio.Event()
        world.model.plays(Turn(text="half", end=never))
        await one.sessions.prompt(session.id, prompt=PromptInput(text="c"))
        await world.model.asked(3)
        async with asyncio.timeout(PATIENCE):
            await two.sessions.interrupt(session.id)
        assert await one.sessions.active() == {}
        assert await two.verify() == []
