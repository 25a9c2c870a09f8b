"""One way to send requests, over the in-memory transport and over a real port."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, NamedTuple

import httpx2
import pytest
import uvicorn
from tests.plain_http import NO_TLS, loopback_listener

from holdfast.client.transport import Request
from holdfast.core.runtime.runtime import Runtime
from holdfast.embedded.asgi_transport import AsgiTransport
from holdfast.server.app import App
from holdfast.server.auth import Credentials

ECHO = {"id": "echo", "providerID": "demo"}
UNKNOWN = "ses_unknown"
PATIENCE = 30.0


class Answer(NamedTuple):
    status: int
    content_type: str
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def data(self) -> Any:
        assert self.status == 200, self.body
        return self.json["data"]

    @property
    def failure(self) -> tuple[int, str]:
        return self.status, self.json["_tag"]


class Stream:
    """Server-sent events as they arrive."""

    def __init__(self, status: int, headers: Mapping[str, str], chunks: AsyncIterator[bytes]) -> None:
        self.status = status
        self.headers = headers
        self._chunks = chunks
        self._buffer = b""

    async def frame(self) -> bytes | None:
        """The next frame as it was sent, comments included; None at the end."""
        async with asyncio.timeout(PATIENCE):
            while b"\n\n" not in self._buffer:
                chunk = await anext(self._chunks, None)
                if chunk is None:
                    assert self._buffer == b"", "the stream ended in the middle of a frame"
                    return None
                self._buffer += chunk
        frame, _, self._buffer = self._buffer.partition(b"\n\n")
        return frame

    async def event(self) -> Any:
        """The next event, comments passed over; None at the end."""
        while (frame := await self.frame()) is not None:
            if not frame.startswith(b":"):
                return json.loads(frame.removeprefix(b"data: "))
        return None

    async def until(self, type: str, count: int = 1) -> list[Any]:
        """Events up to the last of so many of one type."""
        events: list[Any] = []
        while sum(event["type"] == type for event in events) < count:
            events.append(await self.event())
            assert events[-1] is not None, "the stream ended"
        return events

    async def rest(self) -> list[Any]:
        """Everything up to the end."""
        events = []
        while (event := await self.event()) is not None:
            events.append(event)
        return events


Send = Callable[[Request], Awaitable[Answer]]
Open = Callable[[Request], AbstractAsyncContextManager[Stream]]


class Wire:
    """`payload` is encoded, `body` is sent as it is."""

    def __init__(self, send: Send, open: Open) -> None:
        self._send = send
        self._open = open

    def stream(self, target: str, headers: Mapping[str, str] | None = None) -> AbstractAsyncContextManager[Stream]:
        return self._open(Request("GET", target, {"accept": "text/event-stream", **(headers or {})}))

    async def __call__(
        self,
        method: str,
        target: str,
        payload: object = ...,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        given = dict(headers or {})
        if payload is not ...:
            body = json.dumps(payload).encode()
        if body is not None:
            given.setdefault("content-type", "application/json")
        return await self._send(Request(method, target, given, body))

    async def get(self, target: str, headers: Mapping[str, str] | None = None) -> Answer:
        return await self("GET", target, headers=headers)

    async def post(self, target: str, payload: object = ..., headers: Mapping[str, str] | None = None) -> Answer:
        return await self("POST", target, payload, headers=headers)

    async def create(self, **fields: object) -> Any:
        return (await self.post("/api/session", {"model": ECHO, **fields})).data

    async def prompt(self, session_id: str, text: str = "hi", **fields: object) -> Any:
        return (await self.post(f"/api/session/{session_id}/prompt", {"prompt": {"text": text}, **fields})).data

    async def answer(self, session_id: str, text: str = "hi", **fields: object) -> Any:
        """Prompt, and wait until the model has answered."""
        admission = await self.prompt(session_id, text, **fields)
        assert (await self.post(f"/api/session/{session_id}/wait")).status == 204
        return admission


@asynccontextmanager
async def listening(app: App) -> AsyncIterator[str]:
    """The application on a port of its own, as `holdfast serve` runs it."""
    config = uvicorn.Config(app, http="httptools", ws="none", lifespan="off", log_level="critical")
    server = uvicorn.Server(config)
    with loopback_listener() as listener:
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            app.stop()
            server.should_exit = True
            await serving


@asynccontextmanager
async def in_memory(app: App) -> AsyncIterator[Wire]:
    transport = AsgiTransport(app)

    async def send(request: Request) -> Answer:
        response = await transport.send(request)
        return Answer(response.status, response.content_type, await response.read())

    @asynccontextmanager
    async def open(request: Request) -> AsyncIterator[Stream]:
        response = await transport.send(request)
        try:
            yield Stream(response.status, {"content-type": response.content_type}, response.chunks())
        finally:
            await response.close()

    yield Wire(send, open)
    app.stop()
    await transport.close()


@asynccontextmanager
async def over_port(app: App) -> AsyncIterator[Wire]:
    async with (
        listening(app) as address,
        httpx2.AsyncClient(base_url=address, timeout=PATIENCE, verify=NO_TLS) as client,
    ):

        async def send(request: Request) -> Answer:
            headers = dict(request.headers)
            response = await client.request(request.method, request.target, headers=headers, content=request.body)
            return Answer(response.status_code, response.headers.get("content-type", ""), response.content)

        @asynccontextmanager
        async def open(request: Request) -> AsyncIterator[Stream]:
            async with client.stream(request.method, request.target, headers=dict(request.headers)) as response:
                yield Stream(response.status_code, response.headers, response.aiter_raw())

        yield Wire(send, open)


@pytest.fixture
def credentials() -> Credentials | None:
    """Override to ask for a password."""
    return None


@pytest.fixture
async def app(runtime: Runtime, credentials: Credentials | None) -> App:
    return App(runtime, credentials=credentials)


@pytest.fixture
async def memory(app: App) -> AsyncIterator[Wire]:
    async with in_memory(app) as wire:
        yield wire


@pytest.fixture
async def url(app: App) -> AsyncIterator[str]:
    async with listening(app) as address:
        yield address


@pytest.fixture
async def http(url: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=url, timeout=PATIENCE, verify=NO_TLS) as client:
        yield client


@pytest.fixture(params=[in_memory, over_port], ids=["memory", "port"])
async def wire(request: pytest.FixtureRequest, app: App) -> AsyncIterator[Wire]:
    """The same requests in memory and through a socket."""
    async with request.param(app) as wire:
        yield wire


async def eventually(met: Callable[[], bool]) -> None:
    """For what another task does soon without telling anyone."""
    async with asyncio.timeout(PATIENCE):
        while not met():  # noqa: ASYNC110
            await asyncio.sleep(0.005)
