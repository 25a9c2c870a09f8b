"""Trees of Sessions in corners: other processes, crashes, configurations that change, and people who decide."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.outside.scripted_provider import PATIENCE, Call, Turn
from tests.outside.test_budgets import priced, until, with_usage
from tests.outside.test_delegation import arrived, delivered, rule, tasks
from tests.outside.test_session_trees import prompted
from tests.outside.test_subagents import child_of, states
from tests.outside.tree_script import Cast, delegating
from tests.outside.world import World, ask, newest, text_of
from tests.stores.stores import STORES

from holdfast import Budget, Holdfast, PromptInput, Session
from holdfast.schema.session_message import UserMessage

pytestmark = pytest.mark.anyio

BACKGROUND = {"prompt": "a", "background": True}


def slow() -> Turn:
    """An answer that does not end."""
    return Turn(text="slow", end=asyncio.Event())


async def dispatched(hf: Holdfast, session: Session | str) -> None:
    """Returns when a request of the Session is under way."""
    id = session if isinstance(session, str) else session.id

    async def waits() -> bool:
        return any(wait.kind == "provider" for wait in await hf.sessions.waits(id))

    await until(waits)


async def waits_for_budget(hf: Holdfast, session_id: str) -> bool:
    return any(wait.kind == "budget" for wait in await hf.sessions.waits(session_id))


async def over(hf: Holdfast, session: Session) -> None:
    """Returns when all calls of a Session have their end, after a restart too, and nothing works on it."""

    async def ended() -> bool:
        return all(state.status in ("completed", "error") for state in await states(hf, session))

    await until(ended)
    async with asyncio.timeout(PATIENCE):
        await hf.sessions.wait(session.id)


def picture(world: World) -> Path:
    """The data as a process leaves it that ends now."""
    STORES.copy(world.data, copied := world.home / "picture")
    return copied


# -- interruption ------------------------------------------------------------------------------------------------------


async def test_an_interruption_takes_background_children_that_another_process_works_on(world: World) -> None:
    """SES-402, SES-420: what they had to tell wakes nobody there either."""
    world.model.always = Cast(
        root=[delegating(BACKGROUND), slow()],
        a=[delegating({"prompt": "b", "background": True}), slow()],
        b=[slow()],
    )
    async with world.host() as hf, world.host(recover=False) as other:
        session = await prompted(hf)
        await world.model.asked(5)
        async with asyncio.timeout(PATIENCE):
            await other.sessions.interrupt(session.id, background=True)
        assert await hf.sessions.active() == {}
        tree = await other.sessions.tree(session.id)
        assert [node.task and node.task.status for node in tree.nodes] == [None, "cancelled", "cancelled"]
        for node in tree.nodes[:2]:
            (told,) = await hf.sessions.pending(node.id)
            assert "did not finish: it was interrupted" in told.prompt.text
        assert len(world.model.requests) == 5


async def test_a_model_interrupts_a_child_that_waits_for_its_budget(world: World) -> None:
    """TOL-457, SES-379: nothing executes the child, and its end is told all the same; it waits for nothing more."""
    answered = asyncio.Event()
    first = Turn(calls=(Call("glob", {"pattern": "*"}),), end=answered)
    cast = world.model.always = Cast(root=[delegating(BACKGROUND)], a=[first])
    async with world.host() as hf:
        session = await hf.sessions.create(budget=Budget(turns=3))
        await ask(hf, session, "root")
        child = await child_of(hf, session)
        await dispatched(hf, child)
        answered.set()  # the third turn is the child's first; there is none for its second
        await until(lambda: waits_for_budget(hf, child))
        await hf.sessions.set_budget(child, budget=Budget(turns=0))
        await hf.sessions.set_budget(session.id, budget=Budget(turns=100))
        cast.parts["root"] += [Turn(text="fine"), tasks("interrupt", sessionID=child)]
        await ask(hf, session, "stop it")
        (told,) = await arrived(hf, session)
        assert "did not finish" in told
        await hf.sessions.prompt(child, prompt=PromptInput(text="later"), resume=False)
        assert [wait.kind for wait in await hf.sessions.waits(child)] == ["input"]


async def test_two_refusals_at_once_leave_a_child_the_time_to_stop(world: World) -> None:
    """SES-189: a person denies two calls beside the one that waits for the child."""
    world.configure(permission={"bash": "ask", "subagent": "allow"})
    bash = [Call("bash", {"command": f"echo {name}", "description": "d"}) for name in "xy"]
    world.model.always = Cast(root=[Turn(calls=(*delegating("a").calls, *bash))], a=[slow()])
    async with world.host() as hf:
        session = await prompted(hf)

        async def both() -> bool:
            return len(await hf.permissions.list(session.id)) == 2

        await until(both)
        await dispatched(hf, await child_of(hf, session))
        (first, _) = await hf.permissions.list(session.id)
        await hf.permissions.reply(session.id, request_id=first.id, reply="reject")
        async with asyncio.timeout(PATIENCE):
            await hf.sessions.wait(session.id)
        assert await hf.sessions.active() == {}
        assert "did not finish: it was interrupted" in (await states(hf, session))[0].error.message


async def test_fewer_places_after_a_restart_leave_no_child_behind(world: World) -> None:
    """SES-189, SES-421: an interruption reaches children whose calls wait for a place."""
    world.model.always = Cast(root=[delegating("a", "b", "c")], **{name: [slow(), slow()] for name in "abc"})
    async with world.host() as hf:
        session = await prompted(hf)
        await world.model.asked(4)
    world.configure(holdfast={"titles": False, "subagents": {"parallel": 1}})
    async with world.host() as hf:
        await hf.sessions.get(session.id)
        await world.model.asked(7)
        async with asyncio.timeout(PATIENCE):
            await hf.sessions.interrupt(session.id)
        assert await hf.sessions.active() == {}
        messages = [state.error.message for state in await states(hf, session)]
        assert ["did not finish: it was interrupted" in message for message in messages] == [True] * 3


@pytest.mark.parametrize("moment", [0, 7, 20, 50, 100])
async def test_an_interruption_right_after_a_restart_stops_the_children_too(world: World, moment: int) -> None:
    """SES-189, SES-421, STO-150: the calls are not executed again yet, or a moment ago."""
    never = asyncio.Event()
    world.model.always = Cast(root=[delegating("a", "b")], **{name: [Turn(begin=never)] for name in "ab"})
    async with world.host() as hf:
        session = await prompted(hf)
        await world.model.asked(3)
    async with world.host() as hf:
        await hf.sessions.get(session.id)
        for _ in range(moment):
            await asyncio.sleep(0)
        async with asyncio.timeout(PATIENCE):
            await hf.sessions.interrupt(session.id)
        assert await hf.sessions.active() == {}
        assert await hf.sessions.interrupted() == []
        messages = [state.error.message for state in await states(hf, session)]
        assert ["did not finish: it was interrupted" in message for message in messages] == [True] * 2


# -- other configurations ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["denied", "gone"])
async def test_a_call_that_is_executed_again_needs_no_permission_to_wait(world: World, change: str) -> None:
    """SES-421, SES-392: the tool is denied by now: the child ends and its result arrives. The agent is gone: the parent
    fails, and the child does not go on without it."""
    world.configure(agents={"lead": {"mode": "primary"}}, permission="allow")
    gate = asyncio.Event()
    world.model.always = Cast(root=[delegating("a")], a=[Turn(text="found it", begin=gate)])
    async with world.host() as hf:
        session = await hf.sessions.create(agent="lead")
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="root"))
        await world.model.asked(2)
        child = await child_of(hf, session)
    denied = {"lead": {"mode": "primary", "permissions": [rule("deny", "subagent")]}}
    world.configure(agents=denied if change == "denied" else {})
    if change == "denied":
        gate.set()
    async with world.host() as hf:
        await over(hf, session)
        (state,) = await states(hf, session)
        if change == "denied":
            assert "found it" in str(state.content)
            assert text_of(await newest(hf, session)) == "root done"
        else:
            assert state.status == "error"
            assert "Agent lead is not available" in str((await hf.sessions.outcome(session.id)).error)
        await hf.sessions.wait(child)
        assert await hf.sessions.active() == {}
        assert await hf.sessions.interrupted() == []


async def test_a_child_that_is_about_to_be_reverted_has_its_end_for_the_call(world: World) -> None:
    """SES-421: a call that goes on with a child is executed again after the person staged a revert there."""
    cast = world.model.always = Cast(root=[delegating("a")], a=[Turn(text="first"), slow()])
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "root")
        child = await child_of(hf, session)
        cast.parts["root"] += [Turn(text="fine"), delegating({"prompt": "more", "sessionID": child})]
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="again"))
        await dispatched(hf, child)
        left = picture(world)
    async with world.host(data=left, recover=False) as hf:
        first = (await hf.sessions.context(child))[0]
        await hf.sessions.stage_revert(child, message_id=first.id)
    async with world.host(data=left) as hf:
        await over(hf, session)
        assert "did not finish: it was interrupted" in (await states(hf, session))[-1].error.message


async def test_two_processes_that_start_together_send_nothing_twice(world: World) -> None:
    """SES-190, SES-423: both find the same tree, and one of them goes on with each Session."""
    gate = asyncio.Event()
    parts = {name: [Turn(text="found it", begin=gate)] for name in "ab"}
    cast = world.model.always = Cast(root=[delegating("a", "b")], **parts)
    async with world.host() as hf:
        session = await prompted(hf)
        await world.model.asked(3)
    gate.set()
    cast.requests.clear()
    async with world.host() as one, world.host() as two:

        async def idle() -> bool:
            return not await one.sessions.active() and not await two.sessions.active()

        await asyncio.gather(one.sessions.get(session.id), two.sessions.get(session.id))
        await over(one, session)
        await until(idle)
        assert {name: len(requests) for name, requests in cast.requests.items()} == {"root": 1, "a": 1, "b": 1}
        assert text_of(await newest(one, session)) == "root done"


# -- decisions of people -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("decision", ["abandon", "delete", "revert"])
@pytest.mark.parametrize("background", [True, False])
async def test_a_parent_hears_how_a_person_decided_about_its_child(
    world: World, decision: str, background: bool
) -> None:
    """SES-407, SES-422: the process of the child ended, and no process works on it when it is given up, reverted or
    deleted."""
    if decision == "abandon":
        world.configure(holdfast={"titles": False, "recovery": "ask"})
    world.model.always = Cast(root=[delegating({"prompt": "a", "background": background})], a=[slow()])
    async with world.host() as hf:
        session = await prompted(hf)
        child = await child_of(hf, session)
        await dispatched(hf, child)
        left = picture(world)
    async with world.host(data=left) as hf:
        await until(lambda: hf.sessions.interrupted())
        if decision == "abandon":
            await hf.sessions.recover(child, decision="abandon")
            for one in await hf.sessions.interrupted():  # the parent, if it was answering too
                await hf.sessions.recover(one.session_id, decision="continue")
        elif decision == "revert":
            first = (await hf.sessions.context(child))[0]
            await hf.sessions.stage_revert(child, message_id=first.id)
        else:
            await hf.sessions.delete(child)
        if background:
            (told,) = await arrived(hf, session)
            assert "did not finish" in told
        await over(hf, session)
        (state,) = await states(hf, session)
        assert state.status == ("completed" if background else "error")
        assert text_of(await newest(hf, session)) == "root done"


@pytest.mark.parametrize("decision", ["commit", "prompt", "clear"])
async def test_a_result_that_comes_while_a_revert_is_staged_is_not_lost_with_it(world: World, decision: str) -> None:
    """SES-393, SES-188: the call stays, so the result still arrives, once."""
    gate = asyncio.Event()
    world.model.always = Cast(root=[delegating(BACKGROUND)], a=[Turn(text="found it", begin=gate)])
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "root")
        await ask(hf, session, "second")
        child = await child_of(hf, session)
        second = [m for m in await hf.sessions.context(session.id) if isinstance(m, UserMessage)][1]
        await hf.sessions.stage_revert(session.id, message_id=second.id)
        gate.set()
        await until(lambda: hf.sessions.pending(session.id))
        match decision:
            case "commit":
                await hf.sessions.commit_revert(session.id)
            case "clear":
                await hf.sessions.clear_revert(session.id)
                await ask(hf, session, "third")
            case _:
                await ask(hf, session, "third")
        (told,) = await arrived(hf, session)
        assert f'sessionID="{child}" state="completed"' in told
        await hf.sessions.wait(session.id)
        assert len(await delivered(hf, session)) == 1
        assert await hf.verify() == []


# -- changes of a parent -----------------------------------------------------------------------------------------------


async def test_a_parent_is_moved_while_its_children_work(world: World) -> None:
    """SES-189, SES-393: what a call waits for is interrupted with it; the background result arrives where it is now."""
    world.write("elsewhere/file.txt", "hello")
    world.repository()
    gate = asyncio.Event()
    world.model.always = Cast(
        root=[delegating("waited", {"prompt": "later", "background": True})],
        waited=[slow()],
        later=[Turn(text="found it", begin=gate)],
    )
    async with world.host() as hf:
        session = await prompted(hf)
        await world.model.asked(3)
        await dispatched(hf, await child_of(hf, session))
        async with asyncio.timeout(PATIENCE):
            await hf.sessions.move(session.id, directory=str(world.project / "elsewhere"))
        waited, later = await states(hf, session)
        assert "did not finish: it was interrupted" in waited.error.message
        assert later.structured["status"] == "running"
        gate.set()
        (told,) = await arrived(hf, session)
        assert "found it" in told
        assert await hf.verify() == []


async def test_a_child_that_is_kept_goes_on_with_its_own_children(world: World) -> None:
    """SES-404, SES-188: results of tasks that it gave before and after its parent was deleted arrive."""
    gate = asyncio.Event()
    given = {name: delegating({"prompt": name, "background": True}) for name in "abc"}
    world.model.always = Cast(
        root=[given["a"]],
        a=[given["b"], Turn(text="fine"), given["c"]],
        **{name: [Turn(text=name, begin=gate)] for name in "bc"},
    )
    async with world.host() as hf:
        session = await hf.sessions.create()
        await ask(hf, session, "root")
        await world.model.asked(5)
        (_, child, _) = (await hf.sessions.tree(session.id)).nodes
        await hf.sessions.wait(child.id)
        await hf.sessions.delete(session.id, children="keep")
        kept = await hf.sessions.get(child.id)
        await ask(hf, kept, "more")
        gate.set()
        (_, *told) = await arrived(hf, kept, 3)  # the first one is the note that it is a subagent
        assert {text.splitlines()[1] for text in told} == {"b", "c"}
        assert await hf.verify() == []


# -- budgets -----------------------------------------------------------------------------------------------------------


async def test_what_a_kept_child_uses_is_not_part_of_the_budgets_that_were_above_it(world: World) -> None:
    """SES-371, SES-404: what it used before stays counted there; budgets below it hold as before."""
    priced(world)
    world.model.always = with_usage(Cast(root=[delegating("a")], a=[delegating("b")]))
    async with world.host() as hf:
        session = await hf.sessions.create(budget=Budget(money=1.0))
        await ask(hf, session, "root")
        (_, parent, child) = (await hf.sessions.tree(session.id)).nodes
        await hf.sessions.set_budget(child.id, budget=Budget(money=1.0))
        (before,) = await hf.sessions.budgets(session.id)
        (own, _) = await hf.sessions.budgets(child.id)
        await hf.sessions.delete(parent.id, children="keep")
        kept = await hf.sessions.get(child.id)
        await ask(hf, kept, "more")
        (after,) = await hf.sessions.budgets(session.id)
        assert (after.used, after.reserved) == (before.used, before.reserved)
        (later,) = await hf.sessions.budgets(kept.id)
        assert later.used.turns == own.used.turns + 1
        assert await hf.verify() == []


async def test_a_turn_that_is_given_up_gives_its_reservation_back(world: World) -> None:
    """SES-373, SES-377: a child waits because another one, whose process ended, has reserved what is left."""
    priced(world, holdfast={"titles": False, "recovery": "ask"})
    cast = Cast(root=[delegating({"prompt": "a", "background": True})], a=[slow()])
    world.model.always = cast
    async with world.host() as hf:
        session = await hf.sessions.create(budget=Budget(turns=3))
        await ask(hf, session, "root")
        child = await child_of(hf, session)
        await dispatched(hf, child)
        left = picture(world)
    async with world.host(data=left) as hf:
        (info,) = await hf.sessions.budgets(session.id)
        assert (info.used.turns, info.reserved.turns) == (2, 1)
        await hf.sessions.set_budget(session.id, budget=Budget(money=info.reserved.money))
        await hf.sessions.prompt(session.id, prompt=PromptInput(text="more"))
        await until(lambda: waits_for_budget(hf, session.id))
        await hf.sessions.recover(child, decision="abandon")
        async with asyncio.timeout(PATIENCE):
            await until(lambda: _answered(hf, session))
        (info,) = await hf.sessions.budgets(session.id)
        assert (info.reserved.turns, info.reserved.money) == (0, 0)


async def _answered(hf: Holdfast, session: Session) -> bool:
    return (await hf.sessions.outcome(session.id)).type == "completed"
