"""The durable stream of one Session."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.server.conftest import PATIENCE, Wire, eventually

from holdfast.core.runtime.runtime import Runtime
from holdfast.llm.offline import ScriptedTransport
from holdfast.server import sse
from holdfast.server.app import App

pytestmark = pytest.mark.anyio

ENDED = "session.next.step.ended"


@pytest.fixture
async def path(wire: Wire) -> str:
    return f"/api/session/{(await wire.create(id='ses_one'))['id']}"


async def test_headers_come_at_once_and_comments_keep_the_stream_alive(
    wire: Wire, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """API-204: on an idle session, before any event."""
    monkeypatch.setattr(sse, "HEARTBEAT_SECONDS", 0.02)
    async with asyncio.timeout(PATIENCE), wire.stream(f"{path}/event") as stream:
        assert stream.status == 200
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert [await stream.frame() for _ in range(2)] == [b": heartbeat"] * 2
        await wire.prompt("ses_one", resume=False)
        assert (await stream.event())["type"] == "session.next.prompt.admitted"


async def test_frames_hold_one_json_document_and_nothing_else(wire: Wire, path: str) -> None:
    """API-200, API-201, API-202: no id, event or retry lines; no location; never a delta, though others see them."""
    async with wire.stream("/api/event") as live, wire.stream(f"{path}/event") as stream:
        await live.event()
        await wire.answer("ses_one", "say something longer")
        frames: list[bytes] = []
        while not frames or json.loads(frames[-1][6:])["type"] != ENDED:
            frame = await stream.frame()
            assert frame is not None
            assert frame.startswith(b"data: {")
            assert b"\n" not in frame
            frames.append(frame)
        announced = await live.until(ENDED)

    events = [json.loads(frame[6:]) for frame in frames]
    assert all(set(event) == {"id", "type", "durable", "data"} for event in events)
    durable = [event for event in announced if "durable" in event]
    assert [event["id"] for event in events] == [event["id"] for event in durable]
    assert not any(event["type"].endswith(".delta") for event in events)


async def test_replay_meets_the_tail_without_gap_or_duplicate(wire: Wire, path: str) -> None:
    """API-202, API-203: readers that come at any moment of a busy session all see the history, each event once."""
    turns = 12

    async def read(after: int | None) -> list[Any]:
        query = "" if after is None else f"?after={after}"
        async with wire.stream(f"{path}/event{query}") as stream:
            events: list[Any] = []
            while sum(event["type"] == ENDED for event in events) < turns:
                events.append(await stream.event())
            return events

    readers = [asyncio.create_task(read(None))]
    for number in range(turns):
        await wire.prompt("ses_one", f"prompt {number}", delivery="queue")
        readers.append(asyncio.create_task(read(0)))
    streams = await asyncio.gather(*readers)
    history = (await wire.get(f"{path}/history?limit=100")).data

    sequences = [event["durable"]["seq"] for event in history]
    assert sequences == sorted(set(sequences))
    for events in streams:
        assert events == history


@pytest.mark.parametrize(
    ("query", "headers", "first"),
    [
        ("", {}, 1),
        ("?after=0", {}, 1),
        ("?after=3", {}, 4),
        ("", {"last-event-id": "3"}, 4),
        ("?after=1", {"last-event-id": "3"}, 2),
        ("?after=0", {"last-event-id": "3"}, 1),
    ],
)
async def test_a_reader_resumes_after_a_sequence(memory: Wire, query: str, headers: dict[str, str], first: int) -> None:
    """API-202, API-206: `after` is exclusive; `Last-Event-ID` is another spelling and loses against it."""
    await memory.create(id="ses_one")
    await memory.answer("ses_one")
    async with memory.stream(f"/api/session/ses_one/event{query}", headers) as stream:
        assert (await stream.event())["durable"]["seq"] == first


@pytest.mark.parametrize("value", ["9" * 30, "9" * 5000])
async def test_a_sequence_beyond_any_log_is_no_defect(memory: Wire, value: str) -> None:
    """API-202, API-206: refused, or a stream on which nothing comes; neither 500 nor a broken stream."""
    path = f"/api/session/{(await memory.create())['id']}/event"
    for query, headers in ((f"?after={value}", {}), ("", {"last-event-id": value})):
        async with memory.stream(path + query, headers) as stream:
            assert stream.status in (200, 400)
            if stream.status == 200:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(stream.frame(), 0.1)


async def test_leaving_releases_the_tail(wire: Wire, path: str, runtime: Runtime) -> None:
    """API-203: no signal is left, whether anything was read or not."""
    for _ in range(3):
        async with wire.stream(f"{path}/event") as stream:
            await wire.prompt("ses_one", resume=False)
            await stream.event()
            assert runtime.log.signals.followed() == {"ses_one"}
        await eventually(lambda: not runtime.log.signals.followed())
    async with wire.stream(f"{path}/event?after=9999"):
        await eventually(lambda: runtime.log.signals.followed() == {"ses_one"})
    await eventually(lambda: not runtime.log.signals.followed())


async def test_nothing_ends_the_stream_but_the_server_or_the_client(
    wire: Wire, path: str, app: App, model: ScriptedTransport
) -> None:
    """API-205: a turn's end is no end and nothing follows it; stopping the server ends the stream cleanly."""
    async with wire.stream(f"{path}/event") as stream:
        await wire.answer("ses_one", "one")
        await stream.until(ENDED)
        await wire.answer("ses_one", "two")
        second = await stream.until(ENDED)
        assert second[0]["type"] == "session.next.prompt.admitted"
        app.stop()
        assert await stream.rest() == []


async def test_many_readers_of_many_sessions(memory: Wire, runtime: Runtime) -> None:
    """API-202: each stream has the events of its own session only."""
    ids = [(await memory.create())["id"] for _ in range(8)]

    async def read(session_id: str) -> list[Any]:
        async with memory.stream(f"/api/session/{session_id}/event") as stream:
            return await stream.until(ENDED)

    readers = [asyncio.create_task(read(session_id)) for session_id in ids]
    await asyncio.gather(*(memory.answer(session_id) for session_id in ids))

    for session_id, events in zip(ids, await asyncio.gather(*readers), strict=True):
        assert {event["durable"]["aggregateID"] for event in events} == {session_id}


@pytest.mark.parametrize("live", ["", "&live=true"])
async def test_without_replay_a_stream_begins_with_the_next_event(wire: Wire, path: str, live: str) -> None:
    """API-461: nothing that is stored comes; a position in the request wins."""
    await wire.prompt("ses_one", "before", resume=False)
    async with wire.stream(f"{path}/event?replay=false{live}") as stream:
        if live:
            assert await stream.frame() == b": heartbeat"
        second = asyncio.create_task(stream.event())
        receipt = await wire.prompt("ses_one", "after", resume=False)
        assert (await second)["durable"]["seq"] == receipt["admittedSeq"]
    async with wire.stream(f"{path}/event?replay=false&after=0{live}") as stream:
        assert (await stream.event())["durable"]["seq"] == 1


async def test_after_the_comment_no_live_event_is_missed(wire: Wire, path: str) -> None:
    """API-461: from the status at the start of the work to the one at its end."""
    async with wire.stream(f"{path}/event?replay=false&live=true") as stream:
        assert await stream.frame() == b": heartbeat"
        await wire.answer("ses_one", "say something longer")
        events = await stream.until("session.status", 2)

    states = [event["data"]["status"]["type"] for event in events if event["type"] == "session.status"]
    assert states == ["busy", "idle"]
