"""The synchronous client against prepared answers: the same outcomes as the asynchronous one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.client.conftest import SSE, BlockingTransport, FakeResponse, failure, frame

from holdfast.client.call import Options
from holdfast.client.errors import ApiError, ClientError
from holdfast.client.generated.sync_client import Client
from holdfast.client.http import SyncHttpTransport
from holdfast.schema.prompt import PromptInput


def streaming(*pieces: bytes, error: Exception | None = None) -> FakeResponse:
    return FakeResponse(200, pieces, content_type=SSE, failure=error)


def numbers(client: Client) -> list[int]:
    return [event.durable.seq for event in client.sessions.events("ses_1") if event.durable]


def test_a_call_is_one_request() -> None:
    """API-304, API-307, API-308: as its asynchronous twin sends it; the block closes the transport."""
    admission = {"admittedSeq": 1, "id": "msg_1", "sessionID": "ses_1", "prompt": {"text": "hi"}}
    answer = msgspec.json.encode({"data": {**admission, "delivery": "steer", "timeCreated": 1}})
    transport = BlockingTransport(FakeResponse(200, answer))
    with Client(transport, headers={"x-mine": "client"}) as client:
        assert transport.requests == []
        options = Options(headers={"X-Mine": "call"}, timeout=3)
        got = client.sessions.prompt("ses_a/b", prompt=PromptInput(text="hi"), options=options)

    (request,) = transport.requests
    assert (got.id, got.admitted_seq) == ("msg_1", 1)
    assert (request.method, request.target) == ("POST", "/api/session/ses_a%2Fb/prompt")
    assert (request.headers["x-mine"], request.timeout) == ("call", 3)
    assert msgspec.json.decode(request.body or b"") == {"prompt": {"text": "hi"}}
    assert (transport.responses[0].closed, transport.closed) == (True, True)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (failure(404, "SessionNotFoundError", sessionID="ses_1"), "SessionNotFoundError"),
        (FakeResponse(400, b'{"name":"ProjectCopyError","data":{"message":"no"}}'), "ProjectCopyError"),
        (FakeResponse(418, b"{}"), "UnexpectedStatus"),
        (FakeResponse(200, b"<html>", content_type="text/html"), "UnsupportedContentType"),
        (FakeResponse(200, b"{"), "MalformedResponse"),
        (FakeResponse(200, b'{"data":{"id":"ses_1"}}'), "MalformedResponse"),
        (ClientError("Transport", "gone"), "Transport"),
        (FakeResponse(200, b'{"da', failure=ClientError("Transport", "cut")), "Transport"),
    ],
)
def test_a_failure_is_declared_or_has_a_reason(answer: FakeResponse | ClientError, expected: str) -> None:
    """API-021, API-309, API-310, API-311: one error for what was declared, one for everything else; a body of the
    wrong shape is such a failure, as this emitter decodes."""
    transport = BlockingTransport(answer)
    with pytest.raises((ApiError, ClientError)) as caught:
        Client(transport).sessions.get("ses_1")

    error: Any = caught.value
    assert (error.code if isinstance(error, ApiError) else error.reason) == expected
    assert all(response.closed for response in transport.responses)


def test_a_stream_is_lazy_and_each_iteration_is_a_request() -> None:
    """API-312, API-313: nothing before the first element; iterating again asks again."""
    transport = BlockingTransport(streaming(frame(1)), streaming(frame(1)[:20], frame(1)[20:] + frame(2)))
    stream = Client(transport).sessions.events("ses_1", after=3)
    assert transport.requests == []

    assert [event.id for event in stream] == ["evt_1"]
    assert [event.id for event in stream] == ["evt_1", "evt_2"]
    assert [request.target for request in transport.requests] == ["/api/session/ses_1/event?after=3"] * 2
    assert all(response.closed for response in transport.responses)


@pytest.mark.parametrize("leaving", ["break", "with", "next"])
def test_leaving_a_stream_closes_its_request(leaving: str) -> None:
    """API-312: by breaking out, by the block, or by closing it."""
    transport = BlockingTransport(streaming(frame(1), frame(2)))
    stream = Client(transport).sessions.events("ses_1")
    if leaving == "break":
        for _ in stream:
            break
    elif leaving == "with":
        with stream as events:
            assert next(iter(events)).id == "evt_1"
    else:
        assert next(stream).id == "evt_1"
        assert next(stream).id == "evt_2"
        assert not transport.responses[0].closed
        stream.close()

    assert transport.responses[0].closed


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (failure(404, "SessionNotFoundError"), "SessionNotFoundError"),
        (streaming(b"data: {broken\n\n"), "MalformedResponse"),
        (streaming(*[b"x" * (1024 * 1024)] * 65), "MalformedResponse"),
        (FakeResponse(200, b"{}"), "UnsupportedContentType"),
        (streaming(frame(1), error=ClientError("Transport", "reset")), "Transport"),
    ],
    ids=["declared", "json", "endless", "no stream", "broken"],
)
def test_a_stream_fails_while_it_is_read(answer: FakeResponse, reason: str) -> None:
    """API-309, API-312, API-313, API-314: the call itself cannot fail, and nothing is tried again."""
    transport = BlockingTransport(answer)
    with pytest.raises((ApiError, ClientError)) as caught:
        numbers(Client(transport))

    error: Any = caught.value
    assert (error.code if isinstance(error, ApiError) else error.reason) == reason
    assert len(transport.requests) == 1
    assert transport.responses[0].closed


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "localhost:4096", "http://[", "http://localhost:port"])
def test_a_server_that_cannot_be_reached_is_a_transport_failure(url: str) -> None:
    """API-309: whatever is wrong with the address."""
    with pytest.raises(ClientError) as caught, Client(SyncHttpTransport(url)) as client:
        client.health.get()

    assert caught.value.reason == "Transport"
