"""The in-memory transport against small applications of its own."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import pytest

from holdfast.client.errors import ClientError
from holdfast.client.transport import Request
from holdfast.embedded.asgi_transport import BUFFER_BYTES, AsgiResponse, AsgiTransport

pytestmark = pytest.mark.anyio

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

GET = Request("GET", "/", {})
PATIENCE = 30.0


class App:
    """Runs `work` after the head was sent, and notes how it ended."""

    def __init__(self, work: Callable[[Receive, Send], Awaitable[None]], *, head: bool = True) -> None:
        self._work = work
        self._head = head
        self.scope: MutableMapping[str, Any] = {}
        self.outcome: BaseException | None = None
        self.done = asyncio.Event()

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        self.scope = scope
        try:
            if self._head:
                headers = [(b"content-type", b"text/plain; charset=utf-8")]
                await send({"type": "http.response.start", "status": 200, "headers": headers})
            await self._work(receive, send)
        except BaseException as error:
            self.outcome = error
            raise
        finally:
            self.done.set()


async def body(send: Send, data: bytes, *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": more})


async def disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def ticks(count: int = 50) -> None:
    """Enough turns of the loop for everything that can go on without us."""
    for _ in range(count):
        await asyncio.sleep(0)


async def within(awaitable: Awaitable[Any]) -> Any:
    return await asyncio.wait_for(awaitable, PATIENCE)


async def test_the_first_bytes_come_before_the_end() -> None:
    """API-400, API-404: a response is there as soon as it begins."""
    gate = asyncio.Event()

    async def work(receive: Receive, send: Send) -> None:
        await body(send, b"first")
        await gate.wait()
        await body(send, b"last", more=False)

    response = await within(AsgiTransport(App(work)).send(GET))
    chunks = response.chunks()

    assert (response.status, response.content_type) == (200, "text/plain")
    assert await within(anext(chunks)) == b"first"
    gate.set()
    assert [chunk async for chunk in chunks] == [b"last"]


async def test_the_head_alone_starts_a_response() -> None:
    """API-204: a stream that has nothing to say yet is open all the same."""

    async def work(receive: Receive, send: Send) -> None:
        await body(send, b"")
        await disconnected(receive)

    app = App(work)
    response = await within(AsgiTransport(app).send(GET))
    await response.close()
    await within(app.done.wait())

    assert app.outcome is None


async def test_a_body_that_nobody_reads_stops_the_application() -> None:
    """API-404: at the limit, and it goes on when somebody reads; every byte arrives in order."""
    piece, count = 64 * 1024, 64
    sent = 0

    async def work(receive: Receive, send: Send) -> None:
        nonlocal sent
        for number in range(count):
            await body(send, bytes([number]) * piece)
            sent += 1
        await body(send, b"", more=False)

    response = await AsgiTransport(App(work)).send(GET)
    await ticks()
    assert sent * piece <= BUFFER_BYTES
    held = sent
    chunks = response.chunks()
    received = await anext(chunks)
    await ticks()
    assert held < sent < count
    assert len(received) <= BUFFER_BYTES + piece
    received += b"".join([chunk async for chunk in chunks])

    assert received == b"".join(bytes([number]) * piece for number in range(count))


async def test_leaving_frees_an_application_that_is_stopped_at_the_limit() -> None:
    """API-404: it hears of the disconnect instead of waiting for a reader for ever."""

    async def work(receive: Receive, send: Send) -> None:
        while True:
            await body(send, b"x" * 65536)

    app = App(work)
    response = await AsgiTransport(app).send(GET)
    await ticks()
    assert not app.done.is_set()
    await response.close()
    await within(app.done.wait())

    assert isinstance(app.outcome, OSError)


@pytest.mark.parametrize("turns", range(6))
async def test_cancelling_the_caller_is_a_disconnect(turns: int) -> None:
    """API-404: the application sees it and runs on to its own end, whenever it comes."""
    gate, finished = asyncio.Event(), asyncio.Event()

    async def work(receive: Receive, send: Send) -> None:
        await disconnected(receive)
        await gate.wait()
        finished.set()

    app = App(work, head=False)
    transport = AsgiTransport(app)
    calling = asyncio.create_task(transport.send(GET))
    await ticks(turns + 1)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    await ticks()
    assert not app.done.is_set()
    gate.set()
    await transport.close()

    assert finished.is_set()
    assert app.outcome is None


async def test_a_timeout_is_a_disconnect_too() -> None:
    """API-308, API-309: the caller gets a transport failure, the application a disconnect."""
    app = App(lambda receive, send: disconnected(receive), head=False)
    with pytest.raises(ClientError) as caught:
        await AsgiTransport(app).send(Request("GET", "/", {}, timeout=0.01))
    await within(app.done.wait())

    assert caught.value.reason == "Transport"
    assert app.outcome is None


async def test_a_failure_in_the_middle_of_a_body_reaches_its_reader() -> None:
    """API-309: after what was sent, as a transport failure with its cause; never as a short but good body."""
    broken, gate = RuntimeError("in the middle"), asyncio.Event()

    async def work(receive: Receive, send: Send) -> None:
        await body(send, b"so far")
        await gate.wait()
        raise broken

    response = await AsgiTransport(App(work)).send(GET)
    chunks = response.chunks()
    assert await anext(chunks) == b"so far"
    gate.set()
    with pytest.raises(ClientError) as caught:
        await anext(chunks)

    assert caught.value.reason == "Transport"
    assert caught.value.__cause__ is broken
    with pytest.raises(ClientError):
        await response.read()


@pytest.mark.parametrize("more", [True, False])
async def test_data_sent_before_a_failure_arrives(more: bool) -> None:
    """API-309: even when the failure follows at once; after a complete body it is no failure of the response."""

    async def work(receive: Receive, send: Send) -> None:
        await body(send, b"so far", more=more)
        raise RuntimeError("at once")

    response = await AsgiTransport(App(work)).send(GET)
    assert response.status == 200
    assert await anext(response.chunks()) == b"so far"


async def test_a_failure_before_the_first_byte_reaches_the_caller() -> None:
    """API-309: likewise."""
    broken = RuntimeError("at once")

    async def work(receive: Receive, send: Send) -> None:
        raise broken

    with pytest.raises(ClientError) as caught:
        await AsgiTransport(App(work)).send(GET)

    assert caught.value.__cause__ is broken


async def test_a_body_without_its_end_is_a_failure() -> None:
    """API-309: an application that returns in the middle has not finished the body."""

    async def work(receive: Receive, send: Send) -> None:
        await body(send, b"so far")

    response = await AsgiTransport(App(work)).send(GET)
    with pytest.raises(ClientError):
        await within(response.read())


async def test_a_dropped_response_disconnects() -> None:
    """API-404: abandoning it is enough, read or unread."""

    async def work(receive: Receive, send: Send) -> None:
        await body(send, b"first")
        await disconnected(receive)

    for read in (False, True):
        app = App(work)
        response: AsgiResponse | None = await AsgiTransport(app).send(GET)
        assert response is not None
        if read:
            assert await anext(response.chunks()) == b"first"
        await ticks()
        assert not app.done.is_set()
        response = None
        gc.collect()
        await within(app.done.wait())
        assert app.outcome is None


async def test_a_body_outlives_the_task_that_opened_it() -> None:
    """API-404: it belongs to whoever holds it."""
    gate = asyncio.Event()

    async def work(receive: Receive, send: Send) -> None:
        await body(send, b"first ")
        await gate.wait()
        await body(send, b"last", more=False)

    transport = AsgiTransport(App(work))
    response = await asyncio.create_task(transport.send(GET))
    gate.set()

    assert await asyncio.create_task(response.read()) == b"first last"


async def test_the_request_arrives_as_it_was_sent() -> None:
    """API-400: decoded path, raw path, query, headers in lower case, body in one piece."""
    seen: list[Message] = []

    async def work(receive: Receive, send: Send) -> None:
        seen.append(await receive())
        await body(send, b"", more=False)

    app = App(work)
    await AsgiTransport(app).send(Request("POST", "/a%2Fb/%C3%BC?x=%20y&z", {"X-Mine": "ü"}, b"payload"))

    assert (app.scope["type"], app.scope["method"]) == ("http", "POST")
    assert (app.scope["path"], app.scope["raw_path"]) == ("/a/b/ü", b"/a%2Fb/%C3%BC")
    assert app.scope["query_string"] == b"x=%20y&z"
    assert app.scope["headers"] == [(b"x-mine", "ü".encode("latin-1"))]
    assert seen == [{"type": "http.request", "body": b"payload", "more_body": False}]


async def test_closing_waits_for_what_still_runs() -> None:
    """API-402: nothing that was asked for is torn off."""
    gate, finished = asyncio.Event(), asyncio.Event()

    async def work(receive: Receive, send: Send) -> None:
        await body(send, b"", more=False)
        await gate.wait()
        finished.set()

    transport = AsgiTransport(App(work))
    await transport.send(GET)
    closing = asyncio.create_task(transport.close())
    await ticks()
    assert not closing.done()
    gate.set()
    await closing

    assert finished.is_set()
