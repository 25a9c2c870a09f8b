"""A connection of the server. uvicorn bounds neither the size of a request's head nor the time that one may take; both
are open to whoever can connect, before any credential is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

if TYPE_CHECKING:
    import asyncio

HEAD_BYTES = 1024 * 1024
HEAD_SECONDS = 60.0
TOO_LARGE = "The head of the request is too large."


class Connection(HttpToolsProtocol):
    _received = 0
    """Of a head that is not complete; the parser may be holding all of it."""
    _stored = 0
    """Of headers, those that follow a body included."""
    _complete = True
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._complete:
            self._received += len(data)
            if self._received > HEAD_BYTES and not self.transport.is_closing():
                self.send_400_response(TOO_LARGE)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._complete, self._received, self._stored = False, 0, 0
        self._arm()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._stored += len(name) + len(value)
        if self._stored > HEAD_BYTES:
            raise ValueError(TOO_LARGE)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._complete = True
        self._disarm()
        super().on_headers_complete()

    def _arm(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
