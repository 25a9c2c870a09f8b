"""Several servers on one database, killed and stopped at random."""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.outside.scripted_provider import Model
from tests.prove.cluster import Answers, Cluster, Node
from tests.prove.postgres_cluster import configured
from tests.stores.stores import STORES

pytestmark = [pytest.mark.anyio, pytest.mark.prove, pytest.mark.timeout(7200)]

SECONDS = float(os.environ.get("HOLDFAST_PROVE_SECONDS", "120"))
SESSIONS = 12
FOLLOWERS = 50


@asynccontextmanager
async def cluster(folder: Path, model: Model, chance: random.Random, count: int) -> AsyncIterator[Cluster]:
    """Nodes that share one file."""
    project = folder / "project"
    project.mkdir()
    (project / "hello.txt").write_text("hello\n", encoding="utf-8")
    nodes = []
    for number in range(count):
        home = folder / f"node{number}"
        environment = configured(home, model.url) | {"HOLDFAST_DATA": str(folder / "data")}
        nodes.append(Node(home, project, environment))
    for node in nodes:
        await node.start()
    try:
        yield Cluster(nodes, chance, lambda: _events(folder / "data" / "holdfast.db"))
    finally:
        for node in nodes:
            await node.kill()


def _events(file: Path) -> list[tuple[str, int, str]]:
    with STORES.rows(file) as run:
        rows = run("select aggregate_id, seq, type from event order by aggregate_id, seq")
    return [(id, seq, type) for id, seq, type in rows]


async def test_random_kills_and_stops_lose_and_double_nothing(tmp_path: Path) -> None:
    """SES-078, SES-079, EVT-062: three servers, clients and followers that go from one to another."""
    seed = int(os.environ.get("HOLDFAST_PROVE_SEED", random.randrange(10**6)))
    print(f"seed {seed}")
    chance, model = random.Random(seed), Model()
    async with model.serving():
        answers = Answers(model, chance)
        async with cluster(tmp_path, model, chance, 3) as nodes:
            for _ in range(SESSIONS):
                await nodes.create()
            await nodes.run(SECONDS, followed_by=FOLLOWERS, actions={"kill": 5, "stop": 4, "end": 1})
            await nodes.settle()
            await nodes.check()
    prompts = sum(map(len, nodes.acknowledged.values()))
    followed = sum(follower.count for follower in nodes.followers)
    print(f"{prompts} prompts, {answers.count} requests, {dict(nodes.done)}")
    print(f"{nodes.checked} events, {followed} followed")
    assert prompts > SECONDS
    assert nodes.done["kill"], "no node was killed"
    assert nodes.done["stop"], "no node was stopped"
    assert followed > nodes.checked
