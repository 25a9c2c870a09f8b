"""Cassettes: the recorded answer to the recorded request, a readable error for any other, and no secret on disk."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.llm.aws_frames import event
from tests.llm.cassette import (
    Cassette,
    CassetteError,
    CassetteTransport,
    HttpInteraction,
    RecordingTransport,
    SocketFrame,
    SocketInteraction,
    SocketOpening,
    StoredRequest,
    StoredResponse,
    load,
    save,
)
from tests.llm.cassettes import either_cassettes

from holdfast.llm.errors import LLMError
from holdfast.llm.model import Model
from holdfast.llm.protocols.openai_chat import OpenAIChat
from holdfast.llm.providers.amazon import bedrock_route
from holdfast.llm.request import NO_CACHE, Generation, make_request
from holdfast.llm.route.auth import KeyAuth
from holdfast.llm.route.route import Route
from holdfast.llm.route.transport import HttpRequest
from holdfast.llm.stream import generate
from holdfast.schema.codec import decode_any, encode

pytestmark = pytest.mark.anyio

URL = "https://api.example.com/v1/chat/completions"
HEADERS = {"content-type": "application/json"}


def http(
    body: str, answer: str = "data: {}\n\n", *, url: str = URL, headers: Mapping[str, str] = HEADERS
) -> HttpInteraction:
    return HttpInteraction(
        request=StoredRequest(method="POST", url=url, headers=dict(headers), body=body),
        response=StoredResponse(status=200, headers={"content-type": "text/event-stream"}, body=answer),
    )


def cassette(*interactions: HttpInteraction | SocketInteraction) -> Cassette:
    return Cassette(version=1, metadata={"name": "a/test"}, interactions=interactions)


def request(body: bytes, *, url: str = URL, headers: Mapping[str, str] = HEADERS) -> HttpRequest:
    return HttpRequest(url, headers, [body[:3], body[3:]])


async def answer_of(transport: Any, sent: HttpRequest) -> bytes:
    response = await transport.send(sent)
    try:
        return b"".join([chunk async for chunk in response.chunks()])
    finally:
        await response.close()


async def refusal(sent: HttpRequest, *interactions: HttpInteraction) -> str:
    transport = CassetteTransport(cassette(*interactions))
    with pytest.raises(CassetteError) as caught:
        await transport.send(sent)
    await transport.close()  # which says no more: the run has failed already
    return str(caught.value)


# -- replay ------------------------------------------------------------------------------------------------------


async def test_requests_are_answered_in_order() -> None:
    """By a cursor: the same request may get two answers."""
    transport = CassetteTransport(cassette(http('{"a":1}', "one"), http('{"a":1}', "two")))
    assert await answer_of(transport, request(b'{"a":1}')) == b"one"
    assert await answer_of(transport, request(b'{"a":1}')) == b"two"
    await transport.close()


@pytest.mark.parametrize("size", [1, 2, 7, None])
async def test_bodies_come_in_pieces_of_any_size(size: int | None) -> None:
    transport = CassetteTransport(cassette(http("{}", "é" * 10)), chunk=size)
    response = await transport.send(request(b"{}"))
    pieces = [chunk async for chunk in response.chunks()]
    assert (response.status, response.headers) == (200, {"content-type": "text/event-stream"})
    assert b"".join(pieces).decode() == "é" * 10
    assert max(map(len, pieces)) == (size or 20)


async def test_bodies_compare_as_json() -> None:
    """The order of keys does not matter."""
    transport = CassetteTransport(cassette(http('{"a":[1,2],"b":"x"}')))
    assert await answer_of(transport, request(b'{"b": "x", "a": [1, 2]}'))


@pytest.mark.parametrize(
    ("recorded", "sent", "told"),
    [
        ('{"a":[1,2]}', b'{"a":[2,1]}', "body.a[0]: recorded 1, sent 2"),
        ('{"a":[1]}', b'{"a":[1,2]}', "body.a: recorded 1 items, sent 2"),
        ('{"a":{"b":"{\\"x\\":1}"}}', b'{"a":{"b":"{\\"x\\": 1}"}}', 'body.a.b: recorded "{\\"x\\":1}", sent'),
        ('{"a":1}', b"{}", "body.a: recorded 1, not sent"),
        ("{}", b'{"a":null}', "body.a: not recorded, sent null"),
        ('{"a":1}', b'{"a":true}', "body.a: recorded 1, sent true"),
        ('{"a":1}', b'{"a":"1"}', 'body.a: recorded 1, sent "1"'),
        ("{}", b"[]", "body: recorded {}, sent []"),
        ("{}", b"plain", 'body: recorded JSON, sent "plain"'),
        ("plain", b"other", 'body: recorded "plain", sent "other"'),
    ],
)
async def test_another_body_is_told_by_path(recorded: str, sent: bytes, told: str) -> None:
    message = await refusal(request(sent), http(recorded))
    assert message.startswith("cassette a/test, exchange 1 of 1: the request is not the recorded one\n")
    assert told in message


async def test_many_differences_are_not_all_told() -> None:
    recorded = '{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":"' + "x" * 500 + '"}'
    message = await refusal(request(b"{}"), http(recorded))
    assert "and 2 more" in message
    assert len(message) < 1000


async def test_a_request_with_another_address_or_header_does_not_match() -> None:
    stored = http("{}", headers={"content-type": "application/json", "openai-beta": "x"})
    message = await refusal(request(b"{}", url=URL + "?a=1"), stored)
    assert f'url: recorded "{URL}", sent "{URL}?a=1"' in message
    assert 'header openai-beta: recorded "x", sent null' in message


async def test_headers_that_were_not_recorded_do_not_matter() -> None:
    transport = CassetteTransport(cassette(http("{}")))
    sent = {"Content-Type": "application/json", "authorization": "Bearer k", "x-session-id": "s"}
    assert await answer_of(transport, request(b"{}", headers=sent))


async def test_a_credential_in_the_address_is_not_compared() -> None:
    transport = CassetteTransport(cassette(http("{}", url=f"{URL}?alt=sse&key=%3Credacted%3E")))
    assert await answer_of(transport, request(b"{}", url=f"{URL}?alt=sse&key=another"))


async def test_a_request_after_the_last_interaction_fails() -> None:
    transport = CassetteTransport(cassette(http("{}")))
    await transport.send(request(b"{}"))
    with pytest.raises(CassetteError, match=r"nothing more is recorded, but the run went on with POST https://api\."):
        await transport.send(request(b"{}"))


async def test_an_unused_interaction_fails_at_close() -> None:
    transport = CassetteTransport(cassette(http("{}"), http("{}")))
    await transport.send(request(b"{}"))
    with pytest.raises(CassetteError, match="the run ended with 1 recorded exchanges unused"):
        await transport.close()


async def test_a_whole_turn_from_a_cassette() -> None:
    """LLM-072: through framing and decoder, whatever the pieces; a mismatch is not mistaken for the provider's."""
    stream = (
        event("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "Hello"}})
        + event("messageStop", {"stopReason": "end_turn"})
        + event("metadata", {"usage": {"inputTokens": 1, "outputTokens": 1}})
    )
    route = bedrock_route("key")
    stored = HttpInteraction(
        request=StoredRequest(
            method="POST",
            url=route.url("m", None),
            headers=dict(HEADERS),
            body='{"messages":[{"content":[{"text":"hi"}],"role":"user"}],"modelId":"m"}',
        ),
        response=StoredResponse(
            status=200,
            headers={"content-type": "application/vnd.amazon.eventstream"},
            body=base64.b64encode(stream).decode(),
            body_encoding="base64",
        ),
    )
    model = Model("m", "amazon-bedrock", route)
    transport = CassetteTransport(cassette(stored, stored), chunk=5)
    response = await generate(transport, model, make_request(prompt="hi", cache=NO_CACHE))
    assert (response.text, response.reason) == ("Hello", "stop")
    with pytest.raises(CassetteError, match=r'body\.messages\[0\]\.content\[0\]\.text: recorded "hi", sent "ho"'):
        await generate(transport, model, make_request(prompt="ho", cache=NO_CACHE))


# -- files -------------------------------------------------------------------------------------------------------


def test_a_cassette_survives_its_file(tmp_path: Path) -> None:
    socket = SocketInteraction(
        open=SocketOpening(url="wss://x", headers={}),
        events=(
            SocketFrame(direction="client", kind="text", body="{}"),
            SocketFrame(direction="server", kind="binary", body="AAE=", body_encoding="base64"),
        ),
    )
    both = cassette(http("{}"), socket)
    save(tmp_path / "new" / "c.json", both)
    assert load(tmp_path / "new" / "c.json") == both
    stored = decode_any((tmp_path / "new" / "c.json").read_bytes())
    assert [list(item) for item in stored["interactions"]] == [
        ["transport", "request", "response"],
        ["transport", "open", "events"],
    ]
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["c.json"]


@pytest.mark.parametrize(
    ("content", "told"),
    [("{", "is not a cassette"), ('{"version":1}', "metadata"), ('{"version":2,"metadata":{},"interactions":[]}', "2")],
)
def test_a_file_that_is_no_cassette_is_refused(tmp_path: Path, content: str, told: str) -> None:
    (tmp_path / "c.json").write_text(content, encoding="utf-8")
    with pytest.raises(CassetteError, match=told):
        load(tmp_path / "c.json")
    with pytest.raises(CassetteError, match="is not a cassette"):
        load(tmp_path / "absent.json")


@either_cassettes
def test_files_are_read_without_loss(cassettes: Path) -> None:
    paths = sorted(cassettes.glob("*/*.json"))
    assert [path for path in paths if decode_any(encode(load(path))) != decode_any(path.read_bytes())] == []
    assert len(paths) > 20


@either_cassettes
@pytest.mark.parametrize("chunk", [1, 7, None])
async def test_a_bedrock_turn_is_replayed_whole(cassettes: Path, chunk: int | None) -> None:
    """LLM-294, LLM-297: the request of the recording, its answer, and nothing left over."""
    transport = CassetteTransport(load(cassettes / "bedrock-converse" / "streams-text.json"), chunk=chunk)
    response = await generate(
        transport,
        Model("us.amazon.nova-micro-v1:0", "amazon-bedrock", bedrock_route("key")),
        make_request(
            system="Reply with the single word 'Hello'.",
            prompt="Say hello.",
            generation=Generation(max_tokens=16, temperature=0),
            cache=NO_CACHE,
        ),
    )
    assert response.text == "Hello"
    await transport.close()


# -- recording ---------------------------------------------------------------------------------------------------


class Provider:
    """Answers with the given bodies; a body may be a failure."""

    def __init__(self, *answers: bytes | LLMError, kind: str = "text/event-stream") -> None:
        self._answers = iter(answers)
        self._kind = kind
        self.closed = False

    async def send(self, sent: HttpRequest) -> Answer:
        answer = next(self._answers)
        if isinstance(answer, LLMError):
            raise answer
        return Answer(answer, self._kind)

    async def close(self) -> None:
        self.closed = True


class Answer:
    def __init__(self, body: bytes, kind: str) -> None:
        self.status = 200
        self.headers = {"content-type": kind, "x-request-id": "r", "set-cookie": "c"}
        self._body = body

    def release(self) -> None:
        pass

    async def chunks(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self._body), 4):
            yield self._body[start : start + 4]

    async def close(self) -> None:
        pass


def recorder(inner: Provider, path: Path, **more: Any) -> RecordingTransport:
    return RecordingTransport(inner, path, {"name": "a/test", "tags": ["x"]}, now=lambda: 1440938160.0, **more)


async def test_a_recording_replays_its_answers_in_order(tmp_path: Path) -> None:
    """Headers of a list, the answers as they were read, in the order of the requests."""
    path = tmp_path / "c.json"
    provider = Provider(b"data: one\n\n", b"data: two\n\n")
    recording = recorder(provider, path)
    sent = {**HEADERS, "accept": "*/*", "authorization": "Bearer key-1234", "x-session-id": "s"}
    first = await recording.send(request(b'{"n":1}', headers=sent))
    assert await answer_of(recording, request(b'{"n":2}', headers=sent)) == b"data: two\n\n"
    assert [chunk async for chunk in first.chunks()] == [b"data", b": on", b"e\n\n"]
    await recording.close()
    assert provider.closed
    stored = {"content-type": "application/json", "accept": "*/*"}
    assert load(path) == Cassette(
        version=1,
        metadata={"name": "a/test", "tags": ["x"], "recordedAt": "2015-08-30T12:36:00Z"},
        interactions=(
            http('{"n":1}', "data: one\n\n", headers=stored),
            http('{"n":2}', "data: two\n\n", headers=stored),
        ),
    )
    replay = CassetteTransport(load(path))
    assert await answer_of(replay, request(b'{"n":1}', headers=sent)) == b"data: one\n\n"


async def test_a_turn_recorded_and_replayed(tmp_path: Path) -> None:
    """Through the whole stack: what one transport gave, the other gives."""
    answer = (
        b'data: {"choices":[{"delta":{"content":"Hello"}}]}\n\n'
        b'data: {"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}\n\n'
    )
    model = Model("m", "p", Route("r", OpenAIChat(), "https://api.example.com/v1", auth=KeyAuth("sk-secret")))
    recording = recorder(Provider(answer), tmp_path / "c.json")
    live = await generate(recording, model, make_request(prompt="hi"))
    await recording.close()
    replay = CassetteTransport(load(tmp_path / "c.json"), chunk=3)
    assert await generate(replay, model, make_request(prompt="hi")) == live
    await replay.close()
    assert b"sk-secret" not in (tmp_path / "c.json").read_bytes()


async def test_secrets_are_removed_from_recordings(tmp_path: Path) -> None:
    """LLM-339: of addresses, bodies and answers, plain and percent-encoded; an account gets another name."""
    recording = recorder(
        Provider(b"data: you sent token/42 and hidden\n\n"),
        tmp_path / "c.json",
        secrets=["hidden"],
        replace={"acc9": "{account}"},
    )
    sent = request(
        b'{"echo":"token/42"}',
        url="https://x/acc9/hidden/token%2F42?key=sesame&a=1",
        headers={"x-api-key": "token/42", "accept": "hidden"},
    )
    await answer_of(recording, sent)
    await recording.close()
    (interaction,) = load(tmp_path / "c.json").interactions
    assert interaction == HttpInteraction(
        request=StoredRequest(
            method="POST",
            url="https://x/{account}/<redacted>/<redacted>?key=<redacted>&a=1",
            headers={"accept": "<redacted>"},
            body='{"echo":"<redacted>"}',
        ),
        response=StoredResponse(
            status=200,
            headers={"content-type": "text/event-stream"},
            body="data: you sent <redacted> and <redacted>\n\n",
        ),
    )


async def test_a_binary_answer_is_kept_as_base64_unless_it_holds_a_secret(tmp_path: Path) -> None:
    """As base64; one with a secret in it is not kept, because it cannot be changed."""
    frames = event("messageStop", {"stopReason": "end_turn"})
    recording = recorder(Provider(frames, kind="application/vnd.amazon.eventstream"), tmp_path / "c.json")
    await answer_of(recording, request(b"{}"))
    await recording.close()
    (interaction,) = load(tmp_path / "c.json").interactions
    assert isinstance(interaction, HttpInteraction)
    assert (interaction.response.body_encoding, interaction.response.data) == ("base64", frames)
    leaking = recorder(Provider(event("metadata", {"echo": "sesame"})), tmp_path / "d.json", secrets=["sesame"])
    await answer_of(leaking, request(b"{}"))
    with pytest.raises(CassetteError, match="a secret would be in it"):
        await leaking.close()
    assert not (tmp_path / "d.json").exists()


async def test_a_secret_in_the_metadata_is_noticed(tmp_path: Path) -> None:
    recording = RecordingTransport(Provider(), tmp_path / "c.json", {"name": "sesame"}, secrets=["sesame"])
    with pytest.raises(CassetteError, match="not written"):
        await recording.close()


async def test_a_request_without_an_answer_is_not_kept(tmp_path: Path) -> None:
    recording = recorder(Provider(LLMError("Transport", "refused"), b"x"), tmp_path / "c.json")
    with pytest.raises(LLMError):
        await recording.send(request(b"{}"))
    await answer_of(recording, request(b'{"n":2}'))
    await recording.close()
    assert [
        item.request.body for item in load(tmp_path / "c.json").interactions if isinstance(item, HttpInteraction)
    ] == ['{"n":2}']


# -- WebSockets --------------------------------------------------------------------------------------------------

SOCKET = SocketInteraction(
    open=SocketOpening(url="wss://x/v1", headers={"openai-beta": "y"}),
    events=(
        SocketFrame(direction="client", kind="text", body='{"type":"response.create","n":1}'),
        SocketFrame(direction="server", kind="text", body='{"a":1}'),
        SocketFrame(direction="server", kind="binary", body="AAE=", body_encoding="base64"),
        SocketFrame(direction="client", kind="binary", body="AgM=", body_encoding="base64"),
        SocketFrame(direction="server", kind="text", body='{"b":1}'),
    ),
)
FIRST = '{"n":1,"type":"response.create"}'


async def test_a_socket_waits_for_its_turn() -> None:
    """What the provider said is released up to where the run speaks."""
    transport = CassetteTransport(cassette(SOCKET))
    socket = transport.socket("wss://x/v1", {"OpenAI-Beta": "y"})
    waiting = asyncio.create_task(socket.receive())
    await asyncio.sleep(0)
    assert not waiting.done()
    await socket.send(FIRST)
    assert await waiting == '{"a":1}'
    assert await socket.receive() == b"\x00\x01"
    await socket.send(b"\x02\x03")
    assert await socket.receive() == '{"b":1}'
    assert await socket.receive() is None
    await socket.close()
    await transport.close()


async def test_frames_that_do_not_fit() -> None:
    async def told(*frames: str | bytes) -> str:
        socket = CassetteTransport(cassette(SOCKET)).socket("wss://x/v1", {"openai-beta": "y"})
        *fitting, last = frames
        for sent in fitting:
            await socket.send(sent)
        with pytest.raises(CassetteError) as caught:
            await socket.send(last)
        return str(caught.value)

    assert "frame 1: the request is not the recorded one\n  body.n: recorded 1, sent 2" in await told(
        '{"type":"response.create","n":2}'
    )
    assert 'kind: recorded "text", sent "binary"' in await told(FIRST.encode())
    assert "before it had read what the provider said" in await told(FIRST, "{}")


async def test_a_socket_is_used_to_its_end() -> None:
    transport = CassetteTransport(cassette(SOCKET))
    socket = transport.socket("wss://x/v1", {"openai-beta": "y"})
    await socket.send(FIRST)
    with pytest.raises(CassetteError, match="closed with 4 recorded frames unused"):
        await transport.close()
    short = SocketInteraction(open=SOCKET.open, events=())
    socket = CassetteTransport(cassette(short)).socket("wss://x/v1", {"openai-beta": "y"})
    with pytest.raises(CassetteError, match="nothing more is recorded on this WebSocket"):
        await socket.send("{}")


async def test_a_socket_where_a_request_was_recorded_and_the_other_way_round() -> None:
    with pytest.raises(CassetteError, match="the recording has an HTTP request here"):
        CassetteTransport(cassette(http("{}"))).socket("wss://x/v1", {})
    with pytest.raises(CassetteError, match="the recording has a WebSocket here"):
        await CassetteTransport(cassette(SOCKET)).send(request(b"{}"))
    with pytest.raises(CassetteError, match=r'url: recorded "wss://x/v1", sent "wss://y"'):
        CassetteTransport(cassette(SOCKET)).socket("wss://y", {})
