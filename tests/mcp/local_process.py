"""A child process for tests. The product starts servers through its own process module."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from holdfast.mcp.stdio import ProcessEnd


class LocalProcess:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self.pid = process.pid
        self._process = process
        self._stdin, self._stdout = process.stdin, process.stdout
        self._errors = asyncio.create_task(self._read_errors(process.stderr))
        self._last_line: str | None = None
        self._end: ProcessEnd | None = None

    async def read(self) -> bytes:
        return await self._stdout.read(65536)

    async def write(self, data: bytes) -> None:
        self._stdin.write(data)
        await self._stdin.drain()

    async def close(self) -> ProcessEnd:
        if self._end is None:
            self._stdin.close()
            try:
                async with asyncio.timeout(1):
                    await self._process.wait()
            except TimeoutError:
                with suppress(ProcessLookupError):
                    os.killpg(self.pid, signal.SIGKILL)
                await self._process.wait()
            await self._errors
            self._end = ProcessEnd(self._process.returncode, self._last_line)
        return self._end

    async def _read_errors(self, stderr: asyncio.StreamReader) -> None:
        while line := await stderr.readline():
            self._last_line = line.decode("utf-8", "replace").rstrip("\n")


def starter(script: Path, *arguments: str) -> Callable[[], Awaitable[LocalProcess]]:
    async def start() -> LocalProcess:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(script), *arguments), stdin=-1, stdout=-1, stderr=-1, start_new_session=True
        )
        return LocalProcess(process)

    return start
