"""Messages as lines on a pair of pipes: those of a child process, or our own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

import msgspec

from holdfast.mcp.errors import McpError, ProtocolError, ServerClosed, TooLarge
from holdfast.mcp.messages import FRAME_LIMIT, answered_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.mcp.transport import Receiver, Route
    from holdfast.mcp.versions import Version

HEAD_BYTES = 512


class ProcessEnd(msgspec.Struct, frozen=True):
    """`exit_status` is negative for a signal. `last_stderr` is the last line the process wrote there."""

    exit_status: int | None = None
    last_stderr: str | None = None


class Process(Protocol):
    """A started process, or another pair of pipes. Whoever starts it decides its environment, its group and where its
    stderr goes."""

    async def read(self) -> bytes:
        """The next bytes of its stdout; b"" at the end. Raises OSError."""

    async def write(self, data: bytes) -> None:
        """Returns when the pipe can take more. When cancelled, the bytes are written whole or not at all. Raises
        OSError."""

    async def close(self) -> ProcessEnd:
        """Ends the process and everything it has started, within a bounded time. May be called again, also while
        another call is under way or after one was cancelled."""


class Lines:
    """Divides bytes into lines of at most `limit` bytes. Of a longer one only the beginning is kept."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> Iterator[tuple[bytes, bool]]:
        """Lines that are complete, and whether each is whole. One that is too long is given as soon as it is."""
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            yield from self._add(data[start:end])
            if self._size <= self._limit:
                line = b"".join(self._parts)
                if line.strip():
                    yield line, True
            self._parts, self._size = [], 0
            start = end + 1
        if start < len(data):
            yield from self._add(data[start:])

    def _add(self, piece: bytes) -> Iterator[tuple[bytes, bool]]:
        before = self._size
        self._size += len(piece)
        if self._size <= self._limit:
            self._parts.append(piece)
        elif before <= self._limit:
            yield b"".join([*self._parts, piece[:HEAD_BYTES]])[:HEAD_BYTES], False
            self._parts = []


class StdioTransport:
    """An answer that is too large fails its call with TooLarge; the connection goes on. Lines that are no messages are
    reported to the receiver and ignored."""

    cancels_by_closing = False
    has_headers = False

    def __init__(self, process: Process, *, frame_limit: int = FRAME_LIMIT) -> None:
        self._process = process
        self._limit = frame_limit
        self._lock = asyncio.Lock()
        self._reader: asyncio.Task[None] | None = None

    async def start(self, receiver: Receiver) -> None:
        self._reader = asyncio.create_task(self._read(receiver))

    async def send(self, frame: bytes, route: Route) -> None:
        try:
            async with self._lock:  # a process that does not read holds up one message, not a growing number
                await self._process.write(frame + b"\n")
        except (OSError, ValueError, RuntimeError) as error:  # what loops raise for a pipe that is closed
            raise await self._ended() from error

    def adopt(self, version: Version) -> None:
        pass

    def listen(self) -> None:
        pass

    async def close(self) -> None:
        if self._reader is not None and self._reader is not asyncio.current_task():
            self._reader.cancel()
            await asyncio.wait([self._reader])
        await self._process.close()

    async def _read(self, receiver: Receiver) -> None:
        lines = Lines(self._limit)
        try:
            while data := await self._process.read():
                for line, whole in lines.feed(data):
                    if whole:
                        receiver.received(line)
                    elif not self._fail_one(receiver, line):
                        receiver.closed(TooLarge("A message of the other side", self._limit))
                        return
                await asyncio.sleep(0)  # others have their turn, however much is sent
        except OSError:
            pass
        except Exception as error:  # noqa: BLE001 - whatever it is, the calls must end
            receiver.closed(ProtocolError(f"Reading from the MCP server failed: {error}"))
            return
        receiver.closed(await self._ended())

    def _fail_one(self, receiver: Receiver, head: bytes) -> bool:
        """Fails the call whose answer begins like this. False if it is no answer to a call."""
        id = answered_id(head)
        return id is not None and receiver.failed(id, TooLarge("The answer", self._limit))

    async def _ended(self) -> McpError:
        end = await self._process.close()
        return ServerClosed("The MCP server has ended", exit_status=end.exit_status, last_stderr=end.last_stderr)
