"""Mounts the runtime in an ASGI application.

hf = Holdfast("/path/to/project")
agent = asgi(hf)
application = Starlette(routes=[Mount("/agent", agent)], lifespan=agent.lifespan)

A server that shuts down waits for its connections, and a stream does not end by itself. So SIGINT and SIGTERM end all
streams. A server that is stopped in another way has to call `agent.stop()` or bound its wait (uvicorn:
`timeout_graceful_shutdown`).
"""

from __future__ import annotations

import asyncio
import signal
import threading
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from holdfast.embedded.holdfast import Holdfast
from holdfast.server.auth import LOOPBACK_HOSTS, Credentials, Hosts

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
    from types import FrameType

    from holdfast.server.app import App
    from holdfast.server.types import Receive, Scope, Send

NOT_OPEN = "the runtime is not open: pass `lifespan=agent.lifespan` to the application in which `agent` is mounted"
EMPTY_PASSWORD = "the password is empty, so everybody would be let in; leave it out to ask for none"


def asgi(
    host: Holdfast | None = None,
    *,
    password: str | None = None,
    hosts: Iterable[str] | None = LOOPBACK_HOSTS,
    origins: Iterable[str] = (),
    page: bool = True,
) -> Mounted:
    """An ASGI application on `host`, or on a new one. `hosts` are the accepted host names without ports; None accepts
    any, and the surrounding application has to check them. Pages of `origins`, as in `https://agent.example`, may send
    changing requests; so may pages of the same host and, with a password, pages of this machine. `password` is needed
    in addition to any authorization by the surrounding application. Without `page` there is no page at `/`."""
    if password == "":
        raise ValueError(EMPTY_PASSWORD)
    return Mounted(
        host or Holdfast(),
        credentials=Credentials(password) if password is not None else None,
        hosts=Hosts(frozenset(name.lower() for name in _names(hosts))) if hosts is not None else None,
        origins=frozenset(_names(origins)),
        page=page,
    )


def _names(names: Iterable[str]) -> Iterable[str]:
    return (names,) if isinstance(names, str) else names


class Mounted:
    """An ASGI application. As the main application it opens and closes with the server's lifespan events. A mounted
    application does not get these: there the surrounding application has to use `lifespan`."""

    def __init__(
        self,
        host: Holdfast,
        *,
        credentials: Credentials | None,
        hosts: Hosts | None,
        origins: frozenset[str],
        page: bool,
    ) -> None:
        self.host = host
        self._credentials = credentials
        self._hosts = hosts
        self._origins = origins
        self._page = page
        self._app: App | None = None

    @asynccontextmanager
    async def lifespan(self, application: object = None) -> AsyncGenerator[None, None]:
        async with self.host:
            self._app = self.host.application(
                credentials=self._credentials, hosts=self._hosts, origins=self._origins, page=self._page
            )
            self.host.start_recovery(everywhere=True)
            try:
                with _on_signals(self.stop):
                    yield
            finally:
                app, self._app = self._app, None
                await app.close()

    def stop(self) -> None:
        """End all streams, so that a server that waits for its connections can shut down."""
        if self._app is not None:
            self._app.stop()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        if self._app is None:
            raise RuntimeError(NOT_OPEN)
        await self._app(_below_mount(scope), receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        phase = "startup"
        await receive()
        try:
            async with self.lifespan():
                await send({"type": "lifespan.startup.complete"})
                phase = "shutdown"
                await receive()
        except Exception as error:
            await send({"type": f"lifespan.{phase}.failed", "message": str(error)})
            raise
        await send({"type": "lifespan.shutdown.complete"})


@contextmanager
def _on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """On SIGINT and SIGTERM call `stop`, then the handler that was installed before. Outside the main thread, where
    signal handlers cannot be set, do nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    found = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    handled = {number: handler for number, handler in found.items() if callable(handler)}

    def handle(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(stop)
        handled[signal.Signals(number)](number, frame)

    for number in handled:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in handled.items():
            if signal.getsignal(number) is handle:
                signal.signal(number, handler)


def _below_mount(scope: Scope) -> Scope:
    """The scope with paths relative to the mount."""
    mount = scope.get("root_path", "").rstrip("/")
    if not mount:
        return scope
    raw = scope.get("raw_path")
    below = scope["path"].removeprefix(mount) if f"{scope['path']}/".startswith(f"{mount}/") else scope["path"]
    return {**scope, "path": below or "/", "raw_path": _raw_below(raw, mount) if raw else None}


def _raw_below(raw: bytes, mount: str) -> bytes:
    """The raw path without the mount. Only the raw path is percent-encoded, so segments are compared decoded."""
    segments = raw.split(b"/")
    for count in range(mount.count("/") + 1, 0, -1):
        if unquote_to_bytes(b"/".join(segments[:count])) == mount.encode():
            return b"/" + b"/".join(segments[count:])
    return raw
