"""The server against bare ASGI applications on the same uvicorn, as ratios of one run. `make bench`.

Fan-out: a Session streams deltas to fifty readers of `/api/event`; the bare one has a queue per reader, puts each of
the same frames into all of them, and sends what has come together. Both wait for their readers now and then, since
nobody's buffer is endless. Requests: `holdfast serve` against an application that knows the answers by heart. The
readers are this process, each server is one of its own. With OPENCODE=/path/to/opencode the same calls go there."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import statistics
import sys
import tempfile
import time
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httptools
import uvicorn

from holdfast.core.runner import publish
from holdfast.core.runtime.runtime import HostOptions, Paths, Runtime
from holdfast.embedded.serve import fast_loop
from holdfast.llm.offline import OfflineResponse, Turn, respond
from holdfast.server.app import App

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from holdfast.core.event.bus import Announcement, Bus
    from holdfast.llm.route.transport import HttpRequest

READERS = 50
WORDS = 2_500
WINDOW = 64
"""Events that may be on their way before the readers are waited for; a buffer holds 256."""
SESSIONS = 50
CALLS = 1_500
CONNECTIONS = 4
ROUNDS = 5
LAST = b'"session.next.step.ended"'
LISTENING = re.compile(r"http://[\d.]+:\d+")
ECHO = {"id": "echo", "providerID": "demo"}


# -- the servers ---------------------------------------------------------------------------------------------------


class Talker:
    """A model that says many words, and waits for those who listen."""

    def __init__(self) -> None:
        self._bus: Bus | None = None
        self._heard = 0

    def follow(self, bus: Bus) -> None:
        self._bus = bus
        bus.listen(self._hear)

    async def send(self, request: HttpRequest) -> OfflineResponse:
        self._heard = 0
        return OfflineResponse(200, self._paced(respond(Turn(text="word " * WORDS), "echo").chunks()))

    async def close(self) -> None:
        pass

    async def _paced(self, frames: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        said = 0
        async for frame in frames:
            yield frame
            said += b"word" in frame
            if said == 1:
                await _drained(lambda: self._heard == 0)  # the block is open: from now on each word is told at once
            elif said % WINDOW == 0:
                await _drained(self._busy)

    def _busy(self) -> bool:
        return self._bus is not None and any(subscription._buffer for subscription in self._bus._typed)

    def _hear(self, announcement: Announcement) -> None:
        self._heard += announcement.type == "session.next.text.delta"


async def _holdfast(folder: Path) -> None:
    """As `holdfast serve` does it, with that model, and each delta told as it comes: coalescing is not the question."""
    publish.FLUSH_SECONDS = 0
    talker = Talker()
    async with Runtime(
        paths=Paths(folder / "data"),
        directory=folder,
        environment={"HOME": str(folder)},
        transport=talker,
        options=HostOptions(titles=False),
    ) as runtime:
        talker.follow(runtime.log.bus)
        await _listen(App(runtime))


class Bare:
    """PUT an answer and GET it again; POST frames to whoever reads `/api/event`."""

    def __init__(self) -> None:
        self._answers: dict[str, bytes] = {}
        self._queues: set[asyncio.Queue[bytes]] = set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        path = scope["path"]
        if path == "/api/event" and scope["method"] == "GET":
            await self._stream(receive, send)
            return
        body, message = b"", await receive()
        while message.get("more_body"):
            body, message = body + message["body"], await receive()
        body += message["body"]
        if scope["method"] == "PUT":
            self._answers[path] = body
        elif scope["method"] == "POST":
            await self._broadcast(body.split(b"\n\n")[:-1])
        answer = self._answers.get(path, b"")
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(answer)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    async def _stream(self, receive: Any, send: Any) -> None:
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._queues.add(queue)
        gone = asyncio.create_task(self._leave(receive, queue))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        body = b": connected\n\n"
        while body:
            await send({"type": "http.response.body", "body": body, "more_body": True})
            body = await queue.get()
            while body and not queue.empty():
                body += queue.get_nowait()
        await gone

    async def _leave(self, receive: Any, queue: asyncio.Queue[bytes]) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._queues.remove(queue)
        queue.put_nowait(b"")

    async def _broadcast(self, frames: Iterable[bytes]) -> None:
        for number, frame in enumerate(frames, start=1):
            for queue in self._queues:
                queue.put_nowait(frame + b"\n\n")
            await asyncio.sleep(0)
            if number % WINDOW == 0:
                await _drained(lambda: any(queue.qsize() for queue in self._queues))


async def _drained(busy: Callable[[], bool]) -> None:
    while busy():  # noqa: ASYNC110 - the loop is full of work, and this lets it go on
        await asyncio.sleep(0)


async def _listen(app: Any) -> None:
    config = uvicorn.Config(app, http="httptools", ws="none", lifespan="off", log_level="critical")
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        await uvicorn.Server(config).serve(sockets=[listener])


# -- the clients ---------------------------------------------------------------------------------------------------


def _address(url: str) -> tuple[str, int]:
    host, _, port = url.rpartition("/")[2].partition(":")
    return host, int(port)


class Connection(asyncio.Protocol):
    """Keep-alive HTTP, one request at a time."""

    def __init__(self) -> None:
        self._answer: asyncio.Future[bytes] | None = None

    @classmethod
    async def open(cls, url: str) -> Connection:
        _, opened = await asyncio.get_running_loop().create_connection(cls, *_address(url))
        return opened

    async def call(self, method: str, path: str, body: bytes = b"") -> bytes:
        self._answer = asyncio.get_running_loop().create_future()
        self._parser = httptools.HttpResponseParser(self)
        self._body: list[bytes] = []
        head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        self._transport.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        return await self._answer

    def close(self) -> None:
        self._transport.close()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        assert self._answer is not None
        if (status := self._parser.get_status_code()) > 204:
            self._answer.set_exception(RuntimeError(f"{status}: {b''.join(self._body)[:200]!r}"))
        else:
            self._answer.set_result(b"".join(self._body))


class Reader(Connection):
    """Of the live stream, until a step has ended. All but one only look for that."""

    def __init__(self, *, keep: bool) -> None:
        super().__init__()
        self._keep = keep
        self._tail = b""
        self.connected = asyncio.get_running_loop().create_future()
        self.done: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    @classmethod
    async def reading(cls, url: str, *, keep: bool) -> Reader:
        _, reader = await asyncio.get_running_loop().create_connection(lambda: cls(keep=keep), *_address(url))
        reader._parser, reader._body = httptools.HttpResponseParser(reader), []
        reader._transport.write(b"GET /api/event HTTP/1.1\r\nhost: localhost\r\n\r\n")
        await reader.connected
        return reader

    @property
    def frames(self) -> list[bytes]:
        """What came up to the end of the step, without greetings and heartbeats."""
        frames = [frame for frame in b"".join(self._body).split(b"\n\n") if frame.startswith(b"data: ")]
        last = next(index for index, frame in enumerate(frames) if LAST in frame)
        return [frame for frame in frames[: last + 1] if b'"server.connected"' not in frame]

    def data_received(self, data: bytes) -> None:
        if self._keep:
            super().data_received(data)
        if not self.connected.done() and b"connected" in data:
            self.connected.set_result(None)
        if not self.done.done() and LAST in self._tail + data:
            self.done.set_result(time.perf_counter())
        self._tail = data[-len(LAST) :]

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(RuntimeError("a reader was cut off"))


# -- the measurements ----------------------------------------------------------------------------------------------


async def fan_out(folder: Path) -> bool:
    ratios = []
    async with _server("holdfast", folder) as ours, _server("bare") as bare:
        session = json.loads(await _call(ours, "POST", "/api/session", {"model": ECHO}))["data"]["id"]
        for _ in range(ROUNDS):
            frames, held = await _delivered(ours, f"/api/session/{session}/prompt", b'{"prompt": {"text": "go"}}')
            same, raw = await _delivered(bare, "/go", b"".join(frame + b"\n\n" for frame in frames))
            assert same == frames
            ratios.append(held / raw)
            print(f"    {held:9,.0f} deliveries/s, bare {raw:9,.0f}, {len(frames)} events to {READERS} readers")
    return _judge("fan-out against a bare broadcast of the same bytes", statistics.median(ratios), 0.5)


async def _delivered(url: str, path: str, body: bytes) -> tuple[list[bytes], float]:
    """The frames that every reader was sent, and deliveries per second."""
    readers = [await Reader.reading(url, keep=index == 0) for index in range(READERS)]
    started = time.perf_counter()
    asking = asyncio.create_task(_call(url, "POST", path, body))
    ended = max(await asyncio.gather(*(reader.done for reader in readers)))
    await asking
    frames = readers[0].frames
    for reader in readers:
        reader.close()
    return frames, len(frames) * READERS / (ended - started)


async def requests(folder: Path) -> bool:
    """Requests per second for a list of Sessions and for one of them."""
    environment = {**os.environ, "HOME": str(folder), "XDG_DATA_HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    serve = [sys.executable, "-m", "holdfast", "serve", "--no-auth", "--port", "0"]
    good = True
    async with _process(serve, folder, environment) as ours, _server("bare") as bare:
        paths = await _populated(ours)
        for path in paths.values():
            await _call(bare, "PUT", path, await _call(ours, "GET", path))
        for name, path in paths.items():
            ratio = await _compared(path, ours, path, bare)
            print(f"--  {name} against a bare application with the same bytes: {ratio:.2f}")
        if opencode := os.environ.get("OPENCODE"):
            command = [opencode, "serve", "--hostname", "127.0.0.1", "--port", "0"]
            async with _process(command, folder, environment) as other:
                theirs = await _populated(other)
                for name, path in paths.items():
                    ratio = await _compared(path, ours, theirs[name], other)
                    good &= _judge(f"{name} against opencode", ratio, 3.0)
    return good


async def _populated(url: str) -> dict[str, str]:
    for _ in range(SESSIONS):
        created = await _call(url, "POST", "/api/session", {})
    return {"list": "/api/session", "get": f"/api/session/{json.loads(created)['data']['id']}"}


async def _compared(path: str, ours: str, their_path: str, theirs: str) -> float:
    ratios = []
    for _ in range(ROUNDS):
        mine, other = await _rate(ours, path), await _rate(theirs, their_path)
        ratios.append(mine / other)
    print(f"    {mine:8,.0f} requests/s, {other:8,.0f}")
    return statistics.median(ratios)


async def _rate(url: str, path: str) -> float:
    connections = [await Connection.open(url) for _ in range(CONNECTIONS)]

    async def ask(connection: Connection) -> None:
        for _ in range(CALLS // CONNECTIONS):
            await connection.call("GET", path)

    started = time.perf_counter()
    await asyncio.gather(*map(ask, connections))
    taken = time.perf_counter() - started
    for connection in connections:
        connection.close()
    return CALLS / taken


async def _call(url: str, method: str, path: str, body: object = b"") -> bytes:
    connection = await Connection.open(url)
    try:
        return await connection.call(method, path, body if isinstance(body, bytes) else json.dumps(body).encode())
    finally:
        connection.close()


@asynccontextmanager
async def _process(command: list[str], folder: Path, environment: dict[str, str]) -> AsyncIterator[str]:
    """A server, and the address that it says it listens on."""
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(30):
            while not (found := LISTENING.search((await process.stdout.readline()).decode())):
                assert process.returncode is None, f"{command[0]} did not start"
        yield found[0]
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


def _server(kind: str, folder: Path = Path()) -> Any:
    return _process([sys.executable, __file__, kind, str(folder)], folder, dict(os.environ))


def _judge(name: str, ratio: float, bound: float) -> bool:
    print(f"{'ok ' if ratio >= bound else 'BAD'} {name}: {ratio:.2f} (>= {bound})")
    return ratio >= bound


async def main() -> int:
    good = True
    for measure in (fan_out, requests):
        with tempfile.TemporaryDirectory() as folder:
            good &= await measure(Path(folder).resolve())
    return 0 if good else 1


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=fast_loop()) as runner:
        match sys.argv[1:]:
            case ["holdfast", place]:
                runner.run(_holdfast(Path(place)))
            case ["bare", *_]:
                runner.run(_listen(Bare()))
            case _:
                sys.exit(runner.run(main()))
