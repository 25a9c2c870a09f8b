"""One provider turn: `prepare` compiles the request, `stream` yields events as they arrive, `generate` returns the
whole response. No tool is run, and no second turn is started."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

import msgspec

from holdfast.llm.errors import (
    Answered,
    LLMError,
    classify,
    excerpt,
    invalid_output,
    invalid_request,
    redact,
    sent_secrets,
    spoken,
)
from holdfast.llm.event import Finish, ProviderError
from holdfast.llm.explain import explain, reported
from holdfast.llm.limits import DEFAULT_LIMITS, AnswerLimits, AnswerTooLarge
from holdfast.llm.model import Model, resolve
from holdfast.llm.response import Fold, Response
from holdfast.llm.route.auth import refresh
from holdfast.llm.route.executor import exchange, read_bounded
from holdfast.llm.route.retry import DEFAULT_RETRY, Attempts, Retry
from holdfast.llm.route.transport import HttpRequest, HttpResponse, Transport, content_type
from holdfast.schema.codec import decode_any
from holdfast.schema.frozen import Frozen
from holdfast.schema.sse import FrameTooLarge, SSEFrames

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence

    from holdfast.llm.body import Draft
    from holdfast.llm.event import Event, Usage
    from holdfast.llm.pace import Pace
    from holdfast.llm.protocols.base import Decoder
    from holdfast.llm.request import Message, Request
    from holdfast.llm.route.eventstream import AwsFrames

SLICE = 16 * 1024
"""Bytes that are decoded at once, in about half a millisecond; then other tasks may run."""
STREAM_TYPES = {
    "sse": ("text/event-stream", "application/octet-stream", ""),
    "aws-eventstream": ("application/vnd.amazon.eventstream", "application/octet-stream", ""),
}


class Prepared(Frozen):
    """A compiled request that was not sent. Extending its draft costs as much as the added messages."""

    model: Model
    request: Request
    """With all options resolved. Messages added by `extend` are only in the draft."""
    draft: Draft

    def extend(self, messages: Sequence[Message]) -> None:
        self.model.route.protocol.extend(self.draft, self.model, messages)

    def followed_by(self, messages: Sequence[Message]) -> Prepared:
        """This request with system messages at its end, which stay out of the draft and out of the cached prefix. The
        cost does not depend on the length of the conversation."""
        assert all(message.role == "system" for message in messages)
        draft = self.draft.copy()
        draft.closing = True
        self.model.route.protocol.extend(draft, self.model, messages)
        draft.keep_marks(self.draft)
        return Prepared(self.model, self.request, draft)

    def chunks(self) -> list[bytes]:
        """The body as it will be sent, cache markers in place."""
        if self.draft.empty:
            raise invalid_request("a request needs at least one message")
        marker, newest = self.model.route.protocol.markers(self.draft, self.request)
        return self.draft.chunks(marker=marker, newest=newest if self.model.capabilities.caching else 0)

    @property
    def body(self) -> bytes:
        return b"".join(self.chunks())


def prepare(model: Model, request: Request) -> Prepared:
    """Merge options, validate, and encode for the protocol. Raises LLMError."""
    resolved = resolve(model, request)
    try:
        draft = model.route.protocol.start(model, resolved)
    except RecursionError:
        raise invalid_request("the schema of a tool, or an option, is nested too deeply", parameter="tools") from None
    prepared = Prepared(model, resolved, draft)
    draft.begin_conversation()
    prepared.extend(resolved.messages)
    return prepared


def stream(
    transport: Transport,
    model: Model,
    request: Request,
    *,
    retry: Retry = DEFAULT_RETRY,
    limits: AnswerLimits = DEFAULT_LIMITS,
) -> AsyncGenerator[list[Event], None]:
    """Prepare a request and send it: see `stream_prepared`."""
    return stream_prepared(transport, prepare(model, request), retry=retry, limits=limits)


def stream_prepared(
    transport: Transport,
    prepared: Prepared,
    *,
    retry: Retry = DEFAULT_RETRY,
    before: Callable[[], Awaitable[None]] | None = None,
    limits: AnswerLimits = DEFAULT_LIMITS,
    pace: Pace | None = None,
) -> AsyncGenerator[list[Event], None]:
    """Events in order, grouped by network read, or by slices of a large one. Closing the iterator, or cancelling,
    releases the connection. `retry` says which failures before any output are tried again, and when. `before` is
    awaited when everything is ready; nothing is sent until it returns. An answer that exceeds `limits` raises
    AnswerTooLarge after the events before it; `pace` says how fast it is read."""
    batches = _stream(transport, prepared, retry, before, limits, pace)
    total = prepared.model.route.timeouts.total
    return batches if total is None else _limited(batches, total)


async def _limited(batches: AsyncGenerator[list[Event], None], total: float) -> AsyncGenerator[list[Event], None]:
    deadline = asyncio.get_running_loop().time() + total
    async with aclosing(batches):
        step: list[Event] | None = []
        while step is not None:
            ended = bool(step) and isinstance(step[-1], Finish | ProviderError)
            try:
                # Around each step, not around the yield: the caller's own work must not be cancelled.
                async with asyncio.timeout_at(deadline):
                    step = await anext(batches, None)
            except TimeoutError as error:
                if ended:
                    return  # only the rest of the connection was being read
                message = f"the turn took longer than {total:g} s (total limit)"
                raise LLMError("Transport", message, kind="timeout") from error
            if step is not None:
                yield step


async def generate(
    transport: Transport,
    model: Model,
    request: Request,
    *,
    retry: Retry = DEFAULT_RETRY,
    before: Callable[[], Awaitable[None]] | None = None,
) -> Response:
    """The whole response. `before` is awaited when everything is ready; nothing is sent until it returns."""
    folding = Fold()
    async with aclosing(stream_prepared(transport, prepare(model, request), retry=retry, before=before)) as batches:
        async for batch in batches:
            folding.add(batch)
    response = folding.response()
    if response.reason is None:
        message = "the answer ended without a terminal finish event"
        raise LLMError("InvalidProviderOutput", message, usage=response.usage)
    return response


async def _stream(
    transport: Transport,
    prepared: Prepared,
    retry: Retry,
    before: Callable[[], Awaitable[None]] | None,
    limits: AnswerLimits,
    pace: Pace | None,
) -> AsyncGenerator[list[Event], None]:
    """Try until an attempt has output or fails permanently. Each attempt is signed again: credentials and signatures
    expire."""
    model = prepared.model
    attempts = Attempts(retry)
    while True:
        has_output = False
        report: ProviderError | None = None
        try:
            await refresh(model.route.auth)
            request = http_request(prepared, limits)
            if before is not None:
                await before()
                before = None
            async with aclosing(_attempt(transport, prepared, request, retry.now, limits, pace)) as batches:
                async for batch in batches:
                    if isinstance(last := batch[-1], ProviderError):
                        failed = reported(last, model)
                        report = msgspec.structs.replace(last, message=failed.message)
                        batch = [*batch[:-1], report]
                        if len(batch) == 1 and not has_output:
                            break
                    has_output = True
                    yield batch
                else:
                    return
        except LLMError as error:
            explain(error, model)
            if has_output:
                raise
            failed = error
        if await attempts.again(failed):
            continue
        if report is None:
            raise failed
        yield [msgspec.structs.replace(report, message=failed.message)]
        return


async def _attempt(
    transport: Transport,
    prepared: Prepared,
    request: HttpRequest,
    now: Callable[[], float],
    limits: AnswerLimits,
    pace: Pace | None,
) -> AsyncGenerator[list[Event], None]:
    model, route = prepared.model, prepared.model.route
    secrets = (*route.auth.secrets(), *sent_secrets(request.url, request.headers))
    if route.transport == "websocket":
        from holdfast.llm.route.websocket import socket_turn

        try:
            async with aclosing(socket_turn(transport, prepared, request, pace)) as batches:
                async for batch in batches:
                    yield _redacted(batch, secrets)
            return
        except LLMError as error:
            if error.kind != "open":
                error.redact(secrets)
                raise
            # No socket was opened and nothing was sent: use HTTP.
    response = await exchange(transport, request, secrets, now)
    decoder = route.protocol.decoder(model, prepared.request, limits)
    decoding = Decoding(decoder, limits)
    try:
        await _check_type(route.protocol.framing, response)
        frames = _frames(route.protocol.framing, limits.frame_bytes)
        async with aclosing(response.chunks()) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                for piece in _slices(chunk):
                    decoding.received(len(piece))
                    events, failed = decoding.events(frames.feed(piece))
                    if events:
                        yield _redacted(events, secrets)
                    if failed is not None:
                        raise failed
                    if decoder.done:
                        response.release()
                        return
                    wait = pace.wait_after(len(piece)) if pace is not None else 0.0
                    if wait or len(piece) == SLICE:
                        await asyncio.sleep(wait)
        events, failed = decoding.events(frames.finish(), last=True)
        if events:
            yield _redacted(events, secrets)
        if failed is not None:
            raise failed
    except FrameTooLarge as error:
        raise AnswerTooLarge("one event of the stream", limits.frame_bytes, "frame_bytes") from error
    except LLMError as error:
        if error.kind == "read":
            error.reword(f"Failed to read {model.provider}/{route.id} stream: {error.message}")
        if error.usage is None and error.reason == "Transport":
            error.usage = _used(decoder)
        error.redact(secrets)
        raise
    finally:
        await response.close()


def _frames(framing: str, limit: int) -> SSEFrames | AwsFrames:
    if framing == "sse":
        return SSEFrames(limit)
    from holdfast.llm.route.eventstream import AwsFrames

    return AwsFrames(limit)


def _slices(chunk: bytes) -> Iterator[bytes]:
    if len(chunk) <= SLICE:
        yield chunk
    else:
        for start in range(0, len(chunk), SLICE):
            yield chunk[start : start + SLICE]


class Decoding:
    """A decoder with limits on its input: on all bytes, and on frames without events, which the decoder may hold."""

    def __init__(self, decoder: Decoder, limits: AnswerLimits) -> None:
        self._decoder = decoder
        self._limits = limits
        self._received = 0
        self._silent = 0

    def received(self, size: int) -> None:
        self._received += size
        if self._received > self._limits.stream_bytes:
            raise AnswerTooLarge("the stream", self._limits.stream_bytes, "stream_bytes")

    def events(self, frames: Sequence[bytes], *, last: bool = False) -> tuple[list[Event], LLMError | None]:
        """The events before the first failure, and the failure. The result does not depend on how bytes were
        grouped."""
        events: list[Event] = []
        feed = self._decoder.feed
        try:
            for frame in frames:
                if batch := feed(frame):
                    events += batch
                else:
                    self._count_silent(len(frame))
            if last:
                events += self._decoder.finish()
        except AnswerTooLarge as error:
            return events + error.events, error
        except LLMError as error:
            return events, error
        return events, None

    def _count_silent(self, size: int) -> None:
        self._silent += size
        if self._silent > self._limits.turn_bytes:
            raise AnswerTooLarge("what adds nothing to the answer", self._limits.turn_bytes, "turn_bytes")


def _used(decoder: Decoder) -> Usage | None:
    """Usage so far of a turn that broke off."""
    try:
        events = decoder.finish()
    except LLMError as error:
        return error.usage
    return next((event.usage for event in events if isinstance(event, Finish)), None)


def _redacted(batch: list[Event], secrets: tuple[str, ...]) -> list[Event]:
    last = batch[-1]
    if not isinstance(last, ProviderError):
        return batch
    code = redact(last.code, secrets) if last.code else None
    return [*batch[:-1], msgspec.structs.replace(last, message=redact(last.message, secrets), code=code)]


def http_request(prepared: Prepared, limits: AnswerLimits = DEFAULT_LIMITS) -> HttpRequest:
    """Headers of the route, then of the request, then of the credential, which may sign the exact bytes."""
    model, route = prepared.model, prepared.model.route
    overlay = prepared.request.http
    url = route.url(model.id, overlay.query if overlay else None)
    body = prepared.chunks()
    accept = "text/event-stream" if route.protocol.framing == "sse" else "*/*"
    own = {"content-type": "application/json"}
    headers = _lower({"accept": accept}, dict(route.headers), (overlay and overlay.headers) or {}, own)
    headers = _lower(headers, route.auth.headers(url, headers, body), own)
    return HttpRequest(url, headers, body, route.timeouts, limits)


def _lower(*layers: Mapping[str, str]) -> dict[str, str]:
    """Lower-case header names; later layers replace earlier ones."""
    return {name.lower(): value for layer in layers for name, value in layer.items()}


async def _check_type(framing: str, response: HttpResponse) -> None:
    kind = content_type(response)
    if kind in STREAM_TYPES[framing]:
        return
    text, _ = await read_bounded(response)
    try:
        body = decode_any(text)
    except (msgspec.DecodeError, RecursionError):
        body = None
    if isinstance(body, dict) and body.get("error") is not None:
        raise _error_in_success(body, text)
    raise invalid_output(f"expected a stream, got {kind[:100]}", text)


def _error_in_success(body: dict[str, object], text: str) -> LLMError:
    verdict = classify(None, body, text)
    return LLMError(
        verdict.reason,
        f"the provider answered 200 with an error: {excerpt(text)}",
        kind=verdict.kind,
        classification=verdict.classification,
        retryable=verdict.retryable,
        answered=Answered(status=200, said=excerpt(spoken(body) or text)),
    )
