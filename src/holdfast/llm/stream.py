"""One provider turn: `prepare` compiles it, `stream` yields what each network read completed, `generate` folds that.

Nothing here runs a tool or continues on its own."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from holdfast.llm.errors import LLMError, invalid_request
from holdfast.llm.model import Model, resolve
from holdfast.llm.response import Response, fold
from holdfast.llm.route.eventstream import AwsFrames
from holdfast.llm.route.executor import DEFAULT_RETRY, Retry, exchange, read_bounded
from holdfast.llm.route.transport import HttpRequest, HttpResponse, Transport, content_type
from holdfast.schema.codec import decode_any
from holdfast.schema.sse import FrameTooLarge, SSEFrames

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from holdfast.llm.body import Draft
    from holdfast.llm.event import Event
    from holdfast.llm.request import Message, Request

FRAME_LIMIT = 16 * 1024 * 1024
STREAM_TYPES = {
    "sse": ("text/event-stream", "application/octet-stream", ""),
    "aws-eventstream": ("application/vnd.amazon.eventstream", "application/octet-stream", ""),
}


class Prepared(NamedTuple):
    """A compiled request, not sent. Its draft can be extended with what the conversation adds, at the cost of that."""

    model: Model
    request: Request
    """With all options resolved; its messages are those it was prepared with."""
    draft: Draft

    @property
    def route_id(self) -> str:
        return self.model.route.id

    @property
    def protocol_id(self) -> str:
        return self.model.route.protocol.id

    @property
    def transport_id(self) -> str:
        return self.model.route.transport

    def extend(self, messages: Sequence[Message]) -> None:
        self.model.route.protocol.extend(self.draft, self.model, messages)

    def chunks(self) -> list[bytes]:
        """The body as it will be sent, cache markers in place."""
        if self.draft.empty:
            raise invalid_request("a request needs at least one message")
        marker, newest = self.model.route.protocol.markers(self.request)
        return self.draft.chunks(marker=marker, newest=newest if self.model.capabilities.caching else 0)

    @property
    def body(self) -> bytes:
        return b"".join(self.chunks())


def prepare(model: Model, request: Request) -> Prepared:
    """Merge options, check and lower. Raises LLMError before anything is sent."""
    resolved = resolve(model, request)
    prepared = Prepared(model, resolved, model.route.protocol.start(model, resolved))
    prepared.extend(resolved.messages)
    return prepared


async def stream(
    transport: Transport, model: Model, request: Request | Prepared, *, retry: Retry = DEFAULT_RETRY
) -> AsyncGenerator[list[Event], None]:
    """Events in order, grouped by network read. Closing the iterator, or cancelling, releases the connection."""
    prepared = request if isinstance(request, Prepared) else prepare(model, request)
    route = model.route
    deadline = route.timeouts.total
    try:
        async with asyncio.timeout(deadline), aclosing(_stream(transport, prepared, retry)) as batches:
            async for batch in batches:
                yield batch
    except TimeoutError as error:
        raise LLMError(
            "Transport", f"the turn took longer than {deadline:g} s (total limit)", kind="timeout"
        ) from error


async def generate(transport: Transport, model: Model, request: Request, *, retry: Retry = DEFAULT_RETRY) -> Response:
    """The whole answer at once."""
    events: list[Event] = []
    async with aclosing(stream(transport, model, request, retry=retry)) as batches:
        async for batch in batches:
            events += batch
    response = fold(events)
    if response.reason is None:
        raise LLMError("InvalidProviderOutput", "the answer ended without a terminal finish event")
    return response


async def _stream(transport: Transport, prepared: Prepared, retry: Retry) -> AsyncGenerator[list[Event], None]:
    model, route = prepared.model, prepared.model.route
    request = http_request(prepared)
    response = await exchange(transport, request, route.auth.secrets(), retry)
    decoder = route.protocol.decoder(model, prepared.request)
    try:
        await _check_type(route.protocol.framing, response)
        frames = SSEFrames(FRAME_LIMIT) if route.protocol.framing == "sse" else AwsFrames(FRAME_LIMIT)
        async with aclosing(response.chunks()) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                events = [event for frame in frames.feed(chunk) for event in decoder.feed(frame)]
                if events:
                    yield events
                if decoder.done:
                    return
        last = [event for frame in frames.finish() for event in decoder.feed(frame)]
        last += decoder.finish()
        if last:
            yield last
    except FrameTooLarge as error:
        raise LLMError("InvalidProviderOutput", f"{route.protocol.name}: {error}") from error
    finally:
        await response.close()


def http_request(prepared: Prepared) -> HttpRequest:
    """Headers of the route, then of the request, then the credential over the exact bytes."""
    model, route = prepared.model, prepared.model.route
    overlay = prepared.request.http
    url = route.url(model.id, overlay.query if overlay else None)
    body = prepared.chunks()
    headers = {
        **dict(route.headers),
        **((overlay and overlay.headers) or {}),
        "content-type": "application/json",
    }
    headers |= route.auth.headers(url, headers, body)
    headers.setdefault("accept", "text/event-stream" if route.protocol.framing == "sse" else "*/*")
    return HttpRequest(url, headers, body, route.timeouts)


async def _check_type(framing: str, response: HttpResponse) -> None:
    kind = content_type(response)
    if kind in STREAM_TYPES[framing]:
        return
    text, _ = await read_bounded(response)
    try:
        body = decode_any(text)
    except msgspec.DecodeError:
        body = None
    if isinstance(body, dict) and body.get("error") is not None:
        raise _error_in_success(body, text)
    raise LLMError("InvalidProviderOutput", f"expected a stream, got {kind}: {text.strip()[:200]}", raw=text)


def _error_in_success(body: dict[str, object], text: str) -> LLMError:
    from holdfast.llm.errors import classify, excerpt

    verdict = classify(None, body, text)
    return LLMError(
        verdict.reason,
        f"the provider answered 200 with an error: {excerpt(text)}",
        kind=verdict.kind,
        classification=verdict.classification,
        retryable=verdict.retryable,
        status=200,
    )
