"""Responses over a WebSocket, against a real server on loopback."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from tests.llm.support import Naps

from holdfast.llm import event as ev
from holdfast.llm.errors import LLMError
from holdfast.llm.limits import DEFAULT_LIMITS, AnswerLimits, AnswerTooLarge
from holdfast.llm.model import Model
from holdfast.llm.offline import ScriptedTransport
from holdfast.llm.protocols.openai_chat import OpenAIChat
from holdfast.llm.providers.openai import openai_model
from holdfast.llm.request import (
    HttpOverlay,
    Message,
    Request,
    TextPart,
    ToolCallPart,
    ToolDefinition,
    ToolResult,
    assistant,
    make_request,
    tool_result,
    user,
)
from holdfast.llm.response import Response, fold
from holdfast.llm.route import sockets as pool
from holdfast.llm.route.network import NetworkTransport
from holdfast.llm.route.retry import NO_RETRY, Retry
from holdfast.llm.route.sockets import Place, Sockets, socket_address
from holdfast.llm.route.transport import SchemeTransport, Timeouts, Transport
from holdfast.llm.stream import stream

pytestmark = pytest.mark.anyio

Frame = dict[str, Any]
Socket = web.WebSocketResponse
Answer = Callable[[Socket, Frame], Awaitable[None]]
NO_LIMITS = Timeouts()
RESULT = tool_result("call_1", "f", ToolResult(type="text", value="1"))
TOOL = ToolDefinition(name="f", description="", input_schema={"type": "object", "properties": {}})


class Provider:
    """Answers each `response.create` with the next of its answers, and keeps what it saw."""

    def __init__(self) -> None:
        self.url = ""
        self.answers: list[Answer] = []
        self.frames: list[Frame] = []
        self.handshakes: list[dict[str, str]] = []
        self.bodies: list[Frame] = []
        self.closes: list[int | None] = []
        self.closed = asyncio.Condition()
        self.refuse: int | None = None
        self.sockets: list[Socket] = []
        self.pong = asyncio.Event()

    async def socket(self, request: web.Request) -> web.StreamResponse:
        self.handshakes.append({name.lower(): value for name, value in request.headers.items()})
        if self.refuse is not None:
            return web.Response(status=self.refuse)
        socket = Socket(autoping=False)
        await socket.prepare(request)
        self.sockets.append(socket)
        try:
            while (message := await socket.receive()).type in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.PONG):
                if message.type is aiohttp.WSMsgType.PONG:
                    self.pong.set()
                    continue
                self.frames.append(json.loads(message.data))
                await self.answers.pop(0)(socket, self.frames[-1])
        finally:
            async with self.closed:
                self.closes.append(socket.close_code)
                self.closed.notify_all()
        return socket

    async def post(self, request: web.Request) -> web.StreamResponse:
        self.bodies.append(await request.json())
        text = "".join(f"data: {json.dumps(event)}\n\n" for event in spoken("over HTTP"))
        return web.Response(text=text, content_type="text/event-stream")

    async def gone(self, count: int) -> None:
        """Returns once that many sockets were closed."""
        async with self.closed, asyncio.timeout(5):
            await self.closed.wait_for(lambda: len(self.closes) >= count)


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    provider = Provider()
    app = web.Application()
    app.router.add_get("/v1/responses", provider.socket)
    app.router.add_post("/v1/responses", provider.post)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    provider.url = f"http://{host}:{port}/v1"
    yield provider
    await runner.cleanup()


@pytest.fixture
async def transport() -> AsyncIterator[NetworkTransport]:
    transport = NetworkTransport()
    yield transport
    await transport.close()


def model(provider: Provider, id: str = "gpt-4.1-mini", **more: Any) -> Model:
    return openai_model(id, "sk-test-key", transport="websocket", base_url=provider.url, **more)


def spoken(text: str, id: str = "resp_1") -> list[Frame]:
    item = {"type": "message", "id": f"msg_{id}", "phase": "final_answer", "content": [{"text": text}]}
    return [
        {"type": "response.created", "response": {"id": id}},
        {"type": "response.output_item.added", "item": {**item, "content": []}},
        {"type": "response.output_text.delta", "item_id": item["id"], "delta": text},
        {"type": "response.output_item.done", "item": item},
        {"type": "response.completed", "response": {"id": id}},
    ]


def called(id: str = "resp_1") -> list[Frame]:
    reasoning = {"type": "reasoning", "id": "rs_1", "encrypted_content": "secret"}
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": '{"a":1}'}
    return [
        {"type": "response.output_item.added", "item": reasoning},
        {"type": "response.reasoning_summary_text.delta", "item_id": "rs_1", "delta": "hm"},
        {"type": "response.output_item.done", "item": reasoning},
        *spoken("Let me see.", id)[1:-1],
        {"type": "response.output_item.done", "item": call},
        {"type": "response.completed", "response": {"id": id}},
    ]


def says(events: Iterable[Frame]) -> Answer:
    async def answer(socket: Socket, frame: Frame) -> None:
        for event in events:
            await socket.send_str(json.dumps(event))

    return answer


async def run(transport: Transport, model: Model, request: Request, limits: AnswerLimits = DEFAULT_LIMITS) -> Response:
    events: list[ev.Event] = []
    batches = stream(transport, model, request, limits=limits, retry=NO_RETRY)
    async with asyncio.timeout(10), aclosing(batches):
        async for batch in batches:
            events += batch
    return fold(events)


def ask(*messages: Message, **more: Any) -> Request:
    return make_request(system="Be brief.", messages=messages, **more)


def told(text: str) -> Frame:
    return {"role": "user", "content": [{"type": "input_text", "text": text}]}


@asynccontextmanager
async def no_new_tasks() -> AsyncIterator[None]:
    before = asyncio.all_tasks()
    yield
    await asyncio.sleep(0)
    left = [task for task in asyncio.all_tasks() - before if "idle socket" in task.get_name() or "llm" in repr(task)]
    assert not left


# -- one turn ------------------------------------------------------------------------------------------------------


async def test_a_turn_is_one_frame_there_and_events_back(provider: Provider, transport: NetworkTransport) -> None:
    """LLM-370: the body without `stream`, the credential in the handshake."""
    provider.answers = [says(spoken("Hello"))]
    chosen = model(provider, headers={"X-Session-Id": "ses_1"})
    response = await run(transport, chosen, ask(user("hi")))
    assert (response.text, response.reason) == ("Hello", "stop")
    assert provider.frames == [
        {
            "type": "response.create",
            "model": "gpt-4.1-mini",
            "store": False,
            "input": [{"role": "system", "content": "Be brief."}, told("hi")],
        }
    ]
    (handshake,) = provider.handshakes
    assert (handshake["authorization"], handshake["x-session-id"]) == ("Bearer sk-test-key", "ses_1")
    assert "content-type" not in handshake
    assert provider.bodies == []
    assert (chosen.route.id, chosen.route.transport) == ("openai-responses-websocket", "websocket")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://api.openai.com/v1/responses?a=b", "wss://api.openai.com/v1/responses?a=b"),
        ("http://h:1/x", "ws://h:1/x"),
    ],
)
async def test_a_websocket_address_is_made_from_the_http_one(url: str, expected: str) -> None:
    """LLM-370."""
    assert socket_address(url) == expected


async def test_a_websocket_address_of_another_scheme_is_refused(transport: NetworkTransport) -> None:
    """LLM-370: here, before anything is opened."""
    strange = openai_model("gpt-4.1-mini", "sk", transport="websocket", base_url="ftp://example.org")
    with pytest.raises(LLMError, match="needs an http or https address") as caught:
        await run(transport, strange, ask(user("hi")))
    assert caught.value.reason == "InvalidRequest"


async def test_binary_frames_are_read_like_text(provider: Provider, transport: NetworkTransport) -> None:
    """LLM-371."""

    async def answer(socket: Socket, frame: Frame) -> None:
        for event in spoken("Grüße"):
            await socket.send_bytes(json.dumps(event, ensure_ascii=False).encode())

    provider.answers = [answer]
    assert (await run(transport, model(provider), ask(user("hi")))).text == "Grüße"


async def test_the_socket_ends_in_good_order_with_the_transport(provider: Provider) -> None:
    """LLM-371: reading stops at the terminal event though the socket stays open; closed with 1000 when done with."""
    transport = NetworkTransport()
    provider.answers = [says([*spoken("Hello"), *spoken("late")])]
    assert (await run(transport, model(provider), ask(user("hi")))).text == "Hello"
    assert provider.closes == []
    async with no_new_tasks():
        await transport.close()
    await provider.gone(1)
    assert provider.closes == [1000]


@pytest.mark.parametrize("partial", [True, False])
@pytest.mark.parametrize(("code", "kind"), [(1000, "truncated"), (None, "truncated"), (1011, "close"), (4001, "close")])
async def test_a_socket_that_is_closed_too_early(
    provider: Provider, transport: NetworkTransport, code: int | None, kind: str, partial: bool
) -> None:
    """LLM-372, LLM-343: 1000 and 1005 end the frames, and the turn has no end; any other code says `close`."""

    async def answer(socket: Socket, frame: Frame) -> None:
        if partial:
            await says(spoken("par")[:3])(socket, frame)
        if code is None:
            assert socket._writer is not None
            await socket._writer.send_frame(b"", aiohttp.WSMsgType.CLOSE)  # no code at all, which is 1005
        else:
            await socket.close(code=code, message=b"because")

    provider.answers = [answer]
    with pytest.raises(LLMError) as caught:
        await run(transport, model(provider), ask(user("hi")))
    assert (caught.value.reason, caught.value.kind) == ("Transport", kind)
    assert len(provider.handshakes) == 1
    if kind == "close":
        assert f"{code} (because)" in caught.value.message


async def test_a_websocket_without_a_close_frame_fails(provider: Provider, transport: NetworkTransport) -> None:
    """LLM-372: without a close frame it is no normal end."""

    async def answer(socket: Socket, frame: Frame) -> None:
        await says(spoken("par")[:3])(socket, frame)
        _abort(socket)

    provider.answers = [answer]
    with pytest.raises(LLMError) as caught:
        await run(transport, model(provider), ask(user("hi")))
    assert (caught.value.reason, caught.value.kind) == ("Transport", "close")


def _abort(socket: Socket) -> None:
    assert socket._req is not None
    assert socket._req.transport is not None
    socket._req.transport.abort()


async def test_a_request_that_cannot_be_written(provider: Provider, transport: NetworkTransport) -> None:
    """LLM-372."""
    place = Place(socket_address(f"{provider.url}/responses"), ())
    socket = await transport.sockets.take(place, NO_LIMITS)
    _abort(provider.sockets[0])

    async def write() -> None:
        while True:  # until the end of the connection is noticed here
            await socket.send(b"{}")
            await asyncio.sleep(0)

    with pytest.raises(LLMError) as caught:
        await asyncio.wait_for(write(), 5)
    await socket.close()
    assert (caught.value.reason, caught.value.kind) == ("Transport", "write")


async def test_a_transport_without_websockets_is_a_transport_error(provider: Provider) -> None:
    """LLM-372."""
    with pytest.raises(LLMError, match="no WebSockets") as caught:
        await run(ScriptedTransport(), model(provider), ask(user("hi")))
    assert caught.value.reason == "Transport"


async def test_only_responses_has_a_socket(provider: Provider, transport: NetworkTransport) -> None:
    chosen = model(provider)
    chat = chosen.replace(route=chosen.route.replace(protocol=OpenAIChat()))
    with pytest.raises(LLMError, match="OpenAI Chat has no WebSocket form") as caught:
        await run(transport, chat, ask(user("hi")))
    assert caught.value.reason == "InvalidRequest"


async def test_the_transport_is_found_by_scheme(provider: Provider, transport: NetworkTransport) -> None:
    provider.answers = [says(spoken("Hello"))]
    both = SchemeTransport({"http": transport, "offline": ScriptedTransport()})
    assert (await run(both, model(provider), ask(user("hi")))).text == "Hello"


async def test_a_missing_key_is_noticed_before_the_handshake(provider: Provider, transport: NetworkTransport) -> None:
    """LLM-341."""
    keyless = openai_model("gpt-5", None, transport="websocket", base_url=provider.url)
    with pytest.raises(LLMError, match="OPENAI_API_KEY") as caught:
        await run(transport, keyless, ask(user("hi")))
    assert (caught.value.reason, caught.value.kind) == ("Authentication", "missing")
    assert provider.handshakes == []


# -- no socket to be had -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [404, 426, 500])
async def test_a_refused_handshake_falls_back_to_http(
    provider: Provider, transport: NetworkTransport, status: int
) -> None:
    """LLM-373, LLM-372: once per turn, with the body of HTTP; and the address is left alone for a while."""
    provider.refuse = status
    for turn in (1, 2):
        assert (await run(transport, model(provider), ask(user("hi")))).text == "over HTTP"
        assert (len(provider.handshakes), len(provider.bodies)) == (1, turn)
    assert provider.bodies[0]["stream"] is True


async def test_a_redirect_of_a_handshake_is_not_followed(transport: NetworkTransport) -> None:
    """LLM-372: the handshake holds a credential."""
    seen: list[str] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        seen.append(request.path)
        return web.Response(status=307, headers={"location": "/elsewhere"})

    runner = web.ServerRunner(web.Server(handle))  # type: ignore[arg-type]
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    place = Place(f"ws://127.0.0.1:{runner.addresses[0][1]}/here", (("api-key", "secret"),))
    with pytest.raises(LLMError, match="HTTP 307"):
        await transport.sockets.take(place, NO_LIMITS)
    await runner.cleanup()
    assert seen == ["/here"]


async def test_a_refusal_is_forgotten_in_time(provider: Provider, transport: NetworkTransport) -> None:
    """LLM-372, LLM-373: a failure before open is Transport `open`."""
    now = 0.0
    sockets = Sockets(lambda: now)
    place = Place(socket_address(f"{provider.url}/responses"), ())
    provider.refuse = 403
    with pytest.raises(LLMError, match="HTTP 403") as caught:
        await sockets.take(place, NO_LIMITS)
    assert (caught.value.reason, caught.value.kind) == ("Transport", "open")
    provider.refuse, now = None, pool.REFUSED_SECONDS - 1
    with pytest.raises(LLMError, match="a short while ago"):
        await sockets.take(place, NO_LIMITS)
    now += 1
    await (await sockets.take(place, NO_LIMITS)).close()
    assert len(provider.handshakes) == 2


@asynccontextmanager
async def silent_server(*, hang_up: bool) -> AsyncIterator[tuple[str, asyncio.Event, asyncio.Event]]:
    """Takes a connection and says nothing; hangs up at once or waits for the other side to."""
    arrived, left = asyncio.Event(), asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        arrived.set()
        if not hang_up:
            await reader.read()
        left.set()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/", arrived, left


async def test_a_handshake_that_is_cut_or_never_answered(transport: NetworkTransport) -> None:
    """LLM-372: Transport `open`, at once when it is closed, else within the connect limit."""
    for hang_up, limits in ((True, Timeouts(connect=None)), (False, Timeouts(connect=0.05))):
        async with silent_server(hang_up=hang_up) as (url, _, left), asyncio.timeout(5):
            with pytest.raises(LLMError) as caught:
                await transport.sockets.take(Place(url, ()), limits)
            assert (caught.value.reason, caught.value.kind) == ("Transport", "open")
            await left.wait()


async def test_an_abort_while_opening_closes_the_socket(transport: NetworkTransport) -> None:
    """LLM-372, LLM-010."""
    async with silent_server(hang_up=False) as (url, arrived, left), asyncio.timeout(5):
        opening = asyncio.create_task(transport.sockets.take(Place(url, ()), NO_LIMITS))
        await arrived.wait()
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        await left.wait()


# -- several turns -------------------------------------------------------------------------------------------------


async def test_the_next_turn_sends_only_what_is_new(provider: Provider, transport: NetworkTransport) -> None:
    """LLM-373: on the same socket, with the id of the response before; options and tools are said again."""
    provider.answers = [says(called()), says(spoken("It is 1.", "resp_2")), says(spoken("Bye.", "resp_3"))]
    chosen = model(provider, "gpt-5.5")
    first = await run(transport, chosen, ask(user("hi"), tools=[TOOL]))
    history = [
        user("hi"),
        Message(role="assistant", content=first.parts),
        RESULT,
    ]
    second = await run(transport, chosen, ask(*history, tools=[TOOL]))
    history += [Message(role="assistant", content=second.parts), user("thanks"), user("bye")]
    third = await run(transport, chosen, ask(*history, tool_choice="none", tools=[TOOL]))
    assert third.text == "Bye."
    head = {key: value for key, value in provider.frames[0].items() if key != "input"}
    assert provider.frames[1:] == [
        {
            **head,
            "previous_response_id": "resp_1",
            "input": [{"type": "function_call_output", "call_id": "call_1", "output": "1"}],
        },
        {**head, "tool_choice": "none", "previous_response_id": "resp_2", "input": [told("thanks"), told("bye")]},
    ]
    assert len(provider.handshakes) == 1


def _without_native(parts: Iterable[Any]) -> list[Any]:
    plain: list[Any] = []
    for part in parts:
        match part:
            case TextPart():
                plain.append(TextPart(text=part.text))
            case ToolCallPart():
                plain.append(ToolCallPart(id=part.id, name=part.name, input=part.input))
            case _:
                pass  # a history that keeps no metadata has nothing left of reasoning that can be sent
    return plain


def _texts_only(parts: Iterable[Any]) -> list[Any]:
    return [TextPart(text=part.text) if isinstance(part, TextPart) else part for part in parts]


@pytest.mark.parametrize("keep", [_without_native, _texts_only])
async def test_a_history_without_native_details_is_still_the_same(
    provider: Provider, transport: NetworkTransport, keep: Callable[[Iterable[Any]], list[Any]]
) -> None:
    """LLM-373: the provider knows those details better than any replay of them."""
    provider.answers = [says(called()), says(spoken("It is 1.", "resp_2"))]
    first = await run(transport, model(provider), ask(user("hi")))
    history = [
        user("hi"),
        assistant(*keep(first.parts)),
        RESULT,
    ]
    await run(transport, model(provider), ask(*history))
    assert provider.frames[1]["previous_response_id"] == "resp_1"
    assert len(provider.frames[1]["input"]) == 1


def _answered(first: Response, text: str = "hi") -> list[Message]:
    return [user(text), Message(role="assistant", content=first.parts), user("more")]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(lambda first: ask(*_answered(first, "ho")), id="other input"),
        pytest.param(lambda first: ask(user("hi"), assistant("changed"), user("more")), id="other answer"),
        pytest.param(lambda first: ask(user("hi")), id="the same again"),
        pytest.param(lambda first: ask(*_answered(first)[:2]), id="nothing new"),
        pytest.param(lambda first: make_request(messages=_answered(first)), id="other system text"),
        pytest.param(
            lambda first: ask(*_answered(first), http=HttpOverlay(body={"previous_response_id": "mine"})),
            id="an id of one's own",
        ),
    ],
)
async def test_another_conversation_is_sent_whole(
    provider: Provider, transport: NetworkTransport, other: Callable[[Response], Request]
) -> None:
    """LLM-373: on the same socket, but without reference to what was said there."""
    provider.answers = [says(spoken("Hello")), says(spoken("Again", "resp_2"))]
    first = await run(transport, model(provider), ask(user("hi")))
    request = other(first)
    await run(transport, model(provider), request)
    frame = provider.frames[1]
    assert frame.get("previous_response_id") == ("mine" if request.http else None)
    whole = len(request.messages) + len(request.system)
    assert (len(frame["input"]), len(provider.handshakes)) == (whole, 1)


async def test_another_model_starts_from_the_beginning(provider: Provider, transport: NetworkTransport) -> None:
    """LLM-373, LLM-140."""
    provider.answers = [says(spoken("Hello")), says(spoken("Again", "resp_2"))]
    first = await run(transport, model(provider), ask(user("hi")))
    await run(transport, model(provider, "gpt-4.1"), ask(*_answered(first)))
    assert "previous_response_id" not in provider.frames[1]


async def test_an_incomplete_response_is_not_built_on(provider: Provider, transport: NetworkTransport) -> None:
    """LLM-373."""
    cut = {"type": "response.incomplete", "response": {"id": "resp_1", "incomplete_details": {"reason": "x"}}}
    provider.answers = [says([*spoken("par")[:-1], cut]), says(spoken("Again", "resp_2"))]
    first = await run(transport, model(provider), ask(user("hi")))
    await run(transport, model(provider), ask(*_answered(first)))
    assert "previous_response_id" not in provider.frames[1]
    assert len(provider.handshakes) == 1


async def test_a_failed_turn_ends_its_socket(provider: Provider, transport: NetworkTransport) -> None:
    """LLM-373, LLM-271: the provider forgets the conversation with it."""
    failure = {"type": "error", "status": 429, "error": {"code": "rate_limit_exceeded", "message": "Slow down"}}
    provider.answers = [says([failure]), says(spoken("Again"))]
    response = await run(transport, model(provider), ask(user("hi")))
    assert response.error is not None
    assert (response.error.reason, response.error.retryable) == ("RateLimit", True)
    await provider.gone(1)
    assert (await run(transport, model(provider), ask(user("hi")))).text == "Again"
    assert len(provider.handshakes) == 2


async def test_one_turn_at_a_time_on_a_socket(provider: Provider, transport: NetworkTransport) -> None:
    """LLM-373: turns at the same time have sockets of their own; both are kept, and each knows its conversation."""
    both = asyncio.Barrier(2)

    def answer(id: str) -> Answer:
        async def together(socket: Socket, frame: Frame) -> None:
            await both.wait()
            await says(spoken(frame["input"][1]["content"][0]["text"], id))(socket, frame)

        return together

    provider.answers = [answer("resp_a"), answer("resp_b")]
    asked = ["one", "two"]
    answers = await asyncio.gather(*(run(transport, model(provider), ask(user(text))) for text in asked))
    assert [each.text for each in answers] == asked
    assert len(provider.handshakes) == 2
    ids = {
        frame["input"][1]["content"][0]["text"]: id
        for frame, id in zip(provider.frames, ["resp_a", "resp_b"], strict=True)
    }
    for text, answer_to in zip(asked, answers, strict=True):
        provider.answers = [says(spoken("more", "resp_c"))]
        await run(transport, model(provider), ask(*_answered(answer_to, text)))
        assert provider.frames[-1]["previous_response_id"] == ids[text]
    assert len(provider.handshakes) == 2


async def test_sessions_have_their_own_sockets(provider: Provider, transport: NetworkTransport) -> None:
    """LLM-373: the handshake's headers name Session and credential, so they are not shared across."""
    provider.answers = [says(spoken("Hello")), says(spoken("Hello"))]
    for session in ("ses_1", "ses_2"):
        await run(transport, model(provider, headers={"x-session-id": session}), ask(user("hi")))
    assert [handshake["x-session-id"] for handshake in provider.handshakes] == ["ses_1", "ses_2"]


@pytest.mark.parametrize("code", ["previous_response_not_found", "websocket_connection_limit_reached"])
async def test_a_provider_that_forgot_is_told_everything_again(
    provider: Provider, transport: NetworkTransport, code: str
) -> None:
    """LLM-373: once, on a new socket; the caller sees nothing of it."""
    forgot = {"type": "error", "status": 400, "error": {"code": code, "message": "x"}}
    provider.answers = [says(spoken("Hello")), says([forgot]), says(spoken("Again", "resp_2"))]
    first = await run(transport, model(provider), ask(user("hi")))
    assert (await run(transport, model(provider), ask(*_answered(first)))).text == "Again"
    assert [frame.get("previous_response_id") for frame in provider.frames] == [None, "resp_1", None]
    assert len(provider.handshakes) == 2


async def test_a_repeated_connection_limit_error_ends_the_turn(provider: Provider, transport: NetworkTransport) -> None:
    forgot = {"type": "error", "error": {"code": "websocket_connection_limit_reached", "message": "x"}}
    provider.answers = [says(spoken("Hello")), says([forgot]), says([forgot])]
    first = await run(transport, model(provider), ask(user("hi")))
    again = await run(transport, model(provider), ask(*_answered(first)))
    assert again.error is not None
    assert again.error.code == "websocket_connection_limit_reached"
    assert provider.answers == []


@pytest.mark.parametrize("code", [1000, 1001, None])
async def test_a_socket_that_goes_when_it_is_used_again(
    provider: Provider, transport: NetworkTransport, code: int | None
) -> None:
    """LLM-373: nothing was heard of the turn, so it is sent on a new one."""

    async def leave(socket: Socket, frame: Frame) -> None:
        if code is None:
            _abort(socket)
        else:
            await socket.close(code=code)

    provider.answers = [says(spoken("Hello")), leave, says(spoken("Again", "resp_2"))]
    first = await run(transport, model(provider), ask(user("hi")))
    assert (await run(transport, model(provider), ask(*_answered(first)))).text == "Again"
    assert "previous_response_id" not in provider.frames[2]


@pytest.mark.parametrize(("code", "requests"), [(1011, 2), (4001, 2), (1008, 1), (1003, 1)])
async def test_a_socket_closed_before_output_is_tried_again_unless_the_code_refuses(
    provider: Provider, transport: NetworkTransport, code: int, requests: int
) -> None:
    """LLM-410"""

    async def leave(socket: Socket, frame: Frame) -> None:
        await socket.close(code=code)

    provider.answers = [leave, says(spoken("Hello"))]
    naps = Naps()
    batches = stream(transport, model(provider), ask(user("hi")), retry=Retry(sleep=naps, now=naps.now))
    events: list[ev.Event] = []
    with suppress(LLMError):
        async for batch in batches:
            events += batch
    assert len(provider.frames) == requests
    assert bool(events) == (requests == 2)


@pytest.mark.parametrize("kind", ["close", "truncated"])
async def test_nothing_is_sent_again_once_something_was_heard(
    provider: Provider, transport: NetworkTransport, kind: str
) -> None:
    """LLM-350, LLM-353."""

    async def break_off(socket: Socket, frame: Frame) -> None:
        await says(spoken("par", "resp_2")[:1])(socket, frame)
        if kind == "close":
            _abort(socket)
        else:
            await socket.close()

    provider.answers = [says(spoken("Hello")), break_off]
    first = await run(transport, model(provider), ask(user("hi")))
    with pytest.raises(LLMError) as caught:
        await run(transport, model(provider), ask(*_answered(first)))
    assert caught.value.kind == kind
    assert len(provider.frames) == 2


# -- between turns -------------------------------------------------------------------------------------------------


async def test_an_idle_socket_answers_pings(provider: Provider, transport: NetworkTransport) -> None:
    """LLM-373: a tool may take longer than a provider waits for a sign of life."""
    provider.answers = [says(spoken("Hello")), says(spoken("Again", "resp_2"))]
    first = await run(transport, model(provider), ask(user("hi")))
    await provider.sockets[0].ping()
    async with asyncio.timeout(5):
        await provider.pong.wait()
    await run(transport, model(provider), ask(*_answered(first)))
    assert len(provider.handshakes) == 1


async def test_an_idle_socket_that_the_provider_closed_is_not_used(
    provider: Provider, transport: NetworkTransport
) -> None:
    """LLM-373."""
    provider.answers = [says(spoken("Hello")), says(spoken("Again", "resp_2"))]
    first = await run(transport, model(provider), ask(user("hi")))
    await provider.sockets[0].close(code=1001)
    await provider.gone(1)
    assert (await run(transport, model(provider), ask(*_answered(first)))).text == "Again"
    assert (len(provider.frames), len(provider.handshakes)) == (2, 2)


async def test_an_unexpected_frame_ends_an_idle_socket(provider: Provider, transport: NetworkTransport) -> None:
    """LLM-373: it belongs to no turn and must not be taken for the beginning of the next."""
    provider.answers = [says(spoken("Hello")), says(spoken("Again", "resp_2"))]
    await run(transport, model(provider), ask(user("hi")))
    await provider.sockets[0].send_str('{"type":"error","error":{"code":"websocket_connection_limit_reached"}}')
    await provider.gone(1)
    assert (await run(transport, model(provider), ask(user("hi")))).text == "Again"
    assert len(provider.handshakes) == 2


async def test_idle_surplus_and_old_sockets_are_closed(
    provider: Provider, transport: NetworkTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LLM-373: when unused for long, when too many, and when too old."""
    monkeypatch.setattr(pool, "IDLE_SECONDS", 0.01)
    provider.answers = [says(spoken("Hello"))]
    await run(transport, model(provider), ask(user("hi")))
    await provider.gone(1)
    monkeypatch.setattr(pool, "IDLE_SECONDS", 60)
    monkeypatch.setattr(pool, "IDLE_LIMIT", 1)
    for session in ("ses_1", "ses_2"):
        provider.answers = [says(spoken("Hello"))]
        await run(transport, model(provider, headers={"x-session-id": session}), ask(user("hi")))
    await provider.gone(2)
    monkeypatch.setattr(pool, "AGE_SECONDS", 0)
    provider.answers = [says(spoken("Hello"))]
    await run(transport, model(provider, headers={"x-session-id": "ses_2"}), ask(user("hi")))
    assert len(provider.handshakes) == 4


# -- consumers -----------------------------------------------------------------------------------------------------


async def test_no_frame_is_lost_on_a_slow_consumer(provider: Provider, transport: NetworkTransport) -> None:
    """LLM-373: far more than fits between the two sides; the provider has to wait."""
    count, filler = 2000, "x" * 2000
    deltas = [
        {"type": "response.output_text.delta", "item_id": "msg_1", "delta": f"{index},", "obfuscation": filler}
        for index in range(count)
    ]
    provider.answers = [says([*deltas, {"type": "response.completed", "response": {"id": "resp_1"}}])]
    events: list[ev.Event] = []
    async with asyncio.timeout(20), aclosing(stream(transport, model(provider), ask(user("hi")))) as batches:
        async for batch in batches:
            events += batch
            if len(events) % 200 == 0:
                await asyncio.sleep(0.01)
    assert fold(events).text == "".join(f"{index}," for index in range(count))


async def _endless(socket: Socket, frame: Frame) -> None:
    while not socket.closed:
        await socket.send_str(json.dumps(spoken("more")[2]))
        await asyncio.sleep(0)


async def test_closing_the_iterator_closes_the_socket(provider: Provider, transport: NetworkTransport) -> None:
    """LLM-009: promptly, also while the provider goes on talking."""
    provider.answers = [_endless]
    async with no_new_tasks(), asyncio.timeout(5):
        async with aclosing(stream(transport, model(provider), ask(user("hi")))) as batches:
            async for _ in batches:
                break
        await provider.gone(1)
    provider.answers = [says(spoken("Hello"))]
    await run(transport, model(provider), ask(user("hi")))
    assert len(provider.handshakes) == 2


async def test_cancelling_closes_the_socket(provider: Provider, transport: NetworkTransport) -> None:
    """LLM-010: the caller sees the cancellation; no task is left."""
    asked = asyncio.Event()

    async def never(socket: Socket, frame: Frame) -> None:
        asked.set()

    provider.answers = [never]
    async with no_new_tasks(), asyncio.timeout(5):
        turn = asyncio.create_task(run(transport, model(provider), ask(user("hi"))))
        await asked.wait()
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        await provider.gone(1)


async def test_leaving_with_the_last_events_keeps_the_socket(provider: Provider, transport: NetworkTransport) -> None:
    """LLM-373: a consumer that has the finish need not come back for it to count."""
    provider.answers = [says(spoken("Hello")), says(spoken("Again", "resp_2"))]
    events: list[ev.Event] = []
    async with aclosing(stream(transport, model(provider), ask(user("hi")))) as batches:
        async for batch in batches:
            events += batch
            if isinstance(batch[-1], ev.Finish):
                break
    await run(transport, model(provider), ask(*_answered(fold(events))))
    assert provider.frames[1]["previous_response_id"] == "resp_1"


@pytest.mark.parametrize(
    ("limits", "said", "name"),
    [(Timeouts(first_byte=0.05), 0, "first-byte"), (Timeouts(idle=0.05, first_byte=5), 2, "inactivity")],
)
async def test_a_websocket_obeys_the_first_byte_and_idle_limits(
    provider: Provider, transport: NetworkTransport, limits: Timeouts, said: int, name: str
) -> None:
    """LLM-354."""
    provider.answers = [says(spoken("par")[:said])]
    with pytest.raises(LLMError, match=name) as caught:
        await run(transport, model(provider, timeouts=limits), ask(user("hi")))
    assert (caught.value.reason, caught.value.kind) == ("Transport", "timeout")
    await provider.gone(1)


async def test_a_frame_has_a_limit(provider: Provider, transport: NetworkTransport) -> None:
    """LLM-363."""
    provider.answers = [says(spoken("x" * 2000))]
    with pytest.raises(AnswerTooLarge, match="1000 bytes") as caught:
        await run(transport, model(provider), ask(user("hi")), AnswerLimits(frame_bytes=1000))
    assert (caught.value.reason, caught.value.setting) == ("InvalidProviderOutput", "frame_bytes")
    await provider.gone(1)


async def test_an_answer_on_a_socket_has_the_same_limits(provider: Provider, transport: NetworkTransport) -> None:
    """LLM-390: what arrived up to the limit is handed out, and the socket is closed."""
    provider.answers = [says(spoken("x" * 2000))]
    texts: list[str] = []

    async def read() -> None:
        async for batch in stream(transport, model(provider), ask(user("hi")), limits=AnswerLimits(part_bytes=1500)):
            texts.extend(event.text for event in batch if isinstance(event, ev.TextDelta))

    with pytest.raises(AnswerTooLarge, match=r"holdfast\.answer\.part_bytes"):
        await read()
    assert "".join(texts) == "x" * 1500
    await provider.gone(1)


async def test_a_frame_that_is_no_event(provider: Provider, transport: NetworkTransport) -> None:
    """LLM-073, LLM-339: ends the turn and its socket; no secret is in what is shown of it."""

    async def garbage(socket: Socket, frame: Frame) -> None:
        await socket.send_str("garbage sk-test-key")

    provider.answers = [garbage]
    with pytest.raises(LLMError) as caught:
        await run(transport, model(provider), ask(user("hi")))
    assert (caught.value.reason, caught.value.raw) == ("InvalidProviderOutput", "garbage <redacted>")
    await provider.gone(1)
