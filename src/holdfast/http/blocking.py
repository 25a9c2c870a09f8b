"""Sends requests from blocking code and keeps connections for the next one. Threads may share a client; a response is
read by one thread, and any thread may close it."""

from __future__ import annotations

import select
import socket
import time
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING

from holdfast.http.errors import (
    ConnectTimeout,
    InvalidRequest,
    NoResponse,
    ProxyRefused,
    ResponseTimeout,
    ResponseTruncated,
)
from holdfast.http.network import check_tunnel, enable_keepalive, tls_context
from holdfast.http.parser import ResponseParser
from holdfast.http.request import blocks
from holdfast.http.url import Proxy

if TYPE_CHECKING:
    import ssl

    from holdfast.http.request import Request
    from holdfast.http.url import Origin

RECEIVE = 64 * 1024


class BlockingClient:
    """`keep_seconds` is how long an idle connection is kept; 0 keeps none."""

    def __init__(self, *, keep_seconds: float = 0.0) -> None:
        self._keep_seconds = keep_seconds
        self._lock = Lock()
        self._idle: dict[Origin, list[tuple[float, socket.socket]]] = {}
        self._closed = False
        self._context: ssl.SSLContext | None = None

    def send(
        self, request: Request, *, connect_seconds: float | None = None, read_seconds: float | None = None
    ) -> BlockingResponse:
        """The response, once its head has arrived. `read_seconds` limits each wait for bytes. Raises InvalidRequest (or
        another ValueError, for a host name that cannot be looked up), ConnectTimeout, ResponseTimeout and OSError."""
        head, origin = request.head(), request.url.origin
        connection = self._take_idle(origin) or self._open(origin, connect_seconds)
        connection.settimeout(read_seconds)
        response = BlockingResponse(self, origin, connection)
        try:
            for block in blocks(head, request.body):
                connection.sendall(block)
        except TimeoutError as error:
            response.close()
            raise ResponseTimeout from error
        except OSError:
            pass  # the server may have answered before it closed the connection
        try:
            response.receive_head()
        except BaseException:
            response.close()
            raise
        return response

    def close(self) -> None:
        """From now on no connection is kept: a response that another thread reads closes its own."""
        with self._lock:
            idle, self._idle = self._idle, {}
            self._closed = True
        for connections in idle.values():
            for _, connection in connections:
                connection.close()

    def keep(self, origin: Origin, connection: socket.socket) -> None:
        """Takes back the connection of a complete response."""
        with self._lock:
            if self._keep_seconds and not self._closed:
                self._idle.setdefault(origin, []).append((time.monotonic() + self._keep_seconds, connection))
                return
        connection.close()

    def _take_idle(self, origin: Origin) -> socket.socket | None:
        while True:
            with self._lock:
                connections = self._idle.get(origin)
                if not connections:
                    return None
                expires, connection = connections.pop()
            if time.monotonic() < expires and not _is_readable(connection):
                return connection
            connection.close()

    def _open(self, origin: Origin, seconds: float | None) -> socket.socket:
        proxy = Proxy.of(origin)
        there = proxy.origin if proxy is not None else origin
        if there.is_secure and proxy is not None:
            raise InvalidRequest("a proxy that is reached by https cannot be used by blocking code")
        try:
            connection = _connected(there, seconds)
            try:
                if proxy is not None and origin.is_secure:
                    _open_tunnel(connection, proxy.connect_head(origin))
                if origin.is_secure:
                    connection = self._tls().wrap_socket(connection, server_hostname=origin.host)
            except BaseException:
                connection.close()
                raise
        except TimeoutError as error:
            raise ConnectTimeout from error
        return connection

    def _tls(self) -> ssl.SSLContext:
        if self._context is None:
            self._context = tls_context()
        return self._context


class BlockingResponse:
    """Read the body with `read`, then call `close`."""

    def __init__(self, client: BlockingClient, origin: Origin, connection: socket.socket) -> None:
        self._client = client
        self._origin = origin
        self._connection: socket.socket | None = connection
        self._parser = ResponseParser()
        self._lock = Lock()
        self._receiving = False
        self._closing = False

    @property
    def status(self) -> int:
        return self._parser.status

    @property
    def headers(self) -> dict[str, str]:
        """Names in lower case."""
        return self._parser.headers

    def read(self) -> bytes:
        """The next bytes of the body; b"" at its end. Raises HttpError and ResponseTimeout."""
        while not self._parser.unread:
            if self._parser.complete:
                return b""
            self._receive()
        return self._parser.take()

    def receive_head(self) -> None:
        while not self.status:
            self._receive()

    def close(self) -> None:
        """A thread that waits in `read` gets ResponseTruncated."""
        with self._lock:
            connection = self._connection
            if connection is None:
                return
            if self._receiving:
                # Closing would not wake the thread that waits, and the descriptor could be reused meanwhile.
                # That thread closes it.
                self._closing = True
                with suppress(OSError):
                    socket.socket.shutdown(connection, socket.SHUT_RDWR)
                return
            self._connection = None
        if self._parser.reusable:
            self._client.keep(self._origin, connection)
        else:
            connection.close()

    def _receive(self) -> None:
        with self._lock:
            if self._connection is None:
                raise ResponseTruncated
            self._receiving = True
        try:
            data = self._connection.recv(RECEIVE)
        except TimeoutError as error:
            raise ResponseTimeout from error
        except OSError as error:
            raise (ResponseTruncated if self._parser.received else NoResponse) from error
        finally:
            with self._lock:
                self._receiving = False
                if self._closing:
                    self._connection.close()
                    self._connection = None
        if data:
            self._parser.feed(data)
        else:
            self._parser.end()


def _connected(origin: Origin, seconds: float | None) -> socket.socket:
    if origin.socket is None:
        connection = socket.create_connection((origin.host, origin.port), seconds)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        enable_keepalive(connection)
        return connection
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(seconds)
        connection.connect(origin.socket)
    except BaseException:
        connection.close()
        raise
    return connection


def _open_tunnel(connection: socket.socket, head: bytes) -> None:
    connection.sendall(head)
    answer = b""
    while not check_tunnel(answer):
        data = connection.recv(RECEIVE)
        if not data:
            raise ProxyRefused("it closed the connection")
        answer += data


def _is_readable(connection: socket.socket) -> bool:
    """An idle connection with something to read was closed by the server, or is out of step."""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))
