"""What every generated operation does: build the request, send it, turn the answer into a value or an error."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from holdfast.client.errors import ApiError, ClientError
from holdfast.client.transport import AsyncTransport, Request, Response
from holdfast.schema.codec import decode_any, decoder, encode
from holdfast.schema.event import Event
from holdfast.schema.sse import FrameTooLarge, SSEFrames

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

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

    async def stream(self, kind: Any, operation: Operation, **call: Any) -> AsyncIterator[Any]:
        """Nothing happens before the first element is asked for; leaving the iteration closes the request."""
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
        headers = {"accept": accept, **self._headers, **((options and options.headers) or {})}
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
            raise _failure(operation, response.status, await response.read())
        finally:
            await response.close()

    def _decode(self, kind: Any, body: bytes) -> Any:
        try:
            return decoder(kind).decode(body)
        except msgspec.DecodeError as error:
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
    pairs: list[tuple[str, str]] = []
    for key, value in query.items():
        if value is None:
            continue
        for item in value if isinstance(value, list | tuple) else (value,):
            pairs.append((key, str(item)))
    return f"{path}?{urlencode(pairs)}" if pairs else path


def _failure(operation: Operation, status: int, body: bytes) -> Exception:
    try:
        parsed = decode_any(body)
        tag = parsed["_tag"]
    except (msgspec.DecodeError, KeyError, TypeError):
        tag = None
    if status in operation.errors and isinstance(tag, str):
        return ApiError(tag, status, parsed)
    shown = body[:200].decode("utf-8", "replace")
    return ClientError("UnexpectedStatus", f"the server answered {status}: {shown}", status=status)
