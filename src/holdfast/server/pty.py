"""Handlers of `protocol/pty.py`, and the WebSocket of `connect`.

Invariants
- Nothing is upgraded for a page of a foreign origin or under a wrong host name, with or without a ticket.
- A connection that uses a ticket instead of credentials consumes it, or is refused.
- A caller without credentials or a valid ticket gets the same refusal whether the directory and the terminal exist or
  not, and nothing is looked up."""

from __future__ import annotations

import asyncio
import logging
import re
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote

from holdfast.core.pty.errors import PtyNotFound
from holdfast.core.pty.variables import check_variables
from holdfast.schema.codec import decoder
from holdfast.schema.exceptions import ApiError, Forbidden, InvalidRequest, Unauthorized
from holdfast.schema.frozen import Frozen
from holdfast.schema.pty import PtyTicket
from holdfast.schema.record import Record
from holdfast.server.errors import to_public
from holdfast.server.handlers.events import SIGNATURE
from holdfast.server.head import read_head
from holdfast.server.locations import named_place
from holdfast.server.other_nodes import NodeSocketRefused
from holdfast.server.pty_connection import INPUT_BYTES, TerminalConnection
from holdfast.server.pty_environment import no_overlay
from holdfast.server.reply import error_reply
from holdfast.server.tickets import LIFETIME_SECONDS, Claim, Tickets
from holdfast.server.types import HttpReply

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

    from holdfast.core.location.terminals import Terminals
    from holdfast.core.pty.ptys import Ptys
    from holdfast.protocol import pty as protocol
    from holdfast.protocol.endpoint import Endpoint
    from holdfast.schema.location import Location
    from holdfast.schema.pty import Pty
    from holdfast.server.auth import Access
    from holdfast.server.caller import Caller
    from holdfast.server.callers import Callers
    from holdfast.server.locations import NamedPlace
    from holdfast.server.pty_environment import PtyEnvironment
    from holdfast.server.pty_forwarding import PtyForwarding
    from holdfast.server.stream_ends import StreamEnd
    from holdfast.server.types import ApiCall, Receive, Scope, Send

    Locate = Callable[[Mapping[str, str], Mapping[str, str]], Location]

OVERLAY_SECONDS = 5.0
CLOSE_SECONDS = 2.0
GOING_AWAY = 1001
SIGNED_OUT = 1008
SAFE = 2**53 - 1
NO_TICKET = "A ticket is given to this server's own clients and pages only"
WEBSOCKET_ONLY = "This address takes WebSocket connections only"

SOCKET_OPTIONS: dict[str, Any] = {
    "ws": "websockets-sansio",
    "ws_max_size": INPUT_BYTES,
    "ws_ping_interval": 30.0,
    "ws_ping_timeout": 30.0,
}
"""Options of uvicorn, because pings are below ASGI, and so that an oversized frame is refused before it is buffered."""

log = logging.getLogger(__name__)

_CONNECT = r"/api/pty/([^/]+)/connect/?"
_CURSOR = r"-1|[0-9]{1,16}"


class HasTerminals(Protocol):
    @property
    def terminals(self) -> Terminals: ...


class Locations(Protocol):
    def use(self, location: Location) -> AbstractAsyncContextManager[HasTerminals]: ...

    def __contains__(self, location: Location) -> bool: ...


class _Connection(Protocol):
    def finish(self, code: int) -> None:
        """Close after the current message."""

    async def run(self) -> None: ...


class PtyServer:
    def __init__(
        self,
        locations: Locations,
        *,
        locate: Locate,
        access: Access,
        environment: PtyEnvironment = no_overlay,
        tickets: Tickets | None = None,
        owner: Callable[[str], Awaitable[str | None]] | None = None,
        forwarding: PtyForwarding | None = None,
        verifies: Callable[[Scope, Mapping[str, str]], bool] = lambda scope, headers: False,
        end_of: Callable[[str], StreamEnd] | None = None,
        callers: Callers,
    ) -> None:
        """`locate` finds a request's Location from its query and headers. `environment` is the host's part of the PTY
        Environment; it overrides that of plugins. `owner` names the server that has a terminal, if another one does;
        `forwarding` passes requests on to it. `verifies` tells whether another node signed a request. `end_of` tells
        when a sign-in of the page or a token ends, and with it the sockets that it opened. `callers` knows tokens."""
        self._locations = locations
        self._locate = locate
        self._access = access
        self._environment = environment
        self._tickets = tickets or Tickets()
        self._owner = owner
        self._forwarding = forwarding
        self._verifies = verifies
        self._end_of = end_of
        self._callers = callers
        self._sockets: dict[asyncio.Task[Any], _Connection] = {}
        self._closed = False

    async def forwarded(
        self,
        endpoint: Endpoint,
        params: Mapping[str, str],
        place: NamedPlace,
        headers: Mapping[str, str],
        receive: Receive,
        sign_in: str | None = None,
    ) -> HttpReply | None:
        """The answer of another node, if it has the terminal or the Location. `sign_in` is the caller's, if it is a
        page."""
        if self._forwarding is None:
            return None
        if endpoint.name == "connect_token":
            self._check_ticket_request(headers)
        reply = await self._forwarding.reply(endpoint, params, place, headers, receive)
        if endpoint.name == "connect_token" and reply is not None and reply.status == 200 and sign_in is not None:
            issued: _IssuedElsewhere = decoder(_IssuedElsewhere).decode(reply.body)
            self._tickets.note(issued.data.ticket, sign_in)
        return reply

    async def list(self, call: ApiCall) -> Sequence[Pty]:
        async with self._ptys(call) as ptys:
            own = ptys.list()
        if self._forwarding is None or call.by_node:
            return own
        place = named_place(_location_fields(call.query), call.headers)
        return (*own, *await self._forwarding.listed(place))

    async def create(self, call: ApiCall) -> Pty:
        payload: protocol.CreatePtyPayload = call.payload
        async with self._services(call) as services:
            ptys = services.terminals.ptys
            cwd = ptys.working_directory(payload.cwd)
            overlay = {**await services.terminals.environment(cwd), **await self._overlay(call, cwd)}
            return ptys.create(
                command=payload.command,
                args=payload.args or (),
                cwd=cwd,
                title=payload.title,
                env={**(payload.env or {}), **overlay},
            )

    async def get(self, call: ApiCall) -> Pty:
        async with self._ptys(call) as ptys:
            return ptys.get(call.params.pty_id)

    async def update(self, call: ApiCall) -> Pty:
        payload: protocol.UpdatePtyPayload = call.payload
        async with self._ptys(call) as ptys:
            return ptys.update(call.params.pty_id, title=payload.title, size=payload.size)

    async def remove(self, call: ApiCall) -> None:
        async with self._ptys(call) as ptys:
            await ptys.remove(call.params.pty_id)

    async def connect_token(self, call: ApiCall) -> PtyTicket:
        if not call.by_node:
            self._check_ticket_request(call.headers)
        async with self._ptys(call) as ptys:
            ptys.get(call.params.pty_id)
        assert call.location is not None
        seal = partial(self._forwarding.seal, call.params.pty_id) if self._forwarding is not None else None
        ticket = self._tickets.issue(Claim(call.params.pty_id, call.location), seal, sign_in=call.caller.ends)
        return PtyTicket(ticket=ticket, expires_in=LIFETIME_SECONDS)

    async def connect(self, call: ApiCall) -> bool:
        """Refuses a request without an upgrade, an unknown terminal first."""
        async with self._ptys(call) as ptys:
            ptys.get(call.params.pty_id)
        raise InvalidRequest(WEBSOCKET_ONLY)

    async def upgrade(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one WebSocket, or refuse the upgrade."""
        await receive()
        try:
            request = await self._upgrade_request(scope)
        except _Unauthorized:
            await _refuse(scope, send, HttpReply(403, b""))
            return
        except ApiError as failure:
            await _refuse(scope, send, error_reply(failure.public()))
            return
        if request is None:
            await _refuse(scope, send, HttpReply(404, b""))
            return
        try:
            relayed = await self._relayed(request, receive, send)
            location = self._locate(request.query, request.headers) if relayed is None else None
        except _Unauthorized:
            await _refuse(scope, send, HttpReply(403, b""))
        except NodeSocketRefused as refused:
            await _refuse(scope, send, refused.reply)
        except Exception as error:  # noqa: BLE001 - every failure becomes a public error here
            await _refuse(scope, send, error_reply(to_public(error)))
        else:
            if relayed is not None:
                await self._serve(relayed, self._tickets.sign_in(request.ticket) or request.ends)
            elif location is not None:
                await self._connected(request, location, scope, receive, send)

    async def _relayed(self, request: _UpgradeRequest, receive: Receive, send: Send) -> _Connection | None:
        """The connection to a terminal of another node; None if this process is to serve it."""
        forwarding = self._forwarding
        node = await forwarding.owner(request.pty_id) if forwarding is not None and not request.by_node else None
        if forwarding is None or node is None:
            if request.issued_elsewhere:
                raise _Unauthorized
            return None
        if not self._access.trusts_page(request.headers):
            raise _Unauthorized
        place = named_place(request.query, request.headers)
        target = forwarding.connect_target(request.pty_id, place, request.cursor, request.ticket)
        return await forwarding.connect(node, target, receive, send)

    async def _connected(
        self, request: _UpgradeRequest, location: Location, scope: Scope, receive: Receive, send: Send
    ) -> None:
        # A terminal keeps its Location open, so a closed Location has none; an unauthorized request must not open one.
        if location not in self._locations:
            await _refuse(scope, send, HttpReply(404, b""))
            return
        async with self._locations.use(location) as services:
            try:
                services.terminals.ptys.get(request.pty_id)
            except PtyNotFound as missing:
                found = await self._named(missing)
                await _refuse(scope, send, HttpReply(404, b"") if found is missing else error_reply(found.public()))
                return
            sign_in = self._tickets.sign_in(request.ticket) or request.ends
            if not self._admits(request, location):
                await _refuse(scope, send, HttpReply(403, b""))
                return
            await self._serve(
                TerminalConnection(services.terminals.ptys, request.pty_id, receive, send, cursor=request.cursor),
                sign_in,
            )

    async def close(self) -> None:
        """Close all sockets, and wait a moment until they are closed."""
        self._closed = True
        for socket in self._sockets.values():
            socket.finish(GOING_AWAY)
        if self._sockets:
            await asyncio.wait(tuple(self._sockets), timeout=CLOSE_SECONDS)

    async def _serve(self, socket: _Connection, sign_in: str | None = None) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._sockets[task] = socket
        if self._closed:
            socket.finish(GOING_AWAY)
        try:
            async with self._until_signed_out(socket, sign_in):
                await socket.run()
        finally:
            del self._sockets[task]

    @asynccontextmanager
    async def _until_signed_out(self, socket: _Connection, sign_in: str | None) -> AsyncIterator[None]:
        """Finishes the socket when the sign-in ends with which it was opened."""
        if sign_in is None or self._end_of is None:
            yield
            return
        ended = self._end_of(sign_in)

        async def finish() -> None:
            await ended.wait()
            socket.finish(SIGNED_OUT)

        waiting = asyncio.get_running_loop().create_task(finish())
        try:
            yield
        finally:
            ended.close()
            waiting.cancel()
            await asyncio.wait({waiting})

    async def _upgrade_request(self, scope: Scope) -> _UpgradeRequest | None:
        """The parsed request, or None if the path is not a terminal's. Raises ApiError, and _Unauthorized before
        anything is looked up for a caller who may not know whether it exists. A token must have the role admin, with or
        without a ticket: a terminal is a shell."""
        head = read_head(scope)
        headers, query = head.headers, head.query
        self._access.check_host(headers)
        path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
        match, ticket = re.fullmatch(_CONNECT, path), query.get("ticket", "")
        by_node = match is not None and SIGNATURE in headers and self._verifies(scope, headers)
        try:
            caller: Caller | None = await self._callers.identify(scope, head) if not by_node else None
        except Unauthorized:
            if match is None or ticket == "":
                raise
            caller = None
        if caller is not None:
            await self._callers.check_role(caller, "admin")
        if match is None:
            return None
        pty_id = unquote(match[1])
        known = self._tickets.holds(ticket, pty_id) if ticket else by_node
        elsewhere = not known and caller is None
        if elsewhere and (self._forwarding is None or by_node or not self._forwarding.issued(pty_id, ticket)):
            raise _Unauthorized
        if self._access.credentials is None and not self._access.trusts_page(headers):
            raise _Unauthorized
        ends = caller.ends if caller is not None else None
        return _UpgradeRequest(pty_id, query, headers, ticket, _cursor(query.get("cursor")), by_node, elsewhere, ends)

    def _admits(self, request: _UpgradeRequest, location: Location) -> bool:
        if not self._access.trusts_page(request.headers):
            return False
        return request.ticket == "" or self._tickets.consume(request.ticket, Claim(request.pty_id, location))

    def _check_ticket_request(self, headers: Mapping[str, str]) -> None:
        if headers.get("x-opencode-ticket") != "1" or not self._access.trusts_page(headers):
            raise Forbidden(NO_TICKET)

    async def _overlay(self, call: ApiCall, cwd: str) -> Mapping[str, str]:
        assert call.location is not None
        try:
            async with asyncio.timeout(OVERLAY_SECONDS):
                overlay = await self._environment(call.location.directory, cwd)
            return check_variables(overlay)
        except Exception as error:  # noqa: BLE001 - host code may raise anything; the terminal starts without its variables
            log.warning("the host gave no variables for a terminal in %s: %r", cwd, error)
            return {}

    @asynccontextmanager
    async def _ptys(self, call: ApiCall) -> AsyncIterator[Ptys]:
        async with self._services(call) as services:
            try:
                yield services.terminals.ptys
            except PtyNotFound as missing:
                raise await self._named(missing) from None

    async def _named(self, missing: PtyNotFound) -> PtyNotFound:
        """With the server that has the terminal, if another one does."""
        node = await self._owner(missing.pty_id) if self._owner is not None else None
        return PtyNotFound(missing.pty_id, node) if node is not None else missing

    @asynccontextmanager
    async def _services(self, call: ApiCall) -> AsyncIterator[HasTerminals]:
        """The services of the request's Location."""
        assert call.location is not None
        async with self._locations.use(call.location) as services:
            yield services


class _IssuedElsewhere(Record):
    data: PtyTicket


class _UpgradeRequest(Frozen):
    pty_id: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    ticket: str
    cursor: int | None
    by_node: bool
    """Whether another node has authorized the caller."""
    issued_elsewhere: bool
    """Whether the caller has nothing but a ticket of another node, which that node has yet to accept."""
    ends: str | None
    """The token with which the connection ends, if it was opened with one."""


class _Unauthorized(Exception):
    """The upgrade is rejected. The answer does not tell whether the terminal exists."""


def _location_fields(query: protocol.ConnectQuery | None) -> dict[str, str]:
    """The Location that a query names, as the query has it."""
    named = query.location if query is not None else None
    fields = {} if named is None else {"directory": named.directory, "workspace": named.workspace}
    return {f"location[{name}]": value for name, value in fields.items() if value}


def _cursor(given: str | None) -> int | None:
    """Any value but an integer from -1 on is ignored."""
    if given is None or re.fullmatch(_CURSOR, given) is None or int(given) > SAFE:
        return None
    return int(given)


async def _refuse(scope: Scope, send: Send, content: HttpReply) -> None:
    if "websocket.http.response" not in (scope.get("extensions") or {}):
        await send({"type": "websocket.close", "code": 1008})
        return
    kind = [(b"content-type", content.media_type.encode("latin-1"))] if content.body else []
    headers = [*kind, (b"content-length", str(len(content.body)).encode()), (b"vary", b"Origin"), *content.headers]
    await send({"type": "websocket.http.response.start", "status": content.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": content.body})
