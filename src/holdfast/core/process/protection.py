"""Keeps this process's own secrets from the commands that it starts.

A child of the same user may read `/proc/PID/environ` of its parent. So before the first one starts, the process is made
not dumpable, which closes its `/proc` files to everybody but root, and the values of variables that hold secrets are
overwritten where the kernel shows them, which closes them to root as well."""

from __future__ import annotations

import logging
import os
import sys

from holdfast.core.secret import is_secret

PR_SET_DUMPABLE = 4
ENVIRONMENT_START, ENVIRONMENT_END = 47, 48
"""Fields of /proc/self/stat, counted from the one behind the command's name."""

log = logging.getLogger(__name__)


class ProcessProtection:
    """Use one per process, and only in a process that is ours: a library does not change its host's environment."""

    def __init__(self) -> None:
        self._done = False

    def apply(self) -> None:
        """Idempotent and quick. What the system does not offer is left out: it is a second line of defence."""
        if self._done:
            return
        self._done = True
        secrets = [name for name in os.environ if is_secret(name)]
        if sys.platform == "linux":
            try:
                _overwrite(frozenset(map(os.fsencode, secrets)))
                _forbid_dumping()
            except (OSError, ValueError, AttributeError) as error:
                log.warning("the environment of this process stays readable for its children: %s", error)
        for name in secrets:
            del os.environ[name]


def _forbid_dumping() -> None:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl failed")


def _overwrite(names: frozenset[bytes]) -> None:
    """The block that the kernel shows as `/proc/self/environ`; it is memory of this process."""
    import ctypes

    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b") ")[2].split()
    start, end = int(fields[ENVIRONMENT_START]), int(fields[ENVIRONMENT_END])
    if not 0 < start < end:
        return
    for entry in ctypes.string_at(start, end - start).split(b"\0"):
        name, equals, value = entry.partition(b"=")
        if equals and name in names and value:
            ctypes.memset(start + len(name) + 1, 0, len(value))
        start += len(entry) + 1
