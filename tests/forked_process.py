"""Starts `holdfast` processes by forking, which takes a fifth of the processor time: most of a start is imports."""

from __future__ import annotations

import inspect
import json
import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tests.fork_server import LENGTH, NUMBER, Request

READ_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "TZ")
"""Variables that an interpreter reads when it starts begin with these."""


def can_fork(environment: Mapping[str, str]) -> bool:
    """Not where libraries of the system do not survive it, nor where the environment is for the interpreter."""
    return sys.platform == "linux" and not any(name.startswith(READ_AT_START) for name in environment)


class ForkServer:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.fork_server", str(theirs.fileno())],
                cwd=Path(__file__).parents[1],
                env={"PATH": os.environ["PATH"]},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )

    def ask(self, request: Request, descriptors: Sequence[int]) -> None:
        body = json.dumps(request).encode()
        with self._lock:
            socket.send_fds(self._requests, [LENGTH % len(body)], descriptors)
            self._requests.sendall(body)

    def close(self) -> None:
        self._requests.close()
        self._process.wait()


@cache
def fork_server() -> ForkServer:
    """One for each process that runs tests; it ends with that process."""
    return ForkServer()


class ForkedProcess(subprocess.Popen[str]):
    """A `holdfast` process. Its status comes from the fork server, of which it is a child."""

    def __init__(self, arguments: Sequence[str | bytes], *, terminal: bool = False, **options: Any) -> None:
        self._terminal = terminal
        self._reported = False
        super().__init__(arguments, text=True, start_new_session=terminal, **options)

    def _execute_child(self, *given: Any) -> None:
        names = list(inspect.signature(subprocess.Popen._execute_child).parameters)[1:]  # type: ignore[attr-defined]
        options = dict(zip(names, given, strict=True))
        request = Request(
            arguments=[os.fsdecode(argument) for argument in options["args"]],
            directory=str(options["cwd"]),
            environment=options["env"],
            new_session=options["start_new_session"],
            terminal=self._terminal,
        )
        self._report, theirs = os.pipe()
        fork_server().ask(request, (options["p2cread"], options["c2pwrite"], options["errwrite"], theirs))
        os.close(theirs)
        self.pid = self._read_report()
        self._child_created = True
        pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(options[name] for name in pipes))  # type: ignore[attr-defined]

    def _internal_poll(self, _deadstate: int | None = None) -> int | None:
        lock: threading.Lock = self._waitpid_lock  # type: ignore[attr-defined]
        if not lock.acquire(blocking=False):
            return None  # another thread waits
        try:
            if not self._reported:
                pid, status = self._try_wait(os.WNOHANG)
                if pid:
                    self._handle_exitstatus(status)  # type: ignore[attr-defined]
            return self.returncode
        finally:
            lock.release()

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        ready, _, _ = select.select([self._report], [], [], 0 if wait_flags == os.WNOHANG else None)
        if not ready:
            return 0, 0
        status = self._read_report()
        os.close(self._report)
        self._reported = True
        return self.pid, status

    def _read_report(self) -> int:
        number = os.read(self._report, len(NUMBER % 0))
        assert number, "the fork server has ended"
        return int(number)
