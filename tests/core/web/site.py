"""A website on the loopback interface, and a watch over every connection that is tried."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Site:
    """Answers with what `pages` holds for a path: bytes, or a handler."""

    def __init__(self) -> None:
        self.pages: dict[str, web.Response | Handler] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.bodies: list[bytes] = []
        self.port = 0

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.requests]

    def put(self, path: str, body: bytes | str, mime: str = "text/plain", **headers: str) -> str:
        data = body.encode() if isinstance(body, str) else body
        sent = {"Content-Type": mime} | {name.replace("_", "-"): value for name, value in headers.items()}

        async def answer(request: web.Request) -> web.Response:
            return web.Response(body=data, headers=sent)

        self.pages[path] = answer
        return self.base + path

    def redirect(self, path: str, to: str, status: int = 302) -> str:
        async def answer(request: web.Request) -> web.Response:
            return web.Response(status=status, headers={"Location": to})

        self.pages[path] = answer
        return self.base + path

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.path, {name.lower(): value for name, value in request.headers.items()}))
        self.bodies.append(await request.read())
        page = self.pages.get(request.path)
        if page is None:
            return web.Response(status=404)
        assert callable(page)
        return await page(request)


@asynccontextmanager
async def running_site() -> AsyncIterator[Site]:
    site = Site()
    server = web.Server(site.answer)  # type: ignore[arg-type]
    runner = web.ServerRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    listener = web.TCPSite(runner, "127.0.0.1", 0)
    await listener.start()
    site.port = runner.addresses[0][1]
    try:
        yield site
    finally:
        await runner.cleanup()


_watches: list[list[tuple[Any, ...]]] = []


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "socket.connect" or not _watches or not isinstance(arguments[1], tuple):
        return
    for watch in _watches:
        watch.append(arguments[1])
    if not str(arguments[1][0]).startswith("127."):
        raise ConnectionRefusedError("tests stay on this machine")


@contextmanager
def watched_connections() -> Iterator[list[tuple[Any, ...]]]:
    """Every address that anything tries to connect to. Those of other machines are refused before a packet leaves."""
    if not _installed:
        sys.addaudithook(_audit)
        _installed.append(True)
    seen: list[tuple[Any, ...]] = []
    _watches.append(seen)
    try:
        yield seen
    finally:
        _watches.remove(seen)


_installed: list[bool] = []
