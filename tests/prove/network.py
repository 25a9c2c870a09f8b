"""A TCP link between two processes that can be cut in one direction or both, slowed down, or closed.

A cut holds bytes back, as the network does: TCP repeats what was lost. When the cut is over they arrive late, or the
connections end."""

from __future__ import annotations

import asyncio
import time

HELD_CHUNKS = 64
"""After so many chunks the sender is kept waiting, as by a full buffer."""
TO, FROM = "to", "from"
"""The directions: to the target, and from it."""


class Link:
    """Listens on a port of its own; `target` is the port that connections lead to."""

    def __init__(self, target: int = 0) -> None:
        self.target = target
        self.port = 0
        self.delay = 0.0
        """Seconds that each chunk takes, in each direction."""
        self.refuses = False
        self._open = {TO: asyncio.Event(), FROM: asyncio.Event()}
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        for gate in self._open.values():
            gate.set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self, *directions: str) -> None:
        for direction in directions or (TO, FROM):
            self._open[direction].clear()

    def heal(self) -> None:
        self.delay, self.refuses = 0.0, False
        for gate in self._open.values():
            gate.set()

    def close_connections(self) -> None:
        for task in tuple(self._connections):
            task.cancel()

    async def close(self) -> None:
        self.heal()
        if self._server is not None:
            self._server.close()
        self.close_connections()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            if not self.refuses:
                await self._connect(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._connections.discard(task)
            writer.transport.abort()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self.target)
        pumps = [
            asyncio.create_task(self._pump(reader, there_writer, self._open[TO])),
            asyncio.create_task(self._pump(there_reader, writer, self._open[FROM])),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            there_writer.transport.abort()
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: asyncio.Event) -> None:
        """Pass on until one end is closed. What arrived before the end is passed on."""
        chunks: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(HELD_CHUNKS)

        async def deliver() -> None:
            while True:
                due, chunk = await chunks.get()
                if (early := due - time.monotonic()) > 0:
                    await asyncio.sleep(early)
                await gate.wait()
                if not chunk:
                    return
                writer.write(chunk)
                await writer.drain()

        delivering = asyncio.create_task(deliver())
        try:
            while True:
                chunk = await reader.read(65536)
                await chunks.put((time.monotonic() + self.delay, chunk))
                if not chunk:
                    await delivering
                    return
        finally:
            delivering.cancel()
