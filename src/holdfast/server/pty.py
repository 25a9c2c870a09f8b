"""Handlers of `protocol/pty.py`, and the WebSocket of `connect`.

Invariants
- Nothing is upgraded for a page of a foreign origin or under a wrong host name, with or without a ticket.
- A connection that uses a ticket instead of credentials consumes it, or is refused.
- A caller without credentials or a valid ticket gets the same refusal whether the directory and the terminal exist or
  not, and nothing is looked up.
- One task writes to a socket, so replay, cursor, output and close stay in order. A closed socket leaves its terminal
  running."""

from __future__ import annotations

import asyncio
import logging
import re
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote

from holdfast.core.pty.errors import PtyExited, PtyNotFound
from holdfast.core.pty.output import pieces
from holdfast.core.pty.terminal import Behind, End, TerminalReplay
from holdfast.core.pty.variables import check_variables
from holdfast.schema.codec import encode
from holdfast.schema.exceptions import ApiError, Forbidden, InvalidRequest
from holdfast.schema.frozen import Frozen
from holdfast.schema.pty import PtyTicket
from holdfast.server.head import read_head
from holdfast.server.pty_environment import no_overlay
from holdfast.server.reply import error_reply
from holdfast.server.tickets import LIFETIME_SECONDS, Claim, Tickets
from holdfast.server.types import HttpReply

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

    from holdfast.core.location.terminals import Terminals
    from holdfast.core.pty.ptys import Ptys
    from holdfast.core.pty.terminal import Attachment
    from holdfast.protocol import pty as protocol
    from holdfast.schema.location import Location
    from holdfast.schema.pty import Pty
    from holdfast.server.auth import Access
    from holdfast.server.pty_environment import PtyEnvironment
    from holdfast.server.types import ApiCall, Receive, Scope, Send

    Locate = Callable[[Mapping[str, str], Mapping[str, str]], Location]

OVERLAY_SECONDS = 5.0
CLOSE_SECONDS = 2.0
FRAME_UNITS = 65_536
INPUT_BYTES = 65_536
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
    ) -> None:
        """`locate` finds a request's Location from its query and headers. `environment` is the host's part of the PTY
        Environment; it overrides that of plugins. `owner` names the server that has a terminal, if another one does."""
        self._locations = locations
        self._locate = locate
        self._access = access
        self._environment = environment
        self._tickets = tickets or Tickets()
        self._owner = owner
        self._sockets: dict[asyncio.Task[Any], _TerminalConnection] = {}
        self._closed = False

    async def list(self, call: ApiCall) -> Sequence[Pty]:
        async with self._ptys(call) as ptys:
            return ptys.list()

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
        if call.headers.get("x-opencode-ticket") != "1" or not self._access.trusts_page(call.headers):
            raise Forbidden(NO_TICKET)
        async with self._ptys(call) as ptys:
            ptys.get(call.params.pty_id)
        assert call.location is not None
        ticket = self._tickets.issue(Claim(call.params.pty_id, call.location))
        return PtyTicket(ticket=ticket, expires_in=LIFETIME_SECONDS)

    async def connect(self, call: ApiCall) -> bool:
        """Refuses a request without an upgrade."""
        raise InvalidRequest(WEBSOCKET_ONLY)

    async def upgrade(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one WebSocket, or refuse the upgrade."""
        await receive()
        try:
            request = self._upgrade_request(scope)
        except _Unauthorized:
            await _refuse(scope, send, HttpReply(403, b""))
            return
        except ApiError as failure:
            await _refuse(scope, send, error_reply(failure.public()))
            return
        # A terminal keeps its Location open, so a closed Location has none; an unauthorized request must not open one.
        if request is None or request.location not in self._locations:
            await _refuse(scope, send, HttpReply(404, b""))
            return
        async with self._locations.use(request.location) as services:
            try:
                services.terminals.ptys.get(request.pty_id)
            except PtyNotFound as missing:
                found = await self._named(missing)
                await _refuse(scope, send, HttpReply(404, b"") if found is missing else error_reply(found.public()))
                return
            if not self._admits(request):
                await _refuse(scope, send, HttpReply(403, b""))
                return
            await self._serve(_TerminalConnection(services.terminals.ptys, request, receive, send))

    async def close(self) -> None:
        """Close all sockets, and wait a moment until they are closed."""
        self._closed = True
        for socket in self._sockets.values():
            socket.finish(1001)
        if self._sockets:
            await asyncio.wait(tuple(self._sockets), timeout=CLOSE_SECONDS)

    async def _serve(self, socket: _TerminalConnection) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._sockets[task] = socket
        if self._closed:
            socket.finish(1001)
        try:
            await socket.run()
        finally:
            del self._sockets[task]

    def _upgrade_request(self, scope: Scope) -> _UpgradeRequest | None:
        """The parsed request, or None if the path is not a terminal's. Raises ApiError, and _Unauthorized before
        anything is looked up for a caller who may not know whether it exists."""
        head = read_head(scope)
        headers, query = head.headers, head.query
        self._access.check_host(headers)
        path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
        match, ticket = re.fullmatch(_CONNECT, path), query.get("ticket", "")
        if match is None or ticket == "":
            self._access.check_credentials(query, headers)
        if match is None:
            return None
        pty_id = unquote(match[1])
        if not self._access.authorizes(query, headers) and not self._tickets.holds(ticket, pty_id):
            raise _Unauthorized
        if self._access.credentials is None and not self._access.trusts_page(headers):
            raise _Unauthorized
        return _UpgradeRequest(pty_id, self._locate(query, headers), ticket, _cursor(query.get("cursor")), headers)

    def _admits(self, request: _UpgradeRequest) -> bool:
        if not self._access.trusts_page(request.headers):
            return False
        return request.ticket == "" or self._tickets.consume(request.ticket, Claim(request.pty_id, request.location))

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


class _UpgradeRequest(Frozen):
    pty_id: str
    location: Location
    ticket: str
    cursor: int | None
    headers: Mapping[str, str]


class _Unauthorized(Exception):
    """The upgrade is rejected. The answer does not tell whether the terminal exists."""


class _Close(Frozen):
    code: int
    reason: str = ""


NOT_FOUND = _Close(4404, "session not found")
EXITED = _Close(4404, "session exited")
TOO_SLOW = _Close(4408, "output was dropped; resume from your cursor")


class _TerminalConnection:
    def __init__(self, ptys: Ptys, request: _UpgradeRequest, receive: Receive, send: Send) -> None:
        self._ptys = ptys
        self._request = request
        self._receive = receive
        self._send = send
        self._wake = asyncio.Event()
        self._closing: _Close | None = None

    def finish(self, code: int) -> None:
        """Close after the current message. The first code is kept."""
        self._closing = self._closing or _Close(code)
        self._wake.set()

    async def run(self) -> None:
        try:
            await self._send({"type": "websocket.accept"})
            try:
                attachment = self._ptys.attach(self._request.pty_id, self._wake.set, cursor=self._request.cursor)
            except PtyNotFound:
                await self._close(NOT_FOUND)
            except PtyExited:
                await self._replay(self._ptys.replay(self._request.pty_id, self._request.cursor))
                await self._close(self._closing or EXITED)
            else:
                await self._follow(attachment)
        except OSError:
            return  # the client disconnected

    async def _follow(self, attachment: Attachment) -> None:
        both = (asyncio.ensure_future(self._deliver(attachment)), asyncio.ensure_future(self._listen(attachment)))
        try:
            done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            attachment.detach()
            for task in both:
                task.cancel()
            await asyncio.wait(both)
        for task in done:
            task.result()

    async def _deliver(self, attachment: Attachment) -> None:
        """Send output until the terminal ends, the client falls behind, or the connection closes."""
        await self._replay(TerminalReplay(attachment.replay, attachment.cursor))
        attachment.activate()
        while self._closing is None:
            match attachment.take(FRAME_UNITS):
                case str(text):
                    await self._send({"type": "websocket.send", "text": text})
                case End():
                    self._closing = _Close(1000)
                case Behind():
                    self._closing = TOO_SLOW
                case None:
                    self._wake.clear()
                    await self._wake.wait()
        await self._close(self._closing)

    async def _replay(self, replay: TerminalReplay) -> None:
        for piece in pieces(replay.text, FRAME_UNITS):
            if self._closing is not None:
                return
            await self._send({"type": "websocket.send", "text": piece})
        await self._send({"type": "websocket.send", "bytes": b"\0" + encode({"cursor": replay.cursor})})

    async def _listen(self, attachment: Attachment) -> None:
        """Receive input until the client disconnects; waits while the terminal does not read."""
        while (message := await self._receive())["type"] == "websocket.receive":
            data = message.get("bytes")
            if data is None:
                data = message["text"].encode()
            if len(data) > INPUT_BYTES:
                self.finish(1009)
            try:
                text = data.decode()
            except UnicodeDecodeError:
                continue
            if self._closing is None:
                await attachment.write(text)

    async def _close(self, close: _Close) -> None:
        await self._send({"type": "websocket.close", "code": close.code, "reason": close.reason})


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
