"""Finds the processes of one call: its group, and those that left the group but have its marker in their environment.
Linux only; elsewhere only the group is known."""

from __future__ import annotations

import os
import time

SHORT_CALL_SECONDS = 1.0
KERNEL_THREAD = 0x200000
SURE_EVERY = 10
"""How often the cheap check is not relied upon: one time in so many."""


class ProcessTree:
    """`leader` must stay unreaped while the tree is in use, so that its pid is not reused."""

    def __init__(self, leader: int, marker: bytes) -> None:
        self._leader = leader
        self._marker = marker
        self._started = time.monotonic()
        self._fewest = system_entities()
        self._checks = 0

    def may_exceed(self, limit: int) -> bool:
        """A cheap check before `size`: whether the number of processes of the whole system grew by more than `limit`.
        Reads one file instead of one per process. Processes of others that end meanwhile hide such a growth, so that
        now and then the answer is yes anyway."""
        now = system_entities()
        self._fewest = min(self._fewest, now)
        self._checks += 1
        return now - self._fewest > limit or self._checks % SURE_EVERY == 0

    def escapees(self) -> tuple[list[int], bool]:
        """Living processes with the marker in other groups, and whether all processes could be checked: during `exec` a
        process shows no environment."""
        found, clear = [], True
        for pid in self._candidates():
            environment = _read(f"/proc/{pid}/environ")
            if self._marker in b"\0" + environment:
                if _group(pid) not in (None, self._leader):
                    found.append(pid)
            elif not environment and _may_start(pid):
                clear = False
        return found, clear

    def size(self) -> int:
        return sum(_group(pid) == self._leader or self._is_marked(pid) for pid in _all())

    def _candidates(self) -> list[int]:
        pids = _all()
        # During a short call pids cannot wrap around: only pids assigned after the leader's can belong to it.
        if time.monotonic() - self._started > SHORT_CALL_SECONDS or (last := _last_pid()) is None:
            return pids
        if last >= self._leader:
            return [pid for pid in pids if self._leader < pid <= last]
        return [pid for pid in pids if pid > self._leader or pid <= last]

    def _is_marked(self, pid: int) -> bool:
        return self._marker in b"\0" + _read(f"/proc/{pid}/environ")


def system_entities() -> int:
    """The number of processes and threads of the whole system."""
    fields = _read("/proc/loadavg").split()
    return int(fields[3].split(b"/")[1]) if len(fields) > 3 else 0


def _last_pid() -> int | None:
    fields = _read("/proc/loadavg").split()
    return int(fields[4]) if len(fields) > 4 else None


def _group(pid: int) -> int | None:
    """The process group; None for a dead process or a zombie."""
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return int(fields[2]) if len(fields) > 2 and fields[0] not in (b"Z", b"X") else None


def _may_start(pid: int) -> bool:
    """Whether an empty environment may be temporary. Not for dead processes, kernel threads and other users'
    processes, which never show one."""
    try:
        if os.stat(f"/proc/{pid}").st_uid != os.geteuid():
            return False
    except OSError:
        return False
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return len(fields) > 6 and fields[0] not in (b"Z", b"X") and not int(fields[6]) & KERNEL_THREAD


def _all() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def _read(path: str) -> bytes:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(handle, 1 << 18)
    except OSError:
        return b""
    finally:
        os.close(handle)
