"""A WebSocket in memory: bounded both ways, and honest about how it ended."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.client.errors import ClientError
from holdfast.client.transport import Request, SocketClosed, SocketRefused
from holdfast.embedded.asgi_socket import MESSAGES
from holdfast.embedded.asgi_transport import AsgiTransport

pytestmark = pytest.mark.anyio

ASKED = Request("GET", "/socket?x=1", {"x-mine": "1"})


async def test_messages_go_both_ways_until_the_application_closes() -> None:
    """API-430: the application sees path, query and headers, and its close arrives after what it sent."""

    async def application(scope: Any, receive: Any, send: Any) -> None:
        assert (scope["type"], scope["path"], scope["query_string"]) == ("websocket", "/socket", b"x=1")
        assert (b"x-mine", b"1") in scope["headers"]
        assert (await receive())["type"] == "websocket.connect"
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.send", "text": (await receive())["text"].upper()})
        await send({"type": "websocket.send", "bytes": b"\0"})
        await send({"type": "websocket.close", "code": 4404, "reason": "gone"})

    transport = AsgiTransport(application)
    socket = await transport.open_socket(ASKED)
    await socket.send("typed")
    assert [await socket.receive(), await socket.receive()] == ["TYPED", b"\0"]
    with pytest.raises(SocketClosed) as closed:
        await socket.receive()
    assert (closed.value.code, closed.value.reason) == (4404, "gone")
    with pytest.raises(SocketClosed):
        await socket.send("more")
    await transport.close()


async def test_an_application_that_sends_more_than_is_read_waits() -> None:
    """API-430: at the limit; leaving lets it go."""
    sent = 0
    ended = asyncio.Event()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        nonlocal sent
        await send({"type": "websocket.accept"})
        try:
            while True:
                await send({"type": "websocket.send", "text": "x"})
                sent += 1
        except OSError:
            ended.set()

    transport = AsgiTransport(application)
    socket = await transport.open_socket(ASKED)
    for _ in range(5):
        await asyncio.sleep(0)
    assert sent == MESSAGES
    await socket.receive()
    for _ in range(5):
        await asyncio.sleep(0)
    assert sent == MESSAGES + 1
    await socket.close()
    await asyncio.wait_for(ended.wait(), 5)
    await transport.close()


async def test_a_client_that_types_more_than_is_taken_waits() -> None:
    """API-430: at the limit, until the application takes something or ends."""
    go_on = asyncio.Event()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        await go_on.wait()

    transport = AsgiTransport(application)
    socket = await transport.open_socket(ASKED)
    for _ in range(MESSAGES):
        await asyncio.wait_for(socket.send("x"), 10)
    typing = asyncio.ensure_future(socket.send("x"))
    done, _ = await asyncio.wait({typing}, timeout=0.05)
    assert not done
    go_on.set()
    with pytest.raises(SocketClosed):
        await asyncio.wait_for(typing, 5)
    await transport.close()


async def test_a_refusal_and_a_failure_are_told_apart() -> None:
    """API-430: the answer instead of an upgrade with its body; a defect is a failed transport."""

    async def refusing(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-type", b"application/json")]
        await send({"type": "websocket.http.response.start", "status": 401, "headers": headers})
        await send({"type": "websocket.http.response.body", "body": b"{}"})

    async def failing(scope: Any, receive: Any, send: Any) -> None:
        raise RuntimeError("broken")

    with pytest.raises(SocketRefused) as refused:
        await AsgiTransport(refusing).open_socket(ASKED)
    assert (refused.value.status, refused.value.content_type, refused.value.body) == (401, "application/json", b"{}")
    with pytest.raises(ClientError):
        await AsgiTransport(failing).open_socket(ASKED)
