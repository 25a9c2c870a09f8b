"""A runtime behind a real port, on uvicorn."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

import uvicorn

from holdfast.client.credential import credential_file, given_password, username
from holdfast.core.runtime import Runtime
from holdfast.embedded.connection import Connection
from holdfast.embedded.credential import ensure_password
from holdfast.embedded.registration import registered
from holdfast.schema.frozen import Frozen
from holdfast.server.app import App
from holdfast.server.auth import LOOPBACK_HOSTS, Credentials
from holdfast.server.pty import SOCKET_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

GRACE_SECONDS = 10
DEFAULT_PORT = 4096
PORTS_TRIED = 100
WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Addresses that are listened on but not called, and what clients of this machine call instead."""


class Served(Frozen):
    url: str
    credential: Path | None
    """The file with the generated password, if there is one."""
    interrupted: tuple[str, ...] = ()
    """Sessions with a turn that broke off with an earlier process."""


class _Server(uvicorn.Server):
    """Ends what connections wait for before it waits for them: a stream would never close, a turn hardly soon."""

    def __init__(self, config: uvicorn.Config, app: App) -> None:
        super().__init__(config)
        self._app = app

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """A signal ends the server and nothing else: the process closes the runtime and exits by itself."""
        loop = asyncio.get_running_loop()
        ending = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # under nohup the terminal may go
            ending.append(signal.SIGHUP)
        for number in ending:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in ending:
                loop.remove_signal_handler(number)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._app.close()
        await super().shutdown(sockets)


async def serve(
    hostname: str,
    port: int | None,
    *,
    authorize: bool,
    ready: Callable[[Served], None],
    trust: bool = False,
    recover: bool = True,
) -> int:
    """Until a signal. `trust` vouches for every project that is opened. `recover` wakes what an earlier process left
    pending, and treats broken turns as configured."""
    environment = dict(os.environ)
    credentials, file = None, None
    if authorize:
        credentials = Credentials(ensure_password(environment), username(environment))
        file = None if given_password(environment) else credential_file(environment)
    listener = _listen(hostname, port)
    host, number = listener.getsockname()[:2]
    url = _url(host, number)
    async with Runtime(trust=trust, protect=True) as runtime:
        runtime.own_ports.add(number)
        app = App(runtime, credentials=credentials, hosts=_hosts(hostname))
        config = uvicorn.Config(
            app,
            http=Connection,
            log_level="warning",
            lifespan="off",
            timeout_graceful_shutdown=GRACE_SECONDS,
            **SOCKET_OPTIONS,
        )
        interrupted: tuple[str, ...] = ()
        if recover:
            interrupted = tuple(turn.session_id for turn in await runtime.recovery.interrupted())
            await runtime.recovery.start()
        near = _url(WILDCARDS.get(host, host), number)
        with registered(environment, id=runtime.new_event_id(), url=near, data=runtime.paths.data):
            ready(Served(url, file, interrupted))
            await _Server(config, app).serve(sockets=[listener])
    return 0


def _url(host: str, port: int) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _hosts(hostname: str) -> frozenset[str] | None:
    """Behind a wildcard address the names are unknown; the password has to do."""
    if not hostname or hostname in WILDCARDS:
        return None
    return LOOPBACK_HOSTS | {f"[{hostname}]" if ":" in hostname else hostname.lower()}


def fast_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where there is one; a server idles and streams cheaper on it."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _listen(hostname: str, port: int | None) -> socket.socket:
    """On the given port, or on the first free one from the default upwards."""
    if port is not None:
        return _bind(hostname, port)
    for candidate in range(DEFAULT_PORT, DEFAULT_PORT + PORTS_TRIED - 1):
        try:
            return _bind(hostname, candidate)
        except AddressUnavailable as error:
            if not error.taken:
                raise
    return _bind(hostname, DEFAULT_PORT + PORTS_TRIED - 1)


def _bind(hostname: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in hostname else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((hostname, port))
        listener.listen(2048)
    except (OSError, OverflowError, UnicodeError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or str(error)
        taken = getattr(error, "errno", None) == errno.EADDRINUSE
        raise AddressUnavailable(hostname, port, reason, taken=taken) from error
    return listener


class AddressUnavailable(Exception):
    """The address cannot be listened on."""

    def __init__(self, hostname: str, port: int, reason: str, *, taken: bool) -> None:
        super().__init__(f"cannot listen on {hostname}:{port}: {reason}")
        self.taken = taken
