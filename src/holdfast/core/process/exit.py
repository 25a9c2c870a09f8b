"""Detects that a child has exited without reaping it: until it is reaped, its pid cannot be reused."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess

POLL_SECONDS = 0.01


class ExitWatch:
    """`done` is set once the child has exited. On systems without `waitid` the child is reaped."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self._popen = popen
        self._loop = asyncio.get_running_loop()
        self.done: asyncio.Future[None] = self._loop.create_future()
        self._timer: asyncio.TimerHandle | None = None
        self._pidfd: int | None = None
        try:
            self._pidfd = os.pidfd_open(popen.pid)
        except (AttributeError, OSError):
            self._poll()
        else:
            self._loop.add_reader(self._pidfd, self._note)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None

    def _note(self) -> None:
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
        if not self.done.done():
            self.done.set_result(None)

    def _poll(self) -> None:
        if self._has_ended():
            self._note()
        else:
            self._timer = self._loop.call_later(POLL_SECONDS, self._poll)

    def _has_ended(self) -> bool:
        if not hasattr(os, "waitid"):
            return self._popen.poll() is not None
        try:
            return os.waitid(os.P_PID, self._popen.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True
