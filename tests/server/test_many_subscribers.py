"""Many readers of one busy Session, over real sockets, one of whom does not read."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import resource
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
import uvicorn
from tests.server.conftest import eventually

from holdfast.core.runner import publish
from holdfast.core.runtime.runtime import HostOptions, Paths, Runtime
from holdfast.llm.offline import Call, OfflineResponse, Turn, respond
from holdfast.llm.route.transport import HttpRequest
from holdfast.schema.model import ModelRef
from holdfast.schema.prompt import Prompt
from holdfast.server.app import App

pytestmark = pytest.mark.anyio

MODEL = ModelRef(id="echo", provider_id="demo")
LIVE, FOLLOWING = 60, 140
TURNS = 5
WORD = "x" * 499 + " "
WINDOW = 96
"""Words on their way to the slowest reader; with the durable events, fewer than a subscriber's buffer of 256 holds."""
SOCKET_BYTES = 16 * 1024
"""Small, so that what the kernel holds for a reader who stopped is soon full."""
MOST_AHEAD = 600
"""Events that a stopped reader can be given: its buffer, one batch on its way, and what sockets and server hold."""
BLOCKS_KEPT = 5_000
"""Allocations that may outlive the readers; one reader alone has more than a hundred."""
BYTES_KEPT = 24 * 2**20


class Reader:
    """One connection: how many words came, and every durable event."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.words = 0
        """In blocks that ended, and in the deltas of the one that is open."""
        self.deltas = 0
        self._ended = 0
        self.durable: list[tuple[int, str]] = []
        self.whole = False
        """Whether the stream was ended, and not just broken off."""

    @classmethod
    async def open(cls, port: int, path: str) -> Reader:
        """Connected, and for the live stream also heard by the server."""
        raw = socket.socket()
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BYTES)
        raw.setblocking(False)
        await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", port))
        reader, writer = await asyncio.open_connection(sock=raw, limit=SOCKET_BYTES)
        writer.write(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        opened = cls(reader, writer)
        if path == "/api/event":
            assert b"server.connected" in await opened._chunk()
        return opened

    async def read(self, talker: Talker, ended: int = sys.maxsize) -> None:
        """Until so many steps have ended, or the connection has."""
        rest = b""
        while ended > 0 and (chunk := await self._chunk()):
            *frames, rest = (rest + chunk).split(b"\n\n")
            ended -= sum(map(self._take, frames))
            talker.moved.set()

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    async def _chunk(self) -> bytes:
        try:
            size = int(await self._reader.readuntil(b"\r\n"), 16)
            self.whole = size == 0
            return (await self._reader.readexactly(size + 2))[:-2]
        except (asyncio.IncompleteReadError, ConnectionError):
            return b""

    def _take(self, frame: bytes) -> bool:
        """Whether a step has ended."""
        if b'"session.next.text.delta"' in frame:
            self.deltas += 1
            self.words += frame.count(b" ", frame.index(b'"delta":"'))
        elif b'"durable":' in frame:
            event = json.loads(frame.removeprefix(b"data: "))
            self.durable.append((event["durable"]["seq"], event["id"]))
            if event["type"] == "session.next.text.ended":
                self._ended += event["data"]["text"].count(" ")
                self.words = self._ended
            return bool(event["type"] == "session.next.step.ended")
        return False


class Talker:
    """A model that says many words over several turns and never gets far ahead of those who read."""

    def __init__(self) -> None:
        self.moved = asyncio.Event()
        self.begin(0, [])

    def begin(self, words: int, readers: list[Reader]) -> None:
        self._each = words // TURNS
        self._readers = readers
        self._said = 0
        self._turns = 0

    async def send(self, request: HttpRequest) -> OfflineResponse:
        self._turns += 1
        call = Call(tool="read", input={"path": "hello.txt", "limit": self._turns})
        turn = Turn(text=WORD * self._each, calls=(call,) if self._turns < TURNS else None)
        return OfflineResponse(200, self._paced(respond(turn, "echo").chunks()))

    async def close(self) -> None:
        pass

    async def _paced(self, frames: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for frame in frames:
            if WORD.encode() in frame:
                self._said += 1
                if self._said % self._each == 2:
                    await self._heard(self._said - 1)  # the block is open: from now on each word is told at once
                elif self._said % (WINDOW // 3) == 0:
                    await self._heard(self._said - WINDOW)
            yield frame

    async def _heard(self, words: int) -> None:
        while any(reader.words < words for reader in self._readers):
            self.moved.clear()
            await self.moved.wait()


@asynccontextmanager
async def narrow_port(app: App) -> AsyncIterator[int]:
    """The application on a port whose connections hold little."""
    config = uvicorn.Config(app, http="httptools", ws="none", lifespan="off", log_level="critical")
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield listener.getsockname()[1]
        finally:
            app.stop()
            server.should_exit = True
            await serving


class Readers(NamedTuple):
    live: list[Reader]
    following: list[Reader]
    stopped: Reader

    @classmethod
    @asynccontextmanager
    async def opened(cls, port: int, session_id: str, live: int, following: int) -> AsyncIterator[Readers]:
        path = f"/api/session/{session_id}/event"
        opened = cls(
            live=[await Reader.open(port, "/api/event") for _ in range(live)],
            following=[await Reader.open(port, path) for _ in range(following)],
            stopped=await Reader.open(port, "/api/event"),
        )
        try:
            yield opened
        finally:
            for reader in (*opened.live, *opened.following, opened.stopped):
                await reader.close()


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "words",
    [1_200, pytest.param(5_000, marks=pytest.mark.prove)],
    ids=["short", "full"],
)
async def test_many_readers_of_one_session_and_one_who_stopped(
    tmp_path: Path, project: Path, words: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """API-202, API-210, API-212, EVT-021, EVT-031: everyone gets every durable event in order and every word; the one
    who stopped is failed after what it had, nobody waits for it; and when all have left, nothing of them is kept."""
    monkeypatch.setattr(publish, "FLUSH_SECONDS", 0)
    talker = Talker()
    paths, environment = Paths(tmp_path / "data"), {"HOME": str(tmp_path)}
    async with (
        Runtime(
            paths=paths, directory=project, environment=environment, transport=talker, options=HostOptions(titles=False)
        ) as runtime,
        narrow_port(App(runtime)) as port,
        asyncio.timeout(240),
    ):
        await _listen(runtime, port, talker, words=50, live=10, following=10)
        before = await _kept(runtime)
        stopped = await _listen(runtime, port, talker, words=words, live=LIVE, following=FOLLOWING)
        after = await _kept(runtime)

    assert 256 <= stopped.deltas + len(stopped.durable) <= MOST_AHEAD < words
    assert not stopped.whole
    assert after.tasks == before.tasks
    assert after.blocks - before.blocks <= BLOCKS_KEPT
    assert after.resident - before.resident <= BYTES_KEPT


async def _listen(runtime: Runtime, port: int, talker: Talker, *, words: int, live: int, following: int) -> Reader:
    """One Session talks, everyone listens; what became of the reader who stopped."""
    session = await runtime.sessions.create(
        location=runtime.location, project=await runtime.project(runtime.location), model=MODEL
    )
    async with Readers.opened(port, session.id, live, following) as readers:
        talker.begin(words, readers.live)
        async with asyncio.TaskGroup() as reading:
            for reader in (*readers.live, *readers.following):
                reading.create_task(reader.read(talker, ended=TURNS))
            await runtime.sessions.prompt(session.id, Prompt(text="go"))
            await runtime.sessions.wait(session.id)
        recorded, more = await runtime.log.history(session.id, limit=1_000)
        durable = [(event.durable.seq, event.id) for event in recorded if event.durable]
        assert (len(durable) > 6 * TURNS, more) == (True, False)
        assert {(reader.words, reader.deltas) for reader in readers.live} == {(words, readers.live[0].deltas)}
        assert all(reader.durable == durable for reader in (*readers.live, *readers.following))
        if words > MOST_AHEAD:
            await readers.stopped.read(talker)
            given = readers.stopped.durable
            assert given == durable[: len(given)]
        talker.begin(0, [])
        return readers.stopped


class Kept(NamedTuple):
    tasks: set[str]
    blocks: int
    resident: int


async def _kept(runtime: Runtime) -> Kept:
    """What is in memory once everyone has left."""
    await eventually(lambda: not runtime.log.bus.observed and not runtime.log.signals.followed())
    await eventually(lambda: not any("RequestResponseCycle" in repr(task) for task in asyncio.all_tasks()))
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    return Kept({task.get_name() for task in asyncio.all_tasks()}, sys.getallocatedblocks(), resident)
