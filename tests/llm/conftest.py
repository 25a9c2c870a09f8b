"""A checker for the life of a provider turn, and a transport that plays a response."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any

from holdfast.llm import event as ev
from holdfast.llm.protocols.openai_chat import ChatDecoder
from holdfast.llm.route.transport import HttpRequest
from holdfast.schema.codec import encode


def check_lifecycle(events: Sequence[ev.Event]) -> None:
    """One step, each block and call opened and closed once and in order, one ending."""
    started = False
    opened: dict[str, ev.Event] = {}
    known: set[str] = set()
    called: set[str] = set()
    for index, event in enumerate(events):
        match event:
            case ev.StepStart():
                assert not started
                started = True
                continue
            case ev.ProviderError():
                assert index == len(events) - 1
                return
            case ev.StepFinish():
                assert not opened, f"still open: {opened}"
                assert known >= called
                last = events[index + 1 :]
                assert last == [ev.Finish(event.reason, event.usage)]
                assert started
                return
        assert started, f"{event} before the step began"
        _check_block(event, opened, known, called)
    raise AssertionError("the turn has no end")


def _check_block(event: ev.Event, opened: dict[str, ev.Event], known: set[str], called: set[str]) -> None:
    match event:
        case ev.TextStart(id) | ev.ReasoningStart(id) | ev.ToolInputStart(id):
            assert id not in known, f"{id} was started twice"
            known.add(id)
            opened[id] = event
        case ev.TextDelta(id, text=text) | ev.ReasoningDelta(id, text=text) | ev.ToolInputDelta(id, text=text):
            assert id in opened
            assert text
        case ev.TextEnd(id) | ev.ReasoningEnd(id) | ev.ToolInputEnd(id):
            del opened[id]
        case ev.ToolCall(id, name):
            assert id in known
            assert id not in opened
            assert id not in called
            called.add(id)
            assert name
        case _:
            raise AssertionError(f"{event} has no place here")


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> bytes:
    """One frame of a Chat stream."""
    return encode({"choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}], **more})


def decode(*frames: bytes) -> list[ev.Event]:
    """A whole stream through a fresh decoder, its life checked."""
    decoder = ChatDecoder()
    events = [event for frame in frames for event in decoder.feed(frame)] + decoder.finish()
    check_lifecycle(events)
    return events


class PlayedResponse:
    def __init__(self, status: int, content_type: str, chunks: AsyncIterator[bytes]) -> None:
        self.status = status
        self.content_type = content_type
        self._chunks = chunks
        self.closed = 0

    def chunks(self) -> AsyncIterator[bytes]:
        return self._chunks

    async def close(self) -> None:
        self.closed += 1


class PlayedTransport:
    """Answers every request with the same response; remembers what was asked and whether it was let go."""

    def __init__(
        self,
        body: Iterable[bytes] | Callable[[], AsyncIterator[bytes]] = (),
        *,
        status: int = 200,
        content_type: str = "text/event-stream",
    ) -> None:
        self._body = body
        self._status = status
        self._content_type = content_type
        self.requests: list[HttpRequest] = []
        self.responses: list[PlayedResponse] = []
        self.read = 0

    async def send(self, request: HttpRequest) -> PlayedResponse:
        self.requests.append(request)
        chunks = self._body() if callable(self._body) else self._play(self._body)
        response = PlayedResponse(self._status, self._content_type, chunks)
        self.responses.append(response)
        return response

    async def close(self) -> None:
        pass

    async def _play(self, body: Iterable[bytes]) -> AsyncIterator[bytes]:
        for piece in body:
            self.read += len(piece)
            yield piece


def sse(*frames: bytes) -> list[bytes]:
    return [b"data: " + frame + b"\n\n" for frame in frames]
