"""Budgets: what a Session and everything below it may use. At the limit it waits, and goes on when that is raised."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.outside.scripted_provider import PATIENCE, Request, Turn, calling
from tests.outside.tree_script import Cast, delegating
from tests.outside.world import World, answers, ask, types

from holdfast import ActivityFailed, Budget, Conflict, Holdfast, InvalidRequest, Session

pytestmark = pytest.mark.anyio

USAGE = {"prompt_tokens": 1000, "completion_tokens": 100}
"""With the prices below a request costs 0.0012 dollars."""
COST = 0.0012


def priced(world: World, **document: Any) -> None:
    """A model with prices, which says what it used."""
    world.configure(provider={"mock": world.provider(cost={"input": 1, "output": 2})}, **document)
    world.model.always = Turn(text="done", usage=USAGE)


def looking() -> Turn:
    """A turn after which the model is asked again."""
    call = calling("read", filePath="hello.txt").calls
    return Turn(calls=call, usage=USAGE)


async def paused(hf: Holdfast, session: Session | str) -> str:
    """What the Session waits for, which is a budget."""
    id = session if isinstance(session, str) else session.id
    async with asyncio.timeout(PATIENCE):
        outcome = await hf.sessions.outcome(id)
    assert (outcome.type, outcome.code) == ("waiting", "Session.BudgetReachedError"), outcome
    (wait,) = await hf.sessions.waits(id)
    assert wait.kind == "budget"
    assert outcome.error is not None
    assert wait.what in outcome.error
    return wait.what


async def until(met: Callable[[], Awaitable[object]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await met():  # noqa: ASYNC110 - what another task records is read
            await asyncio.sleep(0.005)


async def is_named(hf: Holdfast, session: Session) -> bool:
    return not (await hf.sessions.get(session.id)).title.startswith("New session")


async def test_at_the_limit_a_session_waits_and_goes_on_when_the_budget_is_raised(world: World) -> None:
    """SES-370, SES-371, SES-375, SES-377, API-550, API-551: nothing fails, and the same work goes on."""
    priced(world)
    world.model.plays(looking(), looking(), looking())
    async with world.host() as hf:
        session = await hf.sessions.create(budget=Budget(money=2 * COST))
        await hf.sessions.prompt(session.id, text="go")
        waits = await paused(hf, session)
        assert waits == "the budget of this session: $0.0024 of $0.0024 used"
        assert len(world.model.requests) == 2
        assert "step.failed" not in await types(hf, session)
        assert await hf.sessions.interrupted() == []

        info = await hf.sessions.set_budget(session.id, budget=Budget(money=1.0))
        assert info.limit.money == 1.0
        async with asyncio.timeout(PATIENCE):
            assert (await hf.sessions.outcome(session.id)).type == "completed"
        assert await hf.sessions.waits(session.id) == []
        (info,) = await hf.sessions.budgets(session.id)
        assert info.used.money == pytest.approx(4 * COST)
        assert (info.used.turns, info.reserved.turns) == (4, 0)
        assert [message.text for message in answers(await hf.sessions.context(session.id))][-1] == "done"
        assert await hf.verify() == []


@pytest.mark.parametrize("limit", [{"money": 0.0}, {"tokens": 0}, {"turns": 0}, {"time": 0.0}])
async def test_a_budget_of_zero_waits_at_once(world: World, limit: Any) -> None:
    """SES-376: nothing is sent and the prompt is not taken up; removing the budget starts it."""
    priced(world)
    async with world.host() as hf:
        session = await hf.sessions.create(budget=Budget(**limit))
        await hf.sessions.prompt(session.id, text="go")
        await paused(hf, session)
        assert world.model.requests == []
        assert [item.prompt.text for item in await hf.sessions.pending(session.id)] == ["go"]
        await hf.sessions.remove_budget(session.id)
        async with asyncio.timeout(PATIENCE):
            assert (await hf.sessions.outcome(session.id)).type == "completed"
        assert await hf.sessions.budgets(session.id) == []


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        ({"tokens": 1500}, "2,200 tokens of 1,500 tokens used"),
        ({"turns": 2}, "2 turns of 2 turns used"),
        ({"turns": 2, "money": 5.0}, "2 turns of 2 turns used"),
    ],
)
async def test_tokens_and_turns_are_limited_too(world: World, limit: Any, text: str) -> None:
    """SES-370: each limit by itself; the others do not matter."""
    priced(world)
    world.model.plays(looking(), looking(), looking())
    async with world.host() as hf:
        session = await hf.sessions.create(budget=Budget(**limit))
        await hf.sessions.prompt(session.id, text="go")
        assert text in await paused(hf, session)
        assert len(world.model.requests) == 2


async def test_time_is_limited_too(world: World) -> None:
    """SES-372: the time in which the model answers counts."""
    priced(world)
    silent = asyncio.Event()
    world.model.plays(Turn(calls=looking().calls, usage=USAGE, end=silent))
    async with world.host() as hf:
        session = await hf.sessions.create(budget=Budget(time=0.02))
        await hf.sessions.prompt(session.id, text="go")
        await world.model.asked(1)
        asyncio.get_running_loop().call_later(0.03, silent.set)
        assert " s of 0.02 s used" in await paused(hf, session)
        usage = await hf.sessions.usage(session.id)
        assert usage.own.time >= 0.02


async def test_waiting_for_a_person_is_no_work(world: World) -> None:
    """SES-372: the time until a permission was given does not count."""
    priced(world, permission={"bash": "ask"})
    world.model.plays(calling("bash", command="true", description="nothing"))
    async with world.host() as hf:
        session = await hf.sessions.create(budget=Budget(time=1000.0))
        begun = time.monotonic()
        await hf.sessions.prompt(session.id, text="go")
        async with asyncio.timeout(PATIENCE):
            await until(lambda: hf.permissions.list(session.id))
            await asyncio.sleep(0.1)
            (found,) = await hf.permissions.list(session.id)
            await hf.permissions.reply(session.id, request_id=found.id, reply="once")
            await hf.sessions.wait(session.id)
        took = time.monotonic() - begun
        worked = (await hf.sessions.usage(session.id)).own.time
        assert 0 < worked < took - 0.095


async def test_a_prompt_while_a_session_waits_is_admitted_and_waits_too(world: World) -> None:
    """SES-378: it is answered after the budget was raised; no attempt is counted meanwhile."""
    priced(world)
    world.model.plays(looking())
    async with world.host() as hf:
        session = await hf.sessions.create(budget=Budget(turns=1))
        await hf.sessions.prompt(session.id, text="first")
        await paused(hf, session)
        for number in range(5):
            await hf.sessions.prompt(session.id, text=f"more {number}", delivery="queue")
            await paused(hf, session)
        assert len(world.model.requests) == 1
        assert len(await hf.sessions.pending(session.id)) == 5
        await hf.sessions.set_budget(session.id, budget=Budget(turns=100))
        async with asyncio.timeout(PATIENCE):
            assert (await hf.sessions.outcome(session.id)).type == "completed"
        assert await hf.sessions.pending(session.id) == []


async def test_an_interruption_ends_the_wait(world: World) -> None:
    """SES-379: what was owed has ended, and raising the budget starts nothing."""
    priced(world)
    world.model.plays(looking())
    async with world.host() as hf:
        session = await hf.sessions.create(budget=Budget(turns=1))
        await hf.sessions.prompt(session.id, text="first")
        await paused(hf, session)
        await hf.sessions.interrupt(session.id)
        assert await hf.sessions.waits(session.id) == []
        assert (await hf.sessions.outcome(session.id)).type == "interrupted"
        await hf.sessions.set_budget(session.id, budget=Budget(turns=100))
        await hf.sessions.wait(session.id)
        assert len(world.model.requests) == 1


async def test_a_raised_budget_counts_after_a_restart_and_from_another_process(world: World) -> None:
    """SES-377: the next process goes on by itself; one that runs notices what another one changed."""
    priced(world)
    world.model.plays(looking(), looking())
    async with world.host() as hf:
        session = await hf.sessions.create(budget=Budget(turns=1))
        await hf.sessions.prompt(session.id, text="first")
        await paused(hf, session)
    async with world.host() as hf:
        await hf.sessions.get(session.id)
        await paused(hf, session)
        assert len(world.model.requests) == 1
        async with world.host(recover=False) as other:
            await other.sessions.set_budget(session.id, budget=Budget(turns=2))
            await world.model.asked(2)
            await other.sessions.set_budget(session.id, budget=Budget(turns=9))
            await world.model.asked(3)
        async with asyncio.timeout(PATIENCE):
            assert (await hf.sessions.outcome(session.id)).type == "completed"
    assert len(world.model.requests) == 3


async def test_a_budget_that_was_raised_while_nobody_ran_lets_the_next_process_go_on(world: World) -> None:
    """SES-377: a command that ends at once does not begin with the work itself."""
    priced(world)
    world.model.plays(looking())
    async with world.host() as hf:
        session = await hf.sessions.create(budget=Budget(turns=1))
        await hf.sessions.prompt(session.id, text="first")
        await paused(hf, session)
    async with world.host(recover=False) as command:
        await command.sessions.set_budget(session.id, budget=Budget(turns=9))
    assert len(world.model.requests) == 1
    async with world.host() as hf:
        await hf.sessions.get(session.id)
        await world.model.asked(2)
        async with asyncio.timeout(PATIENCE):
            await hf.sessions.wait(session.id)
        assert (await hf.sessions.outcome(session.id)).type == "completed"


async def test_the_requests_of_the_runtime_itself_count_and_are_checked(world: World) -> None:
    """SES-374: one-shot answers, compaction and titles."""
    titles = {"agent": {"title": {"model": "mock/m"}}, "holdfast": {"titles": True}}
    priced(world, **titles, compaction={"keep": {"tokens": 0}})
    async with world.host() as hf:
        session = await hf.sessions.create(budget=Budget(turns=4))
        await ask(hf, session, "one " * 1000)
        await until(lambda: is_named(hf, session))
        await hf.sessions.compact(session.id)
        await hf.sessions.generate(session.id, prompt="Which?")
        (info,) = await hf.sessions.budgets(session.id)
        assert (info.used.turns, info.reserved.turns, info.reached) == (4, 0, ("turns",))
        assert info.used.tokens == 4 * 1100
        with pytest.raises(Conflict, match="4 turns of 4 turns used"):
            await hf.sessions.generate(session.id, prompt="?")
        await ask(hf, session, "two")
        assert len(world.model.requests) == 4


async def test_a_compaction_by_hand_is_refused_at_the_limit(world: World) -> None:
    """SES-374: it needs a request, and a title is then taken from the prompt."""
    titles = {"agent": {"title": {"model": "mock/m"}}, "holdfast": {"titles": True}}
    priced(world, **titles, compaction={"keep": {"tokens": 0}})
    async with world.host() as hf:
        session = await hf.sessions.create(budget=Budget(turns=1))
        await ask(hf, session, "one " * 1000)
        with pytest.raises(Conflict, match="1 turns of 1 turns used"):
            await hf.sessions.compact(session.id)
        await until(lambda: is_named(hf, session))
        assert (await hf.sessions.get(session.id)).title.startswith("one one")
        assert len(world.model.requests) == 1


async def test_the_usage_of_a_session_is_told(world: World) -> None:
    """API-552: cost, tokens, turns and time, of itself and of everything below it."""
    priced(world)
    world.model.plays(looking())
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "go")
        usage = await hf.sessions.usage(session.id)
        assert usage.own == usage.tree
        assert usage.own.cost == pytest.approx(2 * COST)
        assert (usage.own.tokens.input, usage.own.tokens.output, usage.own.turns) == (2000, 200, 2)
        assert usage.own.sessions == 1
        assert await hf.sessions.budgets(session.id) == []


REFUSED = [-1, -0.01, True, "2", 1e30, [], {"amount": 2}]


@pytest.mark.parametrize("value", REFUSED)
@pytest.mark.parametrize("name", ["money", "tokens", "turns", "time"])
async def test_what_is_no_limit_is_refused_with_its_field(world: World, name: str, value: Any) -> None:
    """API-550: at creation and later; nothing is changed."""
    budget: Any = {name: value}
    async with world.host() as hf:
        session = await hf.sessions.create()
        for call in (hf.sessions.create(budget=budget), hf.sessions.set_budget(session.id, budget=budget)):
            with pytest.raises(InvalidRequest) as refused:
                await call
            assert (refused.value.status, refused.value.field) == (400, f"budget.{name}")
        assert await hf.sessions.budgets(session.id) == []


@pytest.mark.parametrize("budget", [{}, {"money": None}, {"dollars": 2}, {"money": 1, "dollars": 2}])
async def test_a_budget_without_a_limit_or_with_an_unknown_name_is_refused(world: World, budget: Any) -> None:
    """API-550: nothing is accepted in silence."""
    async with world.host() as hf:
        session = await hf.sessions.create()
        for call in (hf.sessions.create(budget=budget), hf.sessions.set_budget(session.id, budget=budget)):
            with pytest.raises(InvalidRequest) as refused:
                await call
            assert refused.value.field == "budget"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), True])
def test_what_is_no_number_cannot_be_written_in_python(value: Any) -> None:
    """API-550: JSON has no such number, so the client would send no limit at all."""
    with pytest.raises(ValueError, match="money"):
        Budget(money=value)


async def test_python_sets_a_budget_for_a_prompt(world: World) -> None:
    """API-553: dollars, or a Budget; of a new Session, or of one that exists."""
    priced(world)
    world.model.plays(looking())
    async with world.host() as hf:
        with pytest.raises(ActivityFailed, match=r"\$0.0012 of \$0.001 used") as failed:
            await hf.run("go", budget=0.001)
        assert failed.value.outcome.code == "Session.BudgetReachedError"
        assert failed.value.session_id is not None
        answer = await hf.run("go on", session=failed.value.session_id, budget=Budget(turns=50))
        assert answer.text == "done"
        with pytest.raises(InvalidRequest):
            await hf.run("go", budget=-1)


async def test_configuration_gives_new_sessions_a_budget(world: World) -> None:
    """SES-380: when their work begins, unless somebody decided otherwise."""
    priced(world, holdfast={"titles": False, "budget": {"turns": 1}})
    world.model.always = looking()
    async with world.host() as hf:
        session = await hf.sessions.create()
        await hf.sessions.prompt(session.id, text="go")
        assert "1 turns of 1 turns" in await paused(hf, session)
        chosen = await hf.sessions.create(budget=Budget(turns=2))
        await hf.sessions.prompt(chosen.id, text="go")
        assert "2 turns of 2 turns" in await paused(hf, chosen)
        world.model.always = Turn(text="done", usage=USAGE)
        await hf.sessions.remove_budget(session.id)
        await hf.sessions.wait(session.id)
        await ask(hf, session, "again")
        assert await hf.sessions.budgets(session.id) == []


async def test_an_untrusted_project_only_narrows_the_budget(world: World) -> None:
    """SES-380: a larger limit of such a project has no effect."""
    priced(world, holdfast={"titles": False, "budget": {"turns": 5, "money": 0.5}})
    world.write("opencode.json", json.dumps({"holdfast": {"budget": {"turns": 1000, "money": 0.1, "tokens": 7}}}))
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "go")
        (info,) = await hf.sessions.budgets(session.id)
        assert info.limit == Budget(turns=5, money=0.1, tokens=7)


async def test_the_event_of_a_budget_is_private(world: World) -> None:
    """EVT-086: it is stored, and not part of the public history."""
    async with world.host() as hf:
        session = await hf.sessions.create(budget=Budget(money=1.0))
        await hf.sessions.set_budget(session.id, budget=Budget(money=2.0))
        await hf.sessions.remove_budget(session.id)
        assert not any("budget" in type for type in await types(hf, session))
        assert await hf.verify() == []


async def test_a_rebuild_changes_neither_the_budget_nor_what_was_used(world: World) -> None:
    """EVT-087: what was counted stays counted, once."""
    priced(world)
    async with world.host() as hf:
        session = await hf.sessions.create(budget=Budget(turns=9))
        await ask(hf, session, "one")
        before = await hf.sessions.budgets(session.id), await hf.sessions.usage(session.id)
        await hf.rebuild()
        assert (await hf.sessions.budgets(session.id), await hf.sessions.usage(session.id)) == before
        await ask(hf, session, "two")
        (info,) = await hf.sessions.budgets(session.id)
        assert info.used.turns == 2
        assert info.used.money == pytest.approx(2 * COST)
        assert await hf.verify() == []


async def test_a_budget_that_is_set_later_counts_what_was_used_before(world: World) -> None:
    """SES-371: the limit is for everything since the Session was created, also inside a running turn."""
    priced(world)
    silent = asyncio.Event()
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "one")
        world.model.plays(Turn(calls=looking().calls, usage=USAGE, end=silent))
        await hf.sessions.prompt(session.id, text="two")
        await world.model.asked(2)
        info = await hf.sessions.set_budget(session.id, budget=Budget(money=1.5 * COST))
        assert info.used.money == pytest.approx(COST)
        silent.set()
        assert "$0.0024 of $0.0018" in await paused(hf, session)
        assert len(world.model.requests) == 2


# -- trees ---------------------------------------------------------------------------------------------------------


def with_usage(cast: Cast) -> Callable[[Request], Turn]:
    """The same turns, each with what it used."""
    return lambda request: dataclasses.replace(cast(request), usage=USAGE)


async def children(hf: Holdfast, session: Session) -> list[Session]:
    return [found for found in (await hf.sessions.list(limit=200)).items if found.parent_id == session.id]


async def test_a_budget_is_shared_by_everything_below(world: World) -> None:
    """SES-370, SES-375, API-551, API-552: children wait at the limit of the root; the call of the parent waits on."""
    priced(world)
    # Three turns are left for both: whoever is faster, neither comes to its end.
    world.model.always = with_usage(Cast(root=[delegating("a", "b")], a=[looking()] * 3, b=[looking()] * 3))
    async with world.host() as hf:
        session = await hf.sessions.create(budget=Budget(turns=4))
        await hf.sessions.prompt(session.id, text="root")

        await until(lambda: waits_for_budgets(hf, session, 2))
        assert len(world.model.requests) == 4
        assert session.id in await hf.sessions.active()
        below = await children(hf, session)
        for child in below:
            (wait,) = await hf.sessions.waits(child.id)
            assert wait.what == f"the budget of {session.id}: 3 turns of 4 turns used, 1 turns reserved"
            (info,) = await hf.sessions.budgets(child.id)
            assert info.session_id == session.id
        usage = await hf.sessions.usage(session.id)
        assert (usage.own.turns, usage.tree.turns, usage.tree.sessions) == (1, 4, 3)

        await hf.sessions.set_budget(session.id, budget=Budget(turns=100))
        async with asyncio.timeout(PATIENCE):
            await hf.sessions.wait(session.id)
        assert (await hf.sessions.outcome(session.id)).type == "completed"
        (info,) = await hf.sessions.budgets(session.id)
        assert (info.used.turns, info.reserved.turns) == (len(world.model.requests), 0)
        assert info.used.money == pytest.approx(len(world.model.requests) * COST)
        assert await hf.verify() == []


async def test_a_child_may_have_a_budget_of_its_own(world: World) -> None:
    """SES-370: it waits for the tighter one; its parent's other children go on."""
    priced(world)
    gate = asyncio.Event()
    first = Turn(calls=looking().calls, begin=gate)
    world.model.always = with_usage(Cast(root=[delegating("a", "b")], a=[first], b=[looking()]))
    async with world.host() as hf:
        session = await hf.sessions.create(budget=Budget(turns=50))
        await hf.sessions.prompt(session.id, text="root")
        await world.model.asked(3)
        (held,) = [child for child in await children(hf, session) if await first_prompt_of(hf, child) == "a"]
        await hf.sessions.set_budget(held.id, budget=Budget(turns=1))
        gate.set()
        assert await paused(hf, held) == "the budget of this session: 1 turns of 1 turns used"
        assert [info.session_id for info in await hf.sessions.budgets(held.id)] == [held.id, session.id]
        await hf.sessions.remove_budget(held.id)
        async with asyncio.timeout(PATIENCE):
            await hf.sessions.wait(session.id)
        assert (await hf.sessions.outcome(session.id)).type == "completed"


async def first_prompt_of(hf: Holdfast, session: Session) -> str:
    return next(message.text for message in await hf.sessions.context(session.id) if message.type == "user")


@pytest.mark.parametrize("turns", [1, 2])
async def test_interrupting_a_child_that_waits_settles_the_call(world: World, turns: int) -> None:
    """SES-379: whether its prompt was taken up or not, and from above as well."""
    priced(world)
    world.model.always = with_usage(Cast(root=[delegating("a")], a=[looking()]))
    async with world.host() as hf:
        session = await hf.sessions.create(budget=Budget(turns=turns))
        await hf.sessions.prompt(session.id, text="root")
        await until(lambda: waits_for_budgets(hf, session))
        (child,) = await children(hf, session)
        await hf.sessions.interrupt(child.id)
        assert "budget" in await paused(hf, session)  # the parent has its result, and no turn to read it
        await hf.sessions.interrupt(session.id)
        assert await hf.sessions.interrupted() == []

        other = await hf.sessions.create(budget=Budget(turns=turns))
        await hf.sessions.prompt(other.id, text="root")
        await until(lambda: waits_for_budgets(hf, other))
        async with asyncio.timeout(PATIENCE):
            await hf.sessions.interrupt(other.id)
        assert (await hf.sessions.outcome(other.id)).type == "interrupted"
        assert await hf.sessions.interrupted() == []
        assert await hf.verify() == []


async def waits_for_budgets(hf: Holdfast, session: Session, count: int = 1) -> bool:
    """Whether calls of the Session wait for children that wait for a budget. The turn of the calls is open."""
    kinds = [wait.kind for wait in await hf.sessions.waits(session.id)]
    return [kind for kind in kinds if kind != "provider"] == ["budget"] * count


async def test_a_deleted_child_stays_counted(world: World) -> None:
    """SES-371: what was spent was spent."""
    priced(world)
    world.model.always = with_usage(Cast(root=[delegating("a")], a=[looking()]))
    async with world.host() as hf:
        session = await hf.sessions.create(budget=Budget(turns=50))
        await ask(hf, session, "root")
        (before,) = await hf.sessions.budgets(session.id)
        (child,) = await children(hf, session)
        await hf.sessions.delete(child.id)
        assert await hf.sessions.budgets(session.id) == [before]
        assert before.used.turns == 4
        assert (await hf.sessions.usage(session.id)).tree.sessions == 1


async def test_what_one_request_reserves_is_not_left_for_another(world: World) -> None:
    """SES-373: two children begin together with less left than a request may cost; one is sent, the other one waits."""
    priced(world)
    gate = asyncio.Event()
    late = [Turn(text="done", begin=gate)]
    world.model.always = with_usage(Cast(root=[delegating("a", "b")], a=late, b=late))
    async with world.host() as hf:
        session = await hf.sessions.create(budget=Budget(tokens=1100 + 100))  # the answer of the root used 1,100
        await hf.sessions.prompt(session.id, text="root")

        async def both_decided() -> bool:
            kinds = [wait.kind for wait in await hf.sessions.waits(session.id)]
            return len(world.model.requests) == 3 or "budget" in kinds

        await until(both_decided)
        assert len(world.model.requests) == 2
        (info,) = await hf.sessions.budgets(session.id)
        assert (info.used.tokens, info.reserved.turns) == (0, 2)  # the turn of the root lasts as long as its calls
        assert info.reserved.tokens >= 1200
        gate.set()
        await hf.sessions.set_budget(session.id, budget=Budget(tokens=100_000))
        async with asyncio.timeout(PATIENCE):
            await hf.sessions.wait(session.id)
        assert (await hf.sessions.outcome(session.id)).type == "completed"
        (info,) = await hf.sessions.budgets(session.id)
        assert (info.used.tokens, info.reserved.tokens) == (4 * 1100, 0)
