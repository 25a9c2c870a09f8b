"""A node that stands still for a minute in the middle of a turn, and comes back."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.outside.scripted_provider import Model, Turn
from tests.prove.cluster import Node
from tests.prove.histories import check_history
from tests.prove.network import FROM, TO
from tests.prove.postgres_cluster import NOTED_LEASES, Store, postgres_cluster, several_owners

from holdfast.core.session.heartbeats import EXPIRY_SECONDS, WATCHED_SECONDS

pytestmark = [pytest.mark.anyio, pytest.mark.prove, pytest.mark.timeout(600)]

PAUSE_SECONDS = 60.0
LATEST = EXPIRY_SECONDS + WATCHED_SECONDS + 6
"""The heartbeat may be two seconds old when the node stops, and others look twice a second."""


def _stop(node: Node) -> Callable[[], None]:
    node.stop()
    return node.go_on


def _cut(*directions: str) -> Callable[[Node], Callable[[], None]]:
    def cut(node: Node) -> Callable[[], None]:
        assert node.database is not None
        node.database.cut(*directions)
        return node.database.heal

    return cut


@pytest.mark.parametrize(
    "leave", [_stop, _cut(TO), _cut(FROM), _cut(TO, FROM)], ids=["stopped", "cut-to", "cut-from", "cut-both"]
)
async def test_a_node_that_comes_back_after_a_minute_is_refused(
    tmp_path: Path, leave: Callable[[Node], Callable[[], None]]
) -> None:
    """STO-104, STO-180: another node answers after half a minute; what the first one still wants to store is refused,
    and it goes on with other work."""
    model, store, late = Model(), Store(), asyncio.Event()
    model.plays(Turn(text="late", begin=late), Turn(text="by the other one"))
    async with model.serving(), postgres_cluster(tmp_path, store, model, random.Random(1), shifts=(0, 3600)) as cluster:
        store.run(NOTED_LEASES)
        first, second = cluster.nodes
        session_id = await cluster.create()
        await first.request("POST", f"/api/session/{session_id}/prompt", {"id": "msg_1", "prompt": {"text": "go"}})
        await model.asked(1)
        began = time.monotonic()
        come_back = leave(first)
        async with asyncio.timeout(LATEST + 10):
            await _asked(model, 2)
        took = time.monotonic() - began
        await _until_idle(second)
        await asyncio.sleep(max(PAUSE_SECONDS - (time.monotonic() - began), 0))
        late.set()
        come_back()
        other = await cluster.create()
        await _prompt_until_answered(first, other)
        await cluster.settle()
        events = await cluster.history(session_id)
        assert check_history(events, ["msg_1"]) == []
        assert [event["data"]["text"] for event in events if event["type"].endswith("text.ended")] == [
            "by the other one"
        ]
        assert several_owners(store) == []
    print(f"taken over after {took:.1f} s")
    assert took < LATEST
    assert took > EXPIRY_SECONDS - 3


async def _asked(model: Model, count: int) -> None:
    while len(model.requests) < count:  # noqa: ASYNC110 - longer than `Model.asked` waits
        await asyncio.sleep(0.05)


async def _until_idle(node: Node) -> None:
    while (await node.request("GET", "/api/session/active"))["data"]:  # noqa: ASYNC110 - only looking tells
        await asyncio.sleep(0.05)


async def _prompt_until_answered(node: Node, session_id: str) -> None:
    """On the node that came back. It may have to connect again first."""
    body = {"id": "msg_2", "prompt": {"text": "and now?"}}
    await node.request("POST", f"/api/session/{session_id}/prompt", body, seconds=30)
    async with asyncio.timeout(30):
        while not await _answered(node, session_id):  # noqa: ASYNC110 - only looking tells
            await asyncio.sleep(0.1)


async def _answered(node: Node, session_id: str) -> bool:
    events = (await node.request("GET", f"/api/session/{session_id}/history"))["data"]
    return any(event["type"].endswith("step.ended") for event in events)
