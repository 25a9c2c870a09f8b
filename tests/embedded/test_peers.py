"""Links to the other servers on a data directory."""

from __future__ import annotations

import asyncio
import fcntl
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
import pytest
from tests.client.conftest import frame

from holdfast.client.discovery import RunningServer, servers_folder
from holdfast.embedded import peers
from holdfast.embedded.peer_sources import RegisteredServers
from holdfast.embedded.peers import Peers
from holdfast.schema.codec import encode

pytestmark = pytest.mark.anyio

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
OTHER = 1
"""The number of a process that is not this one."""
CONNECTED = b'data: {"id":"evt_0","type":"server.connected","data":{}}\n\n'


class Heard:
    """Takes the place of the relay."""

    def __init__(self) -> None:
        self.wires: asyncio.Queue[bytes] = asyncio.Queue()

    def receive(self, wire: bytes) -> None:
        msgspec.json.decode(wire)
        self.wires.put_nowait(wire)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "OPENCODE_SERVER_PASSWORD": "pw"}


@pytest.fixture
def folder() -> Iterator[Path]:
    """With a path that is short enough for a socket."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


class Registered:
    """A server that this process pretends to be: its files, and the lock that says that it runs."""

    def __init__(self, environment: dict[str, str], pid: int, socket: str, data: Path) -> None:
        folder = servers_folder(environment)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._entry = folder / f"evt_{pid}"
        self._lock = os.open(self._entry.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        url = "http://127.0.0.1:1"
        server = RunningServer(id=f"evt_{pid}", version="0", url=url, pid=pid, data=str(data), started=1, socket=socket)
        self._entry.with_suffix(".json").write_bytes(encode(server))

    def end(self) -> None:
        os.close(self._lock)


@asynccontextmanager
async def serving(folder: Path, answer: Callable[[bytes, asyncio.StreamWriter], None]) -> AsyncIterator[str]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            answer(await reader.readuntil(b"\r\n\r\n"), writer)
            await reader.read()
        writer.close()

    path = str(folder / "socket")
    server = await asyncio.start_unix_server(serve, path)
    os.chmod(path, 0o600)
    async with server:
        yield path


async def test_a_link_brings_what_the_other_server_announces(
    tmp_path: Path, environment: dict[str, str], folder: Path
) -> None:
    """API-432: asked for with the header and the kept credential; connected when `open` returns; gone after `close`."""
    asked: list[bytes] = []

    def answer(request: bytes, writer: asyncio.StreamWriter) -> None:
        asked.append(request.lower())
        writer.write(HEAD + CONNECTED + frame(1))

    heard = Heard()
    async with serving(folder, answer) as socket, asyncio.timeout(10):
        other, own = (
            Registered(environment, OTHER, socket, tmp_path),
            Registered(environment, os.getpid(), socket, tmp_path),
        )
        links = Peers(heard, RegisteredServers(environment, tmp_path))  # type: ignore[arg-type]
        standing = [links.standing]
        await links.open()
        standing.append(links.standing)
        assert b'"evt_1"' in await heard.wires.get()
        await links.close()
        standing.append(links.standing)
        other.end()
        own.end()

    (request,) = asked
    assert standing == [False, True, False]
    assert request.startswith(b"get /api/event http")
    assert b"x-holdfast-relay: 1" in request
    assert b"authorization: basic " in request


async def test_a_link_that_breaks_is_made_again_and_one_that_is_not_needed_is_not(
    tmp_path: Path, environment: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """API-432: garbage, an error and an end alike; a server on other data is none of ours."""
    monkeypatch.setattr(peers, "LOOK_SECONDS", 0.02)
    answers = [
        b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n",
        HEAD + CONNECTED + b"data: {\n\n",
        HEAD + CONNECTED + frame(7),
    ]

    def answer(request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(answers.pop(0))

    heard = Heard()
    async with serving(folder, answer) as socket, asyncio.timeout(10):
        elsewhere = Registered(environment, OTHER, socket, tmp_path / "other")
        links = Peers(heard, RegisteredServers(environment, tmp_path))  # type: ignore[arg-type]
        await links.open()
        assert len(answers) == 3
        elsewhere.end()
        here = Registered(environment, OTHER, socket, tmp_path)
        assert b'"evt_7"' in await heard.wires.get()
        await links.close()
        here.end()


async def test_a_server_that_does_not_answer_is_not_waited_for(
    tmp_path: Path, environment: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """API-432: the observer's stream begins all the same."""
    monkeypatch.setattr(peers, "OPEN_SECONDS", 0.05)
    async with serving(folder, lambda request, writer: None) as socket, asyncio.timeout(10):
        other = Registered(environment, OTHER, socket, tmp_path)
        links = Peers(Heard(), RegisteredServers(environment, tmp_path))  # type: ignore[arg-type]
        await links.open()
        assert not links.standing
        await links.close()
        other.end()
