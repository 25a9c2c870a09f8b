"""The ASGI application: authorization, routing, decoding, handler, answer, in that order.

A caller that goes away is a disconnect, never a cancellation: what it asked for is finished."""

from __future__ import annotations

import asyncio
import importlib
import logging
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote

import msgspec

from holdfast.core.session.errors import SessionNotFound
from holdfast.protocol.api import API
from holdfast.protocol.endpoint import Endpoint, Envelope
from holdfast.protocol.endpoint import Scope as EndpointScope
from holdfast.schema import errors as public
from holdfast.schema.codec import decoder, encode
from holdfast.schema.ids import is_session_id
from holdfast.schema.live_event import GlobalDisposed
from holdfast.server.auth import LOOPBACK_HOSTS, Credentials, allowed_host, allowed_origin
from holdfast.server.errors import PublicFailure, to_public
from holdfast.server.place import existing_location
from holdfast.server.sse import HEADERS as STREAM_HEADERS
from holdfast.server.sse import send_stream
from holdfast.server.types import Call, Handler, HistoryOf, PageOf, Receive, Scope, Send

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.runtime import Runtime
    from holdfast.schema.errors import PublicError
    from holdfast.schema.location import Location

BODY_LIMIT = 32 * 1024 * 1024
MESSAGE_LIMIT = 1024
Headers = list[tuple[bytes, bytes]]

log = logging.getLogger(__name__)


class App:
    def __init__(
        self,
        runtime: Runtime,
        *,
        credentials: Credentials | None = None,
        hosts: frozenset[str] | None = LOOPBACK_HOSTS,
        body_limit: int = BODY_LIMIT,
    ) -> None:
        """`hosts` are the names under which callers may change something; None is any."""
        self._runtime = runtime
        self._credentials = credentials
        self._hosts = hosts
        self._body_limit = body_limit
        self._routes = Routes(API)
        self._stopping = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
        elif scope["type"] == "lifespan":
            while (await receive())["type"] != "lifespan.shutdown":
                await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.complete"})

    def stop(self) -> None:
        """Say goodbye on live streams and end every stream, so that connections can close."""
        self._runtime.log.announce(GlobalDisposed())
        self._stopping.set()

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        cors = _cors(headers.get("origin"))
        if scope["method"] == "OPTIONS":
            await _reply(send, 204, b"", _preflight(headers, cors))
            return
        try:
            result, endpoint = await self._answer(scope, headers, receive)
            status, body = _encode(endpoint.envelope, result)
        except Exception as error:  # noqa: BLE001 - the edge: every failure becomes a public error here
            failure = to_public(error)
            await _reply(send, failure.status, encode(failure), [*cors, *_challenge(failure)])
            return
        if endpoint.envelope is Envelope.STREAM and scope["method"] == "HEAD":
            await result.aclose()
            await _reply(send, 200, b"", [*STREAM_HEADERS, *cors])
        elif endpoint.envelope is Envelope.STREAM:
            await send_stream(result, receive, send, self._stopping, cors)
        else:
            await _reply(send, status, body, cors)

    async def _answer(self, scope: Scope, headers: Mapping[str, str], receive: Receive) -> tuple[Any, Endpoint]:
        query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
        if self._credentials is not None and not self._credentials.admits(query, headers):
            raise PublicFailure(public.UnauthorizedError(message="Credentials are missing or wrong"))
        method = scope["method"]
        if method not in ("GET", "HEAD"):
            if not allowed_origin(headers.get("origin")):
                raise PublicFailure(public.ForbiddenError(message="This origin may only read"))
            if not allowed_host(headers.get("host"), self._hosts):
                raise PublicFailure(public.ForbiddenError(message="Requests to this host name may only read"))
        endpoint, handler, path = self._routes.find(method, scope.get("raw_path") or scope["path"].encode())
        session = None
        if endpoint.scope is EndpointScope.SESSION:
            session = await self._session(path["sessionID"])
        call = Call(
            endpoint=endpoint,
            runtime=self._runtime,
            headers=headers,
            session=session,
            location=self._location(query, headers) if endpoint.scope is EndpointScope.LOCATION else None,
            params=_decode_strings(endpoint.params, path, "Params"),
            query=_decode_strings(endpoint.query, query, "Query"),
            payload=await self._payload(endpoint, headers, receive),
        )
        return await handler(call), endpoint

    async def _session(self, session_id: str) -> Any:
        if not is_session_id(session_id):
            raise PublicFailure(
                public.InvalidRequestError(message=f"Not a session id: {session_id[:100]}", field="sessionID")
            )
        session = await self._runtime.store.find(session_id)
        if session is None:
            raise SessionNotFound(session_id)
        return session

    def _location(self, query: Mapping[str, str], headers: Mapping[str, str]) -> Location:
        directory = query.get("location[directory]") or unquote(headers.get("x-opencode-directory", ""))
        workspace = query.get("location[workspace]") or headers.get("x-opencode-workspace") or None
        if workspace is not None and not workspace.startswith("wrk"):
            raise PublicFailure(
                public.InvalidRequestError(message="Not a workspace id", kind="Query", field="location")
            )
        return existing_location(directory or self._runtime.location.directory, workspace, kind="Query")

    async def _payload(self, endpoint: Endpoint, headers: Mapping[str, str], receive: Receive) -> Any:
        if endpoint.payload is None:
            return None
        body = await self._body(receive)
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if body and kind not in ("application/json", ""):
            raise PublicFailure(
                public.UnsupportedMediaTypeError(message=f"Expected application/json, got {kind[:100]}")
            )
        try:
            return decoder(endpoint.payload).decode(body or b"{}")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _invalid(error, "Payload") from error

    async def _body(self, receive: Receive) -> bytes:
        """The whole body up to the limit. What is too large is still read, and dropped, so that the sender gets to
        see the answer."""
        pieces: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise PublicFailure(public.InvalidRequestError(message="The body was cut short", kind="Payload"))
            piece = message.get("body", b"")
            size += len(piece)
            if size <= self._body_limit:
                pieces.append(piece)
            else:
                pieces.clear()
            if not message.get("more_body", False):
                break
        if size > self._body_limit:
            raise PublicFailure(
                public.InvalidRequestError(message=f"The body is larger than {self._body_limit} bytes", kind="Payload")
            )
        return b"".join(pieces)


class Routes:
    """Compiled from the protocol: segment by segment, a literal before a parameter."""

    def __init__(self, api: tuple[Endpoint, ...]) -> None:
        self._root: dict[str, Any] = {}
        for endpoint in api:
            node = self._root
            for segment in endpoint.path.strip("/").split("/"):
                node = node.setdefault(segment, {})
            node.setdefault("", {})[endpoint.method] = endpoint
        self._handlers: dict[str, Handler] = {}

    def find(self, method: str, raw_path: bytes) -> tuple[Endpoint, Handler, dict[str, str]]:
        """Segments are decoded after the path was split, so that an escaped slash stays inside one."""
        path = unquote(raw_path.decode("latin-1"))
        found: dict[str, str] = {}
        node = self._root
        for quoted in raw_path.decode("latin-1").strip("/").split("/"):
            segment = unquote(quoted)
            if segment in node and segment and not segment.startswith("{"):
                node = node[segment]
                continue
            parameter = next((key for key in node if key.startswith("{")), None)
            if parameter is None or not segment:
                raise PublicFailure(public.NotFoundError(message=f"There is nothing at {path[:200]}"))
            found[parameter[1:-1]] = segment
            node = node[parameter]
        methods = node.get("")
        if methods is None:
            raise PublicFailure(public.NotFoundError(message=f"There is nothing at {path[:200]}"))
        endpoint = methods.get("GET" if method == "HEAD" else method)
        if endpoint is None:
            raise PublicFailure(
                public.MethodNotAllowedError(message=f"{path[:200]} takes {', '.join(sorted(methods))}, not {method}")
            )
        return endpoint, self._handler(endpoint), found

    def _handler(self, endpoint: Endpoint) -> Handler:
        handler = self._handlers.get(endpoint.operation)
        if handler is None:
            module = importlib.import_module(f"holdfast.server.handlers.{endpoint.group}")
            handler = self._handlers[endpoint.operation] = getattr(module, endpoint.name)
        return handler


def _encode(envelope: Envelope, result: Any) -> tuple[int, bytes]:
    match envelope:
        case Envelope.VOID:
            return 204, b""
        case Envelope.STREAM:
            return 200, b""
        case Envelope.DATA:
            return 200, encode({"data": result})
        case Envelope.PAGE:
            page: PageOf = result
            return 200, encode({"data": page.items, "cursor": {"previous": page.previous, "next": page.next}})
        case Envelope.HISTORY:
            history: HistoryOf = result
            return 200, encode({"data": history.items, "hasMore": history.has_more})
        case _:
            return 200, encode(result)


def _decode_strings(kind: Any, values: Mapping[str, str], where: str) -> Any:
    if kind is None:
        return None
    try:
        decoded = msgspec.convert(values, kind, strict=False)
    except (msgspec.ValidationError, ValueError) as error:
        raise _invalid(error, where) from error
    for field in msgspec.structs.fields(kind):
        if field.encode_name in values and getattr(decoded, field.name) is None:
            # A query has no null: the word is just another wrong value.
            raise PublicFailure(
                public.InvalidRequestError(message=f'Expected a value\n  at ["{field.name}"]', kind=where)
            )
    return decoded


def _invalid(error: Exception, kind: str) -> PublicFailure:
    """msgspec says `reason - at $.a.b`; the contract says the reason, then `at ["a"]["b"]`."""
    reason, _, path = str(error).partition(" - at ")
    if missing := _MISSING.match(reason):
        reason, path = "Missing key", f"{path.strip('`') or '$'}.{missing[1]}"
    keys = "".join(f'["{key}"]' for key in path.strip("`").removeprefix("$").replace("[", ".").split(".") if key)
    message = f"{reason}\n  at {keys}" if keys else reason
    if len(message) > MESSAGE_LIMIT:
        message = f"{message[:MESSAGE_LIMIT]}... ({len(message) - MESSAGE_LIMIT} more chars)"
    return PublicFailure(public.InvalidRequestError(message=message, kind=kind))


_MISSING = re.compile(r"Object missing required field `([^`]+)`")


def _cors(origin: str | None) -> Headers:
    headers: Headers = [(b"vary", b"Origin")]
    if origin is not None and allowed_origin(origin):
        headers.append((b"access-control-allow-origin", origin.encode("latin-1")))
    return headers


def _preflight(headers: Mapping[str, str], cors: Headers) -> Headers:
    asked = headers.get("access-control-request-headers", "")
    return [
        *(header for header in cors if header[0] != b"vary"),
        (b"vary", b"Access-Control-Request-Headers, Origin"),
        (b"access-control-allow-methods", b"GET, HEAD, PUT, PATCH, POST, DELETE"),
        (b"access-control-allow-headers", asked.encode("latin-1")),
        (b"access-control-max-age", b"86400"),
    ]


def _challenge(error: PublicError) -> Headers:
    if error.status == 401:
        return [(b"www-authenticate", b'Basic realm="Secure Area"')]
    return []


async def _reply(send: Send, status: int, body: bytes, headers: Headers) -> None:
    content: Headers = [(b"content-type", b"application/json")] if body else []
    length: Headers = [] if status == 204 else [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*content, *length, *headers]})
    await send({"type": "http.response.body", "body": body})
