"""Three nodes on PostgreSQL, with a link to the database and one from the other nodes each, both of which can be cut.

The clock of one node is an hour ahead, that of another an hour behind."""

from __future__ import annotations

import json
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
import pytest
from tests.outside.scripted_provider import Model
from tests.prove.clock_shift import shifted
from tests.prove.cluster import Answers, Cluster, Node
from tests.prove.network import Link
from tests.stores.server import OWNER, NoPostgres, PostgresServer, start_server, started

SHIFTS = (0, 3600, -3600)
"""Seconds by which the clocks of the nodes are wrong."""
ACTIONS = {"kill": 5, "stop": 3, "end": 1, "close": 2, "cut": 2, "cut_one_way": 3, "slow": 1}
LONG_ACTIONS = {"long_stop": 0.7, "long_cut": 0.7}
STOPS = {"stop", "long_stop"}
CUTS = {"close", "cut", "cut_one_way", "long_cut"}
# Every lease that was ever taken, noted on the server. It sees what no node would tell.
NOTED_LEASES = """
create table noted_lease (number bigint generated always as identity, session_id text, token bigint, owner_id text);
create function note_lease() returns trigger language plpgsql as $$ begin
  insert into noted_lease (session_id, token, owner_id) values (new.session_id, new.token, new.owner_id);
  return null;
end $$;
create trigger note_lease after insert or update on session_lease for each row execute function note_lease();
"""


class Store:
    """A server of its own, with every commit synced, and a database in it."""

    def __init__(self) -> None:
        # Not below pytest's folder: that is for its owner alone, and the server runs as another user.
        self._folder = Path(tempfile.gettempdir()) / f"holdfast-cluster-{os.getpid()}-{random.randrange(10**6)}"
        try:
            start_server(self._folder, os.getpid(), synced=True)
            self.server: PostgresServer = started(self._folder)
        except NoPostgres as error:
            pytest.skip(f"no PostgreSQL here: {error}")
        with psycopg.connect(self.server.admin, autocommit=True) as admin:
            admin.execute(f"create role {OWNER} login")
            admin.execute(f"create database nodes owner {OWNER}")

    def run(self, sql: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.server.address("nodes"), autocommit=True) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description is not None else []

    def events(self) -> list[tuple[str, int, str]]:
        rows = self.run("select aggregate_id, seq, type from event order by aggregate_id, seq")
        return [(str(id), int(str(seq)), str(type)) for id, seq, type in rows]

    def log(self, characters: int = 2000) -> str:
        return (self._folder / "log").read_text(encoding="utf-8", errors="replace")[-characters:]


def configured(home: Path, model_url: str, **settings: object) -> dict[str, str]:
    """The environment of a node that uses a scripted model."""
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": model_url, "apiKey": "sk-scripted"},
        "models": {"m": {"tool_call": True}},
    }
    config = home / "config" / "opencode"
    config.mkdir(parents=True)
    own = {"titles": False, "recovery": "continue", **settings}
    document = {"model": "mock/m", "provider": {"mock": provider}, "holdfast": own}
    (config / "opencode.json").write_text(json.dumps(document), encoding="utf-8")
    return {"XDG_CONFIG_HOME": str(home / "config"), "HOLDFAST_DATA": str(home / "data")}


@asynccontextmanager
async def postgres_cluster(
    folder: Path, store: Store, model: Model, chance: random.Random, shifts: tuple[int, ...] = SHIFTS
) -> AsyncIterator[Cluster]:
    project = folder / "project"
    project.mkdir()
    (project / "hello.txt").write_text("hello\n", encoding="utf-8")
    nodes = []
    for number, shift in enumerate(shifts):
        home = folder / f"node{number}"
        environment = configured(home, model.url)
        database, peers = Link(store.server.port), Link()
        await database.start()
        await peers.start()
        address = f"postgresql://{OWNER}@127.0.0.1:{database.port}/nodes?sslmode=disable&gssencmode=disable"
        environment |= {"HOLDFAST_DATABASE": address, **shifted(home / "clock", shift)}
        nodes.append(Node(home, project, environment, database=database, peers=peers))
    try:
        for node in nodes:
            await node.start()
        yield Cluster(nodes, chance, store.events)
    finally:
        for node in nodes:
            await node.kill()
            for link in (node.database, node.peers):
                if link is not None:
                    await link.close()


def several_owners(store: Store) -> list[str]:
    """Tokens of leases that more than one process had, or that came again."""
    owners: dict[tuple[object, object], list[object]] = {}
    newest: Counter[object] = Counter()
    problems = []
    for session_id, token, owner_id in store.run("select session_id, token, owner_id from noted_lease order by number"):
        assert isinstance(token, int)
        if token < newest[session_id]:
            problems.append(f"token {token} of {session_id} came after {newest[session_id]}")
        newest[session_id] = token
        if owner_id is not None and owner_id not in owners.setdefault((session_id, token), []):
            owners[session_id, token].append(owner_id)
    return problems + [f"{key} belonged to {ids}" for key, ids in owners.items() if len(ids) > 1]


async def disturbed(
    folder: Path, seconds: float, *, sessions: int, followed_by: int, pause: float, long: bool = True
) -> None:
    """Let three nodes work while they are killed, stopped and cut off; then look at everything that was stored and
    seen."""
    seed = int(os.environ.get("HOLDFAST_PROVE_SEED", random.randrange(10**6)))
    print(f"seed {seed}")
    chance, model, store = random.Random(seed), Model(), Store()
    began = time.monotonic()
    async with model.serving():
        answers = Answers(model, chance)
        async with postgres_cluster(folder, store, model, chance) as cluster:
            store.run(NOTED_LEASES)
            try:
                for _ in range(sessions):
                    await cluster.create()
                weights = {**ACTIONS, **(LONG_ACTIONS if long else {})}
                await cluster.run(seconds, followed_by=followed_by, actions=weights, pause=pause)
                await cluster.settle()
                await cluster.check()
                problems = several_owners(store)
                assert not problems, "\n".join(problems)
            except BaseException:
                print(f"--- seed {seed}, {time.monotonic() - began:.0f} s, {dict(cluster.done)}")
                for node in cluster.nodes:
                    print(f"--- {node.name}\n{node.log()}")
                print(f"--- PostgreSQL\n{store.log()}")
                raise
    prompts = sum(map(len, cluster.acknowledged.values()))
    followed = Counter({follower.kind: 0 for follower in cluster.followers})
    for follower in cluster.followers:
        followed[follower.kind] += follower.count
    tokens = store.run("select count(*) from (select distinct session_id, token from noted_lease) as tokens")
    print(f"{prompts} prompts, {answers.count} requests, {cluster.checked} events, {tokens[0][0]} leases")
    print(f"followed {dict(followed)}; {dict(cluster.done)}")
    assert prompts > sessions
    for kind, actions in {"killed": {"kill"}, "stopped": STOPS, "cut off": CUTS}.items():
        assert any(cluster.done[action] for action in actions), f"no node was {kind}"
    assert all(followed.values())
