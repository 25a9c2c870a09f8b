"""One provider turn over a transport that plays it: good streams, bad statuses, odd bodies, broken connections."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.llm.conftest import PlayedTransport, chunk, sse

from holdfast.llm import event as ev
from holdfast.llm.errors import LLMError, Reason
from holdfast.llm.protocols.openai_chat import OpenAIChat
from holdfast.llm.request import Message, Request, TextPart
from holdfast.llm.route.route import Route
from holdfast.llm.route.transport import Timeouts
from holdfast.llm.stream import ERROR_BODY_LIMIT, stream
from holdfast.schema.codec import encode

pytestmark = pytest.mark.anyio

SECRET = "sk-very/secret+123"
ROUTE = Route(
    OpenAIChat(),
    "https://host/v1/",
    headers=(("x-own", "1"), ("Accept", "z")),
    secret=SECRET,
    timeouts=Timeouts(idle=3),
)
REQUEST = Request(
    model="m",
    system=(),
    messages=(Message(role="user", content=(TextPart(text="hi"),)),),
    tools=(),
    headers={"X-Session-Id": "ses_1"},
)
GOOD = [chunk({"content": "Hel"}), chunk({"content": "lo"}), chunk({}, "stop"), b"[DONE]"]


async def run(transport: PlayedTransport) -> list[ev.Event]:
    return [event async for batch in stream(transport, ROUTE, REQUEST) for event in batch]


async def failure(transport: PlayedTransport) -> LLMError:
    with pytest.raises(LLMError) as raised:
        await run(transport)
    assert [response.closed for response in transport.responses] == [1]
    return raised.value


async def test_what_goes_out_and_what_comes_back() -> None:
    """LLM-043, LLM-044, LLM-360: URL, headers, body and limits; batches as the network brought them."""
    transport = PlayedTransport(sse(*GOOD))
    batches = [batch async for batch in stream(transport, ROUTE, REQUEST)]
    assert [len(batch) for batch in batches] == [3, 1, 1, 2]
    (sent,) = transport.requests
    assert sent.url == "https://host/v1/chat/completions"
    assert {name.lower(): value for name, value in sent.headers.items()} == {
        "x-own": "1",
        "x-session-id": "ses_1",
        "accept": "text/event-stream",
        "authorization": f"Bearer {SECRET}",
        "content-type": "application/json",
    }
    assert sent.body == OpenAIChat().encode(REQUEST)
    assert sent.timeouts == Timeouts(idle=3)
    assert transport.responses[0].closed == 1


async def test_a_header_is_sent_once_however_it_is_spelled() -> None:
    """LLM-044: what we set replaces a configured header of the same name; names have no case."""
    configured = ROUTE._replace(
        headers=(("Authorization", "Basic x"), ("Content-Type", "text/plain"), ("ACCEPT", "*/*"))
    )
    transport = PlayedTransport(sse(*GOOD))
    async for _ in stream(transport, configured, REQUEST):
        pass
    names = sorted(name.lower() for name in transport.requests[0].headers)
    assert names == ["accept", "authorization", "content-type", "x-session-id"]


async def test_any_cut_gives_the_same_events() -> None:
    """LLM-361: one byte at a time, and all at once."""
    whole = b"".join(sse(*GOOD))
    expected = await run(PlayedTransport([whole]))
    assert await run(PlayedTransport(whole[index : index + 1] for index in range(len(whole)))) == expected
    assert expected[-1] == ev.Finish("stop")


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (400, b"bad", "InvalidRequest"),
        (401, b"who", "Authentication"),
        (403, b"no", "Authentication"),
        (402, b"pay", "QuotaExceeded"),
        (404, b"", "InvalidRequest"),
        (413, b"big", "InvalidRequest"),
        (429, b"slow down", "RateLimit"),
        (429, b'{"error":{"code":"insufficient_quota"}}', "QuotaExceeded"),
        (500, b"oops", "ProviderInternal"),
        (529, b"busy", "ProviderInternal"),
        (302, b"", "UnknownProvider"),
    ],
)
async def test_a_status_is_a_reason(status: int, body: bytes, reason: Reason) -> None:
    """LLM-331, LLM-332: and the message has the status and what the provider said."""
    error = await failure(PlayedTransport([body], status=status))
    assert (error.reason, error.status) == (reason, status)
    assert str(status) in error.message
    assert body.decode() in error.message


async def test_an_error_body_is_bounded() -> None:
    """LLM-338, LLM-363: an endless one is neither read to its end nor kept."""

    def endless() -> AsyncIterator[bytes]:
        async def body() -> AsyncIterator[bytes]:
            while True:
                transport.read += 1000
                yield b"x" * 1000

        return body()

    transport = PlayedTransport(endless, status=500)
    error = await failure(transport)
    assert transport.read <= ERROR_BODY_LIMIT + 2000
    assert len(error.message) < 1000


ECHOES = [
    f"the key {SECRET} is wrong",
    "the key sk-very%2Fsecret%2B123 is wrong",
    '{"error":{"api_key":"AKIA-other-key-999"}}',
    "Authorization: Bearer AKIA-other-key-999",
    "access_token=AKIA-other-key-999&x=1",
    '{"secret": "AKIA-other-key-999"}',
]


@pytest.mark.parametrize("echo", ECHOES, ids=["literal", "percent-encoded", "field", "header", "query", "spaced field"])
@pytest.mark.parametrize("where", ["status", "html", "frame", "error in the stream"])
async def test_a_secret_never_comes_back_in_a_message(echo: str, where: str) -> None:
    """LLM-339: wherever the provider echoes it, since messages become durable events."""
    match where:
        case "status":
            shown = (await failure(PlayedTransport([echo.encode()], status=401))).message
        case "html":
            shown = (await failure(PlayedTransport([echo.encode()], content_type="text/html"))).message
        case "frame":
            shown = (await failure(PlayedTransport(sse(b"<" + echo.encode())))).message
        case _:
            (event,) = await run(PlayedTransport(sse(encode({"error": {"message": echo}}))))
            assert isinstance(event, ev.ProviderError)
            shown = event.message
    assert "<redacted>" in shown
    for secret in (SECRET, "sk-very%2Fsecret", "AKIA-other-key-999"):
        assert secret not in shown


async def test_a_page_instead_of_a_stream() -> None:
    """LLM-361: HTML with status 200 is an error that shows what came, not an empty answer."""
    error = await failure(PlayedTransport([b"<html>Sign in</html>"], content_type="text/html"))
    assert error.reason == "InvalidProviderOutput"
    assert "text/html" in error.message
    assert "Sign in" in error.message


async def test_json_instead_of_a_stream() -> None:
    """LLM-361: an error object with status 200 likewise."""
    error = await failure(PlayedTransport([b'{"error":{"message":"quota"}}'], content_type="application/json"))
    assert "quota" in error.message


async def test_garbage_in_the_stream() -> None:
    """LLM-073: what was good before it is delivered, then the turn fails."""
    transport = PlayedTransport(sse(chunk({"content": "Hel"}), b"<html>"))
    batches = stream(transport, ROUTE, REQUEST)
    assert ev.TextDelta("text-0", "Hel") in await anext(batches)
    with pytest.raises(LLMError) as raised:
        await anext(batches)
    assert raised.value.reason == "InvalidProviderOutput"
    assert transport.responses[0].closed == 1


async def test_bytes_that_are_no_text_are_replaced() -> None:
    """LLM-361: invalid UTF-8 inside a frame costs a character, not the turn."""
    broken = chunk({"content": "caf@"}).replace(b"@", b"\xe9")
    events = await run(PlayedTransport(sse(broken, chunk({}, "stop"))))
    assert [event.text for event in events if isinstance(event, ev.TextDelta)] == ["caf\ufffd"]


@pytest.mark.parametrize("frames", [0, 1, 2])
async def test_a_stream_closed_in_the_middle_was_truncated(frames: int) -> None:
    """LLM-343: a Transport failure, however far it got; half a frame at the end is no excuse."""
    cut = [*sse(*GOOD[:frames]), b'data: {"choices":[{"delta":{"content":"x"}}]}']
    error = await failure(PlayedTransport(cut))
    assert error.reason == "Transport"
    assert "truncated" in error.message


async def test_a_connection_that_breaks_is_passed_on() -> None:
    """LLM-362: the transport's own error, after what was received."""

    def breaking() -> AsyncIterator[bytes]:
        async def body() -> AsyncIterator[bytes]:
            yield sse(GOOD[0])[0]
            raise LLMError("Transport", "reset by peer")

        return body()

    error = await failure(PlayedTransport(breaking))
    assert (error.reason, error.message) == ("Transport", "reset by peer")


async def test_an_event_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """LLM-363."""
    monkeypatch.setattr("holdfast.llm.stream.FRAME_LIMIT", 1000)
    error = await failure(PlayedTransport([b"data: " + b"x" * 600] * 3))
    assert error.reason == "InvalidProviderOutput"
    assert "1000" in error.message


async def test_leaving_early_lets_the_connection_go() -> None:
    """LLM-009: closing the iterator after the first batch closes the response and reads no further."""
    transport = PlayedTransport(sse(*GOOD))
    events = stream(transport, ROUTE, REQUEST)
    await anext(events)
    await events.aclose()
    assert transport.responses[0].closed == 1
    assert transport.read == len(sse(GOOD[0])[0])


async def test_being_cancelled_lets_the_connection_go() -> None:
    """LLM-010: the caller sees its own cancellation, not an error of the provider."""
    reading = asyncio.Event()

    def silent() -> AsyncIterator[bytes]:
        async def body() -> AsyncIterator[bytes]:
            yield sse(GOOD[0])[0]
            reading.set()
            await asyncio.Event().wait()

        return body()

    transport = PlayedTransport(silent)
    task = asyncio.create_task(run(transport))
    await reading.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert transport.responses[0].closed == 1
