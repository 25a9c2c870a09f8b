"""What the tests of this package share: models, a transport that plays back, and random conversations."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st
from tests.llm.lifecycle_checker import LifecycleChecker

from holdfast.llm import event as ev
from holdfast.llm.errors import LLMError
from holdfast.llm.model import Capabilities, Model
from holdfast.llm.protocols.anthropic_messages import HEADERS, AnthropicMessages
from holdfast.llm.protocols.base import Decoder
from holdfast.llm.protocols.openai_chat import OpenAIChat
from holdfast.llm.request import (
    NO_CACHE,
    MediaPart,
    Message,
    Part,
    ReasoningPart,
    Request,
    TextPart,
    ToolCallPart,
    ToolDefinition,
    ToolResult,
    ToolResultPart,
    assistant,
    make_request,
    update,
    user,
)
from holdfast.llm.route.auth import Auth, KeyAuth
from holdfast.llm.route.retry import Retry, RetryLimits
from holdfast.llm.route.route import Route
from holdfast.llm.route.transport import HttpRequest, HttpResponse, Timeouts
from holdfast.llm.stream import prepare, stream
from holdfast.schema.codec import decode_any, encode

KEY = "sk-live-0123456789abcdef"
PNG = "iVBORw0KGgo="
WEATHER = ToolDefinition(
    name="get_weather",
    description="Get current weather for a city.",
    input_schema={
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
)


def chat_model(
    id: str = "gpt-4o-mini",
    *,
    base_url: str = "https://api.openai.com/v1",
    auth: Auth | None = None,
    timeouts: Timeouts | None = None,
    protocol: OpenAIChat | None = None,
    **changes: Any,
) -> Model:
    protocol = protocol or OpenAIChat()
    auth = KeyAuth(KEY) if auth is None else auth
    route = Route("openai-chat", protocol, base_url, auth, timeouts=timeouts or Timeouts())
    return Model(id, "openai", route, **changes)


def claude(
    id: str = "claude-haiku-4-5",
    *,
    base_url: str = "https://api.anthropic.com/v1",
    timeouts: Timeouts | None = None,
    **changes: Any,
) -> Model:
    auth = KeyAuth(KEY, header="x-api-key", scheme="", source="ANTHROPIC_API_KEY")
    protocol = AnthropicMessages()
    route = Route("anthropic", protocol, base_url, auth, headers=HEADERS, timeouts=timeouts or Timeouts())
    return Model(id, "anthropic", route, **changes)


def body(model: Model, request: Request) -> Any:
    return decode_any(prepare(model, request).body)


def lowered(model: Model, *messages: Message) -> Any:
    """Only the conversation, without automatic markers."""
    return body(model, make_request(messages=messages, cache=NO_CACHE))["messages"]


# -- answers ---------------------------------------------------------------------------------------------------------


def sse(*values: object) -> bytes:
    return b"".join(b"data: " + encode(value) + b"\n\n" for value in values)


def chunk(delta: object = None, finish: str | None = None, **more: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": {} if delta is None else delta, "finish_reason": finish}], **more}


HELLO_CHAT = sse(chunk({"content": "Hé"}), chunk({"content": "llo"}), chunk(finish="stop")) + b"data: [DONE]\n\n"
HELLO_CLAUDE = sse(
    {"type": "message_start", "message": {"usage": {"input_tokens": 3, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hé"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "llo"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
    {"type": "message_stop"},
)


class Played:
    """A response from a list of pieces; a piece may be an exception."""

    def __init__(
        self, pieces: Iterable[bytes | BaseException], status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        self.status = status
        self.headers = {"content-type": "text/event-stream"} if headers is None else dict(headers)
        self._pieces = list(pieces)
        self.read = 0
        self.closed = 0
        self.released = False
        self.kept = 0

    def release(self) -> None:
        self.kept += 1

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            for piece in self._pieces:
                if isinstance(piece, BaseException):
                    raise piece
                self.read += 1
                yield piece
        finally:
            self.released = True

    async def close(self) -> None:
        self.closed += 1


class Playback:
    """Answers in order; the last answer is repeated."""

    def __init__(self, *answers: HttpResponse | LLMError | Callable[[], Any]) -> None:
        self._answers = answers
        self.requests: list[HttpRequest] = []

    async def send(self, request: HttpRequest) -> HttpResponse:
        answer = self._answers[min(len(self.requests), len(self._answers) - 1)]
        self.requests.append(request)
        if isinstance(answer, LLMError):
            raise answer
        return await answer() if callable(answer) else answer

    async def close(self) -> None:
        pass


def play(data: bytes, size: int = 0) -> Played:
    """All at once, or in pieces of a size."""
    return Played([data[at : at + size] for at in range(0, len(data), size)] if size else [data])


class Naps:
    """A sleep that only remembers, and moves its own clock."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.seconds: list[float] = []
        self._began = now

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)

    def now(self) -> float:
        return self._began + sum(self.seconds)


def no_wait(total_seconds: int = 0, **changes: Any) -> Retry:
    """One attempt, or as many as fit into the given time, which passes at once."""
    naps = Naps()
    limits = RetryLimits(total_seconds=total_seconds)
    return Retry(limits, sleep=naps, now=naps.now, chance=lambda: 0.5, **changes)


async def collect(model: Model, response: HttpResponse | Playback, request: Request | None = None) -> list[ev.Event]:
    transport = response if isinstance(response, Playback) else Playback(response)
    batches: AsyncGenerator[list[ev.Event], None] = stream(
        transport, model, request or make_request(prompt="hi"), retry=no_wait()
    )
    checker = LifecycleChecker()
    events: list[ev.Event] = []
    async for batch in batches:
        for event in batch:
            checker.see(event)
        events += batch
    assert checker.ended
    return events


async def failure(model: Model, response: HttpResponse | Playback, request: Request | None = None) -> LLMError:
    """The error that a turn ends with; anything but an LLMError is a failed test."""
    try:
        events = await collect(model, response, request)
    except LLMError as error:
        return error
    raise AssertionError(f"no error, but {events}")


def decode(decoder: Decoder, *frames: object) -> list[ev.Event]:
    """Frames given as values or bytes, through to the end of the stream."""
    checker = LifecycleChecker()
    events: list[ev.Event] = []
    for frame in frames:
        events += decoder.feed(frame if isinstance(frame, bytes) else encode(frame))
    events += decoder.finish()
    for event in events:
        checker.see(event)
    assert checker.ended
    return events


def refused(decoder: Decoder, *frames: object) -> tuple[list[ev.Event], LLMError]:
    """The events before, and the error."""
    checker = LifecycleChecker()
    events: list[ev.Event] = []
    try:
        for frame in frames:
            events += decoder.feed(frame if isinstance(frame, bytes) else encode(frame))
        events += decoder.finish()
    except LLMError as error:
        for event in events:
            checker.see(event)
        return events, error
    raise AssertionError(f"no error, but {events}")


def survive(decoder: Decoder, frames: Iterable[bytes]) -> None:
    """Events in order that can be stored, up to an end or an LLMError fit to be shown."""
    checker = LifecycleChecker()
    failed: LLMError | None = None
    try:
        for frame in frames:
            for event in decoder.feed(frame):
                _see(checker, event)
        for event in decoder.finish():
            _see(checker, event)
    except LLMError as error:
        failed = error
    if failed is None:
        assert checker.ended
    else:
        assert failed.reason in ("InvalidProviderOutput", "Transport")
        assert len(failed.message) < 700


def _see(checker: LifecycleChecker, event: ev.Event) -> None:
    checker.see(event)
    for field in ("text", "id", "name"):
        assert isinstance(getattr(event, field, ""), str)
    encode(event)


def merged(events: Sequence[ev.Event]) -> list[ev.Event]:
    """Neighbouring deltas of a block as one, to compare what was said rather than in which pieces."""
    out: list[ev.Event] = []
    for event in events:
        last = out[-1] if out else None
        if isinstance(event, ev.TextDelta) and isinstance(last, ev.TextDelta) and last.id == event.id:
            out[-1] = ev.TextDelta(event.id, last.text + event.text)
        elif isinstance(event, ev.ReasoningDelta) and isinstance(last, ev.ReasoningDelta) and last.id == event.id:
            out[-1] = ev.ReasoningDelta(event.id, last.text + event.text)
        elif isinstance(event, ev.ToolInputDelta) and isinstance(last, ev.ToolInputDelta) and last.id == event.id:
            out[-1] = ev.ToolInputDelta(event.id, event.name, last.text + event.text)
        else:
            out.append(event)
    return out


# -- random conversations --------------------------------------------------------------------------------------------

TEXTS = st.text(alphabet='ab <>&"\\\n]}é\U0001f600', min_size=0, max_size=8)
INPUTS = st.one_of(
    st.dictionaries(st.sampled_from(["city", "é"]), st.one_of(TEXTS, st.integers(-5, 5), st.none()), max_size=2)
)


@st.composite
def _results(draw: st.DrawFn) -> ToolResult:
    kind = draw(st.sampled_from(["text", "json", "error", "content"]))
    if kind != "content":
        return ToolResult(type=kind, value=draw(INPUTS) if kind == "json" else draw(TEXTS))  # type: ignore[arg-type]
    text = {"type": "text", "text": draw(TEXTS)}
    image = {"type": "file", "uri": f"data:image/png;base64,{PNG}", "mime": "image/png"}
    return ToolResult(type="content", value=draw(st.lists(st.sampled_from([text, image]), max_size=3)))


@st.composite
def _user_messages(draw: st.DrawFn) -> Message:
    part = st.one_of(TEXTS.map(lambda text: TextPart(text=text)), st.just(MediaPart(media_type="image/png", data=PNG)))
    return user(*draw(st.lists(part, min_size=1, max_size=3)))


@st.composite
def _assistant_turns(draw: st.DrawFn, number: int) -> list[Message]:
    """What a model said, and one tool message for each local call of it."""
    parts: list[Part] = []
    if draw(st.booleans()):
        signed = {"anthropic": {"signature": "sig"}} if draw(st.booleans()) else None
        parts.append(ReasoningPart(text=draw(TEXTS), provider_metadata=signed))
    parts += [TextPart(text=text) for text in draw(st.lists(TEXTS, max_size=2))]
    calls = [
        ToolCallPart(id=f"call.{number}.{index}", name="get_weather", input=draw(INPUTS))
        for index in range(draw(st.integers(0, 3)))
    ]
    results = [
        Message(role="tool", content=(ToolResultPart(id=call.id, name=call.name, result=draw(_results())),))
        for call in calls
    ]
    return [assistant(*parts, *calls), *results]


@st.composite
def conversations(draw: st.DrawFn) -> list[list[Message]]:
    """Additions to a conversation, one list for each request: new input, updates, and what the model answered, if it
    did."""
    additions: list[list[Message]] = []
    for number in range(draw(st.integers(1, 5))):
        added: list[Message] = []
        if number and draw(st.booleans()):
            added += draw(_assistant_turns(number))
        if number == 0 or draw(st.booleans()):
            added.append(draw(_user_messages()))
        added += [update(text) for text in draw(st.lists(TEXTS, max_size=2))]
        additions.append(added)
    additions[0].insert(0, user("begin"))
    return additions


def requests_of(model: Model, additions: Sequence[Sequence[Message]]) -> list[bytes]:
    """The body of each request, without markers, each prepared anew from the whole history."""
    history: list[Message] = []
    bodies: list[bytes] = []
    for added in additions:
        history += added
        bodies.append(prepare(model, make_request(system="rules", messages=history, cache=NO_CACHE)).body)
    return bodies


def grown(model: Model, additions: Sequence[Sequence[Message]]) -> list[bytes]:
    """The same bodies from one draft, extended message by message."""
    prepared = prepare(model, make_request(system="rules", messages=[], cache=NO_CACHE))
    bodies: list[bytes] = []
    for added in additions:
        for message in added:
            prepared.extend([message])
        bodies.append(prepared.body)
    return bodies


CLOSINGS = (b'"}]}', b"]}]}", b"}]}")


def unclosed(data: bytes) -> bytes:
    """Without the bytes that close the last message and the body."""
    return next(data.removesuffix(closing) for closing in CLOSINGS if data.endswith(closing))


def replace_capabilities(model: Model, **changes: Any) -> Model:
    return model.replace(capabilities=Capabilities(**changes))
