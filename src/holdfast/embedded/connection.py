"""A connection of the server, with limits that uvicorn lacks: on the size of a request's head, on the time it may take,
and on what follows an answer. They hold before any credential is checked.

Invariants
- At most `HEAD_BYTES` and `HEADERS` of a head, and of the headers after a body, are kept; so is a line without an end
  in the parser. Larger requests are refused.
- A head arrives within `HEAD_SECONDS`. After an answer, the rest of a body is awaited for `REST_SECONDS` and dropped.
- On a Unix socket only processes of the same user are served. Any other connection counts as unauthenticated until the
  application reports valid credentials."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from holdfast.client.local_socket import peer_uid
from holdfast.embedded.unauthenticated import UnauthenticatedConnections
from holdfast.server.extensions import ABORT, AUTHENTICATED, LOCAL

if TYPE_CHECKING:
    import asyncio

    from uvicorn.config import Config
    from uvicorn.server import ServerState

HEAD_BYTES = 64 * 1024
HEADERS = 100
HEAD_SECONDS = 10.0
REST_SECONDS = 10.0
PIPELINED = 32
"""Requests per connection that may wait for the answer to an earlier one."""
TOO_LARGE = "The head of the request is too large."
TOO_MANY = "Too many requests wait on this connection."


class Connection(HttpToolsProtocol):
    _stored = 0
    """Bytes of the URL and of headers, including headers after a body."""
    _count = 0
    """The number of headers, including those after a body."""
    _progress = False
    """Whether the parser called back for the newest data."""
    _silent = 0
    """Bytes since the parser's last callback, which it may be holding."""
    _whole = True
    """Whether the body of the newest request is complete."""
    _unanswered = 0
    _upgraded = False
    _known = False
    _local = False
    """Whether a process of this user opened it, on the Unix socket."""
    _refusal = ""
    _deadline: asyncio.TimerHandle | None = None

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        unauthenticated: UnauthenticatedConnections | None = None,
    ) -> None:
        """`unauthenticated` lists this connection until its caller has shown credentials."""
        super().__init__(config, server_state, app_state, _loop)
        self._unauthenticated = UnauthenticatedConnections() if unauthenticated is None else unauthenticated

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        connected = transport.get_extra_info("socket")
        if connected is not None and connected.family == socket.AF_UNIX:
            self._known = self._local = True
            if peer_uid(connected.fileno()) not in (os.getuid(), None):
                transport.abort()
                return
        else:
            self._unauthenticated.add(self, self.loop)
        self._arm(HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        self._unauthenticated.remove(self)
        super().connection_lost(exc)

    def drop(self) -> None:
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        self._progress = False
        super().data_received(data)
        if self._upgraded or self.transport.is_closing():
            return
        self._silent = 0 if self._progress else self._silent + len(data)
        if self._silent > HEAD_BYTES:
            self._refusal = TOO_LARGE
            self.send_400_response(TOO_LARGE)
        elif not self._unanswered and self.timeout_keep_alive_task is None:
            self._arm(HEAD_SECONDS)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {ABORT: {"abort": self.transport.abort}}
        if not self._known:
            self.scope["extensions"][AUTHENTICATED] = {"report": self._authenticated}
        elif self._local:
            self.scope["extensions"][LOCAL] = {}
        self._stored, self._count, self._whole, self._progress = 0, 0, False, True
        self._arm(HEAD_SECONDS)

    def on_url(self, url: bytes) -> None:
        self._progress = True
        self._stored += len(url)
        if self._stored > HEAD_BYTES:
            self._refuse(TOO_LARGE)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._progress = True
        self._count += 1
        self._stored += len(name) + len(value)
        if self._stored > HEAD_BYTES or self._count > HEADERS:
            self._refuse(TOO_LARGE)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= PIPELINED:
            self._refuse(TOO_MANY)
        self._disarm()
        if not self._known:
            self._unauthenticated.busy(self)
        super().on_headers_complete()
        if not self._upgrading():
            self._unanswered += 1

    def on_body(self, body: bytes) -> None:
        self._progress = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._whole = self._progress = True
        if not self._unanswered:
            self._disarm()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self._unanswered -= 1
        super().on_response_complete()
        if self._unanswered:
            return
        if not self._known:
            self._unauthenticated.idle(self, self.loop)
        if not self._whole:
            self._arm(REST_SECONDS)

    def shutdown(self) -> None:
        """Shut down without waiting for an incomplete request."""
        if not self._whole:
            self.transport.close()
        super().shutdown()

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over to the WebSocket protocol. The application checks its caller at once."""
        self._upgraded = True
        self._disarm()
        self._unauthenticated.remove(self)
        super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:
        if self._unanswered:
            self.transport.close()  # an answer may be half written
        else:
            super().send_400_response(self._refusal or msg)

    def _authenticated(self) -> None:
        self._known = True
        self._unauthenticated.remove(self)

    def _upgrading(self) -> bool:
        return self.parser.should_upgrade() and self._should_upgrade()

    def _refuse(self, reason: str) -> None:
        """Stop the parser from inside a callback; uvicorn then answers with 400."""
        self._refusal = reason
        raise ValueError(reason)

    def _arm(self, seconds: float) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(seconds, self.transport.close)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
