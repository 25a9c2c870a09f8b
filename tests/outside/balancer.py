"""A load balancer for connections: the next one goes to the next server that takes it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit


class Balancer:
    def __init__(self, urls: list[str]) -> None:
        self._servers = [(split.hostname, split.port) for split in map(urlsplit, urls)]
        self._serving: set[asyncio.Task[None]] = set()
        self.taken: list[int] = []
        """Which server each connection went to."""
        self.url = ""

    def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def close(self) -> None:
        for task in (serving := tuple(self._serving)):
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers = [writer]
        try:
            for turn in range(len(self._servers)):
                number = (len(self.taken) + turn) % len(self._servers)
                with suppress(OSError):
                    from_server, to_server = await asyncio.open_connection(*self._servers[number])
                    writers.append(to_server)
                    self.taken.append(number)
                    await _join((reader, to_server), (from_server, writer))
                    return
        finally:
            for each in writers:
                each.transport.abort()
            for each in writers:
                with suppress(OSError):
                    await each.wait_closed()


async def _join(*ways: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
    """Pass on what comes at once, until either side has ended."""
    copying = [asyncio.ensure_future(_copy(*way)) for way in ways]
    try:
        await asyncio.wait(copying, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in copying:
            task.cancel()
        await asyncio.gather(*copying, return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()


@asynccontextmanager
async def balancing(*urls: str) -> AsyncIterator[Balancer]:
    balancer = Balancer(list(urls))
    server = await asyncio.start_server(balancer.connected, "127.0.0.1", 0)
    balancer.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield balancer
    finally:
        server.close()
        await balancer.close()
