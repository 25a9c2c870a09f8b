"""Builds the request of an operation and interprets the response, without I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Generic, Literal, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from holdfast.client.errors import ClientError
from holdfast.client.transport import Request
from holdfast.schema.codec import decoder, encode
from holdfast.schema.errors import ServiceUnavailableError
from holdfast.schema.event import EventEnvelope
from holdfast.schema.exceptions import ServiceUnavailable, received
from holdfast.schema.frozen import Frozen
from holdfast.schema.location import Location, LocationInfo
from holdfast.schema.sse import FrameTooLarge, SSEFrames
from holdfast.schema.typed_event import DurableEvent, Event, decode_event, typed

T = TypeVar("T")

JSON = "application/json"
EVENT_STREAM = "text/event-stream"
ACCEPTED = {"stream": EVENT_STREAM, "raw": "*/*"}
EVERYWHERE = frozenset((403, 429, 503, 507))
"""Failures of any operation: a role that the caller lacks, limits of the server, and an outage."""
FRAME_LIMIT = 64 * 1024 * 1024
"""The largest event: the largest body that a server accepts, and what admission adds to it."""

NO_SEGMENT = ("", ".", "..")
"""Path segments that are removed in transit, so that the path would name another operation."""

WILDCARD = "*"
"""The end of a path that takes any number of segments from its one parameter."""

Shape = Literal["bare", "data", "location", "page", "history", "void", "stream", "raw", "socket"]


NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Options(Frozen):
    """Options of one call. `timeout` limits each wait for the server, in seconds; a stream waits for the next event or
    heartbeat."""

    headers: Mapping[str, str] | None = None
    timeout: float | None = None
    on_open: Callable[[], None] | None = None
    """Called when a stream is open, before its first element."""
    on_heartbeat: Callable[[], None] | None = None
    """Called for each heartbeat of a stream."""


class Page(msgspec.Struct, Generic[T], frozen=True):
    """`previous` and `next` are cursors for the same query; an empty page has none."""

    items: list[T]
    previous: str | None = None
    next: str | None = None


class History(msgspec.Struct, frozen=True):
    events: list[DurableEvent]
    has_more: bool


class Listing(msgspec.Struct, Generic[T], frozen=True):
    """Items in their order, and whether there are more."""

    items: list[T]
    has_more: bool


class Located(msgspec.Struct, Generic[T], frozen=True):
    """A value and the Location it belongs to."""

    location: LocationInfo
    data: T


class Operation(Frozen, Generic[T]):
    """The request and response of one operation; `T` is the result, of a stream one element."""

    method: str
    path: str
    errors: frozenset[int]
    """The error statuses that the operation declares."""
    shape: Shape
    kind: Any = None
    """The type inside the envelope."""
    headers: Mapping[str, str] = NO_HEADERS
    """Headers of every request."""


def request(
    operation: Operation[Any],
    defaults: Mapping[str, str],
    *,
    params: Mapping[str, str | int] | None = None,
    query: Mapping[str, Any] | None = None,
    payload: Mapping[str, Any] | None = None,
    options: Options | None = None,
) -> Request:
    """Headers of the call override the defaults. A content type is set only with a body and if none is given."""
    accept = ACCEPTED.get(operation.shape, JSON)
    given = (options and options.headers) or {}
    headers = {"accept": accept, **operation.headers, **_lower(defaults), **_lower(given)}
    body = None
    if payload is not None:
        body = encode({key: value for key, value in payload.items() if value is not None})
        headers.setdefault("content-type", JSON)
    return Request(
        method=operation.method,
        target=_target(operation.path, params or {}, query or {}),
        headers=headers,
        body=body,
        timeout=options.timeout if options else None,
    )


def decode_response(operation: Operation[T], status: int, content_type: str, body: bytes) -> T:
    """The value of a response. Raises ApiError for a declared failure, ClientError for any other."""
    if status not in (200, 204):
        raise response_error(operation, status, content_type, body)
    if operation.shape == "void":
        return None  # type: ignore[return-value]
    if operation.shape == "raw":
        return body  # type: ignore[return-value]
    if content_type != JSON:
        raise ClientError("UnsupportedContentType", f"expected JSON, got {content_type or 'nothing'}", status=status)
    match operation.shape:
        case "data":
            value = decode(_wire(_DataWire, operation.kind), body).data
        case "location":
            value = decode(_wire(Located, operation.kind), body)
        case "page":
            wire = decode(_wire(_PageWire, operation.kind), body)
            value = Page(items=wire.data, previous=wire.cursor.previous, next=wire.cursor.next)
        case "history" if operation.kind is not None:
            wire = decode(_wire(_ListingWire, operation.kind), body)
            value = Listing(items=wire.data, has_more=wire.has_more)
        case "history":
            wire = decode(_HistoryWire, body)
            value = History(events=[_checked(typed, event) for event in wire.data], has_more=wire.has_more)
        case _:
            value = decode(operation.kind, body)
    return value  # type: ignore[no-any-return]


class StreamDecoder(Generic[T]):
    """Decodes the elements of one stream and reports its opening and its heartbeats. Raises ClientError."""

    def __init__(self, operation: Operation[T], content_type: str, options: Options) -> None:
        if content_type != EVENT_STREAM:
            raise ClientError("UnsupportedContentType", f"expected a stream, got {content_type}", status=200)
        self._frames = SSEFrames(FRAME_LIMIT)
        self._decode = decode_event if operation.kind is Event else decoder(operation.kind).decode
        self._heartbeats = 0
        self._on_heartbeat = options.on_heartbeat
        if options.on_open is not None:
            options.on_open()

    def feed(self, chunk: bytes) -> Iterator[T]:
        yield from self._decoded(lambda: self._frames.feed(chunk))
        while self._heartbeats < self._frames.comments:
            self._heartbeats += 1
            if self._on_heartbeat is not None:
                self._on_heartbeat()

    def finish(self) -> Iterator[T]:
        yield from self._decoded(self._frames.finish)

    def _decoded(self, read: Callable[[], list[bytes]]) -> Iterator[T]:
        try:
            frames = read()
        except FrameTooLarge as error:
            raise ClientError("MalformedResponse", str(error)) from error
        for frame in frames:
            yield _checked(self._decode, frame)


def response_error(operation: Operation[Any], status: int, content_type: str, body: bytes) -> Exception:
    said = f"the server answered {status}: {_message(body)}"
    if status not in operation.errors and not (status in EVERYWHERE and content_type == JSON):
        error: Exception = ClientError("UnexpectedStatus", said, status=status)
    elif content_type != JSON:
        error = ClientError("UnsupportedContentType", said, status=status)
    else:
        try:
            parsed = decoder(dict[str, Any]).decode(body)
            return received(str(parsed["_tag"] if "_tag" in parsed else parsed["name"]), status, parsed)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError):
            error = ClientError("MalformedResponse", said, status=status)
    # A proxy in front of the server has words of its own for an outage.
    return ServiceUnavailable(said) if status == ServiceUnavailableError.status else error


def _message(body: bytes) -> str:
    """The server's message in an undeclared failure, or the start of the body."""
    try:
        return str(decoder(dict[str, Any]).decode(body)["message"])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError):
        return body[:200].decode("utf-8", "replace")


def decode(kind: Any, body: bytes) -> Any:
    return _checked(decoder(kind).decode, body)


def _checked(decoding: Callable[[Any], Any], given: Any) -> Any:
    try:
        return decoding(given)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ClientError("MalformedResponse", f"the answer does not fit: {error}") from error


def location_query(location: Location | None) -> Mapping[str, Any] | None:
    """A Location as query parameters."""
    if location is None:
        return None
    return {"directory": location.directory, "workspace": location.workspace_id}


class _PageCursor(msgspec.Struct):
    previous: str | None = None
    next: str | None = None


class _DataWire(msgspec.Struct, Generic[T]):
    data: T


class _PageWire(msgspec.Struct, Generic[T]):
    data: list[T]
    cursor: _PageCursor


class _HistoryWire(msgspec.Struct, rename="camel"):
    data: list[EventEnvelope]
    has_more: bool


class _ListingWire(msgspec.Struct, Generic[T], rename="camel"):
    data: list[T]
    has_more: bool


def _wire(generic: Any, kind: Any) -> Any:
    return generic[kind]


def _target(path: str, params: Mapping[str, str | int], query: Mapping[str, Any]) -> str:
    for name, given in params.items():
        value = str(given)
        if value in NO_SEGMENT:
            raise ValueError(f"{name} cannot be {value!r}")
        path = path.replace(f"{{{name}}}", quote(value, safe=""))
        if name == "path" and path.endswith(f"/{WILDCARD}"):
            path = path.removesuffix(WILDCARD) + _segments(name, value)
    pairs = [pair for key, value in query.items() for pair in _pairs(key, value)]
    return f"{path}?{urlencode(pairs)}" if pairs else path


def _segments(name: str, value: str) -> str:
    """Quotes a relative path, keeping its slashes."""
    segments = value.split("/")
    if any(segment in NO_SEGMENT for segment in segments):
        raise ValueError(f"{name} is a relative path without `.`, `..` and empty parts, not {value!r}")
    return "/".join(quote(segment, safe="") for segment in segments)


def _pairs(key: str, value: Any) -> Iterator[tuple[str, str]]:
    """None is omitted, a list repeats the key, an object becomes `key[child]`."""
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
