"""Links to the other servers on this data directory, for the live events of Sessions that they execute.

Durable events need no link: every process reads them from the database. Live events exist only in the process that
announces them, so they are fetched from that process; those of a process without a server are not seen elsewhere.

Invariants
- Links exist only while somebody observes. A broken link is made again by the next look for servers.
- A link asks only for events of that process itself, never for those that it got from others."""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import aclosing
from typing import TYPE_CHECKING

import msgspec

from holdfast.client.discovery import running_servers
from holdfast.client.errors import ClientError
from holdfast.client.transport import Request
from holdfast.schema.sse import FrameTooLarge, SSEFrames
from holdfast.server.handlers.events import RELAY

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from holdfast.client.discovery import RunningServer
    from holdfast.core.event.relay import Relay

LOOK_SECONDS = 1.0
"""How often running servers are looked for."""
OPEN_SECONDS = 0.5
"""How long the first observer waits for the links."""
SILENCE_SECONDS = 45.0
FRAME_LIMIT = 64 * 1024 * 1024
LINKS = 16
"""The number of servers that are linked at most, newest first."""

log = logging.getLogger(__name__)


class Peers:
    def __init__(self, relay: Relay, environment: Mapping[str, str], data: Path, store: str = "") -> None:
        self._relay = relay
        self._environment = environment
        self._data = data
        self._store = store
        self._links: dict[str, _Link] = {}
        self._looking: asyncio.Task[None] | None = None

    @property
    def standing(self) -> bool:
        return any(link.connected.is_set() for link in self._links.values())

    async def open(self) -> None:
        if self._looking is None:
            self._look()
            self._looking = asyncio.get_running_loop().create_task(self._keep_looking(), name="holdfast-peers")
        if self._links:
            waiting = [asyncio.ensure_future(link.ready.wait()) for link in self._links.values()]
            try:
                await asyncio.wait(waiting, timeout=OPEN_SECONDS)
            finally:
                for task in waiting:
                    task.cancel()

    async def close(self) -> None:
        tasks = [link.task for link in self._links.values()]
        self._links.clear()
        if self._looking is not None:
            tasks.append(self._looking)
            self._looking = None
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self._look()

    def _look(self) -> None:
        found = running_servers(self._environment, data=self._data, store=self._store)
        others = [server for server in found if server.pid != os.getpid()][:LINKS]
        for id in self._links.keys() - {server.id for server in others}:
            self._links.pop(id).task.cancel()
        for server in others:
            link = self._links.get(server.id)
            if link is None or link.task.done():
                self._links[server.id] = _Link(self._relay, server, self._environment)


class _Link:
    def __init__(self, relay: Relay, server: RunningServer, environment: Mapping[str, str]) -> None:
        self._relay = relay
        self._server = server
        self._environment = environment
        self.connected = asyncio.Event()
        self.ready = asyncio.Event()
        """Set when it is connected or has failed."""
        self.task = asyncio.get_running_loop().create_task(self._run(), name=f"holdfast-peer {server.url}")

    async def _run(self) -> None:
        try:
            await self._listen()
        except (ClientError, FrameTooLarge, msgspec.DecodeError) as error:
            log.debug("the link to the server at %s broke: %s", self._server.url, error)
        finally:
            self.connected.clear()
            self.ready.set()

    async def _listen(self) -> None:
        from holdfast.client.connect import transport_to

        transport = transport_to(self._server.url, self._environment)
        headers = {"accept": "text/event-stream", RELAY: "1"}
        try:
            response = await transport.send(Request("GET", "/api/event", headers, timeout=SILENCE_SECONDS))
            if response.status != 200:
                raise ClientError("UnexpectedStatus", f"the server answered {response.status}", status=response.status)
            frames = SSEFrames(FRAME_LIMIT)
            async with aclosing(response.chunks()) as chunks:  # type: ignore[type-var]
                async for chunk in chunks:
                    for wire in frames.feed(chunk):
                        if self.connected.is_set():
                            self._relay.receive(wire)
                        self.connected.set()  # the first frame is `server.connected`
                        self.ready.set()
        finally:
            await transport.close()
