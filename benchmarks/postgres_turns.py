"""What `holdfast serve` needs for turns with tool calls, on the store that its environment names.

The provider is in this process, so that what is told of the server is its own: the gap between the last byte of an
answer and the next request, and the CPU time of its process. A database server is counted apart."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

from tests.prove.cluster import Node
from tests.prove.postgres_cluster import configured

TICKS = os.sysconf("SC_CLK_TCK")
LINES = 5_000


class Provider:
    """Calls `read` in each turn until there were enough, then answers."""

    def __init__(self, turns: int, deltas: int) -> None:
        self._turns = turns
        self._deltas = deltas
        self._answered: float | None = None
        self.gaps: list[float] = []
        self.url = ""
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, limit=2**24)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    def close(self) -> None:
        assert self._server is not None
        self._server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = next(
                    int(line.split(b":")[1])
                    for line in head.lower().split(b"\r\n")
                    if line.startswith(b"content-length")
                )
                body = await reader.readexactly(length)
                if self._answered is not None:
                    self.gaps.append(time.perf_counter() - self._answered)
                writer.write(self._answer(json.loads(body)))
                await writer.drain()
                self._answered = time.perf_counter()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def _answer(self, body: dict[str, Any]) -> bytes:
        number = 0
        for message in reversed(body["messages"]):
            if message["role"] == "user":
                break
            number += message["role"] == "assistant"
        chunks = [_chunk({"content": "word "}) for _ in range(self._deltas)]
        if number < self._turns:
            arguments = json.dumps({"path": "lines.txt", "offset": number + 1, "limit": 1})
            call = {"index": 0, "id": f"call_{number}", "function": {"name": "read", "arguments": arguments}}
            chunks += [_chunk({"tool_calls": [call]}), _chunk({}, "tool_calls")]
        else:
            chunks.append(_chunk({}, "stop"))
        content = b"".join(chunks) + b"data: [DONE]\n\n"
        return (
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(content) + content
        )


def _chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    return b"data: " + json.dumps({"id": "c", "object": "chat.completion.chunk", "choices": choices}).encode() + b"\n\n"


class Bench:
    """One server. `address` is that of a PostgreSQL database; None stores in a file."""

    def __init__(self, folder: Path, address: str | None, turns: int, deltas: int) -> None:
        self._folder = folder
        self._address = address
        self.provider = Provider(turns, deltas)
        self.node: Node | None = None

    async def __aenter__(self) -> Bench:
        await self.provider.start()
        project = self._folder / "project"
        project.mkdir(parents=True)
        (project / "lines.txt").write_text("".join(f"line {n}\n" for n in range(LINES)), encoding="utf-8")
        environment = configured(self._folder / "home", self.provider.url)
        if self._address is not None:
            environment["HOLDFAST_DATABASE"] = self._address
        self.node = Node(self._folder / "home", project, environment)
        await self.node.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self.node is not None
        await self.node.kill()
        self.provider.close()

    async def gap(self) -> float:
        """Milliseconds between an answer and the next request, at the median, of one Session."""
        self.provider._answered = None
        self.provider.gaps.clear()
        await self._session()
        return statistics.median(self.provider.gaps[2:]) * 1e3

    async def cpu(self, sessions: int) -> float:
        """Seconds of CPU that the server takes for so many Sessions at once."""
        before = self._used()
        await asyncio.gather(*(self._session() for _ in range(sessions)))
        return self._used() - before

    async def _session(self) -> None:
        node = self.node
        assert node is not None
        created = await node.request("POST", "/api/session", {"location": {"directory": str(node.project)}}, seconds=60)
        id = created["data"]["id"]
        await node.request("POST", f"/api/session/{id}/prompt", {"prompt": {"text": "go"}}, seconds=60)
        await node.request("POST", f"/api/session/{id}/wait", seconds=120)

    def _used(self) -> float:
        assert self.node is not None
        assert self.node.process is not None
        fields = Path(f"/proc/{self.node.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS
