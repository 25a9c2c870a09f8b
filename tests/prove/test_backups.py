"""Backups under load: each restored copy is healthy. HOLDFAST_PROVE_BACKUPS sets how many are taken."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable

import pytest
from tests.cli.conftest import Machine, Server
from tests.outside.test_backup import load, there

pytestmark = [
    pytest.mark.prove,
    pytest.mark.timeout(3600),
    pytest.mark.store("sqlite", reason="PostgreSQL has its own backups"),
]

BACKUPS = int(os.environ.get("HOLDFAST_PROVE_BACKUPS", "50"))


def test_every_backup_taken_under_load_is_healthy(holdfast: Machine, serve: Callable[..., Server]) -> None:
    """OPS-130, OPS-131, OPS-133."""
    serve()
    with load(holdfast, streams=3) as answered:
        for number in range(BACKUPS):
            assert answered.acquire(timeout=60)
            path = holdfast.home / f"{number}.backup"
            made = holdfast("backup", str(path))
            assert made.code == 0, made.err
    for number in range(BACKUPS):
        restored = holdfast("restore", str(holdfast.home / f"{number}.backup"), **there(holdfast))
        assert restored.code == 0, restored.err
        doctor = holdfast("doctor", **there(holdfast))
        assert (doctor.code, "all rows agree with the event log" in doctor.out) == (0, True)
        shutil.rmtree(holdfast.home / "there")
