"""Live text through another node."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.prove.live_deltas import measure_live_deltas
from tests.prove.postgres_cluster import Store

pytestmark = [pytest.mark.anyio, pytest.mark.prove, pytest.mark.timeout(120)]
MOST_MILLISECONDS = 5.0


async def test_another_node_shows_text_a_few_milliseconds_later(tmp_path: Path) -> None:
    """STO-105"""
    found = await measure_live_deltas(tmp_path, Store())
    print(
        f"from provider to follower {found.near:.1f} ms, through another node {found.far:.1f} ms: +{found.more:.1f} ms"
    )
    assert found.more <= MOST_MILLISECONDS
