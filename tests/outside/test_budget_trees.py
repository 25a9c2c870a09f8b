"""Budgets of trees: many children at once, and processes that end at any commit."""

from __future__ import annotations

import asyncio
import random
import shutil
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.cli.conftest import HOLDFAST
from tests.core.session.support_day_crash import Camera
from tests.outside.scripted_provider import PATIENCE, Call, Request, Turn
from tests.outside.test_budgets import COST, USAGE, priced, until
from tests.outside.tree_script import Cast, delegating, first_prompt
from tests.outside.world import World

from holdfast import Budget, BudgetInfo, Holdfast, Session
from holdfast.core.runner import turn

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(1800)]

CHILDREN = 10
INPUT_PRICE, OUTPUT_PRICE = 1e-6, 2e-6
"""Dollars for a token, as `priced` configures them."""
LOOK = (Call("read", {"path": "hello.txt"}),)


class Spender:
    """A model whose Sessions work for some turns, and use and take whatever comes; it remembers what each one used."""

    def __init__(self, chance: random.Random, most: int) -> None:
        """Each child takes `most` turns at most."""
        self._chance = chance
        self._most = most
        self._turns: dict[str, int] = {}
        self.costs: dict[str, list[float]] = {}
        """What the requests of each Session cost, in order."""
        self.tokens = 0

    def __call__(self, request: Request) -> Turn:
        session_id, name = request.headers["x-session-id"], first_prompt(request)
        used = {"prompt_tokens": self._chance.randrange(4000), "completion_tokens": self._chance.randrange(3000)}
        cost = used["prompt_tokens"] * INPUT_PRICE + used["completion_tokens"] * OUTPUT_PRICE
        costs = self.costs.setdefault(session_id, [])
        costs.append(cost)
        self.tokens += sum(used.values())
        if name == "root" and len(costs) == 1:
            return Turn(calls=delegating(*(f"task {number}" for number in range(CHILDREN))).calls, usage=used)
        more = len(costs) < self._turns.setdefault(session_id, self._chance.randint(1, self._most))
        begin = asyncio.Event()
        asyncio.get_running_loop().call_later(self._chance.random() * 0.02, begin.set)
        return Turn(text=f"{name} done", calls=LOOK if more and name != "root" else (), usage=used, begin=begin)

    @property
    def spent(self) -> float:
        return sum(sum(costs) for costs in self.costs.values())

    @property
    def last_requests(self) -> float:
        """What the last request of each Session cost: it may have been under way when the limit was reached."""
        return sum(costs[-1] for costs in self.costs.values())

    @property
    def requests(self) -> int:
        return sum(map(len, self.costs.values()))


class Spenders:
    """Several of them at one provider, by the root of the Session that asks."""

    def __init__(self) -> None:
        self.of_root: dict[str, Spender] = {}

    def __call__(self, request: Request) -> Turn:
        session_id = request.headers["x-session-id"]
        parent = request.headers.get("x-parent-session-id")
        return self.of_root[parent or session_id](request)


async def limited_run(hf: Holdfast, spenders: Spenders, seed: int, most: int) -> None:
    """A root with ten children at once, under a random limit that they reach, and then raised."""
    chance = random.Random(seed)
    spender = Spender(chance, most)
    limit = Budget(money=chance.uniform(0, 0.1)) if seed % 3 else Budget(turns=chance.randrange(25))
    if seed % 5 == 0:
        limit = Budget(tokens=chance.randrange(100_000))
    session = await hf.sessions.create(budget=limit)
    spenders.of_root[session.id] = spender
    await hf.sessions.prompt(session.id, text="root")
    await until(lambda: quiet(hf, session))
    (info,) = await hf.sessions.budgets(session.id)
    check(info, spender)
    if limit.turns is not None:
        assert spender.requests <= limit.turns, seed
    if limit.money is not None:
        assert spender.spent <= limit.money + spender.last_requests, seed
    await hf.sessions.set_budget(session.id, budget=Budget(money=1000))
    async with asyncio.timeout(PATIENCE):
        await hf.sessions.wait(session.id)
    assert (await hf.sessions.outcome(session.id)).type == "completed", seed
    (info,) = await hf.sessions.budgets(session.id)
    check(info, spender)
    assert info.used.money == pytest.approx(spender.spent), seed
    assert (info.used.turns, info.used.tokens, info.reserved.turns) == (spender.requests, spender.tokens, 0), seed


def check(info: BudgetInfo, spender: Spender) -> None:
    """What has ended is used and the rest is reserved; together it is what was sent."""
    assert info.used.turns + info.reserved.turns == spender.requests
    assert info.used.money <= spender.spent + 1e-9


async def quiet(hf: Holdfast, session: Session) -> bool:
    """Whether nothing of the tree works: it is over, or all that is left waits for the budget."""
    waits = [wait.kind for wait in await hf.sessions.waits(session.id)]
    if session.id not in await hf.sessions.active():
        return waits in ([], ["budget"])
    calls = [kind for kind in waits if kind not in ("provider", "owner")]
    return bool(calls) and all(kind == "budget" for kind in calls)


async def limited_runs(world: World, seeds: range, most: int) -> None:
    priced(world, holdfast={"titles": False, "subagents": {"parallel": CHILDREN}}, snapshot=False)
    world.model.always = spenders = Spenders()
    async with world.host() as hf:
        for first in range(seeds.start, seeds.stop, 5):
            group = seeds[first - seeds.start : first - seeds.start + 5]
            await asyncio.gather(*(limited_run(hf, spenders, seed, most) for seed in group))
        assert await hf.verify() == []


async def test_ten_children_exceed_a_budget_by_one_request_each_at_most(world: World) -> None:
    """SES-373, SES-371: and after it was raised everything was counted once."""
    await limited_runs(world, range(10), 2)


@pytest.mark.prove
async def test_ten_children_exceed_a_budget_by_one_request_each_at_most_in_a_hundred_runs(world: World) -> None:
    """SES-373, SES-371."""
    await limited_runs(world, range(100), 4)


# -- processes that end ---------------------------------------------------------------------------------------------


@pytest.fixture
def camera(tmp_path: Path, synced_commits: None) -> Iterator[Camera]:
    camera = Camera(tmp_path / "pictures")
    yield camera
    camera.unregister()


async def crash_everywhere(world: World, camera: Camera, *, every: int = 1) -> None:
    """A process ends at each commit, or at every nth, of a tree that waits once; the next one goes on."""
    usage = {"prompt_tokens": 1000, "completion_tokens": 100}
    cast = Cast(root=[delegating("a", "b")], a=[Turn(calls=LOOK)], b=[Turn(calls=LOOK)])
    priced(world, snapshot=False)
    world.model.always = lambda request: _with(cast(request), usage)
    async with world.host() as hf:
        camera.on = True
        session = await hf.sessions.create(budget=Budget(turns=3))
        await hf.sessions.prompt(session.id, text="root")
        await until(lambda: quiet(hf, session))
        await hf.sessions.set_budget(session.id, budget=Budget(turns=60))
        async with asyncio.timeout(PATIENCE):
            await hf.sessions.wait(session.id)
        camera.on = False
    whole = [picture for picture in camera.pictures if picture.name.endswith("whole")]
    assert len(whole) > 20
    for picture in whole[::every]:
        async with world.host(data=picture) as hf:
            if session.id not in {found.id for found in (await hf.sessions.list(limit=9)).items}:
                continue
            await brought_to_end(hf, session)
            (info,) = await hf.sessions.budgets(session.id)
            tree = (await hf.sessions.usage(session.id)).tree
            assert (info.used.turns, info.reserved.turns) == (tree.turns, 0), picture.name
            assert info.used.money == pytest.approx(tree.cost), picture.name
            assert info.reserved.money == 0, picture.name
            assert await hf.verify() == []


async def brought_to_end(hf: Holdfast, session: Session) -> None:
    """As a person would: continue what was sent and broke off, and raise the budget where it is reached."""
    async with asyncio.timeout(PATIENCE):
        while True:
            pending = await hf.sessions.pending(session.id)
            left = await hf.sessions.interrupted()
            for item in left:
                await hf.sessions.recover(item.session_id, decision="continue")
            (info,) = await hf.sessions.budgets(session.id) or (None,)
            if info is not None and info.reached:
                await hf.sessions.set_budget(session.id, budget=Budget(turns=60))
            if not left and not pending and not await hf.sessions.active():
                return
            await asyncio.sleep(0.005)


def _with(turn: Turn, usage: dict[str, int]) -> Turn:
    return Turn(text=turn.text, calls=turn.calls, usage=usage)


@pytest.mark.store("sqlite", reason="copies of the file at each sync")
async def test_a_crash_counts_nothing_twice(world: World, camera: Camera) -> None:
    """SES-371, SES-373, EVT-087: whatever the process that ended had written."""
    await crash_everywhere(world, camera, every=4)


@pytest.mark.store("sqlite", reason="copies of the file at each sync")
@pytest.mark.prove
async def test_a_crash_at_any_commit_counts_nothing_twice(world: World, camera: Camera) -> None:
    """SES-371, SES-373, EVT-087."""
    await crash_everywhere(world, camera)


async def test_a_process_that_is_killed_in_a_turn_leaves_its_reservation_until_the_turn_is_closed(world: World) -> None:
    """SES-371, SES-373: `kill -9` between dispatch and end of the step; the turn counts once, when it is closed."""
    priced(world)
    silent = asyncio.Event()
    world.model.plays(Turn(text="lost", begin=silent))
    environment = {**world.environment, "HOLDFAST_DATA": str(world.data)}
    process = await asyncio.create_subprocess_exec(
        HOLDFAST, "run", "--budget", "1", "go", cwd=world.project, env=environment, stdin=asyncio.subprocess.DEVNULL
    )
    await world.model.asked(1)
    process.send_signal(signal.SIGKILL)
    await process.wait()
    async with world.host() as hf:
        (session,) = (await hf.sessions.list(limit=9)).items
        (info,) = await hf.sessions.budgets(session.id)
        assert (info.used.turns, info.reserved.turns) == (0, 1)
        assert info.reserved.money > 0
        await hf.sessions.recover(session.id, decision="continue")
        async with asyncio.timeout(PATIENCE):
            assert (await hf.sessions.outcome(session.id)).type == "completed"
        (info,) = await hf.sessions.budgets(session.id)
        assert (info.used.turns, info.reserved.turns, info.reserved.money) == (2, 0, 0)
        assert info.used.money == pytest.approx(0.0012)
    silent.set()


WAIT = Turn(calls=(Call("bash", {"command": "true", "description": "nothing"}),), usage=USAGE)


@pytest.mark.parametrize("budget", [None, Budget(money=1.0)])
async def test_what_an_answer_used_is_counted_by_the_process_that_ends_its_step(
    world: World, budget: Budget | None
) -> None:
    """SES-417: a call waits for a person in one process, and goes on in the next one."""
    priced(world, permission={"bash": "ask"})
    world.model.plays(WAIT)
    async with world.host() as hf:
        session = await hf.sessions.create(budget=budget)
        await hf.sessions.prompt(session.id, text="go")
        await until(lambda: hf.permissions.list(session.id))
    async with world.host() as hf, asyncio.timeout(PATIENCE):
        (request,) = await hf.permissions.list(session.id)
        await hf.permissions.reply(session.id, request_id=request.id, reply="once")
        assert (await hf.sessions.outcome(session.id)).type == "completed"
        usage = (await hf.sessions.usage(session.id)).own
        assert usage.cost == pytest.approx(2 * COST)
        assert usage.turns == 2
        assert await hf.verify() == []


@pytest.mark.store("sqlite", reason="copies of the file at each sync")
@pytest.mark.parametrize("goes_on", [True, False])
async def test_what_an_answer_used_is_on_disk_while_its_calls_take_long(
    world: World, camera: Camera, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, goes_on: bool
) -> None:
    """SES-417: the process ends without a word, and the call goes on or is given up."""
    monkeypatch.setattr(turn, "ANSWER_SECONDS", 0.01)
    priced(world, permission={"bash": "ask"})
    world.model.plays(WAIT)

    def newest() -> Path:
        return [picture for picture in camera.pictures if picture.name.endswith("whole")][-1]

    async def recorded() -> bool:
        copy = shutil.copytree(newest(), tmp_path / "copy", dirs_exist_ok=True)
        with closing(sqlite3.connect(copy / "holdfast.db")) as database:
            return bool(database.execute("select 1 from session_turn where used is not null").fetchall())

    async with world.host() as hf:
        camera.on = True
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, text="go")
        await until(lambda: hf.permissions.list(session.id))
        await until(recorded)
        camera.on = False
    async with world.host(data=newest()) as hf, asyncio.timeout(PATIENCE):
        if goes_on:
            (request,) = await hf.permissions.list(session.id)
            await hf.permissions.reply(session.id, request_id=request.id, reply="once")
            assert (await hf.sessions.outcome(session.id)).type == "completed"
        else:
            await hf.sessions.recover(session.id, decision="abandon")
        usage = (await hf.sessions.usage(session.id)).own
        turns = 2 if goes_on else 1
        assert usage.cost == pytest.approx(turns * COST)
        assert usage.turns == turns
        assert await hf.verify() == []
