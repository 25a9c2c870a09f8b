"""Two minutes of what `make prove` does with nodes on PostgreSQL for half an hour."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.prove.postgres_cluster import disturbed

pytestmark = [pytest.mark.anyio, pytest.mark.acceptance, pytest.mark.timeout(600)]
SECONDS = float(os.environ.get("HOLDFAST_CLUSTER_SECONDS", "105"))


async def test_nodes_that_are_killed_stopped_and_cut_off_lose_and_double_nothing(tmp_path: Path) -> None:
    """STO-102 to STO-106, STO-180 to STO-182: three nodes, fifty followers."""
    await disturbed(tmp_path, SECONDS, sessions=10, followed_by=50, pause=2.0)
