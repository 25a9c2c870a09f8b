"""The live stream of everything."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, MutableMapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from tests.plain_http import NO_TLS
from tests.server.conftest import PATIENCE, Stream, Wire, eventually, listening

from holdfast.client.errors import ClientError
from holdfast.client.transport import Request
from holdfast.core.runtime.runtime import Paths, Runtime
from holdfast.embedded.asgi_transport import AsgiTransport
from holdfast.schema.live_event import TextDelta
from holdfast.schema.manifest import SESSION_DEFINITIONS
from holdfast.schema.prompt import Prompt
from holdfast.schema.todo import Todo
from holdfast.server import sse
from holdfast.server.app import App

pytestmark = pytest.mark.anyio

ENDED = "session.next.step.ended"


async def test_the_first_frames_are_connected_and_a_heartbeat(wire: Wire) -> None:
    """API-200, API-210, API-211: before anything happens."""
    async with wire.stream("/api/event") as stream:
        connected = await stream.event()

        assert stream.status == 200
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert set(connected) == {"id", "type", "data"}
        assert connected["id"].startswith("evt_")
        assert (connected["type"], connected["data"]) == ("server.connected", {})
        assert await stream.frame() == b": heartbeat"


async def test_the_headers_forbid_buffering(app: App, runtime: Runtime) -> None:
    """API-211: on the real wire, for both streams."""
    session = await runtime.sessions.create(location=runtime.location, project=await runtime.project(runtime.location))
    async with listening(app) as url, httpx2.AsyncClient(base_url=url, verify=NO_TLS) as client:
        for path in ("/api/event", f"/api/session/{session.id}/event"):
            async with client.stream("GET", path) as response:
                assert response.headers["cache-control"] == "no-cache, no-transform"
                assert response.headers["x-accel-buffering"] == "no"
                assert response.headers["x-content-type-options"] == "nosniff"
                assert response.headers["transfer-encoding"] == "chunked"


async def test_heartbeats_continue_on_the_live_stream(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    """API-211: every fifteen seconds, here sooner."""
    assert sse.HEARTBEAT_SECONDS == 15
    monkeypatch.setattr(sse, "HEARTBEAT_SECONDS", 0.02)
    async with wire.stream("/api/event") as stream:
        await stream.event()
        assert [await stream.frame() for _ in range(4)] == [b": heartbeat"] * 4


async def test_events_of_every_session_with_deltas_and_without_replay(wire: Wire, project: Path) -> None:
    """API-201, API-210: what is durable says so and all carry the location; `after` means nothing here."""
    first, second = (await wire.create())["id"], (await wire.create())["id"]
    await wire.answer(first, "before anyone listens")
    async with wire.stream(f"/api/event?after=0&sessionID={first}") as stream:
        await stream.event()
        await wire.answer(first, "one two three")
        await wire.answer(second, "four five six")
        events = await stream.until(ENDED, count=2)

    sessions = {event["data"]["sessionID"] for event in events}
    types = {event["type"] for event in events}
    assert sessions == {first, second}
    assert {"session.next.prompt.admitted", "session.next.text.ended", "session.status", ENDED} <= types
    assert all(event["location"] == {"directory": str(project)} for event in events)
    assert b"before anyone" not in str(events).encode()
    for event in events:
        ephemeral = event["type"].endswith(".delta") or event["type"] in ("session.status", "session.idle")
        assert ("durable" in event) != ephemeral


async def test_private_events_are_not_on_the_live_stream(memory: Wire, runtime: Runtime) -> None:
    """API-214, API-215: private events of a Session are not heard of; what is meant for observers is, and so are the
    records of whole Sessions, which the contract's stream knows."""
    async with memory.stream("/api/event") as stream:
        await stream.event()
        session = (await memory.create())["id"]
        path = f"/api/session/{session}"
        await memory.post(f"{path}/rename", {"title": "A private matter"})
        await memory.prompt(session, "taken back", id="msg_back", resume=False)
        await memory("DELETE", f"{path}/pending/msg_back")
        await runtime.todos.replace(session, [Todo(content="mow", status="pending", priority="high")])
        await memory.answer(session, "hi")
        await memory("DELETE", path)
        other = (await memory.create())["id"]
        await memory.post(f"/api/session/{other}/agent", {"agent": "plan"})
        events = await stream.until("session.next.agent.switched")
    recorded = {event.type for event in await runtime.log.serialized(session)}
    heard = {event["type"] for event in events}

    whole = {"session.created", "session.updated", "session.deleted"}
    private = {definition.type for definition in SESSION_DEFINITIONS if not definition.public} - whole
    assert {"session.created.1", "session.next.turn.dispatched.1", "session.next.todos.replaced.1"} <= recorded
    assert not heard & private
    assert {"todo.updated", "session.status", "session.next.prompt.admitted", *whole} <= heard


async def test_the_stream_has_what_another_process_commits(memory: Wire, tmp_path: Path, project: Path) -> None:
    """API-216, API-431: in order, once, and with the place of its Session; what is of another instance alone is not."""
    session = (await memory.create())["id"]
    async with (
        Runtime(paths=Paths(tmp_path / "data"), directory=project, environment={"HOME": str(tmp_path)}) as other,
        memory.stream("/api/event") as stream,
    ):
        await stream.event()
        await other.sessions.prompt(session, Prompt(text="from elsewhere"), resume=False)
        await memory.prompt(session, "from here", resume=False)
        heard = await stream.until("session.next.prompt.admitted", count=2)
        history = (await memory.get(f"/api/session/{session}/history")).data

    assert [event["data"]["prompt"]["text"] for event in heard] == ["from elsewhere", "from here"]
    assert [event["location"] for event in heard] == [{"directory": str(project)}] * 2
    assert [event["id"] for event in heard] == [event["id"] for event in history]


async def test_deltas_add_up_to_the_text(wire: Wire, runtime: Runtime) -> None:
    """API-210: deltas are live only and come before the end of their block."""
    session = await runtime.sessions.create(location=runtime.location, project=await runtime.project(runtime.location))
    async with wire.stream("/api/event") as stream:
        await stream.event()
        for word in ("one ", "two ", "three"):
            delta = TextDelta(
                timestamp=1, session_id=session.id, assistant_message_id="msg_1", text_id="text-0", delta=word
            )
            runtime.log.announce(delta, location=session.location)
        events = [await stream.event() for _ in range(3)]

    assert "".join(event["data"]["delta"] for event in events) == "one two three"
    assert {event["type"] for event in events} == {"session.next.text.delta"}


async def test_stopping_the_server_says_so_and_ends_the_stream(wire: Wire, app: App) -> None:
    """API-213: `global.disposed`, then a clean end."""
    async with wire.stream("/api/event") as stream:
        await stream.event()
        app.stop()
        (farewell,) = await stream.rest()

    assert (farewell["type"], farewell["data"]) == ("global.disposed", {})


async def test_no_event_follows_global_disposed(wire: Wire, app: App, runtime: Runtime) -> None:
    """API-213: a model that goes on talking does not keep the stream of a stopped server open."""
    async with wire.stream("/api/event") as stream:
        await stream.event()
        app.stop()
        runtime.log.announce(large("ses_one", 0, 1))
        heard = []
        while (event := await stream.event()) is not None:
            heard.append(event["type"])
            runtime.log.announce(large("ses_one", len(heard), 1))

    assert heard == ["global.disposed"]


async def test_a_source_that_never_ends_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """API-205, API-213: a stop ends a stream that always has more to send, cleanly."""
    monkeypatch.setattr(sse, "LAST_WORDS_SECONDS", 0.01)
    sent: list[MutableMapping[str, Any]] = []
    closed = asyncio.Event()

    async def endless() -> AsyncGenerator[bytes, None]:
        try:
            while True:
                yield b"data: 1\n\n"
        finally:
            closed.set()

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)
        if len(sent) == 10:
            stopping.set()
        await asyncio.sleep(0)

    async def receive() -> MutableMapping[str, Any]:
        await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    stopping = asyncio.Event()
    await asyncio.wait_for(sse.send_stream(endless(), receive, send, stopping, []), PATIENCE)

    assert sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}
    assert closed.is_set()


async def test_leaving_the_live_stream_removes_the_subscription(wire: Wire, runtime: Runtime) -> None:
    """API-210: nobody is kept who has gone."""
    for _ in range(3):
        async with wire.stream("/api/event") as stream:
            await stream.event()
            assert runtime.log.bus.observed
        await eventually(lambda: not runtime.log.bus.observed)


async def test_leaving_before_the_first_byte_removes_it_too(app: App, runtime: Runtime) -> None:
    """API-210: a caller that gives up while the request is on its way leaves no listener behind."""
    transport = AsgiTransport(app)
    opening = asyncio.create_task(transport.send(Request("GET", "/api/event", {})))
    await asyncio.sleep(0)
    opening.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await opening
    await transport.close()

    assert not runtime.log.bus.observed


def large(session_id: str, number: int, size: int) -> TextDelta:
    text = f"{number:06}" + "x" * size
    return TextDelta(
        timestamp=number, session_id=session_id, assistant_message_id="msg_1", text_id="text-0", delta=text
    )


async def read_numbers(stream: Stream, seen: list[int]) -> None:
    while (event := await stream.event()) is not None:
        seen.append(event["data"]["timestamp"])


async def test_a_subscriber_that_falls_behind_fails_alone(memory: Wire, runtime: Runtime) -> None:
    """API-212: its stream fails after what it had; the one that keeps up loses nothing."""
    async with memory.stream("/api/event") as slow, memory.stream("/api/event") as good:
        await slow.event()
        await good.event()
        for number in range(600):
            runtime.log.announce(large("ses_one", number, 4096))
            assert (await good.event())["data"]["timestamp"] == number
        seen: list[int] = []
        with pytest.raises(ClientError) as failed:
            await read_numbers(slow, seen)

        assert failed.value.reason == "Transport"
        assert seen == list(range(len(seen)))
        assert 256 <= len(seen) < 600
        runtime.log.announce(large("ses_one", 600, 1))
        assert (await good.event())["data"]["timestamp"] == 600


async def test_a_socket_that_nobody_reads_fails_alone(app: App, runtime: Runtime) -> None:
    """API-212: over TCP the connection ends without the closing chunk, so the client knows that it missed something."""
    async with listening(app) as url:
        place = urlsplit(url)
        with socket.socket() as raw:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            raw.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(raw, (place.hostname, place.port))
            await loop.sock_sendall(raw, b"GET /api/event HTTP/1.1\r\nhost: localhost\r\n\r\n")
            await eventually(lambda: runtime.log.bus.observed)
            number = 0
            while runtime.log.bus.observed:
                runtime.log.announce(large("ses_one", number, 64 * 1024))
                number += 1
                await asyncio.sleep(0)
                assert number < 5000
            received = b""
            async with asyncio.timeout(PATIENCE):
                while chunk := await loop.sock_recv(raw, 1 << 20):
                    received = received[-100:] + chunk

        assert not received.endswith(b"0\r\n\r\n")
        assert number > 256
