"""One call without its I/O: the request that an operation becomes, and what an answer to it means."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from holdfast.client.errors import ClientError
from holdfast.client.transport import Request
from holdfast.schema.codec import decoder, encode
from holdfast.schema.event import EventEnvelope
from holdfast.schema.exceptions import received
from holdfast.schema.frozen import Frozen
from holdfast.schema.location import Location, LocationInfo
from holdfast.schema.typed_event import DurableEvent, Event, decode_event, typed

if TYPE_CHECKING:
    from holdfast.schema.sse import SSEFrames

T = TypeVar("T")

JSON = "application/json"
EVENT_STREAM = "text/event-stream"
ACCEPTED = {"stream": EVENT_STREAM, "raw": "*/*"}
FRAME_LIMIT = 64 * 1024 * 1024
"""Of one event: the largest body that a server takes, and what admission adds to it."""

NO_SEGMENT = ("", ".", "..")
"""What the way there would take out of a path, which then names another operation."""

WILDCARD = "*"
"""The end of a path that takes any number of segments, from the one parameter that there is."""

Shape = Literal["bare", "data", "location", "page", "history", "void", "stream", "raw", "socket"]


NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Options(Frozen):
    """Of one call, apart from what it asks for. `timeout` bounds each wait for the server, in seconds; a stream waits
    for the next event or heartbeat."""

    headers: Mapping[str, str] | None = None
    timeout: float | None = None
    on_open: Callable[[], None] | None = None
    """Called when a stream has been answered, before its first element."""
    on_heartbeat: Callable[[], None] | None = None
    """Called for each heartbeat of a stream: the server is there and has nothing to say."""


class Page(msgspec.Struct, Generic[T], frozen=True):
    """`previous` and `next` are cursors for the same query; an empty page has none."""

    items: list[T]
    previous: str | None = None
    next: str | None = None


class History(msgspec.Struct, frozen=True):
    events: list[DurableEvent]
    has_more: bool


class Located(msgspec.Struct, Generic[T], frozen=True):
    """What a Location has, and which Location that is."""

    location: LocationInfo
    data: T


class Operation(Frozen, Generic[T]):
    """What one operation sends and gives; `T` is the caller's result, of a stream one element."""

    method: str
    path: str
    errors: frozenset[int]
    """The statuses that the operation declares."""
    shape: Shape
    kind: Any = None
    """What is decoded, inside the envelope."""
    headers: Mapping[str, str] = NO_HEADERS
    """What every request of it carries."""


def request(
    operation: Operation[Any],
    defaults: Mapping[str, str],
    *,
    params: Mapping[str, str] | None = None,
    query: Mapping[str, Any] | None = None,
    payload: Mapping[str, Any] | None = None,
    options: Options | None = None,
) -> Request:
    """Headers of the call win over the defaults; a content type is set only with a body, and only if none is given."""
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


def outcome(operation: Operation[T], status: int, content_type: str, body: bytes) -> T:
    """The value of an answer. Raises ApiError for a declared failure, ClientError for anything else."""
    if status not in (200, 204):
        raise failure(operation, status, content_type, body)
    if operation.shape == "void":
        return None  # type: ignore[return-value]
    if operation.shape == "raw":
        return body  # type: ignore[return-value]
    if content_type != JSON:
        raise ClientError("UnsupportedContentType", f"expected JSON, got {content_type or 'nothing'}", status=status)
    match operation.shape:
        case "data":
            value = decode(_data(operation.kind), body).data
        case "location":
            value = decode(_located(operation.kind), body)
        case "page":
            wire = decode(_page(operation.kind), body)
            value = Page(items=wire.data, previous=wire.cursor.previous, next=wire.cursor.next)
        case "history":
            wire = decode(_History, body)
            value = History(events=[_checked(typed, event) for event in wire.data], has_more=wire.has_more)
        case _:
            value = decode(operation.kind, body)
    return value  # type: ignore[no-any-return]


class Heartbeats:
    """Tells of the heartbeats that a stream has had since it last looked."""

    def __init__(self, frames: SSEFrames, options: Options) -> None:
        self._frames = frames
        self._told = 0
        self._on_heartbeat = options.on_heartbeat

    def tell(self) -> None:
        while self._told < self._frames.comments:
            self._told += 1
            if self._on_heartbeat is not None:
                self._on_heartbeat()


def expect_stream(status: int, content_type: str) -> None:
    if content_type != EVENT_STREAM:
        raise ClientError("UnsupportedContentType", f"expected a stream, got {content_type}", status=status)


def failure(operation: Operation[Any], status: int, content_type: str, body: bytes) -> Exception:
    shown = _message(body)
    if status not in operation.errors:
        return ClientError("UnexpectedStatus", f"the server answered {status}: {shown}", status=status)
    if content_type != JSON:
        return ClientError("UnsupportedContentType", f"the server answered {status}: {shown}", status=status)
    try:
        parsed = decoder(dict[str, Any]).decode(body)
        return received(str(parsed["_tag"] if "_tag" in parsed else parsed["name"]), status, parsed)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError):
        return ClientError("MalformedResponse", f"the server answered {status}: {shown}", status=status)


def _message(body: bytes) -> str:
    """What the server says about a failure that the operation does not declare, or else how its answer begins."""
    try:
        return str(decoder(dict[str, Any]).decode(body)["message"])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError):
        return body[:200].decode("utf-8", "replace")


def decode(kind: Any, body: bytes) -> Any:
    return _checked(decoder(kind).decode, body)


def element(frame: bytes) -> Event:
    """One element of a stream; all streams are of events."""
    return _checked(decode_event, frame)  # type: ignore[no-any-return]


def _checked(decoding: Callable[[Any], Any], given: Any) -> Any:
    try:
        return decoding(given)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ClientError("MalformedResponse", f"the answer does not fit: {error}") from error


def placed(location: Location | None) -> Mapping[str, Any] | None:
    """A Location as a query says it."""
    if location is None:
        return None
    return {"directory": location.directory, "workspace": location.workspace_id}


class _Cursor(msgspec.Struct):
    previous: str | None = None
    next: str | None = None


class _Data(msgspec.Struct, Generic[T]):
    data: T


class _PageWire(msgspec.Struct, Generic[T]):
    data: list[T]
    cursor: _Cursor


class _History(msgspec.Struct, rename="camel"):
    data: list[EventEnvelope]
    has_more: bool


def _data(kind: Any) -> Any:
    return _Data[kind]


def _located(kind: Any) -> Any:
    return Located[kind]


def _page(kind: Any) -> Any:
    return _PageWire[kind]


def _target(path: str, params: Mapping[str, str], query: Mapping[str, Any]) -> str:
    for name, value in params.items():
        if value in NO_SEGMENT:
            raise ValueError(f"{name} cannot be {value!r}")
        path = path.replace(f"{{{name}}}", quote(value, safe=""))
        if name == "path" and path.endswith(f"/{WILDCARD}"):
            path = path.removesuffix(WILDCARD) + _segments(name, value)
    pairs = [pair for key, value in query.items() for pair in _pairs(key, value)]
    return f"{path}?{urlencode(pairs)}" if pairs else path


def _segments(name: str, value: str) -> str:
    """A path inside a path: its slashes stay."""
    segments = value.split("/")
    if any(segment in NO_SEGMENT for segment in segments):
        raise ValueError(f"{name} is a relative path without `.`, `..` and empty parts, not {value!r}")
    return "/".join(quote(segment, safe="") for segment in segments)


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
