"""What every generated operation does: build the request, send it, turn the answer into a value or an error."""

from __future__ import annotations

import weakref
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from holdfast.client.errors import ApiError, ClientError
from holdfast.client.transport import AsyncTransport, Request, Response
from holdfast.schema.codec import decoder, encode
from holdfast.schema.event import Event
from holdfast.schema.sse import FrameTooLarge, SSEFrames

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator

FRAME_LIMIT = 1024 * 1024

T = TypeVar("T")


class Options(NamedTuple):
    """Of one call, apart from what it asks for."""

    headers: Mapping[str, str] | None = None
    timeout: float | None = None


class Page(msgspec.Struct, Generic[T], frozen=True):
    """`previous` and `next` are cursors for the same query; an empty page has none."""

    items: list[T]
    previous: str | None = None
    next: str | None = None


class History(msgspec.Struct, frozen=True):
    events: list[Event]
    has_more: bool


class Stream(AsyncIterator[T]):
    """Elements of a streamed answer. Nothing happens before the first is asked for; each `async for` is a request of
    its own, and leaving it closes that. after an `anext` the stream keeps that iteration; `aclose` closes all."""

    def __init__(self, start: Callable[[], AsyncGenerator[T, None]]) -> None:
        self._start = start
        self._kept: AsyncGenerator[T, None] | None = None
        self._open: weakref.WeakSet[AsyncGenerator[T, None]] = weakref.WeakSet()

    def __aiter__(self) -> AsyncGenerator[T, None]:
        if self._kept is not None:
            return self._kept
        iteration = self._start()
        self._open.add(iteration)
        return iteration

    async def __anext__(self) -> T:
        if self._kept is None:
            self._kept = aiter(self)
        return await anext(self._kept)

    async def aclose(self) -> None:
        for iteration in tuple(self._open):
            await iteration.aclose()
        import asyncio  # the loop is running, so this is only a name; a cold import would bring the whole of TLS

        # One that was just left behind is closed by the loop itself, within its next two turns.
        for _ in range(2):
            await asyncio.sleep(0)


class ClientCore:
    def __init__(self, transport: AsyncTransport, headers: Mapping[str, str] | None = None) -> None:
        self.transport = transport
        self._headers = dict(headers or {})

    async def value(self, kind: Any, operation: Operation, **call: Any) -> Any:
        body = await self._json(operation, **call)
        return self._decode(kind, body)

    async def data(self, kind: Any, operation: Operation, **call: Any) -> Any:
        return self._decode(_envelope(kind), await self._json(operation, **call)).data

    async def page(self, kind: Any, operation: Operation, **call: Any) -> Any:
        wire = self._decode(_page(kind), await self._json(operation, **call))
        return Page(items=wire.data, previous=wire.cursor.previous, next=wire.cursor.next)

    async def history(self, operation: Operation, **call: Any) -> History:
        wire = self._decode(_History, await self._json(operation, **call))
        return History(events=wire.data, has_more=wire.has_more)

    async def void(self, operation: Operation, **call: Any) -> None:
        response = await self._send(operation, **call)
        await response.close()

    def stream(self, kind: Any, operation: Operation, **call: Any) -> Stream[Any]:
        return Stream(lambda: self._stream(kind, operation, **call))

    async def _stream(self, kind: Any, operation: Operation, **call: Any) -> AsyncGenerator[Any, None]:
        response = await self._send(operation, accept="text/event-stream", **call)
        try:
            if response.content_type != "text/event-stream":
                raise ClientError("UnsupportedContentType", f"expected a stream, got {response.content_type}")
            frames = SSEFrames(FRAME_LIMIT)
            async with aclosing(response.chunks()) as chunks:  # type: ignore[type-var]
                async for chunk in chunks:
                    for frame in frames.feed(chunk):
                        yield self._decode(kind, frame)
            for frame in frames.finish():
                yield self._decode(kind, frame)
        except FrameTooLarge as error:
            raise ClientError("MalformedResponse", str(error)) from error
        finally:
            await response.close()

    async def _json(self, operation: Operation, **call: Any) -> bytes:
        response = await self._send(operation, **call)
        try:
            body = await response.read()
        finally:
            await response.close()
        if response.content_type != "application/json":
            raise ClientError("UnsupportedContentType", f"expected JSON, got {response.content_type or 'nothing'}")
        return body

    async def _send(
        self,
        operation: Operation,
        *,
        params: Mapping[str, str] | None = None,
        query: Mapping[str, Any] | None = None,
        payload: Mapping[str, Any] | None = None,
        options: Options | None = None,
        accept: str = "application/json",
    ) -> Response:
        headers = {"accept": accept, **_lower(self._headers), **_lower((options and options.headers) or {})}
        body = None
        if payload is not None:
            body = encode({key: value for key, value in payload.items() if value is not None})
            headers.setdefault("content-type", "application/json")
        request = Request(
            method=operation.method,
            target=_target(operation.path, params or {}, query or {}),
            headers=headers,
            body=body,
            timeout=options.timeout if options else None,
        )
        response = await self.transport.send(request)
        if response.status in (200, 204):
            return response
        try:
            raise _failure(operation, response, await response.read())
        finally:
            await response.close()

    def _decode(self, kind: Any, body: bytes) -> Any:
        try:
            return decoder(kind).decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise ClientError("MalformedResponse", f"the answer does not fit: {error}") from error


class Operation(NamedTuple):
    method: str
    path: str
    errors: frozenset[int]
    """The statuses that the operation declares."""


class _Cursor(msgspec.Struct):
    previous: str | None = None
    next: str | None = None


class _Data(msgspec.Struct, Generic[T]):
    data: T


class _PageWire(msgspec.Struct, Generic[T]):
    data: list[T]
    cursor: _Cursor


class _History(msgspec.Struct, rename="camel"):
    data: list[Event]
    has_more: bool


def _envelope(kind: Any) -> Any:
    return _Data[kind]


def _page(kind: Any) -> Any:
    return _PageWire[kind]


def _target(path: str, params: Mapping[str, str], query: Mapping[str, Any]) -> str:
    for name, value in params.items():
        path = path.replace(f"{{{name}}}", quote(value, safe=""))
    pairs = [pair for key, value in query.items() for pair in _pairs(key, value)]
    return f"{path}?{urlencode(pairs)}" if pairs else path


def _pairs(key: str, value: Any) -> Iterator[tuple[str, str]]:
    """None is left out, a list repeats the key, an object becomes `key[child]`."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from _pairs(key, item)
    elif isinstance(value, Mapping | msgspec.Struct):
        fields = value if isinstance(value, Mapping) else msgspec.to_builtins(value)
        for child, item in fields.items():
            yield from _pairs(f"{key}[{child}]", item)
    elif value is not None:
        yield key, str(value).lower() if isinstance(value, bool) else str(value)


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _failure(operation: Operation, response: Response, body: bytes) -> Exception:
    shown = body[:200].decode("utf-8", "replace")
    status = response.status
    if status not in operation.errors:
        return ClientError("UnexpectedStatus", f"the server answered {status}: {shown}", status=status)
    if response.content_type != "application/json":
        return ClientError(
            "UnsupportedContentType", f"the server answered {status} as {response.content_type}: {shown}"
        )
    try:
        parsed = decoder(dict[str, Any]).decode(body)
        return ApiError(parsed["_tag"], status, parsed)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError):
        return ClientError("MalformedResponse", f"the server answered {status}: {shown}", status=status)
