"""`/healthz` and `/readyz`, for load balancers and supervisors. They are answered without credentials and under any
host name, because a probe has neither a password nor a name. So an answer is one word, without content."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.database.errors import StorageError
from holdfast.server.types import HttpReply

if TYPE_CHECKING:
    from holdfast.core.runtime.runtime import Runtime
    from holdfast.server.disk_floor import DiskFloor

HEALTH, READINESS = "/healthz", "/readyz"


class Probes:
    def __init__(self, runtime: Runtime, disk: DiskFloor, *, started: bool) -> None:
        self._runtime = runtime
        self._disk = disk
        self.started = started
        self.stopping = False

    def answer(self, method: str, path: str) -> HttpReply | None:
        """None if the request is no probe."""
        if path not in (HEALTH, READINESS) or method not in ("GET", "HEAD"):
            return None
        reason = self.reason() if path == READINESS else None
        word = reason or ("ready" if path == READINESS else "ok")
        headers = [(b"cache-control", b"no-store")]
        return HttpReply(200 if reason is None else 503, f"{word}\n".encode(), "text/plain", headers)

    def reason(self) -> str | None:
        """Why the server should get no requests at present, as one word."""
        if not self.started:
            return "starting"
        if self.stopping:
            return "stopping"
        if self._runtime.placement.draining:
            return "draining"
        if self._storage_lost():
            return "storage"
        return "disk" if self._disk.space_now().is_low else None

    def _storage_lost(self) -> bool:
        outage = self._runtime.database.outage()
        if outage is not None and outage.is_loss:
            return True
        try:
            self._runtime.database.version()
        except StorageError:
            return True
        return False
