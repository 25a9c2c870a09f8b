"""Following a Session through lost connections."""

from __future__ import annotations

from contextlib import aclosing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.client.conftest import SSE, BlockingTransport, FakeResponse, FakeTransport, failure, frame

from holdfast.client.errors import ApiError, ClientError
from holdfast.client.generated.async_client import AsyncClient
from holdfast.client.generated.sync_client import Client
from holdfast.client.resume import Patience, follow, follow_sync

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
            seen.append(event.durable.seq if event.durable else 0)
    except ApiError:
        return seen
    raise AssertionError("a follower never ends by itself")


GONE = failure(404, "SessionNotFoundError")


async def test_it_reopens_after_the_last_sequence() -> None:
    """API-314: after a break and after an end; what a server sends twice is passed over."""
    transport = FakeTransport(part(1, 2, error=LOST), part(), part(2, 3), LOST, part(5, error=LOST), GONE)
    seen, error = await collect(transport, after=0)

    assert seen == [1, 2, 3, 5]
    assert isinstance(error, ApiError)
    assert resumed(transport) == ["after=0", "after=2", "after=2", "after=3", "after=3", "after=5"]
    assert all(response.closed for response in transport.responses)


@pytest.mark.parametrize(
    ("last", "kind"),
    [(LOST, ClientError), (FakeResponse(503, b""), ClientError), (part(), ClientError)],
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
async def test_what_cannot_pass_is_raised_at_once(answer: FakeResponse) -> None:
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
