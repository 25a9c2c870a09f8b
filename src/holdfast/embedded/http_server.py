"""The HTTP server: uvicorn. After a signal, connections and streams are closed within a few seconds, whatever the
clients do."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import uvicorn

from holdfast.core.observe.log_context import fields
from holdfast.embedded.connection import Connection
from holdfast.embedded.listening import BACKLOG
from holdfast.embedded.unauthenticated import LIMIT, MOST, UnauthenticatedConnections
from holdfast.server.pty import SOCKET_OPTIONS

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable, Iterator
    from types import FrameType

    from holdfast.server.app import App

GRACE_SECONDS = 2
"""How long connections may take to end after a signal."""
IDLE_SECONDS = 5
"""How long a connection is kept open between two requests."""
FIRST_REQUEST_SECONDS = 0.5
"""How long a server that ends waits for the first request of a connection."""

log = logging.getLogger(__name__)


class HttpServer(uvicorn.Server):
    """Closes the application before it waits for connections: streams never end by themselves, and turns take long."""

    def __init__(
        self,
        config: uvicorn.Config,
        app: App,
        *,
        ready: Callable[[], None] | None = None,
        ending: Callable[[], None] | None = None,
        hung_up: Callable[[], None] | None = None,
        drain: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`ready` is called when connections are accepted and signals are handled, `ending` at the signal that ends the
        server, `hung_up` at SIGHUP, which ends the server only if its terminal was closed. `drain` runs at SIGTERM
        before the server ends; another signal ends it at once."""
        super().__init__(config)
        self._app = app
        self._ready = ready
        self._ending = ending
        self._hung_up = hung_up
        self._drain = drain
        self._draining: asyncio.Task[None] | None = None
        self._had_terminal = _has_terminal()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._ready is not None:
            self._ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Let signals end only the server: then the process closes the runtime and exits."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        under_nohup = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        loop.add_signal_handler(signal.SIGHUP, partial(self._hang_up, may_go=under_nohup))
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                loop.remove_signal_handler(number)

    def _hang_up(self, *, may_go: bool) -> None:
        """SIGHUP means that the terminal was closed, or asks for a reload. Under nohup the terminal may be closed."""
        if self._had_terminal and not may_go and not _has_terminal():
            self.handle_exit(signal.SIGHUP, None)
        elif self._hung_up is not None:
            self._hung_up()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if sig == signal.SIGTERM and self._drain is not None and self._draining is None:
            self._draining = asyncio.get_running_loop().create_task(self._drained(self._drain), name="holdfast-drain")
            return
        if not self.should_exit:
            log.info("stopping", extra=fields(signal=signal.Signals(sig).name))
            if self._ending is not None:
                self._ending()
        super().handle_exit(sig, frame)

    async def _drained(self, drain: Callable[[], Awaitable[None]]) -> None:
        try:
            await drain()
        finally:
            self.handle_exit(signal.SIGTERM, None)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._stop_listening(sockets or [])
        await self._app.close()
        await super().shutdown(sockets)

    async def _stop_listening(self, sockets: list[socket.socket]) -> None:
        """Refuse new connections, and let those without a request so far send one: a proxy sends what a server may have
        received to no other."""
        await asyncio.sleep(0)  # takes the connections that wait
        for server in self.servers:
            server.close()
        for each in sockets:
            each.close()
        loop = asyncio.get_running_loop()
        until = loop.time() + FIRST_REQUEST_SECONDS
        while loop.time() < until and any(map(_has_no_request, self.server_state.connections)):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def server_config(app: App) -> uvicorn.Config:
    connection: Any = partial(Connection, unauthenticated=_unauthenticated())
    return uvicorn.Config(
        app,
        http=connection,
        log_config=None,
        log_level="error",  # malformed requests are not logged: anybody can send many
        lifespan="off",
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
        **SOCKET_OPTIONS,
    )


def _unauthenticated() -> UnauthenticatedConnections:
    """Leave some of the files that this process may open to callers with credentials."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST if files == resource.RLIM_INFINITY else min(MOST, max(files * 3 // 4, 2))
    return UnauthenticatedConnections(min(LIMIT, most // 2), most)


def _has_no_request(connection: object) -> bool:
    """Whether nothing was asked for over a connection yet. A WebSocket began with a request."""
    return getattr(connection, "cycle", connection) is None


def _has_terminal() -> bool:
    """Whether this process has a controlling terminal."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True
