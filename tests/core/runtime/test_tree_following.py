"""Following a tree whose Sessions another process creates."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import msgspec
import pytest
from tests.core.conftest import Pair
from tests.core.runtime.test_tree_changes import child

pytestmark = pytest.mark.anyio


async def test_a_grandchild_is_followed_that_is_found_together_with_its_parent(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """EVT-091, STO-153: it comes after its parent, whatever the order of their ids."""
    relay = pair.b.log.relay
    monkeypatch.setattr(relay, "_changed", lambda: None)  # both are found with one look
    stream: Any = pair.b.tree_tail.follow(pair.session.id, after=None, replay=False)
    async with aclosing(stream), asyncio.timeout(10):
        await anext(stream)
        below = await child(pair.a, pair.session, f"{pair.session.id}_z")
        deepest = await child(pair.a, below, f"{pair.session.id}_a")
        relay._look_now()
        created: list[str] = []
        while len(created) < 2:
            events = [msgspec.json.decode(event) for event in await anext(stream)]
            created += [event["durable"]["aggregateID"] for event in events if event["type"] == "session.created"]
    assert created == [below.id, deepest.id]
