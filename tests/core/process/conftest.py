"""A set of processes that is closed after the test, and ways to look at what is left of them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from holdfast.core.process.process import Capture, Processes, ProcessExit

ENVIRONMENT = {"PATH": os.environ["PATH"]}


@pytest.fixture
async def processes() -> AsyncIterator[Processes]:
    processes = Processes()
    yield processes
    await processes.close()


class Call:
    """One running command, its output so far, and a way to wait for a line of it."""

    def __init__(self, processes: Processes, command: str, folder: Path, timeout: float | None = None) -> None:
        self.output = Capture(1 << 20)
        self._heard = asyncio.Event()
        self.task = asyncio.create_task(self._run(processes, command, folder, timeout))

    async def says(self, text: str) -> str:
        """Its output once it contains the text and its line has ended."""
        async with asyncio.timeout(60):
            while text not in self.output.text() or not self.output.text().endswith("\n"):
                self._heard.clear()
                await self._heard.wait()
        return self.output.text()

    async def _run(self, processes: Processes, command: str, folder: Path, timeout: float | None) -> ProcessExit:
        return await processes.run(
            ("/bin/sh", "-c", command), cwd=folder, environment=ENVIRONMENT, output=self._hear, timeout=timeout
        )

    def _hear(self, chunk: bytes) -> bool:
        self.output(chunk)
        self._heard.set()
        return True


@pytest.fixture
def call(processes: Processes, tmp_path: Path) -> Callable[..., Call]:
    def start(command: str, timeout: float | None = None) -> Call:
        return Call(processes, command, tmp_path, timeout)

    return start


def alive(pid: int) -> bool:
    """A zombie is not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")


async def gone(pid: int, seconds: float = 60.0) -> bool:
    """Whether it dies in that time: another process reaps it, so it may take a moment."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return True
    loop, dead = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(handle, dead.set)
    try:
        await asyncio.wait_for(dead.wait(), seconds)
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(handle)
        os.close(handle)
    return not alive(pid)
