"""Starts the terminal line by line: connects, opens the Session or creates one, and reads lines from the terminal."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import deque
from typing import TYPE_CHECKING

from holdfast.client.errors import ApiError, ClientError
from holdfast.client.generated.async_client import AsyncClient
from holdfast.client.new_ids import new_session_id
from holdfast.schema.location import Location
from holdfast.schema.model import model_ref
from holdfast.tui.connection import ServerConnection
from holdfast.tui.linear import Linear
from holdfast.tui.lines import safe_line
from holdfast.tui.sending import until_received
from holdfast.tui.session_choice import NO_MODEL, first_session, offline_model

if TYPE_CHECKING:
    from holdfast.tui.launch import Host, Launch

READ_BYTES = 64 * 1024


async def run_linear(launch: Launch, host: Host) -> int:
    async with AsyncClient(ServerConnection(host.servers)) as client:
        session = await until_received(lambda: first_session(client, launch))
        location = session.location if session is not None else Location(directory=launch.directory)
        if session is None:
            model = model_ref(launch.model) if launch.model is not None else await offline_model(client, location)
            if launch.model is None and model is not None:
                write(NO_MODEL)
            id, create = new_session_id(), client.sessions.create
            session = await until_received(lambda: create(id=id, agent=launch.agent, model=model, location=location))
        write(f"Session {session.id}: {safe_line(session.title)}")
        await _tell_trust(client, location)
        await Linear(client, session.id, read=Lines(sys.stdin.fileno()).read, write=write).run()
        write(f"holdfast --session {session.id} comes back to it.")
    return 0


def write(line: str) -> None:
    sys.stdout.write(line.encode(sys.stdout.encoding, "replace").decode(sys.stdout.encoding) + "\n")
    sys.stdout.flush()


async def _tell_trust(client: AsyncClient, location: Location) -> None:
    try:
        report = await client.config.report(location=location)
    except (ApiError, ClientError):
        return
    ignored = sum(len(one.wants) for one in report.sources if not one.trusted and not one.directory)
    if ignored:
        write(f"{ignored} settings of this project are ignored until you trust them: `holdfast trust` shows them.")


class Lines:
    """Reads lines on the loop, so that waiting for one can be cancelled."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lines: deque[str] = deque()
        self._begun = b""
        self._ended = False

    async def read(self) -> str | None:
        """The next line without its end; None at the end of input."""
        loop = asyncio.get_running_loop()
        while not self._lines and not self._ended:
            ready: asyncio.Future[None] = loop.create_future()
            loop.add_reader(self._descriptor, _set, ready)
            try:
                await ready
            finally:
                loop.remove_reader(self._descriptor)
            self._take()
        return self._lines.popleft() if self._lines else None

    def _take(self) -> None:
        try:
            data = os.read(self._descriptor, READ_BYTES)
        except OSError:  # the terminal was closed
            data = b""
        self._ended = not data
        *whole, self._begun = (self._begun + data).split(b"\n")
        if self._ended and self._begun:
            whole, self._begun = [*whole, self._begun], b""
        self._lines.extend(line.decode("utf-8", "replace").rstrip("\r") for line in whole)


def _set(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
