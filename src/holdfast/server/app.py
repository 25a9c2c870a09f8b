"""The ASGI application: authorization, routing, decoding, handler, answer, in that order.

A caller that goes away is a disconnect, never a cancellation: what it asked for is finished."""

from __future__ import annotations

import asyncio
from functools import cached_property
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote

from holdfast.core.session.errors import SessionNotFound
from holdfast.protocol.api import API
from holdfast.protocol.endpoint import Envelope
from holdfast.protocol.endpoint import Scope as EndpointScope
from holdfast.schema import errors as public
from holdfast.schema.frozen import Frozen
from holdfast.schema.ids import is_session_id
from holdfast.schema.live_event import GlobalDisposed
from holdfast.server.auth import LOOPBACK_HOSTS, Credentials, allowed_host, allowed_origin
from holdfast.server.decoding import BODY_LIMIT, BODY_SECONDS, decode_params, decode_payload, decode_query
from holdfast.server.errors import PublicFailure, to_public
from holdfast.server.place import existing_location
from holdfast.server.reply import cors, enclose, failed, preflight, send_content
from holdfast.server.routes import Routes
from holdfast.server.sse import HEADERS as STREAM_HEADERS
from holdfast.server.sse import send_stream
from holdfast.server.types import Call, Content, Receive, Scope, Send

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.runtime import Runtime
    from holdfast.schema.location import Location, LocationInfo
    from holdfast.schema.session import Session
    from holdfast.server.pty import PtyEnvironment, PtyServer
    from holdfast.server.types import Frames


class _Streamed(Frozen):
    frames: Frames


class App:
    def __init__(
        self,
        runtime: Runtime,
        *,
        credentials: Credentials | None = None,
        hosts: frozenset[str] | None = LOOPBACK_HOSTS,
        origins: frozenset[str] = frozenset(),
        body_limit: int = BODY_LIMIT,
        body_seconds: float = BODY_SECONDS,
        pty_environment: PtyEnvironment | None = None,
    ) -> None:
        """`hosts` are the names under which callers may change something; None is any. `origins` are allowed beside
        those that always are. `pty_environment` is what the host adds to the variables of terminals."""
        self._runtime = runtime
        self._credentials = credentials
        self._hosts = hosts
        self._origins = origins
        self._body_limit = body_limit
        self._body_seconds = body_seconds
        self._pty_environment = pty_environment
        self._routes = Routes(API, {"ptys": lambda: self._ptys})
        self._stopping = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._ptys.upgrade(scope, receive, send)
        elif scope["type"] == "lifespan":
            while (await receive())["type"] != "lifespan.shutdown":
                await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.complete"})

    def stop(self) -> None:
        """Say goodbye on live streams and end every stream, so that connections can close."""
        self._runtime.log.announce(GlobalDisposed())
        self._stopping.set()

    async def close(self) -> None:
        """End whatever a connection may be waiting for: streams, work that somebody waits for, sockets on terminals."""
        self.stop()
        await self._runtime.execution.close()
        if "_ptys" in self.__dict__:
            await self._ptys.close()

    @cached_property
    def _ptys(self) -> PtyServer:
        """Made when the first terminal is asked for, which is after the runtime was opened."""
        from holdfast.server.pty import PtyServer, no_overlay

        return PtyServer(
            self._runtime.locations,
            locate=self._location,
            credentials=self._credentials,
            hosts=self._hosts,
            origins=self._origins,
            environment=self._pty_environment or no_overlay,
        )

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = _headers(scope)
        origin = headers.get("origin")
        cross_origin = cors(origin, allowed=allowed_origin(origin, self._origins))
        if scope["method"] == "OPTIONS":
            await send_content(send, Content(204, b""), preflight(headers, cross_origin))
            return
        try:
            answer = await self._answer(scope, headers, receive)
        except Exception as error:  # noqa: BLE001 - the edge: every failure becomes a public error here
            answer = failed(to_public(error))
        if isinstance(answer, Content):
            await send_content(send, answer, cross_origin)
        elif scope["method"] == "HEAD":
            await answer.frames.aclose()
            await send_content(send, Content(200, b"", headers=STREAM_HEADERS), cross_origin)
        else:
            await send_stream(answer.frames, receive, send, self._stopping, cross_origin)

    async def _answer(self, scope: Scope, headers: Mapping[str, str], receive: Receive) -> Content | _Streamed:
        query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
        method = scope["method"]
        self._authorize(query, headers)
        if method not in ("GET", "HEAD"):
            self._refuse_strangers(headers)
        endpoint, handler, path = self._routes.find(method, scope.get("raw_path") or scope["path"].encode())
        call = Call(
            endpoint=endpoint,
            runtime=self._runtime,
            headers=headers,
            session=await self._session(path["sessionID"]) if endpoint.scope is EndpointScope.SESSION else None,
            location=self._location(query, headers) if endpoint.scope is EndpointScope.LOCATION else None,
            params=decode_params(endpoint, path),
            query=decode_query(endpoint, query),
            payload=await decode_payload(
                endpoint, headers, receive, limit=self._body_limit, seconds=self._body_seconds
            ),
        )
        result = await handler()(call)
        if endpoint.envelope is Envelope.STREAM:
            return _Streamed(result)
        return enclose(endpoint.envelope, result, await self._place(call))

    async def _place(self, call: Call) -> LocationInfo | None:
        """What a location envelope says beside the data."""
        if call.endpoint.envelope is not Envelope.LOCATION:
            return None
        assert call.location is not None
        return await self._runtime.location_info(call.location)

    def _authorize(self, query: Mapping[str, str], headers: Mapping[str, str]) -> None:
        if self._credentials is not None and not self._credentials.admits(query, headers):
            raise PublicFailure(public.UnauthorizedError(message="Credentials are missing or wrong"))

    def _refuse_strangers(self, headers: Mapping[str, str]) -> None:
        """A page from elsewhere changes nothing, also when it has pointed its own name at this machine."""
        if not allowed_origin(headers.get("origin"), self._origins):
            raise PublicFailure(public.ForbiddenError(message="This origin may only read"))
        if not allowed_host(headers.get("host"), self._hosts):
            raise PublicFailure(public.ForbiddenError(message="Requests to this host name may only read"))

    async def _session(self, session_id: str) -> Session:
        if not is_session_id(session_id):
            raise PublicFailure(
                public.InvalidRequestError(message=f"Not a session id: {session_id[:100]}", field="sessionID")
            )
        session = await self._runtime.store.find(session_id)
        if session is None:
            raise SessionNotFound(session_id)
        return session

    def _location(self, query: Mapping[str, str], headers: Mapping[str, str]) -> Location:
        directory = query.get("location[directory]") or _decoded(headers.get("x-opencode-directory", ""))
        workspace = query.get("location[workspace]") or headers.get("x-opencode-workspace") or None
        if workspace is not None and not workspace.startswith("wrk"):
            raise PublicFailure(
                public.InvalidRequestError(message="Not a workspace id", kind="Query", field="location")
            )
        return existing_location(directory or self._runtime.location.directory, workspace, kind="Query")


def _headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


def _decoded(header: str) -> str:
    try:
        return unquote(header, errors="strict")
    except UnicodeDecodeError:
        return header
