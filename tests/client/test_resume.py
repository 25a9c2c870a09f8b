"""Following a Session through lost connections."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.client.conftest import SSE, BlockingTransport, FakeResponse, FakeTransport, failure, frame

from holdfast.client.errors import ApiError, ClientError
from holdfast.client.generated.async_client import AsyncClient
from holdfast.client.generated.sync_client import Client
from holdfast.client.http import HttpTransport
from holdfast.client.resume import Patience, Reconnected, follow, follow_sync, follow_tree, follow_tree_sync
from holdfast.schema.typed_event import Event

pytestmark = pytest.mark.anyio

AT_ONCE = Patience(attempts=3, first=0.0)
LOST = ClientError("Transport", "reset")


def part(*numbers: int, error: Exception | None = None) -> FakeResponse:
    return FakeResponse(200, [frame(number) for number in numbers], content_type=SSE, failure=error)


def resumed(transport: FakeTransport | BlockingTransport) -> list[str]:
    return [request.target.partition("?")[2] for request in transport.requests]


async def collect(transport: FakeTransport, after: int | None = None) -> tuple[list[int], ApiError | ClientError]:
    seen: list[int] = []
    try:
        async with aclosing(follow(AsyncClient(transport), "ses_1", after=after, patience=AT_ONCE)) as events:
            async for event in events:
                assert event.durable is not None
                seen.append(event.durable.seq)
    except (ApiError, ClientError) as error:
        return seen, error
    raise AssertionError("a follower never ends by itself")


def collect_blocking(transport: BlockingTransport, patience: Patience) -> list[int]:
    """Until the Session is gone."""
    seen: list[int] = []
    try:
        for event in follow_sync(Client(transport), "ses_1", patience=patience):
            seen.append(event.durable.seq)
    except ApiError:
        return seen
    raise AssertionError("a follower never ends by itself")


GONE = failure(404, "SessionNotFoundError")


async def test_a_resumed_stream_reopens_after_the_last_sequence() -> None:
    """API-314: after a break and after an end; what a server sends twice is passed over."""
    transport = FakeTransport(part(1, 2, error=LOST), part(), part(2, 3), LOST, part(5, error=LOST), GONE)
    seen, error = await collect(transport, after=0)

    assert seen == [1, 2, 3, 5]
    assert isinstance(error, ApiError)
    assert resumed(transport) == ["after=0", "after=2", "after=2", "after=3", "after=3", "after=5"]
    assert all(response.closed for response in transport.responses)


@pytest.mark.parametrize(
    ("last", "kind"),
    [(LOST, ClientError), (FakeResponse(503, b""), ApiError), (part(), ClientError)],
    ids=["lost", "unavailable", "ended"],
)
async def test_failures_in_a_row_are_bounded(last: FakeResponse | ClientError, kind: type[Exception]) -> None:
    """API-314: progress starts the count anew, and the last failure is what the caller gets."""
    transport = FakeTransport(LOST, LOST, part(1, error=LOST), LOST, LOST, last)
    seen, error = await collect(transport)

    assert seen == [1]
    assert isinstance(error, kind)
    assert len(transport.requests) == 6


@pytest.mark.parametrize(
    "answer",
    [
        GONE,
        failure(401, "UnauthorizedError"),
        FakeResponse(200, b"{}"),
        FakeResponse(200, b"data: {\n\n", content_type=SSE),
    ],
    ids=["unknown", "unauthorized", "no stream", "malformed"],
)
async def test_an_error_that_cannot_pass_is_raised_at_once(answer: FakeResponse) -> None:
    """API-314: trying again would give the same."""
    transport = FakeTransport(answer)
    seen, _ = await collect(transport)

    assert (seen, len(transport.requests)) == ([], 1)


def test_a_blocking_follower_does_the_same() -> None:
    """API-314: with the synchronous client."""
    transport = BlockingTransport(part(1, 2, error=LOST), part(2, 3), GONE)

    assert collect_blocking(transport, AT_ONCE) == [1, 2, 3]
    assert resumed(transport) == ["", "after=2", "after=3"]


def test_delays_grow_up_to_a_bound() -> None:
    """API-314: between half of the span and the whole of it."""
    patience = Patience(first=0.25, longest=8.0)
    for failures, span in ((1, 0.25), (2, 0.5), (5, 4.0), (6, 8.0), (400, 8.0)):
        assert span / 2 <= patience.delay(failures) <= span


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.booleans()), max_size=12))
def test_no_event_is_lost_or_repeated_wherever_it_breaks(cuts: list[tuple[int, int, bool]]) -> None:
    """API-314: connections of any length, answers that overlap what was seen, breaks and ends in any order."""
    at, answers = 0, []
    for fresh, overlap, breaks in cuts:
        sent = range(max(1, at + 1 - overlap), at + 1 + fresh)
        answers.append(part(*sent, error=LOST if breaks else None))
        at += fresh
    transport = BlockingTransport(*answers, GONE)

    assert collect_blocking(transport, Patience(attempts=20, first=0.0)) == list(range(1, at + 1))


async def test_the_caller_is_told_when_the_stream_stands_again() -> None:
    """API-434: how often it was tried, where it goes on, what had broken it; not at the first connection."""
    told: list[Reconnected] = []
    transport = FakeTransport(part(1, 2, error=LOST), LOST, LOST, part(3), GONE)
    with pytest.raises(ApiError):
        async for _ in follow(AsyncClient(transport), "ses_1", patience=AT_ONCE, on_reconnect=told.append):
            pass

    assert told == [Reconnected(3, 2, LOST)]


async def test_live_events_pass_through_and_move_no_cursor() -> None:
    """API-433, API-434."""
    delta = b'data: {"live":true,"id":"evt_x","type":"invented","data":{}}\n\n'
    answers = (FakeResponse(200, [frame(1), delta], content_type=SSE, failure=LOST), part(1, 2), GONE)
    transport = FakeTransport(*answers)
    seen: list[str] = []
    with pytest.raises(ApiError):  # noqa: PT012
        async for event in follow(AsyncClient(transport), "ses_1", live=True, patience=AT_ONCE):
            seen.append(event.id)

    assert seen == ["evt_1", "evt_x", "evt_2"]
    assert [request.target.partition("?")[2] for request in transport.requests][:2] == [
        "live=true",
        "after=1&live=true",
    ]


async def test_a_heartbeat_is_told_of_and_ends_a_row_of_failures() -> None:
    """API-434, API-435: an idle Session may lose its server any number of times."""
    beats: list[int] = []
    quiet = [FakeResponse(200, b": heartbeat\n\n", content_type=SSE, failure=LOST) for _ in range(20)]
    with pytest.raises(ApiError):
        async for _ in follow(
            AsyncClient(FakeTransport(*quiet, GONE)), "ses_1", patience=AT_ONCE, on_heartbeat=lambda: beats.append(1)
        ):
            pass

    assert len(beats) == 20


async def test_a_connection_that_says_nothing_is_lost() -> None:
    """API-434: no event and no heartbeat: a peer that vanished without a word is noticed, and left."""

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.append(1)
        body = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
        writer.write(body + (frame(len(asked)) if len(asked) < 3 else b""))
        try:
            await reader.read()
        except ConnectionResetError:
            pass  # the client had not read everything
        finally:
            writer.close()
            left.release()

    asked: list[int] = []
    left = asyncio.Semaphore(0)
    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    patience = Patience(attempts=2, first=0.0, silence=0.25)
    seen: list[int] = []
    async with AsyncClient(HttpTransport(url)) as client:
        with pytest.raises(ClientError):  # noqa: PT012
            async for event in follow(client, "ses_1", patience=patience):
                seen.append(event.durable.seq)
    for _ in asked:
        await left.acquire()
    server.close()

    assert seen == [1, 2]
    assert 2 < len(asked) <= 4  # on a busy machine an attempt may end before it reached the server


def of_tree(*events: str, error: Exception | None = None) -> FakeResponse:
    """`a1` is the durable event 1 of Session a; `a1@7` has a cursor, and `@7` is a live event with one."""
    frames = []
    for text in events:
        name, _, cursor = text.partition("@")
        id = f"evt_{text}"
        position = {"durable": {"aggregateID": name[0], "seq": int(name[1:]), "version": 1}} if name else {"live": True}
        told = {"cursor": cursor} if cursor else {}
        frames.append(
            b"data: " + msgspec.json.encode({"id": id, "type": "x", **position, **told, "data": {}}) + b"\n\n"
        )
    return FakeResponse(200, frames, content_type=SSE, failure=error)


TREE = (
    of_tree("a0", "a1", error=LOST),
    of_tree("a0", "a1", "b0", "@7", "b1", error=LOST),
    of_tree("b1", "a2", "@9", "b2@11"),
    GONE,
)
CONTINUED = ["replay=true", "replay=true", "after=7&replay=true", "after=11&replay=true"]


def tree_of(event: Event) -> str:
    return f"{event.durable.aggregate_id}{event.durable.seq}" if event.durable is not None else f"@{event.cursor}"


async def test_the_stream_of_a_tree_reopens_after_the_last_cursor() -> None:
    """API-580: what came after the cursor comes again, and is passed over."""
    transport, seen, told = FakeTransport(*TREE), [], list[Reconnected]()
    with suppress(ApiError):
        async for event in follow_tree(AsyncClient(transport), "a", patience=AT_ONCE, on_reconnect=told.append):
            seen.append(tree_of(event))

    assert seen == ["a0", "a1", "b0", "@7", "b1", "a2", "@9", "b2"]
    assert resumed(transport) == CONTINUED
    assert [item.after for item in told] == [None, "7"]


def test_a_blocking_follower_of_a_tree_does_the_same() -> None:
    """API-580: with the synchronous client."""
    transport, seen = BlockingTransport(*TREE), []
    with suppress(ApiError):
        for event in follow_tree_sync(Client(transport), "a", patience=AT_ONCE):
            seen.append(tree_of(event))

    assert seen == ["a0", "a1", "b0", "@7", "b1", "a2", "@9", "b2"]
    assert resumed(transport) == CONTINUED
