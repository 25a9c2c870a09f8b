"""The ASGI application: host name, authorization, routing, decoding, handler, response, in that order.

All checks before routing use only the head of the request; no body is read for a caller without credentials. Probes are
answered before any of them.

A disconnect of the caller never cancels its request: the work is completed."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.database.errors import StorageError
from holdfast.core.event.author import authored
from holdfast.core.lazy import Lazy
from holdfast.core.session.errors import SessionNotFound
from holdfast.protocol.api import API
from holdfast.protocol.endpoint import EndpointScope, Envelope
from holdfast.schema.exceptions import ApiError, InvalidRequest, TooManyRequests
from holdfast.schema.form import GLOBAL
from holdfast.schema.ids import is_session_id
from holdfast.schema.live_event import GlobalDisposed
from holdfast.server.auth import Access, Credentials, Hosts, is_page_call
from holdfast.server.callers import NODE as BY_NODE
from holdfast.server.callers import Callers
from holdfast.server.closed_folders import check_open
from holdfast.server.decoding import BODY_LIMIT, BODY_SECONDS, decode_params, decode_payload, decode_query
from holdfast.server.disk_floor import DiskFloor
from holdfast.server.errors import to_public
from holdfast.server.extensions import aborting, report_authenticated
from holdfast.server.handlers.events import NODE, RELAY, SIGNATURE
from holdfast.server.head import read_head
from holdfast.server.limits import Limiting
from holdfast.server.locations import named_place, served_location
from holdfast.server.metrics import metrics_reply
from holdfast.server.outgoing import Outgoing, Stalled, unstalled
from holdfast.server.probes import Probes
from holdfast.server.reply import cors, enclose, error_reply, naming_ignored, preflight, send_content
from holdfast.server.request_log import METRICS, PAGE, PREFLIGHT, REFUSED, RequestLog
from holdfast.server.routes import Routes
from holdfast.server.sse import HEADERS as STREAM_HEADERS
from holdfast.server.sse import disconnected, send_stream
from holdfast.server.stream_ends import StreamEnds
from holdfast.server.throttle import Throttle
from holdfast.server.types import OWNER, ApiCall, Handler, Headers, HttpReply, Receive, Scope, Send, Streamed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.core.access.tokens import AccessTokens
    from holdfast.core.config.limits import ServerLimits
    from holdfast.core.runtime.runtime import Runtime
    from holdfast.protocol.endpoint import Endpoint
    from holdfast.schema.location import Location, LocationInfo
    from holdfast.schema.session import Session
    from holdfast.server.caller import Caller
    from holdfast.server.head import Head
    from holdfast.server.other_nodes import OtherNodes
    from holdfast.server.pty import PtyServer
    from holdfast.server.pty_environment import HostPtyEnvironment
    from holdfast.server.request_log import LoggedRequest
    from holdfast.server.web.pages import Pages
    from holdfast.server.web.sign_ins import SignIns


log = logging.getLogger(__name__)

TERMINALS = "/api/pty"
"""Where the paths begin that nodes pass on to each other."""
PRIVATE_GROUPS = ("files", "ptys")
"""Groups that pages of other origins cannot read if no password is set: project files and terminals."""


class App:
    def __init__(
        self,
        runtime: Runtime,
        *,
        credentials: Credentials | None = None,
        hosts: Hosts | None = Hosts(),  # noqa: B008 - immutable
        origins: frozenset[str] = frozenset(),
        limits: ServerLimits | None = None,
        body_limit: int = BODY_LIMIT,
        body_seconds: float = BODY_SECONDS,
        pty_environment: HostPtyEnvironment | None = None,
        other_nodes: OtherNodes | None = None,
        page: bool = True,
        started: bool = True,
    ) -> None:
        """`hosts` are the accepted host names; None accepts any. `origins` are pages that may write, besides those that
        always may. Without `limits` only bodies are limited. `pty_environment` adds variables to terminals. Requests
        for terminals of `other_nodes` are passed on to them. Without `page` there is nothing at `/`, and nobody can
        sign in. An application that is not `started` is ready when `probes.started` was set."""
        self._runtime = runtime
        self._access = Access(credentials, hosts, origins)
        self._body_limit = limits.body_bytes if limits is not None else body_limit
        self._disk = DiskFloor(runtime.paths.data, limits.disk_floor_bytes if limits is not None else 0)
        self._limiting = (
            Limiting(limits, disk=self._disk, count_sessions=runtime.count_sessions) if limits is not None else None
        )
        self._body_seconds = body_seconds
        self._pty_environment = pty_environment
        self._other_nodes = other_nodes
        self._ptys = Lazy(self._make_ptys)
        self._routes = Routes(API, {"ptys": self._ptys})
        self._stopping = asyncio.Event()
        self.probes = Probes(runtime, self._disk, started=started)
        self._request_log = RequestLog(runtime.observer.counters)
        self._pages = Lazy(self._make_pages) if page else None
        self._throttle = Throttle()
        self._outgoing = Outgoing()
        self._callers = Callers(self._access, self._tokens, self._sign_ins if page else None, self._throttle)
        self._ends = StreamEnds(self._callers.valid, runtime.log.signals.watch)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._ptys().upgrade(scope, receive, send)
        elif scope["type"] == "lifespan":
            while (await receive())["type"] != "lifespan.shutdown":
                await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.complete"})

    def stop(self) -> None:
        """End all streams, live ones with a final event, so that connections can close."""
        self.probes.stopping = True
        self._runtime.log.announce(GlobalDisposed())
        self._stopping.set()

    async def close(self) -> None:
        """End everything that a connection may wait for: streams, running work, sockets on terminals."""
        self.stop()
        await self._runtime.execution.close()
        if self._ptys.made is not None:
            await self._ptys.made.close()
        await self._ends.close()

    def _make_pages(self) -> Pages:
        """Called when the page is first asked for: a server whose page nobody opens has nothing of it."""
        from holdfast.server.web.pages import Pages

        return Pages(self._runtime, self._access, self._callers, self._ends, self._limiting, self._throttle)

    def _tokens(self) -> AccessTokens:
        return self._runtime.access_tokens

    def _sign_ins(self) -> SignIns:
        assert self._pages is not None
        return self._pages().sign_ins

    def _make_ptys(self) -> PtyServer:
        """Called for the first terminal, which is after the runtime was opened."""
        from holdfast.server.pty import PtyServer
        from holdfast.server.pty_environment import pty_environment
        from holdfast.server.pty_forwarding import PtyForwarding

        placement, others = self._runtime.placement, self._other_nodes
        return PtyServer(
            self._runtime.locations,
            locate=self._location,
            access=self._access,
            environment=pty_environment(self._pty_environment),
            owner=self._runtime.nodes.described_by_tag,
            forwarding=PtyForwarding(others, placement.has_other_files) if others is not None else None,
            verifies=self._verifies,
            end_of=self._ends.open,
            callers=self._callers,
        )

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = self._request_log.begin(scope["method"])
        if (probed := self.probes.answer(scope["method"], scope["path"])) is not None:
            request.answered(scope["path"], probed.status)
            await send_content(send, probed, cors(None))
            return
        try:
            head = read_head(scope)
            self._access.check_host(head.headers)
        except ApiError as failure:
            refused = error_reply(failure.public())
            request.answered(REFUSED, refused.status)
            await send_content(send, refused, cors(None))
            return
        cross_origin = cors(self._readable_by(head))
        if scope["method"] == "OPTIONS":
            request.answered(PREFLIGHT, 204)
            await send_content(send, HttpReply(204, b""), preflight(head.headers, cross_origin))
            return
        try:
            answer = await self._answer(scope, head, receive, request)
        except Exception as error:  # noqa: BLE001 - every failure becomes a public error here
            answer = error_reply(to_public(error), challenge=not is_page_call(head.headers))
        send = unstalled(send, aborting(scope))
        with suppress(Stalled):
            if isinstance(answer, HttpReply):
                await self._reply(answer, request, send, cross_origin)
                return
            with request.streaming():
                await self._stream(answer, scope, receive, send, cross_origin, request.caller)

    async def _reply(self, answer: HttpReply, request: LoggedRequest, send: Send, cross_origin: Headers) -> None:
        try:
            with self._outgoing.sending(request.caller, len(answer.body)):
                request.answered(request.route, answer.status)
                await send_content(send, answer, cross_origin)
        except TooManyRequests as failure:
            refused = error_reply(failure.public())
            request.answered(request.route, refused.status)
            await send_content(send, refused, cross_origin)
        finally:
            if answer.sent is not None:
                await answer.sent()

    async def _stream(
        self, answer: Streamed, scope: Scope, receive: Receive, send: Send, cross_origin: Headers, caller: str
    ) -> None:
        try:
            if scope["method"] == "HEAD":
                await answer.frames.aclose()
                await send_content(send, HttpReply(200, b"", headers=STREAM_HEADERS), cross_origin)
            else:
                sending = partial(self._outgoing.sending, caller)
                await send_stream(
                    answer.frames, receive, send, self._stopping, cross_origin, sending, ended=answer.ended
                )
        finally:
            if answer.ended is not None:
                answer.ended.close()
            if answer.released is not None:
                answer.released()

    def _readable_by(self, head: Head) -> str | None:
        """The origin of the requesting page, if it may read the response."""
        origin = head.headers.get("origin")
        if origin is None or not self._access.knows_origin(origin, head.headers.get("host")):
            return None
        return origin

    async def _answer(self, scope: Scope, head: Head, receive: Receive, request: LoggedRequest) -> HttpReply | Streamed:
        if self._pages is not None and (scope["path"] == "/" or scope["path"].startswith("/web/")):
            request.route = PAGE
            return await self._pages().answer(scope, head, receive)
        method, headers, query, caller = scope["method"], head.headers, head.query, BY_NODE
        by_node = SIGNATURE in headers and scope["path"].startswith(TERMINALS) and self._verifies(scope, headers)
        if not by_node and not self._is_node(method, scope["path"], headers):
            caller = await self._callers.identify(scope, head)
        report_authenticated(scope)
        request.caller = caller.name
        if self._limiting is not None:
            self._limiting.check_rate(caller)
        if scope["path"] == METRICS and method in ("GET", "HEAD"):
            request.route = METRICS
            caller.check_all_projects("metrics, which are about all of them")
            return await metrics_reply(self._runtime, self._disk, self._request_log.followers)
        if method not in ("GET", "HEAD"):
            self._access.check_page(headers)
        endpoint, handler, path = self._routes.find(method, scope.get("raw_path") or scope["path"].encode())
        request.route = endpoint.path
        await self._callers.check_role(caller, endpoint.role)
        caller.check_scope(endpoint)
        if self._access.credentials is None and endpoint.group in PRIVATE_GROUPS:
            self._access.check_page(headers)
        if endpoint.group == "ptys" and self._other_nodes is not None and not by_node:
            await self._record(caller, endpoint, list(path.values()))
            place = named_place(query, headers)
            forwarded = await self._ptys().forwarded(endpoint, path, place, headers, receive, caller.ends)
            if forwarded is not None:
                return forwarded
        scope_of = endpoint.scope
        if scope_of is EndpointScope.FORM:
            scope_of = EndpointScope.LOCATION if path["sessionID"] == GLOBAL else EndpointScope.SESSION
        session = await self._session(path["sessionID"], caller) if scope_of is EndpointScope.SESSION else None
        location = self._location(query, headers, caller) if scope_of is EndpointScope.LOCATION else None
        if location is not None:
            check_open(self._runtime, caller, location.directory)
        params, asked = decode_params(endpoint, path), decode_query(endpoint, query)
        payload, ignored = await self._payload(endpoint, headers, receive, caller)
        call = ApiCall(
            endpoint=endpoint,
            runtime=self._runtime,
            headers=headers,
            session=session,
            location=location,
            params=params,
            query=asked,
            payload=payload,
            by_node=by_node,
            abandoned=partial(self._abandoned, receive),
            disconnected=partial(disconnected, receive),
            caller=caller,
            holding=partial(self._outgoing.page, caller.name),
            end=self._ends.end,
            disk=self._disk,
        )
        with authored(caller.name):
            if endpoint.group != "ptys" or (self._other_nodes is None and not by_node):  # else it was recorded before
                await self._record(caller, endpoint, _subjects(call), session)
            if endpoint.envelope is Envelope.STREAM:
                return await self._streamed(handler(), call)
            if method == "GET":
                return await self._read(handler(), call)
            if self._limiting is None or endpoint.adds is None or await self._exists(call):
                result = await handler()(call)
            else:
                async with self._limiting.adding(endpoint.adds):
                    result = await handler()(call)
        reply = enclose(endpoint.envelope, result, await self._place(call))
        return naming_ignored(reply, ignored) if ignored else reply

    async def _read(self, handler: Handler, call: ApiCall) -> HttpReply:
        """What is read takes memory until it was sent: there is room for so many of one caller."""
        async with AsyncExitStack() as room:
            await room.enter_async_context(call.holding())
            reply = enclose(call.endpoint.envelope, await handler(call), await self._place(call))
            return reply.replace(sent=room.pop_all().aclose)

    async def _payload(
        self, endpoint: Endpoint, headers: Mapping[str, str], receive: Receive, caller: Caller
    ) -> tuple[Any, list[str]]:
        reading = partial(
            decode_payload, endpoint, headers, receive, limit=self._body_limit, seconds=self._body_seconds
        )
        if self._limiting is None:
            return await reading()
        with self._limiting.reading(caller) as keep:
            return await reading(keep=keep)

    async def _streamed(self, handler: Handler, call: ApiCall) -> Streamed:
        released = self._limiting.follow(call.caller) if self._limiting is not None else None
        try:
            frames = await handler(call)
        except BaseException:
            if released is not None:
                released()
            raise
        ends = call.caller.ends
        return Streamed(frames, self._ends.open(ends) if ends is not None else None, released)

    async def _exists(self, call: ApiCall) -> bool:
        """Whether the Session that is to be created was created before: a repeated request gets it again."""
        id = getattr(call.payload, "id", None) if call.endpoint.adds == "session" else None
        return id is not None and await self._runtime.store.find(id) is not None

    def _is_node(self, method: str, path: str, headers: Mapping[str, str]) -> bool:
        """Whether another node asks for the live events of this process."""
        token = headers.get(NODE)
        if token is None or method != "GET" or path != "/api/event" or RELAY not in headers:
            return False
        return self._runtime.node_secrets.admits(token, self._runtime.nodes.id)

    def _verifies(self, scope: Scope, headers: Mapping[str, str]) -> bool:
        """Whether another node signed this request to this process."""
        path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
        query = scope["query_string"].decode("latin-1")
        return self._runtime.node_secrets.verifies(
            headers.get(SIGNATURE, ""),
            self._runtime.nodes.id,
            scope.get("method", "GET"),
            f"{path}?{query}" if query else path,
        )

    async def _abandoned(self, receive: Receive) -> None:
        """Return when the caller has disconnected or the server stops. For use after the body was read."""
        waits = [asyncio.ensure_future(disconnected(receive)), asyncio.ensure_future(self._stopping.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()

    async def _record(
        self, caller: Caller, endpoint: Endpoint, subjects: Sequence[str], session: Session | None = None
    ) -> None:
        """Before the request is carried out, so that nothing is done that is not recorded. While nothing can be
        written, work can still be interrupted."""
        if not endpoint.is_recorded:
            return
        try:
            await self._runtime.audit_trail.record(
                caller.name,
                f"{endpoint.group}.{endpoint.name}",
                session_id=session.id if session is not None else None,
                subject=" ".join(subjects) or None,
            )
        except StorageError as error:
            if endpoint.role == "admin":
                raise
            log.warning("%s of %s was not recorded: %s", endpoint.operation, caller.name, error)

    async def _place(self, call: ApiCall) -> LocationInfo | None:
        """The Location in a location envelope."""
        if call.endpoint.envelope is not Envelope.LOCATION:
            return None
        assert call.location is not None
        return await self._runtime.location_info(call.location)

    async def _session(self, session_id: str, caller: Caller) -> Session:
        if not is_session_id(session_id):
            raise InvalidRequest(f"Not a session id: {session_id[:100]}", field="sessionID")
        session = await self._runtime.store.find(session_id)
        if session is None:
            raise SessionNotFound(session_id)
        if caller.projects:
            await caller.check_session(session, self._runtime.store.find)
        return session

    def _location(self, query: Mapping[str, str], headers: Mapping[str, str], caller: Caller = OWNER) -> Location:
        place = named_place(query, headers)
        if place.workspace is not None and not place.workspace.startswith("wrk"):
            raise InvalidRequest("Not a workspace id", kind="Query", field="location")
        directory = place.directory or str(self._runtime.directory)
        caller.check_directory(directory)  # first: a limited one does not learn what there is elsewhere
        return served_location(self._runtime.placement, directory, place.workspace, kind="Query")


def _subjects(call: ApiCall) -> list[str]:
    """The names in the path of a request, without that of its Session, and the one in its payload."""
    named = [str(value) for value in msgspec.structs.astuple(call.params)] if call.params is not None else []
    given = getattr(call.payload, "name", None)
    own = call.session.id if call.session is not None else None
    return [*(value for value in named if value != own), *([given] if isinstance(given, str) else [])]
