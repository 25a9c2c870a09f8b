"""Runs child processes: a bounded number at once, each with its process tree ended before the call returns.

Invariants
- Every child leads its own session and process group, reads only the given input, and inherits only descriptors 0 to 2.
- A call ends when the leader exits. The rest of its tree is then killed, after a short wait for remaining output.
- The leader is reaped only after its group was signalled, so its pid cannot be reused before.
- Starting is one step without an await; then a supervising task owns the child. Cancelling a call makes that task end
  the tree; the cancellation is raised afterwards.
- A command with a confinement is executed under it or not at all."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
import subprocess
from contextlib import ExitStack, asynccontextmanager, nullcontext, suppress
from itertools import count
from typing import IO, TYPE_CHECKING, Any, Literal

from holdfast.core.process.exit import ExitWatch
from holdfast.core.process.sandbox.confinement import Launch, SandboxUnavailable
from holdfast.core.process.tree import ProcessTree
from holdfast.core.process.watchdog import MARKER, Watchdog
from holdfast.core.run_to_completion import run_to_completion, until_done
from holdfast.schema.exceptions import HoldfastError
from holdfast.schema.frozen import Frozen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence
    from pathlib import Path

    from holdfast.core.process.piped import PipedProcess
    from holdfast.core.process.sandbox.backends import BackendChooser
    from holdfast.core.process.sandbox.confinement import Confinement

    Sink = Callable[[bytes], bool]

RUNNING_LIMIT = 16
TREE_LIMIT = 1024
TERM_SECONDS = 3.0
DRAIN_SECONDS = 0.25
KILL_SECONDS = 0.5
SWEEPS = 20
SWEEP_SECONDS = 0.01
END_SECONDS = TERM_SECONDS + DRAIN_SECONDS + SWEEPS * SWEEP_SECONDS + KILL_SECONDS
"""The maximum time to end a tree; an interruption must wait longer than that."""
TICK_SECONDS = 0.2
READ_BYTES = 64 * 1024
LAST_READS = 64

log = logging.getLogger(__name__)

Cause = Literal["exit", "timeout", "enough", "storm", "closed", "cancelled"]


class ProcessError(HoldfastError):
    """A process could not be started."""

    def __init__(
        self,
        command: Sequence[str],
        reason: str,
        *,
        exit: int | None = None,
        stderr: str = "",
        cause: str = "",
    ) -> None:
        super().__init__(f"{command[0]}: {reason}")
        self.command = tuple(command)
        self.exit = exit
        self.stderr = stderr
        self.cause = cause


class ProcessExit(Frozen):
    """`code` is 128 plus the signal number if a signal killed the process. `cause` tells what ended the call."""

    code: int
    signal: str | None
    cause: Cause
    disabled: tuple[str, ...] = ()
    """What a confined command left behind for other programs to execute, and what became of it."""


class Capture:
    """An output sink that keeps the first `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._data = bytearray()
        self.truncated = False

    def __call__(self, chunk: bytes) -> bool:
        room = self._limit - len(self._data)
        self._data += chunk[:room]
        self.truncated = self.truncated or len(chunk) > room
        return True

    def bytes(self) -> bytes:
        return bytes(self._data)

    def text(self) -> str:
        return self._data.decode("utf-8", "replace")


class Processes:
    """The children of one Location."""

    def __init__(
        self,
        *,
        limit: int = RUNNING_LIMIT,
        tree_limit: int = TREE_LIMIT,
        watched: bool = True,
        sandbox: BackendChooser | None = None,
        before_start: Callable[[], None] | None = None,
    ) -> None:
        """`watched`: a watchdog kills the children if this process is killed. `sandbox` is required for commands with a
        confinement. `before_start` is called before each child is started."""
        self._sandbox = sandbox
        self._slots = asyncio.Semaphore(limit)
        self._tree_limit = tree_limit
        self._token = secrets.token_hex(8)
        self._numbers = count(1)
        self._watchdog = Watchdog(self._token) if watched else None
        self._before_start = before_start
        self._running: dict[asyncio.Task[ProcessExit], _Child] = {}
        self._open: set[PipedProcess] = set()
        self._closed = False

    async def run(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        environment: Mapping[str, str],
        output: Sink,
        error: Sink | None = None,
        stdin: bytes = b"",
        timeout: float | None = None,
        confinement: Confinement | None = None,
    ) -> ProcessExit:
        """Run until exit, `timeout`, or a sink returns False. A sink must not raise. Without `error`, stdout and stderr
        both go to `output` in order of arrival. Calls beyond the limit wait."""
        marker = f"{self._token}.{next(self._numbers)}"
        environment = {**environment, "PWD": str(cwd), MARKER: marker}
        async with self._slots, self._launch(command, cwd, environment, confinement) as launch:
            with await asyncio.to_thread(_stdin_file, stdin) if stdin else nullcontext(subprocess.DEVNULL) as file:
                child = self._start(launch, command, cwd, marker, output, error, file)
            task = asyncio.create_task(child.supervise(timeout), name=f"process {child.pid}")
            self._running[task] = child
            task.add_done_callback(self._forget)
            try:
                return await asyncio.shield(task)
            except asyncio.CancelledError:
                child.stop("cancelled")
                await until_done(task)
                raise

    def open(
        self, command: Sequence[str], *, cwd: Path, environment: Mapping[str, str], error: Callable[[bytes], None]
    ) -> PipedProcess:
        """Start a child that is spoken to through its pipes until it is closed. It does not count towards the limit.
        `error` gets what it writes to standard error. Raises ProcessError."""
        from holdfast.core.process.piped import PipedProcess

        marker = f"{self._token}.{next(self._numbers)}"
        launch = Launch(tuple(command), {**environment, "PWD": str(cwd), MARKER: marker})
        popen = self._popen(launch, command, cwd, subprocess.PIPE, subprocess.PIPE)
        opened = PipedProcess(popen, _tree(popen, marker), error, self._piped_ended)
        self._open.add(opened)
        return opened

    async def close(self) -> None:
        """End every tree; running calls return with the cause `closed`."""
        self._closed = True
        if self._open:
            await asyncio.gather(*(opened.close() for opened in tuple(self._open)))
        tasks = tuple(self._running)
        for child in self._running.values():
            child.stop("closed")
        if tasks:
            await asyncio.wait(tasks)
        if self._watchdog is not None:
            await self._watchdog.close()

    @asynccontextmanager
    async def _launch(
        self, command: Sequence[str], cwd: Path, environment: Mapping[str, str], confinement: Confinement | None
    ) -> AsyncIterator[Launch]:
        if confinement is None:
            yield Launch(tuple(command), environment)
            return
        from holdfast.core.process.sandbox.backend import launched

        with ExitStack() as stack:
            try:
                if self._sandbox is None:
                    raise SandboxUnavailable("no sandbox was given")
                context = launched(await self._sandbox.choose(), command, cwd, environment, confinement)
                launch = await run_to_completion(asyncio.to_thread(stack.enter_context, context))
            except (SandboxUnavailable, OSError) as problem:
                reason = f"the sandbox could not be prepared: {problem}"
                raise ProcessError(command, "cannot be confined", cause=reason) from problem
            yield launch

    def _start(
        self,
        launch: Launch,
        command: Sequence[str],
        cwd: Path,
        marker: str,
        output: Sink,
        error: Sink | None,
        stdin: int | IO[bytes],
    ) -> _Child:
        popen = self._popen(launch, command, cwd, stdin, subprocess.STDOUT if error is None else subprocess.PIPE)
        return _Child(popen, _tree(popen, marker), output, error, self._tree_limit)

    def _popen(
        self, launch: Launch, command: Sequence[str], cwd: Path, stdin: int | IO[bytes], stderr: int
    ) -> subprocess.Popen[bytes]:
        if self._closed:
            raise ProcessError(command, "no process can be started any more")
        if self._before_start is not None:
            self._before_start()
        try:
            popen = subprocess.Popen(
                launch.command,
                cwd=cwd,
                env=launch.environment,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=stderr,
                bufsize=0,
                start_new_session=True,
                pass_fds=launch.descriptors,
            )
        except (OSError, ValueError) as problem:
            raise ProcessError(command, "cannot be started", cause=_why(problem, command)) from problem
        if self._watchdog is not None:
            self._watchdog.watch(popen.pid)
        return popen

    def _forget(self, task: asyncio.Task[ProcessExit]) -> None:
        child = self._running.pop(task)
        if self._watchdog is not None:
            self._watchdog.release(child.pid)

    def _piped_ended(self, ended: PipedProcess) -> None:
        self._open.discard(ended)
        if self._watchdog is not None:
            self._watchdog.release(ended.pid)


class _Child:
    def __init__(
        self, popen: subprocess.Popen[bytes], tree: ProcessTree, output: Sink, error: Sink | None, tree_limit: int
    ) -> None:
        self.pid = popen.pid
        self._popen = popen
        self._tree = tree
        self._tree_limit = tree_limit
        self._loop = asyncio.get_running_loop()
        self._exit = ExitWatch(popen)
        self._stopped: asyncio.Future[Cause] = self._loop.create_future()
        self._drained = self._loop.create_future()
        self._pipes: dict[int, Sink] = {}
        for pipe, sink in ((popen.stdout, output), (popen.stderr, error)):
            if pipe is not None and sink is not None:
                os.set_blocking(pipe.fileno(), False)
                self._pipes[pipe.fileno()] = sink
                self._loop.add_reader(pipe.fileno(), self._read, pipe.fileno())

    def stop(self, cause: Cause) -> None:
        """Request the end of the tree. The first cause wins."""
        if not self._stopped.done():
            self._stopped.set_result(cause)

    async def supervise(self, timeout: float | None) -> ProcessExit:
        try:
            cause = await self._until_exit(timeout)
            if cause != "exit":
                self._signal(signal.SIGTERM)
                await asyncio.wait({self._exit.done}, timeout=0 if cause == "storm" else TERM_SECONDS)
            await asyncio.wait({self._drained}, timeout=DRAIN_SECONDS if self._exit.done.done() else 0)
            await self._kill()
            self._read_rest()
            return self._reap(cause)
        except asyncio.CancelledError:
            # The loop is shutting down: kill at once.
            self._signal(signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                self._popen.wait(KILL_SECONDS)
            raise
        finally:
            self._close()

    async def _until_exit(self, timeout: float | None) -> Cause:
        deadline = None if timeout is None else self._loop.time() + timeout
        either: set[asyncio.Future[Any]] = {self._exit.done, self._stopped}
        while True:
            left = TICK_SECONDS if deadline is None else min(TICK_SECONDS, deadline - self._loop.time())
            await asyncio.wait(either, timeout=max(left, 0), return_when=asyncio.FIRST_COMPLETED)
            if self._exit.done.done():
                return "exit"
            if self._stopped.done():
                return self._stopped.result()
            if deadline is not None and self._loop.time() >= deadline:
                return "timeout"
            if self._tree.may_exceed(self._tree_limit) and self._tree.size() > self._tree_limit:
                return "storm"

    def _signal(self, number: signal.Signals) -> bool:
        """Signal the group and processes that left it. True if more may exist, so the caller must repeat."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)
        escapees, clear = self._tree.escapees()
        for pid in escapees:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        return bool(escapees) or not clear

    async def _kill(self) -> None:
        # The kernel kills a group atomically; finding escaped processes is not atomic, so repeat until there are none.
        for _ in range(SWEEPS):
            if not self._signal(signal.SIGKILL):
                break
            await asyncio.sleep(SWEEP_SECONDS)
        else:
            log.warning("process %d: children that left its group are still alive", self.pid)
        if not self._exit.done.done():
            await asyncio.wait({self._exit.done}, timeout=KILL_SECONDS)

    def _reap(self, cause: Cause) -> ProcessExit:
        code = self._popen.poll()
        if code is None:
            log.warning("process %d was killed and has not died", self.pid)
            code = -signal.SIGKILL
        return ProcessExit(code, None, cause) if code >= 0 else ProcessExit(128 - code, _signal_name(-code), cause)

    def _read(self, pipe: int) -> None:
        try:
            chunk = os.read(pipe, READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        if not chunk:
            self._release(pipe)
        elif not self._pipes[pipe](chunk):
            self._pipes[pipe] = lambda chunk: True
            self.stop("enough")

    def _read_rest(self) -> None:
        """Read what is left in the pipes: a blocked event loop may have read nothing while waiting."""
        for pipe, sink in tuple(self._pipes.items()):
            for _ in range(LAST_READS):
                try:
                    chunk = os.read(pipe, READ_BYTES)
                except (BlockingIOError, InterruptedError):
                    break
                if not chunk or not sink(chunk):
                    break

    def _release(self, pipe: int) -> None:
        self._loop.remove_reader(pipe)
        del self._pipes[pipe]
        if not self._pipes and not self._drained.done():
            self._drained.set_result(None)

    def _close(self) -> None:
        for pipe in tuple(self._pipes):
            self._release(pipe)
        self._exit.close()
        for stream in (self._popen.stdout, self._popen.stderr):
            if stream is not None:
                stream.close()


def _tree(popen: subprocess.Popen[bytes], marker: str) -> ProcessTree:
    return ProcessTree(popen.pid, f"\0{MARKER}={marker}\0".encode())


def _stdin_file(data: bytes) -> IO[bytes]:
    """An unnamed temporary file, so that no pipe has to be fed."""
    import tempfile

    file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    file.write(data)
    file.seek(0)
    return file


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


def _why(problem: OSError | ValueError, command: Sequence[str]) -> str:
    """The missing file is named if it is not the command: the directory to start in, for example."""
    if not isinstance(problem, OSError) or problem.strerror is None:
        return str(problem)
    return problem.strerror if problem.filename in (None, *command[:1]) else f"{problem.strerror}: {problem.filename}"
