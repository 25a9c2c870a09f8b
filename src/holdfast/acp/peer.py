"""One client on a connection: its requests by method, and what it offers.

Requests are answered while others are under way, each in a task of the connection. What a client sends that is no
message is answered with an error; the connection goes on."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.acp import requests
from holdfast.acp.editor_files import SECONDS
from holdfast.acp.errors import failed, read, unknown_method
from holdfast.mcp.connection import Connection
from holdfast.mcp.errors import McpError, RpcError
from holdfast.mcp.messages import INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR, write_error
from holdfast.mcp.transport import Route
from holdfast.schema.deferred import deferred
from holdfast.schema.version import __version__

if TYPE_CHECKING:
    from holdfast.acp import open_sessions
    from holdfast.acp.open_sessions import OpenSessions
    from holdfast.acp.runtime_access import RuntimeAccess
    from holdfast.mcp.connection import IncomingRequest
    from holdfast.mcp.transport import Transport
else:
    open_sessions = deferred("holdfast.acp.open_sessions")

PROTOCOL_VERSION = 1
REQUEST_LIMIT = 256
"""Of requests that a client may have under way; one that sends more is given up."""
COMPLAINTS = 16
"""Of answers to what is no message that wait to be sent."""
CANCEL_METHOD = "$/cancel_request"
CANCELLED = -32800
CANCEL = "session/cancel"

CAPABILITIES: dict[str, Any] = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
    "mcpCapabilities": {"http": True, "sse": False},
    "sessionCapabilities": {"list": {}, "resume": {}, "fork": {}, "close": {}, "delete": {}},
}
LOGIN = {
    "id": "login",
    "name": "Connect a provider",
    "description": "Stores a key of a provider, or signs in to it, for all clients of Holdfast on this machine",
    "type": "terminal",
    "args": ["--login"],
}


class AcpPeer:
    """A `holdfast.mcp.connection.Peer`."""

    def __init__(self, transport: Transport, access: RuntimeAccess) -> None:
        self.ended: asyncio.Future[McpError] = asyncio.get_running_loop().create_future()
        self.connection = Connection(
            transport, self, request_limit=REQUEST_LIMIT, cancel_method=CANCEL_METHOD, cancelled_code=CANCELLED
        )
        self._access = access
        self._offers: requests.ClientCapabilities | None = None
        self._sessions: OpenSessions | None = None
        self._complaints = 0

    async def serve(self) -> McpError:
        """Serve until the client leaves; returns how that happened. Requests to people stay open."""
        try:
            await self.connection.start()
            return await self.ended
        finally:
            if self._sessions is not None:
                await self._sessions.close()
            await self.connection.close()

    # -- for the connection ----------------------------------------------------------------------------------------

    async def on_request(self, request: IncomingRequest) -> Any:
        if request.method == "initialize":
            return self._initialize(read(request.params, requests.Initialize))
        if self._offers is None:
            raise RpcError(INVALID_REQUEST, "The first request must be `initialize`")
        if request.method == "authenticate":
            return {}
        handler = open_sessions.HANDLERS.get(request.method)
        if handler is None:
            raise unknown_method(request.method)
        from holdfast.schema.exceptions import HoldfastError

        try:
            params = read(request.params, handler.params)
            return await handler.answer(await self._opened(), params)
        except HoldfastError as error:
            raise failed(error) from error
        except McpError as error:  # the editor went away while it was sent something
            raise RpcError(INTERNAL_ERROR, str(error)) from error

    def on_notification(self, method: str, params: msgspec.Raw) -> None:
        if method == CANCEL and self._sessions is not None:
            with suppress(RpcError):  # a notification has no answer
                self._sessions.cancel(read(params, requests.OfSession))

    def on_garbage(self, data: bytes) -> None:
        if self._complaints < COMPLAINTS:  # a client that does not read its answers gets no more of them
            self._complaints += 1
            self.connection.run(self._complain(data))

    def on_closed(self, error: McpError) -> None:
        if not self.ended.done():
            self.ended.set_result(error)

    def _initialize(self, params: requests.Initialize) -> Any:
        self._offers = params.client_capabilities or requests.ClientCapabilities()
        self._access.begin()
        return {
            "protocolVersion": PROTOCOL_VERSION,
            "agentCapabilities": CAPABILITIES,
            "agentInfo": {"name": "holdfast", "title": "Holdfast", "version": __version__},
            "authMethods": [LOGIN] if self._offers.has_login_terminal else [],
        }

    async def _opened(self) -> OpenSessions:
        host = await self._access.host()
        if self._sessions is None:
            assert self._offers is not None
            self._sessions = open_sessions.OpenSessions(host, self.connection, self._offers)
            self._access.files.use(self._offers, self._ask_for_file, self._sessions.root_of)
        return self._sessions

    async def _ask_for_file(self, method: str, params: dict[str, Any]) -> msgspec.Raw:
        return await self.connection.call(method, params, seconds=SECONDS)

    async def _complain(self, data: bytes) -> None:
        try:
            msgspec.json.decode(data)
            frame = write_error(None, INVALID_REQUEST, "This is not a JSON-RPC message")
        except (ValueError, RecursionError):
            frame = write_error(None, PARSE_ERROR, "This is not JSON")
        try:
            with suppress(McpError):
                await self.connection.transport.send(frame, Route())
        finally:
            self._complaints -= 1
