"""What cannot connect at present. It is told in the log when it begins, when its cause changes and when it is over, and
not at each attempt in between.

Invariants
- Reads are tried while somebody waits for one. So an outage of reads alone ends with any connection that succeeds."""

from __future__ import annotations

import logging
import threading
import time

from holdfast.core.database.errors import StorageUnavailable
from holdfast.core.database.outage import Outage

log = logging.getLogger(__name__)

COMMITS, READS, NOTICES = "commits", "reads", "notices of other nodes"


class Outages:
    """Used by all threads of a database."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._reasons: dict[str, Exception] = {}
        """By what waits."""
        self._since = 0.0
        self._told: type | None = None
        self._lock = threading.Lock()

    def failed(self, purpose: str, error: Exception) -> None:
        with self._lock:
            if not self._reasons:
                self._since = time.monotonic()
                self._told = None
            self._reasons[purpose] = error
            if type(error) is not self._told:
                self._told = type(error)
                log.warning("%s", _told(error, purpose))

    def connected(self, purpose: str) -> None:
        if not self._reasons:
            return
        with self._lock:
            before = len(self._reasons)
            self._reasons.pop(purpose, None)
            self._reasons.pop(READS, None)
            if before and not self._reasons:
                log.warning("%s is back after %.0f s", self._name, time.monotonic() - self._since)

    def current(self) -> Outage | None:
        with self._lock:
            for purpose in (COMMITS, READS, NOTICES):
                if (error := self._reasons.get(purpose)) is not None:
                    return Outage(time.monotonic() - self._since, _told(error, purpose))
        return None


def _told(error: Exception, purpose: str) -> str:
    return f"{error}; {purpose} wait" if isinstance(error, StorageUnavailable) else str(error)
