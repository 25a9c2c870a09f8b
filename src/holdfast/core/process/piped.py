"""A child process that is spoken to through its pipes, until it ends or is closed.

Invariants
- What the child writes to standard output waits in the pipe until it is read, so it cannot fill our memory.
- Its standard error is read all the time, with a pause of `ERROR_SECONDS` after each `ERROR_BYTES`.
- It is closed in this order: end of its input, SIGTERM, SIGKILL, with a wait after each of the first two. Everything it
  has started ends with it. Cancelling the caller does not interrupt that."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.core.process.exit import ExitWatch
from holdfast.core.run_to_completion import until_done

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.process.tree import ProcessTree

INPUT_END_SECONDS = 2.0
TERM_SECONDS = 2.0
DRAIN_SECONDS = 0.25
KILL_SECONDS = 0.5
SWEEPS = 20
SWEEP_SECONDS = 0.01
READ_BYTES = 64 * 1024
ERROR_BYTES = 64 * 1024
ERROR_SECONDS = 0.05


class PipedProcess:
    def __init__(
        self,
        popen: subprocess.Popen[bytes],
        tree: ProcessTree,
        error: Callable[[bytes], None],
        ended: Callable[[PipedProcess], None],
    ) -> None:
        """`error` gets what the child writes to standard error; `ended` is called when it has been closed."""
        assert popen.stdin is not None
        assert popen.stdout is not None
        assert popen.stderr is not None
        self.pid = popen.pid
        self._popen = popen
        self._tree = tree
        self._error = error
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._exit = ExitWatch(popen)
        self._input, self._output, self._errors = (
            stream.fileno() for stream in (popen.stdin, popen.stdout, popen.stderr)
        )
        for pipe in (self._input, self._output, self._errors):
            os.set_blocking(pipe, False)
        self._unwritten = bytearray()
        self._written: asyncio.Future[None] | None = None
        self._readable: asyncio.Future[None] | None = None
        self._resume: asyncio.TimerHandle | None = None
        self._error_bytes = 0
        self._closing: asyncio.Task[int] | None = None
        self._loop.add_reader(self._errors, self._read_errors)
        self._exit.done.add_done_callback(self._wake_reader)

    async def read(self) -> bytes:
        """The next bytes of its standard output; b"" when there are no more. Only one caller at a time."""
        while self._closing is None:
            with suppress(BlockingIOError, InterruptedError):
                return os.read(self._output, READ_BYTES)
            if self._exit.done.done():  # what it has started may keep the pipe open
                await asyncio.sleep(DRAIN_SECONDS)
                with suppress(BlockingIOError, InterruptedError):
                    return os.read(self._output, READ_BYTES)
                return b""
            self._readable = self._loop.create_future()
            self._loop.add_reader(self._output, self._wake_reader)
            try:
                await self._readable
            finally:
                self._readable = None
                if self._closing is None:
                    self._loop.remove_reader(self._output)
        return b""

    async def write(self, data: bytes) -> None:
        """Returns when the child has taken all of it, or its pipe has. When cancelled before that, it is written all
        the same. Raises BrokenPipeError."""
        while self._unwritten:
            await self._until_written()
        if self._closing is not None:
            raise BrokenPipeError("the process is closed")
        self._unwritten += data
        self._write()
        while self._unwritten:
            await self._until_written()

    async def close(self) -> int:
        """End the process and everything it has started. Returns its exit status, negative for a signal."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._end(), name=f"close process {self.pid}")
            self._wake_reader()
            self._fail_writers()
        try:
            return await asyncio.shield(self._closing)
        except asyncio.CancelledError:
            await until_done(self._closing)
            raise

    # -- pipes -----------------------------------------------------------------------------------------------------

    def _wake_reader(self, *_: object) -> None:
        if self._readable is not None and not self._readable.done():
            self._readable.set_result(None)

    def _write(self) -> None:
        try:
            count = os.write(self._input, self._unwritten)
        except (BlockingIOError, InterruptedError):
            count = 0
        except OSError:
            self._fail_writers()
            raise
        del self._unwritten[:count]
        if self._unwritten and self._written is None:
            self._written = self._loop.create_future()
            self._loop.add_writer(self._input, self._write_rest)

    def _write_rest(self) -> None:
        try:
            del self._unwritten[: os.write(self._input, self._unwritten)]
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._fail_writers()
            return
        if not self._unwritten:
            self._stop_writing(None)

    async def _until_written(self) -> None:
        assert self._written is not None
        await asyncio.shield(self._written)

    def _fail_writers(self) -> None:
        self._unwritten.clear()
        self._stop_writing(BrokenPipeError("the process does not read any more"))

    def _stop_writing(self, error: OSError | None) -> None:
        if (waiting := self._written) is None:
            return
        self._written = None
        self._loop.remove_writer(self._input)
        if error is None:
            waiting.set_result(None)
        else:
            waiting.set_exception(error)
            waiting.exception()  # nobody may be waiting any more

    def _read_errors(self) -> None:
        try:
            chunk = os.read(self._errors, ERROR_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        if not chunk:
            self._loop.remove_reader(self._errors)
            return
        self._error(chunk)
        self._error_bytes += len(chunk)
        if self._error_bytes >= ERROR_BYTES:
            self._error_bytes = 0
            self._loop.remove_reader(self._errors)
            self._resume = self._loop.call_later(ERROR_SECONDS, self._read_errors_again)

    def _read_errors_again(self) -> None:
        self._resume = None
        self._loop.add_reader(self._errors, self._read_errors)

    def _discard_output(self) -> None:
        try:
            if not os.read(self._output, READ_BYTES):
                self._loop.remove_reader(self._output)
        except (BlockingIOError, InterruptedError):
            pass

    # -- end -------------------------------------------------------------------------------------------------------

    async def _end(self) -> int:
        try:
            assert self._popen.stdin is not None
            self._popen.stdin.close()
            self._loop.add_reader(self._output, self._discard_output)  # else it might wait for us
            if not await self._exits_within(INPUT_END_SECONDS):
                self._signal(signal.SIGTERM)
                await self._exits_within(TERM_SECONDS)
            await self._kill()
            return self._reaped()
        except asyncio.CancelledError:  # the loop is shutting down
            self._signal(signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                self._popen.wait(KILL_SECONDS)
            raise
        finally:
            self._release()

    async def _exits_within(self, seconds: float) -> bool:
        await asyncio.wait({self._exit.done}, timeout=seconds)
        return self._exit.done.done()

    def _signal(self, number: signal.Signals) -> bool:
        """Signal the group and processes that left it. True if more may exist."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)
        escapees, clear = self._tree.escapees()
        for pid in escapees:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        return bool(escapees) or not clear

    async def _kill(self) -> None:
        for _ in range(SWEEPS):
            if not self._signal(signal.SIGKILL):
                break
            await asyncio.sleep(SWEEP_SECONDS)
        await self._exits_within(KILL_SECONDS)

    def _reaped(self) -> int:
        code = self._popen.poll()
        return -signal.SIGKILL if code is None else code

    def _release(self) -> None:
        if self._resume is not None:
            self._resume.cancel()
        for pipe in (self._output, self._errors):
            self._loop.remove_reader(pipe)
        self._drain_errors()
        self._exit.close()
        for stream in (self._popen.stdout, self._popen.stderr):
            if stream is not None:
                stream.close()
        self._ended(self)

    def _drain_errors(self) -> None:
        with suppress(OSError):
            if chunk := os.read(self._errors, ERROR_BYTES):
                self._error(chunk)
