"""What a connected observer sees of a running Session, and the same over the wire."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from tests.conftest import MODEL

from holdfast.client.transport import Request, Response
from holdfast.core.runtime.runtime import Runtime
from holdfast.embedded.holdfast import Holdfast
from holdfast.llm.offline import Call, OfflineResponse, ScriptedTransport, Turn
from holdfast.llm.route.transport import HttpRequest
from holdfast.schema.prompt import Prompt, PromptInput
from holdfast.schema.session import Session
from holdfast.schema.session_message import AssistantMessage, TextPart
from holdfast.schema.typed_event import Event
from holdfast.server import sse

pytestmark = pytest.mark.anyio

DELTA = "session.next.text.delta"
WORDS = " ".join(f"wörd{number}" for number in range(3000))


class Patient(ScriptedTransport):
    """Stops in the middle of a long answer until it is told to go on."""

    def __init__(self, *turns: Turn) -> None:
        super().__init__(turns)
        self.go_on = asyncio.Event()

    async def send(self, request: HttpRequest) -> OfflineResponse:
        response = await super().send(request)
        return OfflineResponse(response.status, self._paced(response.chunks()))

    async def _paced(self, frames: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        sent = 0
        async for frame in frames:
            yield frame
            sent += 1
            if sent == 1000:
                await self.go_on.wait()


@pytest.fixture
async def model() -> Patient:
    return Patient(Turn(text=WORDS, calls=(Call(tool="read", input={"path": "hello.txt"}),)), Turn(text="!"))


@pytest.fixture
async def live(runtime: Runtime, session: Session, model: Patient) -> list[dict[str, Any]]:
    """Everything that was announced while a prompt was answered."""
    bus = runtime.log.bus
    with bus.subscribe(capacity=100_000) as everything, bus.subscribe(frozenset({DELTA})) as deltas:
        await runtime.sessions.prompt(session.id, Prompt(text="go"))
        async with asyncio.timeout(10):
            await deltas.next()
        model.go_on.set()
        await runtime.sessions.wait(session.id)
        return [msgspec.json.decode(item.wire) for item in await everything.next()]


async def test_deltas_are_coalesced_and_never_stored(
    runtime: Runtime, session: Session, live: list[dict[str, Any]]
) -> None:
    """EVT-020, EVT-023: 3,000 words are a few deltas; the log has the boundaries only."""
    deltas = [event for event in live if event["type"] == DELTA]
    assert 1 <= len(deltas) <= 600
    assert not any("durable" in event for event in deltas)
    stored = [event.type for event in await runtime.log.serialized(session.id)]
    assert not any("delta" in type_ for type_ in stored)
    assert stored.count("session.next.text.ended.1") == 2
    assert len(stored) < 25


async def test_events_of_a_run_carry_the_location_of_their_session(
    runtime: Runtime, session: Session, live: list[dict[str, Any]]
) -> None:
    """EVT-005: durable and live ones alike, because they are published inside that Location."""
    assert {event["type"].partition(".")[0] for event in live} == {"session"}
    assert {event.get("location", {}).get("directory") for event in live} == {session.location.directory}
    history, _ = await runtime.log.history(session.id)
    assert all(event.location is None for event in history)


@pytest.mark.parametrize("missed", ["nothing", "every other delta", "all deltas"])
async def test_a_client_can_reduce_live_events_to_what_is_stored(
    runtime: Runtime, session: Session, live: list[dict[str, Any]], missed: str
) -> None:
    """EVT-050: deltas append, the end overwrites with the whole; what was missed corrupts nothing."""
    deltas = [index for index, event in enumerate(live) if event["type"].endswith(".delta")]
    dropped = {"nothing": [], "every other delta": deltas[::2], "all deltas": deltas}[missed]
    seen: dict[str, list[tuple[str, str]]] = {}
    for index, event in enumerate(live):
        if index not in dropped:
            _reduce(seen, event, complete=missed == "nothing")
    stored = [item.decode() for item in await runtime.sessions.messages(session.id, order="asc", limit=10)]
    assert seen == {
        message.id: [(item.id, item.text) for item in message.content if isinstance(item, TextPart)]
        for message in stored
        if isinstance(message, AssistantMessage)
    }
    assert [text for texts in seen.values() for _, text in texts] == [WORDS, "!"]


async def test_deltas_add_up_to_the_text_even_of_a_block_that_is_over_at_once(project: Path, tmp_path: Path) -> None:
    """API-441, API-210: the end is there before the start was announced; the deltas come between all the same."""
    call = Call(tool="read", input={"path": "hello.txt"})
    model = ScriptedTransport([Turn(text="short", calls=(call,)), Turn(text="over")])
    async with _host(project, tmp_path, model) as host:
        session = await host.sessions.create(model=MODEL)
        with host._runtime.log.bus.subscribe(capacity=100_000) as everything:
            await host.sessions.prompt(session.id, prompt=PromptInput(text="go"))
            await host.sessions.wait(session.id)
            seen = [msgspec.json.decode(item.wire) for item in await everything.next()]
    for kind, name, count in (("text", "textID", 2), ("tool.input", "callID", 1)):
        assert _blocks_that_add_up(seen, f"session.next.{kind}", name) == count


def _blocks_that_add_up(seen: list[dict[str, Any]], kind: str, name: str) -> int:
    """How many blocks of a kind ended; their deltas must lie between their start and end and be their text."""
    count = 0
    for place, event in enumerate(seen):
        if event["type"] == f"{kind}.ended":
            count += 1
            key = (event["data"]["assistantMessageID"], event["data"][name])
            own = [
                (at, item)
                for at, item in enumerate(seen)
                if item["type"].startswith(kind) and (item["data"]["assistantMessageID"], item["data"][name]) == key
            ]
            deltas = [(at, item["data"]["delta"]) for at, item in own if item["type"] == f"{kind}.delta"]
            (start,) = [at for at, item in own if item["type"] == f"{kind}.started"]
            assert "".join(text for _, text in deltas) == event["data"]["text"] != ""
            assert all(start < at < place for at, _ in deltas)
    return count


async def test_the_live_stream_begins_with_connected_and_has_heartbeats(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EVT-030: no replay; `server.connected` first, then everything from that moment on, deltas included; a comment
    every 15 seconds (shortened here) when nothing happens."""
    assert sse.HEARTBEAT_SECONDS == 15
    monkeypatch.setattr(sse, "HEARTBEAT_SECONDS", 0.2)
    model = Patient(Turn(text=WORDS))
    async with _host(project, tmp_path, model) as host:
        before = await host.sessions.create(model=MODEL)
        response = await host._transport.send(Request("GET", "/api/event", {"accept": "text/event-stream"}))
        async with aclosing(_frames(response)) as frames, asyncio.timeout(10):
            connected = await anext(frames)
            assert (connected["type"], connected["data"]) == ("server.connected", {})
            assert await anext(frames) == {"comment": ": heartbeat"}, "one at once"
            assert await anext(frames) == {"comment": ": heartbeat"}, "and one while nothing happens"
            after = await host.sessions.create(model=MODEL)
            await host.sessions.prompt(after.id, prompt=PromptInput(text="hi"))
            seen: list[dict[str, Any]] = []
            while not seen or seen[-1].get("type") != "session.next.step.ended":
                seen.append(await anext(frames))
                if seen[-1].get("type") == DELTA:
                    model.go_on.set()
    types = [item.get("type") for item in seen]
    assert "session.created" in types
    assert DELTA in types
    assert not any(before.id in str(item) for item in seen)


async def test_a_client_does_not_reconnect_and_resumes_when_told(project: Path, tmp_path: Path) -> None:
    """EVT-032: one request per stream, also when it ends; passing the last sequence continues without a gap."""
    async with _host(project, tmp_path, ScriptedTransport()) as host:
        requests = _count_requests(host)
        session = await host.sessions.create(model=MODEL)
        await host.sessions.prompt(session.id, prompt=PromptInput(text="hi"))
        await host.sessions.wait(session.id)
        everything = [event.durable.seq for event in (await host.sessions.history(session.id)).events]
        requests.clear()
        first = await _take(host.sessions.events(session.id), 3)
        rest = await _take(host.sessions.events(session.id, after=first[-1]), len(everything) - 3)
        assert first + rest == everything
        assert len(requests) == 2
        stream = cast("AsyncGenerator[Event, None]", host.sessions.events(session.id, after=everything[-1]))
        following = asyncio.ensure_future(anext(stream))
        async with asyncio.timeout(10):
            while len(requests) < 3:  # noqa: ASYNC110 - until the request has been sent
                await asyncio.sleep(0)
        assert host._app is not None
        host._app.stop()
        with pytest.raises(StopAsyncIteration):
            await following
        assert len(requests) == 3


def _reduce(seen: dict[str, list[tuple[str, str]]], event: dict[str, Any], *, complete: bool) -> None:
    data = event["data"]
    texts = seen.get(data.get("assistantMessageID", ""), [])
    match event["type"].removeprefix("session.next."):
        case "step.started":
            seen[data["assistantMessageID"]] = []
        case "text.started":
            texts.append((data["textID"], ""))
        case "text.delta":
            texts[-1] = (data["textID"], texts[-1][1] + data["delta"])
        case "text.ended":
            assert not complete or data["text"].startswith(texts[-1][1])
            texts[-1] = (data["textID"], data["text"])


def _host(project: Path, tmp_path: Path, transport: ScriptedTransport) -> Holdfast:
    return Holdfast(project, data=tmp_path / "host", environment={"HOME": str(tmp_path)}, transport=transport)


async def _frames(response: Response) -> AsyncGenerator[dict[str, Any], None]:
    buffer = b""
    try:
        async for chunk in response.chunks():
            *whole, buffer = (buffer + chunk).split(b"\n\n")
            for frame in whole:
                text = frame.decode()
                yield {"comment": text} if text.startswith(":") else msgspec.json.decode(text.removeprefix("data: "))
    finally:
        await response.close()


async def _take(events: AsyncIterator[Event], count: int) -> list[int]:
    taken: list[int] = []
    async with aclosing(cast("AsyncGenerator[Event, None]", events)) as stream, asyncio.timeout(10):
        async for event in stream:
            assert event.durable is not None
            taken.append(event.durable.seq)
            if len(taken) == count:
                return taken
    raise AssertionError("the stream ended early")


def _count_requests(host: Holdfast) -> list[str]:
    """Counts what goes through the client's transport; nothing is changed on the way."""
    targets: list[str] = []
    send = host._transport.send

    async def counted(request: Request) -> Any:
        targets.append(request.target)
        return await send(request)

    host._transport.send = counted  # type: ignore[method-assign]
    return targets
