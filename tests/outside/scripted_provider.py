"""A provider under the test's control: a real HTTP endpoint that keeps each request and plays one turn for it, in the
dialect that the path asks for. Any turn can be held before its first byte, or before its end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from tests.outside import dialects

PATIENCE = 30.0


@dataclass(frozen=True)
class Call:
    name: str
    input: Any
    id: str | None = None

    @property
    def arguments(self) -> str:
        return self.input if isinstance(self.input, str) else json.dumps(self.input)


@dataclass(frozen=True)
class Turn:
    """What the model does in one turn. `status` answers with that code and `error`; `cut` ends the stream unfinished;
    `raw` is sent as it is."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[Call, ...] = ()
    finish: str | None = None
    usage: dict[str, Any] | None = None
    status: int = 200
    error: str = "scripted failure"
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    raw: bytes | None = None
    tail: bytes | None = None
    """Sent in place of the ordinary end."""
    begin: asyncio.Event | None = None
    """The answer begins when this is set."""
    end: asyncio.Event | None = None
    """The answer ends when this is set."""


def calling(name: str, /, **input: Any) -> Turn:
    return Turn(calls=(Call(name, input),))


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> dict[str, Any]:
        return dict(json.loads(self.raw))

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation, in the Chat dialect, after the request's own system text."""
        return [message for message in self.body["messages"] if message["role"] != "system"]

    @property
    def said(self) -> list[tuple[str, Any]]:
        return [(message["role"], message.get("content")) for message in self.messages]

    @property
    def system(self) -> str:
        return "\n".join(item["content"] for item in self.body["messages"] if item["role"] == "system")

    @property
    def tools(self) -> list[str]:
        return [tool["function"]["name"] for tool in self.body.get("tools", ())]

    @property
    def results(self) -> list[str]:
        """What the model reads as the results of its calls."""
        return [message["content"] for message in self.body["messages"] if message["role"] == "tool"]


Scripted = Turn | Callable[[Request], Turn]


class Model:
    """`turns` are played in order; after the last one it says `done`. `always` answers everything else."""

    def __init__(self) -> None:
        self.turns: list[Scripted] = []
        self.always: Scripted = Turn(text="done")
        self.requests: list[Request] = []
        self.url = ""
        self._arrived = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()

    def plays(self, *turns: Scripted) -> None:
        """What comes next."""
        played = self.turns[: len(self.requests)]
        self.turns = [*played, *[self.always] * (len(self.requests) - len(played)), *turns]

    @property
    def last(self) -> Request:
        return self.requests[-1]

    async def asked(self, count: int) -> None:
        """Returns once that many requests have arrived."""
        async with asyncio.timeout(PATIENCE), self._arrived:
            await self._arrived.wait_for(lambda: len(self.requests) >= count)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        try:
            yield
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await server.wait_closed()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._exchange(reader, writer))
        self._tasks.add(task)
        await asyncio.wait({task})

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                request = await _read(reader)
                index = len(self.requests)
                async with self._arrived:
                    self.requests.append(request)
                    self._arrived.notify_all()
                scripted = self.turns[index] if index < len(self.turns) else self.always
                await _answer(writer, request, scripted(request) if callable(scripted) else scripted)
        finally:
            writer.close()


async def _read(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")
    method, path, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    return Request(method, path, headers, await reader.readexactly(int(headers.get("content-length", 0))))


async def _answer(writer: asyncio.StreamWriter, request: Request, turn: Turn) -> None:
    if turn.begin is not None:
        await turn.begin.wait()
    kind = dialects.content_type(request.path) if turn.status == 200 else "application/json"
    headers = {"content-type": kind, "connection": "close", **turn.headers}
    lines = [f"HTTP/1.1 {turn.status} scripted", *(f"{name}: {value}" for name, value in headers.items())]
    writer.write("\r\n".join([*lines, "", ""]).encode())
    if turn.status != 200:
        writer.write(turn.raw or json.dumps({"error": {"message": turn.error, "type": "scripted"}}).encode())
    elif turn.raw is not None:
        writer.write(turn.raw)
    else:
        content, ending = dialects.speak(request.path, turn)
        writer.write(content)
        await writer.drain()
        if turn.end is not None:
            await turn.end.wait()
        writer.write(b"" if turn.cut else ending if turn.tail is None else turn.tail)
    await writer.drain()
