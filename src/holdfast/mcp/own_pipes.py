"""The stdin and stdout of this process, for a server that is started by its client."""

from __future__ import annotations

import asyncio
import os
import stat
from asyncio.streams import FlowControlMixin

from holdfast.mcp.errors import McpError
from holdfast.mcp.stdio import ProcessEnd

READ_BYTES = 64 * 1024


class NoPipes(McpError):
    """What the process was started with is no way to a client."""


class OwnPipes:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, started_by: str = "An MCP client") -> OwnPipes:
        """Takes both over: what anything else prints goes to stderr from now on, and reading stdin gives nothing.
        Raises NoPipes. `started_by`: who starts such a process, for its message."""
        for fd, name in ((0, "input"), (1, "output")):
            if not _can_be_waited_for(fd):
                raise NoPipes(
                    f"Standard {name} is not a pipe, a socket or a terminal. {started_by} starts this command."
                )
        incoming, outgoing = os.dup(0), os.dup(1)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=READ_BYTES)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(incoming, "rb", 0))
        transport, protocol = await loop.connect_write_pipe(FlowControlMixin, os.fdopen(outgoing, "wb", 0))
        return cls(reader, asyncio.StreamWriter(transport, protocol, None, loop))

    async def read(self) -> bytes:
        return await self._reader.read(READ_BYTES)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def close(self) -> ProcessEnd:
        self._writer.close()
        return ProcessEnd()


def _can_be_waited_for(fd: int) -> bool:
    try:
        mode = os.fstat(fd).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd)
