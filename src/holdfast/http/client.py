"""Sends requests on asyncio and keeps connections for the next one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from holdfast.http.connect import connect
from holdfast.http.errors import ConnectTimeout, NoResponse, ResponseTimeout
from holdfast.http.network import tls_context

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence
    from ipaddress import IPv4Address, IPv6Address

    from holdfast.http.connection import Connection, Response
    from holdfast.http.request import Request
    from holdfast.http.url import Origin

STALE_SECONDS = 1.0
"""A reused connection that is closed sooner than this, without a response, had been closed while it was idle."""


class HttpClient:
    """`keep_seconds` is how long an idle connection is kept; 0 keeps none. `resend` sends a request again, once and on
    a fresh connection, when a kept one turns out to be closed: the server may then see it twice."""

    def __init__(self, *, keep_seconds: float = 0.0, resend: bool = False) -> None:
        self._keep_seconds = keep_seconds
        self._resend = resend
        self._closed = False
        self._connections: set[Connection] = set()
        self._idle: dict[Origin, list[Connection]] = {}
        self._context: ssl.SSLContext | None = None

    async def send(
        self,
        request: Request,
        *,
        connect_seconds: float | None = None,
        response_seconds: float | None = None,
        addresses: Sequence[IPv4Address | IPv6Address] | None = None,
    ) -> Response:
        """The response, once its head has arrived. `response_seconds` includes connecting. `addresses` are connected to
        instead of those that the host resolves to. Raises InvalidRequest (or another ValueError, for a host name that
        cannot be looked up), ConnectTimeout, ResponseTimeout and OSError."""
        head, origin = request.head(), request.url.origin
        connection = self._take_idle(origin)
        if connection is not None:
            started = connection.loop.time()
            try:
                return await connection.send(head, request.body, response_seconds)
            except NoResponse:
                if not self._resend or connection.loop.time() - started > STALE_SECONDS:
                    raise
                self._close_idle(origin)  # the server has closed the others too
        try:
            async with asyncio.timeout(response_seconds):
                connection = await self._open(origin, connect_seconds, addresses)
                return await connection.send(head, request.body)
        except ConnectTimeout:
            raise
        except TimeoutError as error:
            raise ResponseTimeout from error

    async def close(self) -> None:
        self._closed = True
        for connection in self._connections:
            connection.close()
        self._connections.clear()
        self._idle.clear()
        await asyncio.sleep(0)  # the loop closes the sockets

    async def _open(
        self, origin: Origin, seconds: float | None, addresses: Sequence[IPv4Address | IPv6Address] | None
    ) -> Connection:
        from holdfast.http.connection import Connection

        def on_free(connection: Connection) -> None:
            self._keep(origin, connection)

        try:
            async with asyncio.timeout(seconds):
                opened = await connect(origin, lambda: Connection(on_free), self._tls, addresses)
        except TimeoutError as error:
            if error.errno is not None:  # the limit of the operating system
                raise ConnectionError(error.errno, error.strerror) from error
            raise ConnectTimeout from error
        if self._closed:
            opened.close()
            raise ConnectionAbortedError("the transport was closed")
        self._connections = {each for each in self._connections if not each.closed} | {opened}
        return opened

    def _keep(self, origin: Origin, connection: Connection) -> None:
        if not self._keep_seconds:
            connection.close()
            return
        connection.close_after(self._keep_seconds)
        idle = self._idle.setdefault(origin, [])
        idle[:] = (each for each in (*idle, connection) if not each.closed)

    def _take_idle(self, origin: Origin) -> Connection | None:
        """The one that was used last: the server is the least likely to have closed it."""
        idle = self._idle.get(origin)
        while idle:
            connection = idle.pop()
            if not connection.closed:
                connection.close_after(None)
                return connection
        self._idle.pop(origin, None)
        return None

    def _close_idle(self, origin: Origin) -> None:
        for connection in self._idle.pop(origin, ()):
            connection.close()

    def _tls(self) -> ssl.SSLContext:
        if self._context is None:
            self._context = tls_context()
        return self._context
