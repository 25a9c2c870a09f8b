"""A small shell process that kills the children of this process if it crashes.

Invariants
- Each line it reads lists all living groups, so only the last line counts; end of input means that this process ended.
- Only this process has the writing end. After an orderly close the last line is empty, and nothing is killed.
- Parent-death signals are not used: they reach only the group leader, and need a launcher for every start."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess

MARKER = "HOLDFAST_PROCESS"
CLOSE_SECONDS = 2.0

log = logging.getLogger(__name__)

_SCRIPT = f"""
trap '' HUP INT TERM
living=
while read -r line; do living=$line; done
[ -n "$living" ] || exit 0
for group in $living; do kill -KILL -- "-$group"; done
for found in $(grep -lsF "{MARKER}=$1." /proc/[0-9]*/environ); do
    pid=${{found#/proc/}}
    kill -KILL "${{pid%/environ}}"
done
"""


class Watchdog:
    """`token` is the prefix of the marker of every watched child."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._living: set[int] = set()
        self._shell: subprocess.Popen[bytes] | None = None

    def watch(self, group: int) -> None:
        self._living.add(group)
        self._tell()

    def release(self, group: int) -> None:
        self._living.discard(group)
        self._tell()

    async def close(self) -> None:
        if (shell := self._shell) is None:
            return
        self._shell = None
        assert shell.stdin is not None
        shell.stdin.close()
        try:
            await asyncio.to_thread(shell.wait, CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            log.warning("the watchdog has not exited yet; it exits by itself and kills nothing")

    def _tell(self) -> None:
        line = (" ".join(map(str, sorted(self._living))) + "\n").encode()
        if self._shell is not None and not _write(self._shell, line):
            self._shell.wait()
            self._shell = None
        if self._shell is not None or not self._living:
            return
        try:
            self._shell = self._start()
        except OSError as problem:
            log.warning("children may outlive this process if it is killed: %s", problem)
        else:
            _write(self._shell, line)

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ("/bin/sh", "-c", _SCRIPT, "holdfast-watchdog", self._token),
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={"PATH": os.defpath},
            start_new_session=True,
        )


def _write(shell: subprocess.Popen[bytes], line: bytes) -> bool:
    """Does not block or split: lines are short and the shell reads them at once."""
    assert shell.stdin is not None
    try:
        shell.stdin.write(line)
    except BrokenPipeError:
        shell.stdin.close()
        return False
    return True
