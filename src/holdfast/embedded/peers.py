"""Links to the other servers on this database, for the live events of Sessions that they execute.

Durable events need no link: every process reads them from the database. Live events exist only in the process that
announces them, so they are fetched from that process; those of a process without a server are not seen elsewhere.

Invariants
- Links exist only while somebody observes. A broken link is made again by the next look for servers.
- A link asks only for events of that process itself, never for those that it got from others."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing
from typing import TYPE_CHECKING

import msgspec

from holdfast.client.errors import ClientError
from holdfast.client.transport import Request
from holdfast.core.database.errors import StorageError
from holdfast.schema.sse import FrameTooLarge, SSEFrames
from holdfast.server.handlers.events import RELAY

if TYPE_CHECKING:
    from holdfast.core.event.relay import Relay
    from holdfast.embedded.peer_sources import Peer, PeerSource

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
    def __init__(self, relay: Relay, source: PeerSource) -> None:
        self._relay = relay
        self._source = source
        self._links: dict[str, _Link] = {}
        self._looking: asyncio.Task[None] | None = None

    @property
    def standing(self) -> bool:
        return any(link.connected.is_set() for link in self._links.values())

    async def open(self) -> None:
        if self._looking is None:
            await self._look()
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
            await self._look()

    async def _look(self) -> None:
        try:
            others = (await self._source.others())[:LINKS]
        except StorageError as error:
            log.debug("other servers were not looked for: %s", error)
            return
        for id in self._links.keys() - {peer.id for peer in others}:
            self._links.pop(id).task.cancel()
        for peer in others:
            link = self._links.get(peer.id)
            if link is None or link.task.done():
                self._links[peer.id] = _Link(self._relay, peer)


class _Link:
    def __init__(self, relay: Relay, peer: Peer) -> None:
        self._relay = relay
        self._peer = peer
        self.connected = asyncio.Event()
        self.ready = asyncio.Event()
        """Set when it is connected or has failed."""
        self.task = asyncio.get_running_loop().create_task(self._run(), name=f"holdfast-peer {peer.url}")

    async def _run(self) -> None:
        try:
            await self._listen()
        except (ClientError, FrameTooLarge, msgspec.DecodeError) as error:
            log.debug("the link to the server at %s broke: %s", self._peer.url, error)
        finally:
            self.connected.clear()
            self.ready.set()

    async def _listen(self) -> None:
        transport = self._peer.connect()
        headers = {"accept": "text/event-stream", RELAY: "1", **self._peer.headers}
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
