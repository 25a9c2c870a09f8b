"""Requests as they are sent, answers as they are read."""

from __future__ import annotations

import msgspec
import pytest
from tests.client.conftest import FakeResponse, FakeTransport, failure

from holdfast.client.async_core import AsyncCore
from holdfast.client.call import Operation, Options
from holdfast.client.errors import ApiError, ClientError
from holdfast.client.generated.async_client import AsyncClient
from holdfast.client.http import HttpTransport
from holdfast.schema.exceptions import ServiceUnavailable
from holdfast.schema.location import Location
from holdfast.schema.model import ModelRef
from holdfast.schema.prompt import PromptInput

pytestmark = pytest.mark.anyio

TIME = {"created": 1, "updated": 1}
TOKENS = {"input": 0, "output": 0, "reasoning": 0, "cache": {"read": 0, "write": 0}}
SESSION = {
    "id": "ses_1",
    "projectID": "global",
    "cost": 0,
    "tokens": TOKENS,
    "time": TIME,
    "title": "t",
    "location": {"directory": "/"},
}


def answer() -> FakeResponse:
    return FakeResponse(200, msgspec.json.encode({"data": SESSION}))


async def test_a_call_is_one_request() -> None:
    """API-304, API-307: path quoted, body only with a payload, absent inputs left out, `{data}` unwrapped."""
    transport = FakeTransport(answer(), answer())
    client = AsyncClient(transport)
    assert transport.requests == []
    got = await client.sessions.get("ses_a/b c")
    await client.sessions.create(
        agent="plan", model=ModelRef(id="m", provider_id="p"), location=Location(directory="/")
    )

    assert (got.id, got.project_id) == ("ses_1", "global")
    read, written = transport.requests
    assert (read.method, read.target, read.body) == ("GET", "/api/session/ses_a%2Fb%20c", None)
    assert "content-type" not in read.headers
    assert (written.method, written.target) == ("POST", "/api/session")
    assert written.headers["content-type"] == "application/json"
    assert msgspec.json.decode(written.body or b"") == {
        "agent": "plan",
        "model": {"id": "m", "providerID": "p"},
        "location": {"directory": "/"},
    }
    assert all(response.closed for response in transport.responses)


@pytest.mark.parametrize("id", ["", ".", ".."])
async def test_an_id_never_leads_to_another_operation(id: str) -> None:
    """API-307: on its way a path loses such segments: taking an input back would delete its whole Session."""
    transport = FakeTransport()
    client = AsyncClient(transport)
    with pytest.raises(ValueError, match="messageID"):
        await client.sessions.withdraw("ses_1", message_id=id)
    with pytest.raises(ValueError, match="sessionID"):
        client.sessions.events(id)

    assert transport.requests == []


async def test_queries_leave_out_what_is_absent() -> None:
    """API-307: None dropped, everything quoted."""
    page = b'{"data":[],"cursor":{"previous":null,"next":null}}'
    transport = FakeTransport(FakeResponse(200, page), FakeResponse(200, page))
    client = AsyncClient(transport)
    await client.sessions.list()
    await client.sessions.list(limit=2, search="a&b=c", directory="/x y")

    assert [request.target for request in transport.requests] == [
        "/api/session",
        "/api/session?limit=2&search=a%26b%3Dc&directory=%2Fx+y",
    ]


async def test_lists_and_objects_in_a_query() -> None:
    """API-307: lists repeat the key, objects become `key[child]`."""
    transport = FakeTransport(FakeResponse(200, b"1"))
    query = {"none": None, "many": ["a", "b"], "location": {"directory": "/x", "workspace": None}}
    operation: Operation[int] = Operation("GET", "/q", frozenset(), "bare", int)
    assert await AsyncCore(transport).call(operation, query=query) == 1

    assert transport.requests[0].target == "/q?many=a&many=b&location%5Bdirectory%5D=%2Fx"


@pytest.mark.parametrize("spelling", ["x-mine", "X-Mine"])
async def test_headers_of_a_call_win_over_the_clients(spelling: str) -> None:
    """API-307, API-308: header names have no case, so exactly one value goes out."""
    transport = FakeTransport(answer())
    client = AsyncClient(transport, headers={"x-mine": "client", "x-other": "kept"})
    await client.sessions.get("ses_1", options=Options(headers={spelling: "call"}))

    sent = [(name.lower(), value) for name, value in transport.requests[0].headers.items()]
    assert [value for name, value in sent if name == "x-mine"] == ["call"]
    assert ("x-other", "kept") in sent


async def test_a_given_content_type_is_kept() -> None:
    """API-307: set only if it was not given."""
    transport = FakeTransport(answer())
    options = Options(headers={"Content-Type": "application/json; charset=utf-8"})
    await AsyncClient(transport).sessions.create(options=options)

    kinds = [value for name, value in transport.requests[0].headers.items() if name.lower() == "content-type"]
    assert kinds == ["application/json; charset=utf-8"]


async def test_a_declared_failure_is_an_api_error() -> None:
    """API-309, API-310: tag, status and the whole body."""
    client = AsyncClient(FakeTransport(failure(404, "SessionNotFoundError", sessionID="ses_1")))
    with pytest.raises(ApiError) as caught:
        await client.sessions.get("ses_1")

    error = caught.value
    assert (error.code, error.status, str(error)) == ("SessionNotFoundError", 404, "SessionNotFoundError!")
    assert error.body == {"_tag": "SessionNotFoundError", "message": "SessionNotFoundError!", "sessionID": "ses_1"}


async def test_every_status_that_an_operation_declares_is_an_api_error() -> None:
    """API-309: the set belongs to the operation: 409 is declared for prompt and not for get."""
    client = AsyncClient(FakeTransport(failure(409, "ConflictError"), failure(409, "ConflictError")))
    with pytest.raises(ApiError):
        await client.sessions.prompt("ses_1", prompt=PromptInput(text="x"))
    with pytest.raises(ClientError) as caught:
        await client.sessions.get("ses_1")

    assert (caught.value.reason, caught.value.status) == ("UnexpectedStatus", 409)


async def test_a_failure_that_is_not_declared_says_what_the_server_said() -> None:
    """API-309: its message rather than its document; what is no document is shown as it begins."""
    body = b'{"_tag":"ConflictError","message":"no space left"}'
    client = AsyncClient(FakeTransport(FakeResponse(418, body), FakeResponse(502, HTML, content_type="text/html")))
    told = []
    for _ in range(2):
        with pytest.raises(ClientError) as caught:
            await client.sessions.get("ses_1")
        told.append(str(caught.value))

    assert told == ["the server answered 418: no space left", f"the server answered 502: {HTML.decode()}"]


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (FakeResponse(503, b'{"_tag":"ServiceUnavailableError","message":"no database"}'), "no database"),
        (FakeResponse(503, b"<html>busy", content_type="text/html"), "the server answered 503: <html>busy"),
        (FakeResponse(503, b"{"), "the server answered 503: {"),
        (FakeResponse(503, b'{"error":"upstream"}'), 'the server answered 503: {"error":"upstream"}'),
    ],
    ids=["declared elsewhere", "a proxy", "malformed", "another document"],
)
async def test_an_outage_is_one_exception_for_every_operation(response: FakeResponse, message: str) -> None:
    """API-309: whether the server or something before it answers, and whether the operation declares it."""
    client = AsyncClient(FakeTransport(response))
    with pytest.raises(ServiceUnavailable) as caught:
        await client.sessions.outcome("ses_1")
    assert (str(caught.value), caught.value.status) == (message, 503)


HTML = b"<html>login</html>"


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (FakeResponse(418, b"{}"), "UnexpectedStatus"),
        (FakeResponse(403, HTML, content_type="text/html"), "UnexpectedStatus"),
        (FakeResponse(502, HTML, content_type="text/html"), "UnexpectedStatus"),
        (FakeResponse(302, b""), "UnexpectedStatus"),
        (FakeResponse(200, HTML, content_type="text/html"), "UnsupportedContentType"),
        (FakeResponse(200, b'{"data":{}}', content_type=""), "UnsupportedContentType"),
        (FakeResponse(200, b""), "MalformedResponse"),
        (FakeResponse(200, b"{"), "MalformedResponse"),
        (FakeResponse(200, b"null"), "MalformedResponse"),
        (FakeResponse(200, b'{"data":{"id":"ses_1"}}'), "MalformedResponse"),
        (FakeResponse(200, b'{"data":{"id":"ses_\xff"}}'), "MalformedResponse"),
        (FakeResponse(200, b'{"data":' + b"[" * 5000), "MalformedResponse"),
        (FakeResponse(200, b'{"x":' + b"[" * 5000), "MalformedResponse"),
        (FakeResponse(404, b""), "MalformedResponse"),
        (FakeResponse(404, b"{"), "MalformedResponse"),
        (FakeResponse(404, HTML, content_type="text/html"), "UnsupportedContentType"),
        (ClientError("Transport", "gone"), "Transport"),
        (FakeResponse(200, b'{"da', failure=ClientError("Transport", "cut")), "Transport"),
    ],
)
async def test_any_other_failure_has_a_reason(response: FakeResponse | ClientError, reason: str) -> None:
    """API-309: four reasons; a declared status does not excuse a body that is no JSON."""
    transport = FakeTransport(response)
    with pytest.raises(ClientError) as caught:
        await AsyncClient(transport).sessions.get("ses_1")

    assert caught.value.reason == reason
    assert all(given.closed for given in transport.responses)


async def test_a_void_operation_reads_nothing() -> None:
    """API-304: 204 is None."""
    transport = FakeTransport(FakeResponse(204, b"", content_type=""), failure(503, "ServiceUnavailableError"))
    client = AsyncClient(transport)
    await client.sessions.wait("ses_1")
    with pytest.raises(ApiError):
        await client.sessions.wait("ses_1")

    assert all(response.closed for response in transport.responses)


async def test_pages_and_history_keep_their_envelopes() -> None:
    """API-225, API-304: items with two cursors, events with `has_more`."""
    event = b'{"id":"evt_1","type":"x","durable":{"aggregateID":"ses_1","seq":1,"version":1},"data":{"a":1}}'
    cursor = b'"cursor":{"previous":"p","next":"n"}'
    transport = FakeTransport(
        FakeResponse(200, b'{"data":[%s],%s}' % (msgspec.json.encode(SESSION), cursor)),
        FakeResponse(200, b'{"data":[],"cursor":{}}'),
        FakeResponse(200, b'{"data":[%s],"hasMore":true}' % event),
    )
    client = AsyncClient(transport)
    page = await client.sessions.list()
    empty = await client.sessions.list(cursor="n")
    history = await client.sessions.history("ses_1", after=0)

    assert ([item.id for item in page.items], page.previous, page.next) == (["ses_1"], "p", "n")
    assert (empty.items, empty.previous, empty.next) == ([], None, None)
    assert ([item.id for item in history.events], history.has_more) == (["evt_1"], True)
    assert transport.requests[2].target == "/api/session/ses_1/history?after=0"


async def test_an_unreachable_server_is_a_transport_failure() -> None:
    """API-309: nobody listens; constructing the transport did nothing yet."""
    transport = HttpTransport("http://127.0.0.1:1")
    with pytest.raises(ClientError) as caught:
        await AsyncClient(transport).health.get()
    await transport.close()

    assert caught.value.reason == "Transport"


@pytest.mark.parametrize("url", ["localhost:4096", "ftp://localhost", "http://[", "http://localhost:port"])
async def test_a_url_that_is_none_is_a_transport_failure(url: str) -> None:
    """API-309: whatever is wrong with the address, callers handle one error."""
    with pytest.raises(ClientError) as caught:
        await AsyncClient(HttpTransport(url)).health.get()

    assert caught.value.reason == "Transport"
