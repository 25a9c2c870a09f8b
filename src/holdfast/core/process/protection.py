"""Hides this process's secrets from the commands that it starts.

A child of the same user can read `/proc/PID/environ` of its parent. Before the first child starts, the process is made
not dumpable, which closes its `/proc` files to all users but root, and values are overwritten in the memory that the
kernel shows there, which hides them from root too.

Invariants
- Only the values that every child gets anyway stay in that memory. Any other may be a secret, whatever its name.
- Variables with the names of secrets are removed; the others keep their values for this process and its libraries."""

from __future__ import annotations

import logging
import os
import sys

from holdfast.core.database.place import DATABASE, has_password
from holdfast.core.process.environment import shared_value
from holdfast.core.process.watchdog import MARKER
from holdfast.core.secret import is_secret

PR_SET_DUMPABLE = 4
WITHHELD = "withheld"
"""The value of HOLDFAST_DATABASE afterwards. It is no address, so that a later runtime of this process fails instead of
storing its Sessions elsewhere."""
ENVIRONMENT_START, ENVIRONMENT_END = 47, 48
"""Indices of fields in /proc/self/stat after the command's name."""

log = logging.getLogger(__name__)


class ProcessProtection:
    """Use one per process, and only in our own programs: a library must not change its host's environment."""

    def __init__(self) -> None:
        self._done = False

    def apply(self) -> None:
        """Idempotent and fast. Skips what the system does not support, with a warning."""
        if self._done:
            return
        self._done = True
        kept = {MARKER, *(name for name, value in os.environ.items() if shared_value(name, value) == value)}
        secrets = [name for name in os.environ if is_secret(name)]
        if withheld := has_password(os.environ.get(DATABASE, "")):
            secrets.append(DATABASE)
        if sys.platform == "linux":
            try:
                for name in os.environ.keys() - kept:
                    os.putenv(name, os.environ[name])  # a copy elsewhere, for the libraries of this process
                _overwrite(frozenset(map(os.fsencode, kept - set(secrets))))
                _forbid_dumping()
            except (OSError, ValueError, AttributeError) as error:
                log.warning("the environment of this process stays readable for its children: %s", error)
        for name in secrets:
            del os.environ[name]
        if withheld:
            os.environ[DATABASE] = WITHHELD


def _forbid_dumping() -> None:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl failed")


def _overwrite(kept: frozenset[bytes]) -> None:
    """Overwrite the values in the memory of this process that the kernel shows as `/proc/self/environ`, but those of
    the variables to keep."""
    import ctypes

    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b") ")[2].split()
    start, end = int(fields[ENVIRONMENT_START]), int(fields[ENVIRONMENT_END])
    if not 0 < start < end:
        return
    for entry in ctypes.string_at(start, end - start).split(b"\0"):
        name, equals, value = entry.partition(b"=")
        if equals and name not in kept and value:
            ctypes.memset(start + len(name) + 1, 0, len(value))
        start += len(entry) + 1
