"""Mounted into applications of real frameworks, behind a real server."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Mount
from tests.plain_http import loopback_listener
from tests.stores.stores import STORES
from websockets.asyncio.client import connect

from holdfast import ApiError, AsyncClient, ClientError, Holdfast, PromptInput
from holdfast.client.http import HttpTransport
from holdfast.core.database.errors import StorageUnavailable
from holdfast.embedded.asgi import Mounted, asgi
from holdfast.llm.offline import ScriptedTransport
from holdfast.schema.model import ModelRef
from holdfast.schema.session import SessionActive
from holdfast.server.pty import SOCKET_OPTIONS

pytestmark = pytest.mark.anyio

ECHO = ModelRef(id="echo", provider_id="demo")
PATIENCE = 30.0

Application = Callable[[MutableMapping[str, Any], Any, Any], Awaitable[None]]
Framework = Callable[[str, Mounted], Application]


def starlette(path: str, agent: Mounted) -> Application:
    return Starlette(routes=[Mount(path, agent)], lifespan=agent.lifespan)


def fastapi(path: str, agent: Mounted) -> Application:
    application = FastAPI(lifespan=agent.lifespan)
    application.mount(path, agent)
    mounting: Application = application
    return mounting


def with_middleware(path: str, agent: Mounted) -> Application:
    """What many applications wrap around everything."""
    application: Any = starlette(path, agent)
    application.add_middleware(GZipMiddleware, minimum_size=1)
    application.add_middleware(BaseHTTPMiddleware, dispatch=lambda request, go_on: go_on(request))
    mounting: Application = application
    return mounting


@pytest.fixture(params=[starlette, fastapi, with_middleware])
def framework(request: pytest.FixtureRequest) -> Framework:
    chosen: Framework = request.param
    return chosen


@pytest.fixture
def hf(project: Path, model: ScriptedTransport) -> Holdfast:
    home = project.parent
    return Holdfast(project, data=home / "data", environment={"HOME": str(home)}, transport=model)


class Served:
    def __init__(self, server: uvicorn.Server, task: asyncio.Task[None], address: str) -> None:
        self._server = server
        self._task = task
        self.address = address

    def client(self, path: str = "/agent") -> AsyncClient:
        return AsyncClient(HttpTransport(f"http://{self.address}{path}"))

    async def stop(self) -> None:
        """What a signal does; returns when the server has ended."""
        self._server.should_exit = True
        await asyncio.wait_for(asyncio.shield(self._task), PATIENCE)


@asynccontextmanager
async def served(application: Application, **options: Any) -> AsyncIterator[Served]:
    config = uvicorn.Config(application, lifespan="on", log_level="critical", **SOCKET_OPTIONS, **options)
    server = uvicorn.Server(config)
    with loopback_listener() as listener:
        task = asyncio.create_task(server.serve(sockets=[listener]))
        yield Served(server, task, f"127.0.0.1:{listener.getsockname()[1]}")
        server.should_exit = True
        await asyncio.wait_for(task, PATIENCE)


async def eventually(met: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not met():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


@pytest.mark.parametrize(
    ("mount", "path"),
    [
        ("/agent", "/agent"),
        ("/a gent", "/a%20gent"),
        ("/agent", "/%61gent"),
        ("/{tenant}/agent", "/acme%20%26%20co/agent"),
        ("/api", "/api"),
        ("/é", "/%C3%A9"),
    ],
)
async def test_the_application_works_wherever_it_is_mounted(
    framework: Framework, hf: Holdfast, mount: str, path: str
) -> None:
    """API-400, API-402: paths, queries and quoted ids arrive, however the mount is spelled; the host is open as long
    as the application, and what it did is there in the same process."""
    async with served(framework(mount, asgi(hf))) as server, server.client(path) as client:
        session = await client.sessions.create(id="ses_a-b", model=ECHO)
        await client.sessions.prompt(session.id, prompt=PromptInput(text="hi"))
        await client.sessions.wait(session.id)
        assert len(await client.sessions.context("ses_a-b")) == 2
        assert [item.id for item in (await hf.sessions.list(limit=1)).items] == ["ses_a-b"]
        with pytest.raises(ApiError) as unknown:
            await client.sessions.get("ses_unknown")
        assert unknown.value.code == "SessionNotFoundError"
    with pytest.raises((ApiError, ClientError)):
        await hf.sessions.list()


async def test_a_proxy_in_front_has_a_path_of_its_own(framework: Framework, hf: Holdfast) -> None:
    """API-400: the server was told a root path, and the mount lies below it."""
    async with (
        served(framework("/agent", asgi(hf)), root_path="/proxied") as server,
        server.client() as client,
    ):
        assert (await client.health.get()).healthy
        assert (await client.sessions.create(id="ses_a-b")).id == "ses_a-b"


async def test_streams_flow_and_leaving_is_noticed(
    framework: Framework, hf: Holdfast, model: ScriptedTransport
) -> None:
    """API-202, API-210, API-404: events arrive while the turn runs; a reader that leaves is let go."""
    gate = model.hold(0)
    async with served(framework("/agent", asgi(hf))) as server, server.client() as client:
        session = await client.sessions.create(model=ECHO)
        async with (
            asyncio.timeout(PATIENCE),
            aclosing(aiter(client.events.subscribe())) as live,
            aclosing(aiter(client.sessions.events(session.id))) as durable,
        ):
            assert (await anext(live)).type == "server.connected"
            await client.sessions.prompt(session.id, prompt=PromptInput(text="hi"))
            for stream in (live, durable):
                while (await anext(stream)).type != "session.next.prompted":
                    assert await client.sessions.active() == {session.id: SessionActive(type="running")}
            gate.set()
            for stream in (live, durable):
                while (await anext(stream)).type != "session.next.step.ended":
                    pass
        bus = hf._runtime.log.bus
        await eventually(lambda: not bus.observed)

        assert (await client.health.get()).healthy


async def test_stopping_ends_streams_so_that_the_server_can(framework: Framework, hf: Holdfast) -> None:
    """API-213, API-402, API-404: the reader sees the farewell and a clean end; then the host closes."""
    agent = asgi(hf)
    async with (
        served(framework("/agent", agent)) as server,
        server.client() as client,
        aclosing(aiter(client.events.subscribe())) as live,
    ):
        assert (await anext(live)).type == "server.connected"
        agent.stop()
        assert [event.type async for event in live] == ["global.disposed"]
        await server.stop()

    with pytest.raises((ApiError, ClientError)):
        await hf.sessions.list()


async def test_a_bound_on_the_shutdown_is_enough(framework: Framework, hf: Holdfast) -> None:
    """API-402: a server that cuts off what still runs closes the host all the same."""
    async with (
        served(framework("/agent", asgi(hf)), timeout_graceful_shutdown=1) as server,
        server.client() as client,
        aclosing(aiter(client.events.subscribe())) as live,
    ):
        assert (await anext(live)).type == "server.connected"
        await server.stop()

    with pytest.raises((ApiError, ClientError)):
        await hf.sessions.list()


async def test_a_terminal_below_a_mount(framework: Framework, hf: Holdfast) -> None:
    """API-164, API-165: a WebSocket finds its way, and is told when the application ends."""
    async with served(framework("/agent", asgi(hf))) as server, server.client() as client:
        terminal = (await client.ptys.create(command="/bin/sh", args=["-c", "echo ready; exec cat"])).data
        url = f"ws://{server.address}/agent/api/pty/{terminal.id}/connect"
        async with asyncio.timeout(PATIENCE), connect(url, proxy=None) as screen:
            seen = ""
            while "ready" not in seen:
                frame = await screen.recv()
                seen += frame if isinstance(frame, str) else ""
            await screen.send("typed\n")
            while "typed" not in seen:
                frame = await screen.recv()
                seen += frame if isinstance(frame, str) else ""


async def test_a_host_that_cannot_open_stops_the_application(framework: Framework, project: Path) -> None:
    """API-402: the reason comes out, instead of an application that serves nothing."""
    blocked = project.parent / "file"
    blocked.write_text("", encoding="utf-8")
    agent = asgi(
        Holdfast(
            project, data=blocked / "data", database=STORES.unreachable(), environment={"HOME": str(project.parent)}
        )
    )
    with pytest.raises(StorageUnavailable):
        async with agent.lifespan(framework("/agent", agent)):
            pass


async def test_errors_below_a_mount_come_from_holdfast(framework: Framework, hf: Holdfast) -> None:
    """API-010, API-042: unknown paths and missing credentials below the mount are answered there, tagged."""
    async with (
        served(framework("/agent", asgi(hf, password="pw"))) as server,
        httpx2.AsyncClient(base_url=f"http://{server.address}", auth=("opencode", "pw")) as http,
    ):
        answers = [await http.get(path) for path in ("/agent/nowhere", "/agent/api/health")]
        refused = await http.get("/agent/api/health", auth=None)

        assert [answer.status_code for answer in answers] == [404, 200]
        assert json.loads(answers[0].text)["_tag"] == "NotFoundError"
        assert (refused.status_code, refused.json()["_tag"]) == (401, "UnauthorizedError")


async def test_the_page_works_below_a_mount(framework: Framework, hf: Holdfast) -> None:
    """WEB-002, WEB-004, WEB-011: its files are found from there, and a browser signs in."""
    async with (
        served(framework("/agent", asgi(hf, password="pw"))) as server,
        httpx2.AsyncClient(base_url=f"http://{server.address}/agent/") as http,
    ):
        paths = re.findall(r'(?:src|href)="([^"#]+)"', (await http.get("")).text)
        assert paths
        assert {(await http.get(path)).status_code for path in paths} == {200}
        signed_in = await http.post("web/sign-in", json={"password": "pw"})
        key = signed_in.json()["key"]
        assert (await http.get("api/health", headers={"x-holdfast-key": key})).status_code == 200
