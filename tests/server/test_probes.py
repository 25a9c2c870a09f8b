"""Readiness, in all states that a server can be in."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.database.errors import StorageUnavailable
from holdfast.core.database.outage import LOST_SECONDS, Outage
from holdfast.core.runtime.runtime import Runtime
from holdfast.server.app import App
from holdfast.server.disk_floor import DiskFloor
from holdfast.server.probes import Probes

pytestmark = pytest.mark.anyio

NO_FLOOR = DiskFloor(Path("/"), 0)


async def test_a_server_is_ready_after_its_start_and_until_it_drains(runtime: Runtime) -> None:
    probes = Probes(runtime, NO_FLOOR, started=False)
    assert probes.reason() == "starting"
    probes.started = True
    assert probes.reason() is None
    runtime.placement.draining = True
    assert probes.reason() == "draining"


async def test_a_server_that_stops_is_not_ready(runtime: Runtime) -> None:
    app = App(runtime)
    assert app.probes.reason() is None
    app.stop()
    assert app.probes.reason() == "stopping"


async def test_a_database_counts_as_lost_after_a_while(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    probes = Probes(runtime, NO_FLOOR, started=True)
    monkeypatch.setattr(runtime.database, "outage", lambda: Outage(LOST_SECONDS / 2, "away"))
    assert probes.reason() is None
    monkeypatch.setattr(runtime.database, "outage", lambda: Outage(LOST_SECONDS, "away"))
    assert probes.reason() == "storage"


async def test_a_database_that_cannot_be_read_is_lost(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    def version() -> int:
        raise StorageUnavailable("holdfast.db", "disk I/O error")

    monkeypatch.setattr(runtime.database, "version", version)
    assert Probes(runtime, NO_FLOOR, started=True).reason() == "storage"


async def test_other_paths_and_methods_are_no_probes(runtime: Runtime) -> None:
    probes = Probes(runtime, NO_FLOOR, started=True)
    assert probes.answer("GET", "/healthz/") is None
    assert probes.answer("POST", "/readyz") is None
    assert probes.answer("HEAD", "/readyz") is not None


async def test_a_full_disk_is_not_ready(runtime: Runtime) -> None:
    """OPS-200, OPS-324."""
    assert Probes(runtime, DiskFloor(Path("/"), 2**60), started=True).reason() == "disk"
