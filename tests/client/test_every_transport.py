"""One suite, unchanged, over a real port from asynchronous and from blocking code, and in memory: callers cannot tell
them apart."""

from __future__ import annotations

import asyncio
import gzip
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from tests.client.conftest import frame
from tests.client.support import in_threads
from tests.plain_http import loopback_listener

from holdfast.client.call import Options
from holdfast.client.errors import ApiError, ClientError
from holdfast.client.generated.async_client import AsyncClient
from holdfast.client.generated.guards import is_conflict, is_session_not_found
from holdfast.client.generated.sync_client import Client
from holdfast.client.http import HttpTransport, SyncHttpTransport
from holdfast.core.runtime.runtime import Runtime
from holdfast.embedded.asgi_transport import AsgiTransport
from holdfast.llm.offline import ScriptedTransport
from holdfast.schema.location import Location
from holdfast.schema.model import ModelRef
from holdfast.schema.prompt import PromptInput
from holdfast.schema.session import Session
from holdfast.schema.session_event import PromptAdmitted
from holdfast.schema.session_message import AssistantMessage, TextPart, UserMessage
from holdfast.server.app import App
from holdfast.server.auth import Credentials

pytestmark = pytest.mark.anyio

MODEL = ModelRef(id="echo", provider_id="demo")
ENDED = "session.next.step.ended"
PATIENCE = 30.0


@asynccontextmanager
async def embedded(app: App) -> AsyncIterator[AsyncClient]:
    transport = AsgiTransport(app)
    yield AsyncClient(transport)
    app.stop()
    await transport.close()


async def unobserved(runtime: Runtime) -> None:
    """Once the server has forgotten every reader."""
    async with asyncio.timeout(PATIENCE):
        while runtime.log.bus.observed:  # noqa: ASYNC110
            await asyncio.sleep(0.005)


@asynccontextmanager
async def listening(app: App) -> AsyncIterator[str]:
    async with serving(app) as url:
        yield url
        app.stop()


@asynccontextmanager
async def serving(app: Callable[..., Awaitable[None]]) -> AsyncIterator[str]:
    server = uvicorn.Server(uvicorn.Config(app, http="httptools", ws="none", lifespan="off", log_level="critical"))
    with loopback_listener() as listener:
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        await serving


@asynccontextmanager
async def asynchronous(app: App) -> AsyncIterator[AsyncClient]:
    async with listening(app) as url, AsyncClient(HttpTransport(url)) as client:
        yield client


@asynccontextmanager
async def blocking(app: App) -> AsyncIterator[AsyncClient]:
    async with listening(app) as url:
        with ThreadPoolExecutor(32) as pool, Client(SyncHttpTransport(url)) as client:
            yield in_threads(client, pool)


@pytest.fixture
async def app(runtime: Runtime) -> App:
    return App(runtime)


@pytest.fixture(params=[asynchronous, blocking, embedded], ids=["async", "sync", "embedded"])
async def client(request: pytest.FixtureRequest, app: App) -> AsyncIterator[AsyncClient]:
    async with request.param(app) as client:
        yield client


@pytest.fixture
async def created(client: AsyncClient) -> Session:
    return await client.sessions.create(model=MODEL)


async def test_every_operation_returns_its_records_over_every_transport(client: AsyncClient, project: Path) -> None:
    """API-225, API-304, API-400: values arrive as the records that they are."""
    assert (await client.health.get()).healthy is True
    assert (await client.location.get()).directory == str(project)
    session = await client.sessions.create(model=MODEL, location=Location(directory=str(project)))
    admission = await client.sessions.prompt(session.id, prompt=PromptInput(text="hello"))
    await client.sessions.wait(session.id)
    await client.sessions.interrupt(session.id)

    user, answer = await client.sessions.context(session.id)
    assert isinstance(user, UserMessage)
    assert (user.id, user.text) == (admission.id, "hello")
    assert isinstance(answer, AssistantMessage)
    assert [part.text for part in answer.content if isinstance(part, TextPart)] == ["done"]
    assert await client.sessions.message(session.id, message_id=answer.id) == answer
    assert await client.sessions.active() == {}
    found = await client.sessions.get(session.id)
    assert (found.id, found.location, found.title) == (session.id, session.location, session.title)
    history = await client.sessions.history(session.id, limit=2)
    assert ([event.type for event in history.events], history.has_more) == (
        ["session.next.prompt.admitted", "session.next.prompted"],
        True,
    )


async def test_catalogs_say_which_location_they_hold_for(client: AsyncClient, project: Path) -> None:
    """API-030, API-304: the location envelope stays, and a Location given to the call selects it."""
    other = project / "below"
    other.mkdir()
    (other / ".opencode" / "agent").mkdir(parents=True)
    (other / ".opencode" / "agent" / "poet.md").write_text("---\ndescription: Rhymes\n---\nRhyme.\n", encoding="utf-8")
    here = await client.agents.list()
    there = await client.agents.list(location=Location(directory=str(other)))
    commands, skills = await client.commands.list(), await client.skills.list()

    assert (here.location.directory, there.location.directory) == (str(project), str(other))
    assert {agent.id for agent in there.data} - {agent.id for agent in here.data} == {"poet"}
    assert commands.location == skills.location == here.location


async def test_a_permission_is_asked_for_and_answered(client: AsyncClient, created: Session) -> None:
    """API-132, API-133, API-225: what a page would do for its user."""
    asked = await client.permissions.create(
        created.id, action="external_directory", resources=["/elsewhere/*"], save=["/elsewhere/*"]
    )
    (pending,) = await client.permissions.list(created.id)
    everywhere = await client.permissions.list_requests()
    await client.permissions.reply(created.id, request_id=pending.id, reply="reject", message="no")
    with pytest.raises(ApiError) as answered:
        await client.permissions.reply(created.id, request_id=pending.id, reply="once")

    assert (asked.effect, asked.id, pending.action) == ("ask", pending.id, "external_directory")
    assert [request.id for request in everywhere.data] == [pending.id]
    assert (answered.value.code, answered.value.status) == ("PermissionNotFoundError", 404)
    assert await client.permissions.list(created.id) == []


async def test_pages_are_followed_by_cursor_alone(client: AsyncClient) -> None:
    """API-225: items, previous and next."""
    ids = [(await client.sessions.create()).id for _ in range(5)][::-1]
    first = await client.sessions.list(limit=2)
    second = await client.sessions.list(cursor=first.next)
    back = await client.sessions.list(cursor=second.previous)

    assert [[item.id for item in page.items] for page in (first, second, back)] == [ids[:2], ids[2:4], ids[:2]]
    last = await client.sessions.list(cursor=(await client.sessions.list(cursor=second.next)).next)
    assert (last.items, last.previous, last.next) == ([], None, None)


async def test_declared_errors_keep_tag_status_and_body(client: AsyncClient, created: Session) -> None:
    """API-309, API-310: over either way."""
    with pytest.raises(ApiError) as unknown:
        await client.sessions.get("ses_unknown")
    await client.sessions.prompt(created.id, id="msg_1", prompt=PromptInput(text="a"), resume=False)
    with pytest.raises(ApiError) as conflicting:
        await client.sessions.prompt(created.id, id="msg_1", prompt=PromptInput(text="b"))
    with pytest.raises(ApiError) as invalid:
        await client.sessions.list(limit=0)

    assert is_session_not_found(unknown.value)
    assert not is_conflict(unknown.value)
    assert (unknown.value.code, unknown.value.status) == ("SessionNotFoundError", 404)
    assert unknown.value.body["sessionID"] == "ses_unknown"
    assert (conflicting.value.code, conflicting.value.status) == ("ConflictError", 409)
    assert conflicting.value.body["resource"] == "msg_1"
    assert (invalid.value.code, invalid.value.body["kind"]) == ("InvalidRequestError", "Query")


async def test_an_id_with_any_characters_reaches_the_server(client: AsyncClient) -> None:
    """API-307: path parameters are quoted by the client and unquoted once by the server."""
    for id in ("ses_a b", "ses_ü", "ses_%20", "ses_?a=1", "ses_a/b"):
        with pytest.raises(ApiError) as missing:
            await client.sessions.get(id)
        assert missing.value.body["sessionID"] == id


async def test_a_session_can_be_followed_and_resumed(client: AsyncClient, created: Session) -> None:
    """API-202, API-312, API-314: reopening with the last sequence continues exactly there."""
    await client.sessions.prompt(created.id, prompt=PromptInput(text="one"))
    seen: list[int] = []
    for stop in (3, None):
        async with aclosing(aiter(client.sessions.events(created.id, after=seen[-1] if seen else None))) as events:
            async for event in events:
                assert event.durable is not None
                seen.append(event.durable.seq)
                if event.type == ENDED or len(seen) == stop:
                    break

    history = await client.sessions.history(created.id)
    assert seen == [event.durable.seq for event in history.events]


async def test_a_follower_sees_a_large_event(client: AsyncClient, created: Session) -> None:
    """API-313: an event as large as a prompt may be arrives like any other."""
    text = "x" * (3 * 1024 * 1024)
    await client.sessions.prompt(created.id, prompt=PromptInput(text=text), resume=False)
    async with aclosing(aiter(client.sessions.events(created.id))) as events:
        event = await anext(events)

    assert isinstance(event.data, PromptAdmitted)
    assert event.data.prompt.text == text


async def test_the_live_stream_shows_a_turn(client: AsyncClient, created: Session, runtime: Runtime) -> None:
    """API-210, API-312: connected first; leaving lets the server forget the reader."""
    async with aclosing(aiter(client.events.subscribe())) as events:
        assert (await anext(events)).type == "server.connected"
        await client.sessions.prompt(created.id, prompt=PromptInput(text="one"))
        types = []
        async for event in events:
            types.append(event.type)
            if event.type == ENDED:
                break
    assert "session.next.text.ended" in types
    await unobserved(runtime)


async def test_a_timeout_of_one_call_is_a_transport_failure(
    client: AsyncClient, created: Session, model: ScriptedTransport
) -> None:
    """API-308, API-309: the work goes on, and so do other calls."""
    gate = model.hold(0)
    await client.sessions.prompt(created.id, prompt=PromptInput(text="slow"))
    await model.seen(1)
    with pytest.raises(ClientError) as caught:
        await client.sessions.wait(created.id, options=Options(timeout=0.05))
    assert caught.value.reason == "Transport"
    assert list(await client.sessions.active()) == [created.id]
    gate.set()
    await client.sessions.wait(created.id)

    assert len(await client.sessions.context(created.id)) == 2


async def test_a_stream_that_stays_silent_too_long_is_a_transport_failure(
    client: AsyncClient, created: Session
) -> None:
    """API-308, API-309: the bound is on each wait for the server, also for the next event."""
    with pytest.raises(ClientError) as caught:
        async for _ in client.sessions.events(created.id, options=Options(timeout=0.3)):
            pass

    assert caught.value.reason == "Transport"


@pytest.mark.parametrize("way", [asynchronous, embedded])
async def test_another_task_ends_a_stream(
    app: App, runtime: Runtime, way: Callable[[App], AbstractAsyncContextManager[AsyncClient]]
) -> None:
    """API-312: whoever waits for the next element sees the end, and the request is closed."""
    async with way(app) as client, asyncio.timeout(PATIENCE):
        stream = client.events.subscribe()
        connected = asyncio.Event()

        async def read() -> list[str]:
            types = []
            async for event in stream:
                types.append(event.type)
                connected.set()
            return types

        reading = asyncio.create_task(read())
        await connected.wait()
        await stream.aclose()
        assert await reading == ["server.connected"]
        assert (await client.health.get()).healthy
        await unobserved(runtime)


async def test_another_thread_ends_a_stream(app: App, runtime: Runtime) -> None:
    """API-312: the same for blocking callers, and other calls of the client go on."""
    async with listening(app) as url, asyncio.timeout(PATIENCE):
        with Client(SyncHttpTransport(url)) as client:
            stream = client.events.subscribe()
            connected = threading.Event()

            def read() -> list[str]:
                types = []
                for event in stream:
                    types.append(event.type)
                    connected.set()
                return types

            reading = asyncio.create_task(asyncio.to_thread(read))
            await asyncio.to_thread(connected.wait)
            await asyncio.to_thread(stream.close)
            assert await reading == ["server.connected"]
            assert (await asyncio.to_thread(client.health.get)).healthy
            await unobserved(runtime)


async def test_a_proxy_may_compress_a_stream() -> None:
    """API-313: events are read as they were meant."""

    async def compressing(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        headers = [(b"content-type", b"text/event-stream"), (b"content-encoding", b"gzip")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": gzip.compress(frame(1) + frame(2))})

    def numbers(url: str) -> list[str]:
        with Client(SyncHttpTransport(url)) as client:
            return [event.id for event in client.sessions.events("ses_1")]

    async with serving(compressing) as url, AsyncClient(HttpTransport(url)) as client:
        assert [event.id async for event in client.sessions.events("ses_1")] == ["evt_1", "evt_2"]
        assert await asyncio.to_thread(numbers, url) == ["evt_1", "evt_2"]


async def test_cancelling_a_call_cancels_only_the_call(
    client: AsyncClient, created: Session, model: ScriptedTransport
) -> None:
    """API-308, API-317: the server finishes what it was asked for."""
    gate = model.hold(0)
    await client.sessions.prompt(created.id, prompt=PromptInput(text="slow"))
    waiting = asyncio.create_task(client.sessions.wait(created.id))
    await model.seen(1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    gate.set()
    await client.sessions.wait(created.id)

    (last,) = (await client.sessions.messages(created.id, limit=1)).items
    assert isinstance(last, AssistantMessage)
    assert last.finish == "stop"


async def test_concurrent_calls_do_not_mix_their_answers(client: AsyncClient) -> None:
    """Requests do not get in each other's way."""
    sessions = await asyncio.gather(*(client.sessions.create(model=MODEL) for _ in range(20)))
    prompt = PromptInput(text="hi")
    await asyncio.gather(*(client.sessions.prompt(session.id, prompt=prompt) for session in sessions))
    await asyncio.gather(*(client.sessions.wait(session.id) for session in sessions))
    contexts = await asyncio.gather(*(client.sessions.context(session.id) for session in sessions))

    assert [len(context) for context in contexts] == [2] * 20


@pytest.mark.parametrize(("password", "status"), [("right", None), ("wrong", 401)])
async def test_the_network_transport_carries_credentials(runtime: Runtime, password: str, status: int | None) -> None:
    """API-041, API-309: as Basic credentials; a refusal is a declared error of every operation."""
    async with listening(App(runtime, credentials=Credentials("right"))) as url:
        transport = HttpTransport(url, auth=("opencode", password))
        client = AsyncClient(transport)
        if status is None:
            assert (await client.health.get()).healthy
        else:
            with pytest.raises(ApiError) as caught:
                await client.health.get()
            assert (caught.value.status, caught.value.code) == (status, "UnauthorizedError")
        await transport.close()
