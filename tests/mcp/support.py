"""A server in memory, under the test's control."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from holdfast.mcp.capabilities import Implementation
from holdfast.mcp.client import Client
from holdfast.mcp.handlers import Handlers
from holdfast.mcp.listing import ListLimits
from holdfast.mcp.messages import FRAME_LIMIT
from holdfast.mcp.stdio import ProcessEnd, StdioTransport
from holdfast.mcp.timeouts import Timeouts

Json = dict[str, Any]
INFO = Implementation(name="tests", version="1")
SILENCE: Any = object()
"""No answer."""
EVERYTHING: Json = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "prompts": {"listChanged": True},
    "logging": {},
    "completions": {},
}


class Refusal(Exception):
    """The server answers with an error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message} | ({} if data is None else {"data": data})


Answer = Any | Callable[[Json], Any]


class ScriptedServer:
    """A process whose answers are in `answers`, by method: a result, or a function of the parameters, which may return
    SILENCE or raise Refusal. Knows `initialize` and, with `stateless`, `server/discover`."""

    def __init__(
        self,
        answers: Mapping[str, Answer] | None = None,
        *,
        version: str = "2025-11-25",
        capabilities: Json = EVERYTHING,
    ) -> None:
        self.received: list[Json] = []
        self.closed = False
        self.writing = 0
        self.most_writing = 0
        self.writable = asyncio.Event()
        self.writable.set()
        self.end = ProcessEnd(0)
        self._out: asyncio.Queue[bytes] = asyncio.Queue()
        self._arrived = asyncio.Event()
        stateless = version == "2026-07-28"
        opening: dict[str, Answer] = {
            "initialize": {
                "protocolVersion": version,
                "capabilities": capabilities,
                "serverInfo": {"name": "scripted"},
            },
            "ping": {},
        }
        if stateless:
            opening = {"server/discover": {"supportedVersions": [version], "capabilities": capabilities}}
        self.answers: dict[str, Answer] = {**opening, **(answers or {})}

    # -- the process -----------------------------------------------------------------------------------------------

    async def read(self) -> bytes:
        return await self._out.get()

    async def write(self, data: bytes) -> None:
        self.writing += 1
        self.most_writing = max(self.writing, self.most_writing)
        try:
            await self.writable.wait()
        finally:
            self.writing -= 1
        if self.closed:
            raise BrokenPipeError
        assert data.endswith(b"\n")
        assert data.count(b"\n") == 1
        self._take(msgspec.json.decode(data))

    async def close(self) -> ProcessEnd:
        self.closed = True
        self.writable.set()
        self._out.put_nowait(b"")
        return self.end

    # -- the server ------------------------------------------------------------------------------------------------

    def send(self, message: Any) -> None:
        self.send_bytes(msgspec.json.encode(message) + b"\n")

    def send_bytes(self, data: bytes) -> None:
        self._out.put_nowait(data)

    def notify(self, method: str, **params: Any) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def request(self, id: Any, method: str, **params: Any) -> None:
        self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})

    def answer(self, id: Any, result: Any) -> None:
        self.send({"jsonrpc": "2.0", "id": id, "result": result})

    def die(self, status: int, last_stderr: str | None = None) -> None:
        self.end = ProcessEnd(status, last_stderr)
        self._out.put_nowait(b"")

    async def message(self, check: Callable[[Json], bool]) -> Json:
        """The first message of the client that fits, as soon as it has come."""
        async with asyncio.timeout(10):
            while True:
                for message in self.received:
                    if check(message):
                        return message
                self._arrived.clear()
                await self._arrived.wait()

    async def called(self, method: str) -> Json:
        return await self.message(lambda message: message.get("method") == method)

    async def answered(self, id: Any) -> Json:
        """The client's answer to a request of the server."""
        return await self.message(lambda message: "method" not in message and message["id"] == id)

    def methods(self) -> list[str]:
        return [message["method"] for message in self.received if "method" in message]

    def _take(self, message: Json) -> None:
        self.received.append(message)
        self._arrived.set()
        if "id" not in message or "method" not in message:
            return
        answer = self.answers.get(message["method"], Refusal(-32601, "Method not found"))
        try:
            result = answer(message.get("params", {})) if callable(answer) else answer
            if isinstance(result, Exception):
                raise result
        except Refusal as refusal:
            self.send({"jsonrpc": "2.0", "id": message["id"], "error": refusal.error})
            return
        if result is not SILENCE:
            self.answer(message["id"], result)


async def connected(
    server: ScriptedServer,
    handlers: Handlers | None = None,
    *,
    timeouts: Timeouts | None = None,
    limits: ListLimits | None = None,
    frame_limit: int = FRAME_LIMIT,
    version: str | None = None,
    last_version: str | None = "2025-11-25",
) -> Client:
    """Asks for `server/discover` only where the test does not leave it out."""
    transport = StdioTransport(server, frame_limit=frame_limit)
    client = Client(transport, INFO, handlers or Handlers(), timeouts=timeouts, limits=limits)
    try:
        await client.start(version=version, last_version=last_version)
    except BaseException:
        await client.close()
        raise
    return client
