"""A child that is spoken to through its pipes."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdfast.core.process import piped
from holdfast.core.process.piped import PipedProcess
from holdfast.core.process.process import ProcessError, Processes

pytestmark = pytest.mark.anyio


@pytest.fixture
async def processes(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Processes]:
    monkeypatch.setattr(piped, "INPUT_END_SECONDS", 0.1)
    monkeypatch.setattr(piped, "TERM_SECONDS", 0.1)
    made = Processes(watched=False)
    yield made
    await made.close()


class Started:
    def __init__(self, processes: Processes, *command: str) -> None:
        self.errors = b""
        self.process: PipedProcess = processes.open(
            command, cwd=Path("/"), environment={"PATH": "/usr/bin:/bin"}, error=self._error
        )

    def _error(self, chunk: bytes) -> None:
        self.errors += chunk

    async def read_all(self) -> bytes:
        found = b""
        while chunk := await self.process.read():
            found += chunk
        return found


async def test_what_is_written_is_read_and_errors_are_apart(processes: Processes) -> None:
    """MCP-160."""
    started = Started(processes, "sh", "-c", "echo oops >&2; cat")
    await started.process.write(b"hello\n")
    assert await started.process.read() == b"hello\n"
    assert await started.process.close() == 0
    assert started.errors == b"oops\n"
    assert await started.process.read() == b""
    with pytest.raises(BrokenPipeError):
        await started.process.write(b"x")


async def test_a_program_that_does_not_exist_is_a_process_error(processes: Processes) -> None:
    with pytest.raises(ProcessError):
        Started(processes, "no-such-program")


async def test_the_exit_status_tells_of_a_signal(processes: Processes) -> None:
    started = Started(processes, "sh", "-c", "kill -SEGV $$")
    assert await started.read_all() == b""
    assert await started.process.close() == -signal.SIGSEGV


async def test_a_large_message_is_written_whole_even_if_the_writer_is_cancelled(processes: Processes) -> None:
    """MCP-073: the next message does not begin inside of it."""
    started = Started(processes, "sh", "-c", "sleep 0.1; cat")
    writing = asyncio.create_task(started.process.write(b"a" * 300_000))
    await asyncio.sleep(0.02)
    writing.cancel()
    following = asyncio.create_task(started.process.write(b"b"))
    found = b""
    while len(found) < 300_001:
        found += await started.process.read()
    await following
    assert found == b"a" * 300_000 + b"b"


async def test_closing_frees_a_writer_that_waits(processes: Processes) -> None:
    started = Started(processes, "sleep", "100")
    writing = asyncio.create_task(started.process.write(b"a" * 300_000))
    await asyncio.sleep(0.02)
    await started.process.close()
    with pytest.raises(BrokenPipeError):
        await writing


async def test_output_that_nobody_reads_stays_in_the_pipe(processes: Processes) -> None:
    """MCP-173."""
    started = Started(processes, "sh", "-c", "yes")
    assert await started.process.read()
    await asyncio.sleep(0.05)
    assert await started.process.close() in (-signal.SIGTERM, -signal.SIGKILL, -signal.SIGPIPE)


async def test_a_flood_of_errors_is_slowed_down(processes: Processes) -> None:
    """MCP-173."""
    started = Started(processes, "sh", "-c", "yes >&2")
    began = time.monotonic()
    await asyncio.sleep(0.3)
    seconds = time.monotonic() - began
    assert len(started.errors) <= piped.ERROR_BYTES * (seconds / piped.ERROR_SECONDS + 2)
    await started.process.close()


async def test_a_grandchild_that_keeps_the_pipe_open_does_not_keep_the_reader(processes: Processes) -> None:
    started = Started(processes, "sh", "-c", "sleep 100 & echo hi")
    assert await started.read_all() == b"hi\n"
    assert await started.process.close() == 0


async def test_a_cancelled_close_still_ends_the_process(processes: Processes) -> None:
    """MCP-161."""
    started = Started(
        processes, sys.executable, "-c", "import signal,time; signal.signal(15, lambda *_: None); time.sleep(99)"
    )
    await asyncio.sleep(0.1)
    closing = asyncio.create_task(started.process.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert await started.process.close() == -signal.SIGKILL


async def test_closing_all_processes_closes_these_too() -> None:
    made = Processes(watched=False)
    started = Started(made, "cat")
    await made.close()
    assert await started.process.read() == b""
    with pytest.raises(ProcessError):
        Started(made, "cat")
