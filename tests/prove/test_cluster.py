"""Several servers on one database, killed and stopped at random."""

from __future__ import annotations

import json
import os
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.outside.scripted_provider import Model
from tests.prove.cluster import Answers, Cluster, Node

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
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": model.url, "apiKey": "sk-scripted"},
        "models": {"m": {"tool_call": True}},
    }
    nodes = []
    for number in range(count):
        home = folder / f"node{number}"
        config = home / "config" / "opencode"
        config.mkdir(parents=True)
        document = {"model": "mock/m", "provider": {"mock": provider}, "holdfast": {"titles": False}}
        (config / "opencode.json").write_text(json.dumps(document), encoding="utf-8")
        environment = {"XDG_CONFIG_HOME": str(home / "config"), "HOLDFAST_DATA": str(folder / "data")}
        nodes.append(Node(home, project, environment))
    for node in nodes:
        await node.start()
    try:
        yield Cluster(nodes, chance)
    finally:
        for node in nodes:
            await node.kill()


async def test_random_kills_and_stops_lose_and_double_nothing(tmp_path: Path) -> None:
    """SES-078, SES-079, EVT-062: three servers, clients and followers that go from one to another."""
    seed = int(os.environ.get("HOLDFAST_PROVE_SEED", random.randrange(10**6)))
    print(f"seed {seed}")
    chance, model = random.Random(seed), Model()
    async with model.serving():
        Answers(model, chance)
        async with cluster(tmp_path, model, chance, 3) as nodes:
            for _ in range(SESSIONS):
                await nodes.create()
            await nodes.run(SECONDS, followers=FOLLOWERS, actions={"kill": 5, "stop": 4, "end": 1})
            await nodes.settle()
            await nodes.check()
    prompts = sum(map(len, nodes.acknowledged.values()))
    followed = sum(len(seen) for _, seen in nodes.seen)
    print(f"{prompts} prompts, {len(model.requests)} requests, {dict(nodes.done)}")
    print(f"{nodes.checked} events, {followed} followed")
    assert prompts > SECONDS
    assert followed > nodes.checked
