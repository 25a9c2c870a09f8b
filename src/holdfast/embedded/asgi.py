"""The runtime inside somebody's ASGI application.

hf = Holdfast("/path/to/project")
agent = asgi(hf)
application = Starlette(routes=[Mount("/agent", agent)], lifespan=agent.lifespan)

A server that shuts down waits for its connections first, and a stream does not end by itself. So the streams end when
the process is told to end by SIGINT or SIGTERM; a server that is ended in another way is to call `agent.stop()`, or to
bound that wait (uvicorn: `timeout_graceful_shutdown`).
"""

from __future__ import annotations

import asyncio
import signal
import threading
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from holdfast.embedded.holdfast import Holdfast
from holdfast.server.app import App
from holdfast.server.auth import LOOPBACK_HOSTS, Credentials, Hosts

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
    from types import FrameType

    from holdfast.server.types import Receive, Scope, Send

NOT_OPEN = "the runtime is not open: pass `lifespan=<this>.lifespan` to the application that it is mounted in"

EMPTY_PASSWORD = "an empty password lets everybody in; leave it out if nobody is to be asked for one"


def asgi(
    host: Holdfast | None = None,
    *,
    password: str | None = None,
    hosts: Iterable[str] | None = LOOPBACK_HOSTS,
    origins: Iterable[str] = (),
) -> Mounted:
    """`hosts` are the names under which it answers, without ports; None is any, and leaves it to the application around
    it to refuse foreign ones. Pages of `origins`, as in `https://agent.example`, may change something, beside those of
    the same host and, if there is a password, those of this machine. Whoever else authorizes requests, `password` is
    asked for in addition."""
    if password == "":
        raise ValueError(EMPTY_PASSWORD)
    return Mounted(
        host or Holdfast(),
        credentials=Credentials(password) if password is not None else None,
        hosts=Hosts(frozenset(name.lower() for name in _several(hosts))) if hosts is not None else None,
        origins=frozenset(_several(origins)),
    )


def _several(names: Iterable[str]) -> Iterable[str]:
    return (names,) if isinstance(names, str) else names


class Mounted:
    """An ASGI application. On its own it opens and closes with the server; below another, which keeps such events to
    itself, with `lifespan`."""

    def __init__(
        self,
        host: Holdfast,
        *,
        credentials: Credentials | None,
        hosts: Hosts | None,
        origins: frozenset[str],
    ) -> None:
        self.host = host
        self._credentials = credentials
        self._hosts = hosts
        self._origins = origins
        self._app: App | None = None

    @asynccontextmanager
    async def lifespan(self, application: object = None) -> AsyncGenerator[None, None]:
        async with self.host:
            self._app = App(
                self.host._runtime,
                credentials=self._credentials,
                hosts=self._hosts,
                origins=self._origins,
                pty_environment=self.host._pty_environment,
            )
            self.host.start_recovery()
            try:
                with _on_signals(self.stop):
                    yield
            finally:
                app, self._app = self._app, None
                await app.close()

    def stop(self) -> None:
        """End every stream, so that a server which waits for its connections can end."""
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
    """Call `stop` when the process is told to end, before whoever handles that signal already. Signals belong to the
    main thread: elsewhere nothing is done."""
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
    """Paths as if this application were at the root; where it is mounted is not in any of its routes."""
    mount = scope.get("root_path", "").rstrip("/")
    if not mount:
        return scope
    raw = scope.get("raw_path")
    below = scope["path"].removeprefix(mount) if f"{scope['path']}/".startswith(f"{mount}/") else scope["path"]
    return {**scope, "path": below or "/", "raw_path": _raw_below(raw, mount) if raw else None}


def _raw_below(raw: bytes, mount: str) -> bytes:
    """A mount is spelled as it is meant, the path as it was sent: what is escaped there differs, slashes included."""
    segments = raw.split(b"/")
    for count in range(mount.count("/") + 1, 0, -1):
        if unquote_to_bytes(b"/".join(segments[:count])) == mount.encode():
            return b"/" + b"/".join(segments[count:])
    return raw
