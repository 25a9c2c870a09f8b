"""A child process with its own pseudo-terminal.

Invariants
- The child leads a session whose controlling terminal is the slave; it inherits only descriptors 0 to 2.
- The leader is reaped only after the last signal to its session, so its pid cannot be reused before.
- Starting is one step without an await; then a supervising task owns the child until it is reaped.
- `exited` is called once, after the last `output`."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import signal
import struct
import subprocess
import termios
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.core.process.exit import ExitWatch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

HANGUP_SECONDS = 2.0
KILL_SECONDS = 0.5
POLL_SECONDS = 0.05
READ_BYTES = 64 * 1024
LAST_READS = 1024
INPUT_BYTES = 256 * 1024
"""How much unread input is buffered; beyond it, `write` waits."""
ROWS, COLUMNS = 24, 80

# A session leader that opens a terminal gets it as its controlling terminal. A shell does this and then executes the
# command: Python code between fork and exec is unsafe in a process with threads.
_TAKE_TERMINAL = ': <>"$0" && exec "$@"'

log = logging.getLogger(__name__)


class PtyProcess:
    """Raises OSError, or ValueError for arguments with NUL characters."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: str,
        environment: Mapping[str, str],
        output: Callable[[bytes], None],
        exited: Callable[[int], None],
    ) -> None:
        """`command` begins with an absolute path. `output` and `exited` must not raise."""
        self._loop = asyncio.get_running_loop()
        self._master, slave = os.openpty()
        try:
            self.resize(ROWS, COLUMNS)
            self._popen = subprocess.Popen(
                ("/bin/sh", "-c", _TAKE_TERMINAL, os.ttyname(slave), *command),
                cwd=cwd,
                env=environment,
                stdin=slave,
                stdout=slave,
                stderr=slave,
                start_new_session=True,
            )
        except (OSError, ValueError):
            os.close(self._master)
            raise
        finally:
            os.close(slave)
        self.pid = self._popen.pid
        self._output = output
        self._exited = exited
        self._input = bytearray()
        self._room = asyncio.Event()
        self._room.set()
        self._open = True
        self._exit = ExitWatch(self._popen)
        self._unwanted = self._loop.create_future()
        os.set_blocking(self._master, False)
        self._again: asyncio.TimerHandle | None = None
        self._listen()
        self._supervisor = self._loop.create_task(self._supervise(), name=f"pty {self.pid}")

    async def write(self, data: bytes) -> None:
        """Send input. Waits while too much is unread; input after the end of the process is dropped."""
        if self._open:
            self._input += data
            self._flush()
        await self._room.wait()

    def resize(self, rows: int, cols: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    async def kill(self) -> None:
        """Send SIGHUP and then SIGKILL to the whole session; returns once the child is reaped."""
        if not self._unwanted.done():
            self._unwanted.set_result(None)
        await asyncio.wait({self._supervisor})

    async def _supervise(self) -> None:
        either: set[asyncio.Future[None]] = {self._exit.done, self._unwanted}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if self._unwanted.done():
                await self._end_session()
        except asyncio.CancelledError:
            # The loop is shutting down: kill at once.
            self._signal(signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                self._popen.wait(KILL_SECONDS)
            raise
        finally:
            self._read_rest()
            self._close()
            self._exited(self._reap())

    async def _end_session(self) -> None:
        deadline = self._loop.time() + HANGUP_SECONDS
        self._signal(signal.SIGHUP)
        await asyncio.wait({self._exit.done}, timeout=HANGUP_SECONDS)
        while self._groups() and self._loop.time() < deadline:  # noqa: ASYNC110 - nothing tells when a session is empty
            await asyncio.sleep(POLL_SECONDS)
        self._signal(signal.SIGKILL)
        await asyncio.wait({self._exit.done}, timeout=KILL_SECONDS)

    def _signal(self, number: signal.Signals) -> None:
        for group in self._groups():
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, number)

    def _groups(self) -> set[int]:
        """The session's living process groups; an interactive shell creates one per job. Processes in other sessions,
        such as the server of a terminal multiplexer, are left alone. Without /proc, only the leader's group."""
        found = set() if self._exit.done.done() else {self.pid}
        with suppress(FileNotFoundError):
            for name in os.listdir("/proc"):
                if name.isdecimal() and (group := _group(name, self.pid)) is not None:
                    found.add(group)
        return found

    def _reap(self) -> int:
        code = self._popen.poll()
        if code is None:
            log.warning("terminal process %d was killed and has not died", self.pid)
            code = -signal.SIGKILL
        return code if code >= 0 else 128 - code

    def _listen(self) -> None:
        self._loop.add_reader(self._master, self._read)

    def _read(self) -> None:
        """Reading fails while no process has the terminal open. There is no event for reopening it, so poll."""
        chunk = self._chunk()
        if chunk:
            self._output(chunk)
        elif chunk is None:
            self._loop.remove_reader(self._master)
            self._again = self._loop.call_later(POLL_SECONDS, self._listen)

    def _read_rest(self) -> None:
        """Read the remaining output of the child; bounded, because background processes may continue to write."""
        for _ in range(LAST_READS):
            chunk = self._chunk()
            if not chunk:
                return
            self._output(chunk)

    def _chunk(self) -> bytes | None:
        """Empty if there is no output now; None if no process has the terminal open."""
        try:
            return os.read(self._master, READ_BYTES) or None
        except (BlockingIOError, InterruptedError):
            return b""
        except OSError:
            return None

    def _flush(self) -> None:
        try:
            while self._input:
                del self._input[: os.write(self._master, self._input)]
        except (BlockingIOError, InterruptedError):
            self._loop.add_writer(self._master, self._flush)
        except OSError:
            self._input.clear()
        if not self._input:
            self._loop.remove_writer(self._master)
        if len(self._input) > INPUT_BYTES:
            self._room.clear()
        else:
            self._room.set()

    def _close(self) -> None:
        self._open = False
        self._input.clear()
        self._room.set()
        if self._again is not None:
            self._again.cancel()
        self._loop.remove_reader(self._master)
        self._loop.remove_writer(self._master)
        os.close(self._master)
        self._exit.close()


def _group(pid: str, session: int) -> int | None:
    """The group of a living process in this session; None for others."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            state, _, group, its_session = stat.read().rpartition(b")")[2].split()[:4]
    except OSError:
        return None
    return int(group) if int(its_session) == session and state not in (b"Z", b"X") else None
