"""How much later a follower of another node sees the text of an answer than one of the node that executes."""

from __future__ import annotations

import asyncio
import json
import random
import re
import statistics
import time
from contextlib import aclosing
from pathlib import Path
from typing import NamedTuple

from tests.outside.scripted_provider import Model
from tests.prove.cluster import Node
from tests.prove.followers import frames
from tests.prove.postgres_cluster import Store, postgres_cluster

DELTAS = 300
PACE_SECONDS = 0.02
_MARK = re.compile(r"<(\d+)>")


class Delays(NamedTuple):
    """Milliseconds from the provider to a follower, at the median, and the median of the differences."""

    near: float
    far: float
    more: float


class PacedModel(Model):
    """Answers with numbered deltas, one after the other, when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.begin = asyncio.Event()
        self.sent: dict[int, float] = {}

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
            await self.begin.wait()
            for number in range(DELTAS):
                self.sent[number] = time.perf_counter()
                writer.write(_chunk({"content": f"<{number}>"}))
                await asyncio.sleep(PACE_SECONDS)
            writer.write(_chunk({}, "stop") + b"data: [DONE]\n\n")
            await writer.drain()
        finally:
            writer.close()


def _chunk(delta: dict[str, str], finish: str | None = None) -> bytes:
    chunk = {
        "id": "c",
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


async def measure_live_deltas(folder: Path, store: Store) -> Delays:
    model = PacedModel()
    async with model.serving(), postgres_cluster(folder, store, model, random.Random(1), shifts=(0, 0)) as cluster:
        owner, other = cluster.nodes
        session_id = await cluster.create()
        body = {"id": "msg_1", "prompt": {"text": "go"}}
        await owner.request("POST", f"/api/session/{session_id}/prompt", body)
        following = [asyncio.create_task(_arrivals(node, session_id)) for node in (owner, other)]
        await asyncio.sleep(2.0)  # both follow, and the nodes are linked
        model.begin.set()
        near, far = await asyncio.gather(*following)
    assert near.keys() == far.keys() == model.sent.keys()
    return Delays(
        near=statistics.median((near[n] - model.sent[n]) * 1e3 for n in near),
        far=statistics.median((far[n] - model.sent[n]) * 1e3 for n in far),
        more=statistics.median((far[n] - near[n]) * 1e3 for n in near),
    )


async def _arrivals(node: Node, session_id: str) -> dict[int, float]:
    """When each delta arrived."""
    seen: dict[int, float] = {}
    path = f"/api/session/{session_id}/event?live=true"
    async with aclosing(frames(node.port, path, asyncio.Event())) as events:  # type: ignore[type-var]
        async for event in events:
            if event["type"].endswith("text.delta"):
                now = time.perf_counter()
                seen |= {int(number): now for number in _MARK.findall(event["data"]["delta"])}
            elif event["type"].endswith("step.ended"):
                break
    return seen
