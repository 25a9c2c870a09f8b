"""Streams across processes: real servers and hosts on one data folder, killed and started again."""

from __future__ import annotations

import asyncio
import json
import signal
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from http.server import BaseHTTPRequestHandler
from threading import Semaphore
from typing import Any

import httpx2
import pytest
from tests.cli.conftest import Machine, Provider, Server, finish, frame, free_port
from tests.outside.scripted_provider import Turn
from tests.outside.world import World

from holdfast import (
    AsyncClient,
    ClientError,
    Event,
    Holdfast,
    Location,
    Options,
    Patience,
    PromptInput,
    Reconnected,
    connect,
    follow,
)
from holdfast.schema.live_event import TextDelta
from holdfast.schema.session_event import PromptAdmitted, StepEnded, TextEnded, TextStarted
from holdfast.schema.session_message import AssistantMessage, UserMessage

pytestmark = pytest.mark.anyio

PATIENCE = 30.0
WORDS = ["One ", "two ", "three ", "four."]
Serve = Callable[..., Server]


class Pieces:
    """Answers word by word; a word leaves when it is asked for."""

    def __init__(self) -> None:
        self._wanted = Semaphore(0)

    def next(self) -> None:
        self._wanted.release()

    def __call__(self, handler: BaseHTTPRequestHandler) -> None:
        Provider.head(handler)
        for word in WORDS:
            self._wanted.acquire(timeout=PATIENCE)
            handler.wfile.write(frame({"content": word}))
            handler.wfile.flush()
        handler.wfile.write(frame({}, "stop") + b"data: [DONE]\n\n")


def client_of(server: Server, machine: Machine) -> AsyncClient:
    return connect(server.url, environment=machine.environment)


@asynccontextmanager
async def reading(events: AsyncIterator[Any]) -> AsyncIterator[Any]:
    async with asyncio.timeout(PATIENCE), aclosing(events) as stream:  # type: ignore[type-var]
        yield stream


def text_of(events: list[Event]) -> tuple[str, str]:
    """The deltas of the answer joined, and its text."""
    deltas = [event.data.delta for event in events if isinstance(event.data, TextDelta)]
    (whole,) = [event.data.text for event in events if isinstance(event.data, TextEnded)]
    return "".join(deltas), whole


async def test_a_server_streams_what_another_server_commits_and_says(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """API-431, API-432: through B everything of a turn that A executes: durable events in order, once, soon, with their
    place; deltas between the start and the end of their block."""
    holdfast.use_provider(provider.url)
    pieces = Pieces()
    provider.behave = pieces
    first, second = serve(), serve()
    async with client_of(first, holdfast) as a, client_of(second, holdfast) as b:
        session = await a.sessions.create(location=Location(directory=str(holdfast.project)))
        seen: list[Event] = []
        delays: list[float] = []
        async with reading(aiter(b.events.subscribe())) as live:
            assert (await anext(live)).type == "server.connected"
            await a.sessions.prompt(session.id, prompt=PromptInput(text="go"))
            while not (seen and isinstance(seen[-1].data, StepEnded)):
                event = await anext(live)
                if getattr(event.data, "session_id", None) != session.id:
                    continue
                seen.append(event)
                if event.durable is not None:
                    delays.append(time.time() * 1000 - getattr(event.data, "timestamp", 0))
                if isinstance(event.data, TextStarted | TextDelta) or event.type == "session.next.prompted":
                    pieces.next()
        history = (await b.sessions.history(session.id)).events

    durable = [event for event in seen if event.durable is not None and event.type.startswith("session.next.")]
    assert [event.id for event in durable] == [event.id for event in history]
    assert {event.location for event in durable} == {session.location}
    announced, whole = text_of(seen)
    assert whole == "".join(WORDS)
    assert announced  # a delta that comes later than the end is dropped: the end carries the whole text
    assert whole.startswith(announced)
    types = [event.type for event in seen]
    deltas = [place for place, kind in enumerate(types) if kind == "session.next.text.delta"]
    assert len(deltas) >= 2
    assert types.index("session.next.text.started") < deltas[0] < deltas[-1] < types.index("session.next.text.ended")
    soon = [
        delay
        for event, delay in zip([item for item in seen if item.durable], delays, strict=True)
        if event.type in ("session.next.step.started", "session.next.text.started")
    ]
    assert statistics.median(soon) < 1000, delays


async def test_a_host_streams_the_commits_of_a_server_in_order(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """API-431: a host in another process, which also writes to the same Session: one order for both, and no event
    twice."""
    holdfast.use_provider(provider.url)
    server = serve()
    async with (
        Holdfast(holdfast.project, preset="allow", data=holdfast.data, environment=holdfast.environment) as host,
        client_of(server, holdfast) as client,
    ):
        session = await host.sessions.create()
        heard: list[int] = []
        async with reading(aiter(host.events.subscribe())) as live:
            await anext(live)
            await asyncio.gather(
                *(client.sessions.prompt(session.id, prompt=PromptInput(text=f"{n}"), resume=False) for n in range(10)),
                *(host.sessions.prompt(session.id, prompt=PromptInput(text=f"{n}"), resume=False) for n in range(10)),
            )
            while len(heard) < 20:
                event = await anext(live)
                if isinstance(event.data, PromptAdmitted):
                    assert event.durable is not None
                    heard.append(event.durable.seq)

    assert heard == sorted(heard)
    assert len(set(heard)) == 20


async def test_the_stream_of_a_session_has_live_events_on_request(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """API-433: on the wire: marked, without a sequence, in their place; without the request none comes."""
    holdfast.use_provider(provider.url)
    pieces = Pieces()
    provider.behave = pieces
    server = serve("--no-auth")
    async with client_of(server, holdfast) as client, httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE) as http:
        session = await client.sessions.create()
        path = f"/api/session/{session.id}/event"
        async with http.stream("GET", f"{path}?live=true") as wanted, http.stream("GET", path) as plain:
            await client.sessions.prompt(session.id, prompt=PromptInput(text="go"))
            seen = []
            async for event in _events(wanted):
                seen.append(event)
                if event["type"] in ("session.next.prompted", "session.next.text.started", "session.next.text.delta"):
                    pieces.next()
                if event["type"] == "session.next.step.ended":
                    break
            durable = []
            async for event in _events(plain):
                durable.append(event)
                if event["type"] == "session.next.step.ended":
                    break
        refused = await http.get(f"{path}?live=perhaps")

    live = [event for event in seen if "durable" not in event]
    assert {event.get("live") for event in live} == {True}
    assert not any("live" in event for event in seen if "durable" in event)
    assert [event["id"] for event in seen if "durable" in event] == [event["id"] for event in durable]
    assert {"session.status", "session.next.text.delta"} <= {event["type"] for event in live}
    assert "".join(event["data"]["delta"] for event in live if "delta" in event["data"]) == "".join(WORDS)
    places = [place for place, event in enumerate(seen) if event["type"] == "session.next.text.delta"]
    types = [event["type"] for event in seen]
    assert types.index("session.next.text.started") < places[0] < places[-1] < types.index("session.next.text.ended")
    assert (refused.status_code, refused.json()["_tag"]) == (400, "InvalidRequestError")


async def test_a_follower_goes_on_after_the_server_was_killed(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """API-434: `kill -9` in the middle and a new server at the same address: every event once and in order, and the
    caller is told how often it was tried and where it goes on."""
    holdfast.use_provider(provider.url)
    port = str(free_port())
    server = serve("--port", port)
    told: list[Reconnected] = []
    patience = Patience(attempts=None, first=0.02, longest=0.1)
    async with client_of(server, holdfast) as client:
        session = await client.sessions.create()
        following = follow(client, session.id, live=True, patience=patience, on_reconnect=told.append)
        seen: list[Event] = []
        async with reading(following) as events:
            for _ in range(2):
                await client.sessions.prompt(session.id, prompt=PromptInput(text="go"))
                async for event in events:
                    seen.append(event)
                    if isinstance(event.data, StepEnded):
                        break
                server.process.kill()
                finish(server.process)
                restarting = asyncio.create_task(asyncio.to_thread(serve, "--port", port))
                upcoming = asyncio.ensure_future(anext(events))
                server = await restarting
                await client.sessions.prompt(session.id, prompt=PromptInput(text="again"))
                seen.append(await upcoming)
                async for event in events:
                    seen.append(event)
                    if isinstance(event.data, StepEnded):
                        break
        history = (await client.sessions.history(session.id, limit=100)).events

    assert [event.id for event in seen if event.durable is not None] == [event.id for event in history]
    assert len(told) == 2
    assert all(item.attempts >= 1 and item.after is not None for item in told)
    assert all(isinstance(item.error, ClientError) for item in told)


async def test_a_client_hears_of_heartbeats(holdfast: Machine, serve: Serve) -> None:
    """API-435: the first one comes with the connection."""
    server = serve()
    beats: list[str] = []
    options = Options(on_open=lambda: beats.append("open"), on_heartbeat=lambda: beats.append("heartbeat"))
    async with client_of(server, holdfast) as client:
        session = await client.sessions.create()
        async with reading(aiter(client.events.subscribe(options=options))) as live:
            await anext(live)
            await client.sessions.rename(session.id, title="named")
            await anext(live)

    assert beats == ["open", "heartbeat"]


async def test_waiting_in_another_process_never_misses_a_prompt(
    holdfast: Machine, serve: Serve, provider: Provider
) -> None:
    """API-436: admitted through the server, waited for through a host that has seen nothing of it: the answer is there
    when it returns, also the first time, when the server still has to open the project."""
    holdfast.use_provider(provider.url)
    server = serve()
    async with (
        Holdfast(holdfast.project, preset="allow", data=holdfast.data, environment=holdfast.environment) as host,
        client_of(server, holdfast) as client,
        asyncio.timeout(PATIENCE),
    ):
        for _ in range(8):
            session = await client.sessions.create()
            await client.sessions.prompt(session.id, prompt=PromptInput(text="go"))
            await host.sessions.wait(session.id)
            user, answer = await host.sessions.context(session.id)
            assert isinstance(user, UserMessage)
            assert isinstance(answer, AssistantMessage)
            assert answer.finish == "stop"


async def test_whoever_waits_goes_on_with_what_a_process_leaves_that_ends_meanwhile(world: World) -> None:
    """API-436: this host had looked through what was left before, when the other one was still at work."""
    world.model.plays(Turn(text="cut off", begin=asyncio.Event()), Turn(text="Done."))
    async with world.host() as hf, asyncio.timeout(PATIENCE):
        async with world.host() as other:
            session = await other.sessions.create()
            await other.sessions.prompt(session.id, prompt=PromptInput(text="go"))
            await world.model.asked(1)
            outcome = asyncio.create_task(hf.sessions.outcome(session.id))
            assert session.id in await hf.sessions.active()
        ended = await outcome
        assert ended.type == "completed"


async def test_a_host_that_does_not_recover_only_tells_what_was_left(world: World) -> None:
    """API-436, SES-253."""
    world.model.plays(Turn(text="cut off", begin=asyncio.Event()))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="go"))
        await world.model.asked(1)
    async with world.host(recover=False) as hf, asyncio.timeout(PATIENCE):
        assert (await hf.sessions.outcome(session.id)).type == "unfinished"


APPLICATION = """
import sys
import uvicorn
from fastapi import FastAPI
from holdfast import Holdfast, asgi

agent = asgi(Holdfast(sys.argv[1], data=sys.argv[2]))
application = FastAPI(lifespan=agent.lifespan)
application.mount("/agent", agent)
uvicorn.run(application, port=int(sys.argv[3]), log_level="critical")
"""


async def test_an_application_with_an_open_stream_ends_when_it_is_told_to(holdfast: Machine) -> None:
    """API-437: a FastAPI application under uvicorn: SIGTERM ends the stream, then the application, without a limit on
    its shutdown."""
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        APPLICATION,
        str(holdfast.project),
        str(holdfast.data),
        str(port),
        env=holdfast.environment,
    )
    url = f"http://127.0.0.1:{port}/agent"
    try:
        async with connect(url, password="unused", environment=holdfast.environment) as client:
            await _answers(client)
            async with reading(aiter(client.events.subscribe())) as live:
                assert (await anext(live)).type == "server.connected"
                process.terminate()
                assert [event.type async for event in live] == ["global.disposed"]
        assert await asyncio.wait_for(process.wait(), 10) in (0, -signal.SIGTERM)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _events(response: httpx2.Response) -> AsyncIterator[Any]:
    async for line in response.aiter_lines():
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


async def _answers(client: AsyncClient) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await client.health.get()
                return
            except ClientError:
                await asyncio.sleep(0.02)
