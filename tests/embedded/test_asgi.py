"""The runtime below somebody else's application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from tests.plain_http import loopback_listener
from tests.stores.stores import STORES

from holdfast import Holdfast, PromptInput
from holdfast.client.errors import ApiError, ClientError
from holdfast.client.generated.async_client import AsyncClient
from holdfast.client.http import HttpTransport
from holdfast.client.transport import Request
from holdfast.core.database.errors import StorageUnavailable
from holdfast.embedded.asgi import Mounted, asgi
from holdfast.embedded.asgi_transport import AsgiTransport
from holdfast.schema.exceptions import Forbidden
from holdfast.schema.model import ModelRef

pytestmark = pytest.mark.anyio

Scope = MutableMapping[str, Any]
ECHO = ModelRef(id="echo", provider_id="demo")


def host(project: Path) -> Holdfast:
    return Holdfast(project, data=project.parent / "data", environment={"HOME": str(project.parent)})


def mounted_at(prefix: str, application: Mounted, *, strips: bool) -> Callable[..., Awaitable[None]]:
    """What a framework does below a mount: newer ones keep the whole path, older ones cut the decoded one."""

    async def outer(scope: Scope, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        path = scope["path"].removeprefix(prefix) if strips else scope["path"]
        await application({**scope, "root_path": prefix, "path": path}, receive, send)

    return outer


class Below:
    """A transport whose server lives below a path."""

    def __init__(self, prefix: str, transport: AsgiTransport) -> None:
        self._prefix = prefix
        self._transport = transport

    async def send(self, request: Request) -> Any:
        return await self._transport.send(request.replace(target=self._prefix + request.target))

    async def close(self) -> None:
        await self._transport.close()


@pytest.mark.parametrize("strips", [False, True])
@pytest.mark.parametrize("path", ["/a gent", "/a%20gent", "/%61%20gen%74"])
async def test_the_application_works_below_a_mount(project: Path, strips: bool, path: str) -> None:
    """API-400, API-402: paths, queries and quoted ids arrive, however the mount is escaped in the path that was sent;
    the host opens and closes with `lifespan`."""
    hf = host(project)
    application = asgi(hf, hosts=None)
    async with (
        application.lifespan(),
        AsyncClient(Below(path, AsgiTransport(mounted_at("/a gent", application, strips=strips)))) as client,
    ):
        assert (await client.health.get()).healthy
        session = await client.sessions.create(id="ses_a-b", model=ECHO)
        await client.sessions.prompt(session.id, prompt=PromptInput(text="hi"))
        await client.sessions.wait(session.id)
        assert len(await client.sessions.context("ses_a-b")) == 2
        assert [item.id for item in (await hf.sessions.list(limit=1)).items] == ["ses_a-b"]
    with pytest.raises((ApiError, ClientError)):
        await hf.sessions.list()


async def test_the_application_opens_and_closes_with_its_server(project: Path) -> None:
    """API-402: opened at start-up, closed at shutdown, by the server's own events."""
    application = asgi(host(project))
    async with _served(application) as url, AsyncClient(HttpTransport(url)) as client:
        session = await client.sessions.create()
        assert (await client.sessions.get(session.id)).id == session.id
    with pytest.raises(RuntimeError, match="lifespan"):
        await application({"type": "http"}, _never, _never)


async def test_a_host_that_cannot_open_stops_the_server(project: Path, tmp_path: Path) -> None:
    """API-402: the server is told why, instead of serving nothing."""
    blocked = tmp_path / "file"
    blocked.write_text("", encoding="utf-8")
    unreachable = STORES.unreachable()
    host = Holdfast(project, data=blocked / "data", database=unreachable, environment={"HOME": str(tmp_path)})
    application = asgi(host)
    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "lifespan.startup"}

    with pytest.raises(StorageUnavailable):
        await application({"type": "lifespan"}, receive, send)

    assert [message["type"] for message in sent] == ["lifespan.startup.failed"]


@pytest.mark.parametrize("hosts", [["agent.example"], "agent.example", ("Agent.Example",)])
async def test_a_password_and_foreign_names(project: Path, hosts: Iterable[str]) -> None:
    """API-040, API-410, TOL-326: asked for if given; a name that was not declared is refused, also for reads."""
    application = asgi(host(project), password="pw", hosts=hosts)
    async with application.lifespan():
        transport = AsgiTransport(application)
        refused = AsyncClient(transport, headers={"host": "agent.example"})
        with pytest.raises(ApiError) as unauthorized:
            await refused.health.get()
        basic = "Basic b3BlbmNvZGU6cHc="
        ours = AsyncClient(transport, headers={"authorization": basic, "host": "agent.example:8000"})
        foreign = AsyncClient(transport, headers={"authorization": basic, "host": "evil.example"})
        assert (await ours.sessions.create()).id
        with pytest.raises(Forbidden) as unread:
            await foreign.health.get()
        with pytest.raises(Forbidden) as forbidden:
            await foreign.sessions.create()

    assert unauthorized.value.status == 401
    assert (unread.value.status, forbidden.value.status) == (403, 403)


@pytest.mark.parametrize("origins", [["https://agent.example"], "https://agent.example"])
async def test_a_page_of_a_declared_origin_may_write(project: Path, origins: Iterable[str]) -> None:
    """API-044: an application's own page, below the name it is served under; no other."""
    application = asgi(host(project), hosts="agent.example", origins=origins)
    async with application.lifespan():
        transport = AsgiTransport(application)
        own, other = (
            AsyncClient(transport, headers={"host": "agent.example", "origin": origin})
            for origin in ("https://agent.example", "https://evil.example")
        )
        assert (await own.sessions.create()).id
        with pytest.raises(Forbidden) as forbidden:
            await other.sessions.create()

    assert forbidden.value.status == 403


def test_an_empty_password_is_refused(project: Path) -> None:
    """API-040: it would be asked for, and everybody knows it."""
    with pytest.raises(ValueError, match="the password is empty"):
        asgi(host(project), password="")


@asynccontextmanager
async def _served(application: Mounted) -> AsyncIterator[str]:
    config = uvicorn.Config(application, http="httptools", ws="none", lifespan="on", log_level="critical")
    server = uvicorn.Server(config)
    with loopback_listener() as listener:
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        await serving


async def _never(*_: Any) -> Any:
    raise AssertionError("not reached")
