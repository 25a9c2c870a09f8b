"""Three nodes on PostgreSQL, killed, stopped and cut off at random, and clients that go from one to another."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.prove.postgres_cluster import disturbed

pytestmark = [pytest.mark.anyio, pytest.mark.prove, pytest.mark.timeout(7200)]

SECONDS = float(os.environ.get("HOLDFAST_PROVE_SECONDS", "1800"))
"""15 are enough while one changes something here."""


async def test_nodes_that_are_killed_stopped_and_cut_off_lose_and_double_nothing(tmp_path: Path) -> None:
    """STO-102 to STO-106, STO-180 to STO-182: prompts are answered once, calls settled once, a token has one owner, and
    fifty followers see every event once."""
    long = SECONDS > 100
    await disturbed(tmp_path, SECONDS, sessions=12, followed_by=50, pause=1.0, long=long)
