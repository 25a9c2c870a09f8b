"""What a child may do: its own agent's rules, fenced by those of every ancestor."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.core.event.samples import SES, Story
from tests.core.permission.desk import ASK, REPLIED, Desk, rule, soon, want

from holdfast.core.permission.errors import DeniedByPerson, DeniedByRule
from holdfast.core.session.ancestors import Ancestor, Ancestors
from holdfast.core.session.errors import SessionNotFound
from holdfast.schema.permission import Rule
from holdfast.schema.session_event import AgentSwitched, SessionDeleted
from holdfast.schema.task_event import TaskStarted

pytestmark = pytest.mark.anyio
CHILD, GRANDCHILD = "ses_two", "ses_three"


async def born(desk: Desk, session_id: str, parent: str | None, **changes: Any) -> Story:
    story = Story(desk.database, desk.log, session_id)
    await story.begin(parent_id=parent, **changes)
    return story


async def family(desk: Desk, **agents: Sequence[Rule]) -> None:
    """A root, its child and its grandchild, with agents of their own: `root`, `child` and `grandchild`."""
    everything = [rule("allow")]
    desk.rules |= {"root": everything, "child": everything, "grandchild": everything}
    desk.rules |= {name: list(rules) for name, rules in agents.items()}
    await switch(desk, SES, "root")
    await born(desk, CHILD, SES, agent="child")
    await born(desk, GRANDCHILD, CHILD, agent="grandchild")


async def switch(desk: Desk, session_id: str, agent: str) -> None:
    switched = AgentSwitched(timestamp=1, session_id=session_id, message_id=f"msg_{session_id}_{agent}", agent=agent)
    await desk.log.publish(switched)


async def effect(desk: Desk, session: str = GRANDCHILD, agent: str = "grandchild", action: str = "edit") -> str:
    asked = await desk.permissions.ask(want(action, session=session, agent=agent))
    return asked.effect


async def refusal(desk: Desk, session: str = GRANDCHILD, agent: str = "grandchild") -> str:
    with pytest.raises(DeniedByRule) as denied:
        await soon(desk.permissions.assert_allowed(want(session=session, agent=agent)))
    return str(denied.value)


async def test_a_denial_of_any_ancestor_counts_and_is_named(desk: Desk) -> None:
    """TOL-430, TOL-434: the nearest ancestor that denies is told; the child's own denial is not its ancestor's."""
    await family(desk, root=[rule("allow"), rule("deny", "edit")])
    assert await effect(desk, action="read") == "allow"
    assert await refusal(desk) == (
        "Permission denied: edit a.txt (the agent root of Session ses_one may not do it, and this Session works for "
        "that one)"
    )
    desk.rules["child"] = [rule("deny")]
    assert "the agent child of Session ses_two may not do it" in await refusal(desk)
    desk.rules["grandchild"] = [rule("deny")]
    assert await refusal(desk) == "Permission denied: edit a.txt"


async def test_an_ancestor_that_would_ask_makes_the_child_ask(desk: Desk) -> None:
    """TOL-430: also where none of the ancestor's rules matches; an ancestor's yes adds nothing."""
    await family(desk, child=[rule("allow"), rule("ask", "edit")])
    assert await effect(desk) == "ask"
    desk.rules["child"] = [rule("allow", "read")]
    assert await effect(desk) == "ask"
    assert await effect(desk, action="read") == "allow"
    desk.rules |= {"child": [rule("allow")], "grandchild": [rule("ask")]}
    assert await effect(desk) == "ask"


async def test_the_rules_of_the_moment_count(desk: Desk) -> None:
    """TOL-431: nothing is copied when the child is made, neither the ancestor's agent nor its rules."""
    await family(desk, plan=[rule("allow"), rule("deny", "edit")])
    assert await effect(desk) == "allow"
    await switch(desk, SES, "plan")
    assert await effect(desk) == "deny"
    desk.rules["plan"] = [rule("allow")]
    assert await effect(desk) == "allow"


async def test_the_ancestors_of_a_session_that_is_executed_are_read_once_while_they_do_not_change(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TOL-431: a change of any ancestor is noticed at the next check, also between two that run together."""
    await family(desk, plan=[rule("allow"), rule("deny", "edit")])
    reads: list[str] = []
    read, was_read, held = Ancestors._read, asyncio.Event(), asyncio.Event()
    held.set()

    async def noted(ancestors: Ancestors, session_id: str) -> tuple[Ancestor, ...]:
        found = await read(ancestors, session_id)
        reads.append(session_id)
        was_read.set()
        await held.wait()
        return found

    monkeypatch.setattr(Ancestors, "_read", noted)
    with desk.permissions.authorities.ancestors.remembered(GRANDCHILD):
        for _ in range(5):
            assert await effect(desk) == "allow"
        assert len(reads) == 2  # by the second it is known whom to follow
        await switch(desk, SES, "plan")
        assert [await effect(desk), await effect(desk)] == ["deny", "deny"]
        assert len(reads) == 3
        await switch(desk, CHILD, "root")
        held.clear()
        was_read.clear()
        early = asyncio.create_task(effect(desk))
        await was_read.wait()
        await switch(desk, SES, "child")  # after the read of the first check
        held.set()
        assert await effect(desk) == "allow"
        await early
        assert await effect(desk) == "allow"
    assert await effect(desk) == "allow"
    assert desk.log.signals.followed() == frozenset()


async def test_a_denial_that_comes_while_the_request_waits_wins(desk: Desk) -> None:
    """TOL-431, TOL-098: the answer is checked against the ancestors' rules of that moment."""
    await family(desk, grandchild=[rule("ask")], plan=[rule("deny")])
    task, request = await desk.wait(want(session=GRANDCHILD, agent="grandchild"))
    await switch(desk, SES, "plan")
    await desk.permissions.reply(GRANDCHILD, request.id, "once")
    with pytest.raises(DeniedByRule, match="the agent plan of Session ses_one"):
        await soon(task)


async def test_an_ancestor_without_an_agent_denies_everything(desk: Desk) -> None:
    """TOL-432: an agent that was removed, and a Session that was deleted."""
    await family(desk)
    del desk.rules["root"]
    assert "(the agent root of Session ses_one does not exist, and this Session works for that one)" in (
        await refusal(desk)
    )
    desk.rules["root"] = [rule("allow")]
    record = await Story(desk.database, desk.log).store.record(SES)
    assert record is not None
    await desk.log.publish(SessionDeleted(session_id=SES, info=record))
    assert "(this Session works for Session ses_one, which does not exist any more)" in await refusal(desk)
    assert "(this Session works for Session ses_one" in await refusal(desk, CHILD, "child")


async def test_the_default_agent_of_an_ancestor(desk: Desk) -> None:
    """TOL-430: an ancestor without an agent of its own has the default one."""
    desk.rules |= {"build": [rule("deny", "edit")], "child": [rule("allow")]}
    await born(desk, CHILD, SES, agent="child")
    assert "(the default agent of Session ses_one may not do it" in await refusal(desk, CHILD, "child")


async def test_the_agent_that_gave_the_newest_task_counts_too(desk: Desk) -> None:
    """TOL-430: a prompt may have worked with another agent than its Session's."""
    await family(desk, reviewer=[rule("deny", "edit")])
    story = Story(desk.database, desk.log)

    async def give(number: int, caller: str) -> None:
        await story.tell(
            TaskStarted,
            assistant_message_id="msg_a",
            call_id=f"call_{number}",
            child_id=CHILD,
            root_id=SES,
            prompt_id=f"msg_p{number}",
            result_id=f"msg_r{number}",
            caller=caller,
            agent="child",
            description="look",
            background=False,
        )

    await give(1, "reviewer")
    for session, agent in ((CHILD, "child"), (GRANDCHILD, "grandchild")):
        assert "(the agent reviewer of Session ses_one may not do it" in await refusal(desk, session, agent)
    await give(2, "root")
    assert await effect(desk, CHILD, "child") == await effect(desk) == "allow"


async def test_a_saved_approval_answers_an_ancestor_that_asks(desk: Desk) -> None:
    """TOL-433: and releases a child's request that it covers, unless an ancestor denies it."""
    await family(desk, root=[rule("ask", "edit")])
    task, request = await desk.wait(want(session=GRANDCHILD, agent="grandchild", save=["a.txt"]))
    other, _ = await desk.wait(want(session=CHILD, agent="child", save=["a.txt"]))
    await desk.permissions.reply(GRANDCHILD, request.id, "always")
    await soon(task)
    await soon(other)
    assert await effect(desk) == "allow"
    desk.rules["root"] = [rule("deny", "edit")]
    assert await effect(desk) == "deny"


async def test_what_an_ancestor_denies_by_now_is_not_released(desk: Desk) -> None:
    """TOL-433: the saved approval covers it, and its parent's agent has become one that denies it."""
    await family(desk, grandchild=[rule("ask")], plan=[rule("deny")], lone=[rule("ask")])
    await born(desk, "ses_lone", None, agent="lone")
    _, request = await desk.wait(want(session="ses_lone", agent="lone", save=["*"]))
    await desk.wait(want(session=GRANDCHILD, agent="grandchild", save=["*"]))
    await switch(desk, CHILD, "plan")
    await desk.permissions.reply("ses_lone", request.id, "always", save=["*"])
    assert [item.session_id for item in await desk.permissions.list()] == [GRANDCHILD]


async def test_an_ancestor_elsewhere_has_the_rules_of_its_own_location(desk: Desk) -> None:
    """TOL-430: the child's Location may define an agent of the same name, which does not count."""
    await born(desk, "ses_far", None, directory="/w/there", agent="root")
    await born(desk, CHILD, "ses_far", agent="child")
    desk.rules |= {"child": [rule("allow")], "root": [rule("allow")]}
    assert "the agent root of Session ses_far does not exist" in await refusal(desk, CHILD, "child")
    desk.rules["/w/there root"] = [rule("allow")]
    assert await effect(desk, CHILD, "child") == "allow"
    desk.rules["/w/there root"] = [rule("deny")]
    assert await effect(desk, CHILD, "child") == "deny"


async def test_parents_that_form_a_circle_deny_everything(desk: Desk) -> None:
    """TOL-432: events of another log may say anything; the check ends."""
    desk.rules["child"] = [rule("allow")]
    await born(desk, "ses_a", "ses_b", agent="child")
    await born(desk, "ses_b", "ses_a", agent="child")
    assert await effect(desk, "ses_a", "child") == "deny"


async def test_an_unknown_session_is_refused(desk: Desk) -> None:
    with pytest.raises(SessionNotFound):
        await desk.permissions.ask(want(session="ses_nobody"))


async def test_a_request_names_the_ancestors_root_first(desk: Desk) -> None:
    """API-540: also in the events; a Session without a parent has none."""
    await family(desk, grandchild=[rule("ask")], root=[rule("ask")])
    task, request = await desk.wait(want(session=GRANDCHILD, agent="grandchild"))
    assert request.ancestors == (SES, CHILD)
    await desk.permissions.reply(GRANDCHILD, request.id, "once")
    await soon(task)
    (asked,), (replied,) = await desk.ear.count(ASK, 1), await desk.ear.count(REPLIED, 1)
    assert asked["ancestors"] == replied["ancestors"] == [SES, CHILD]
    _, own = await desk.wait(want(agent="root"))
    assert own.ancestors is None
    assert "ancestors" not in (await desk.ear.count(ASK, 2))[-1]


async def test_a_tree_lists_the_requests_of_all_below(desk: Desk) -> None:
    """API-541: at every Location; not those of its ancestors and of other trees."""
    await family(desk, root=[rule("ask")])
    await born(desk, "ses_other", None, agent="root")
    _, first = await desk.wait(want(session=GRANDCHILD, agent="grandchild"))
    _, second = await desk.wait(want(session=CHILD, agent="child"))
    _, third = await desk.wait(want(agent="root"))
    await desk.wait(want(session="ses_other", agent="root"))
    of_tree = desk.permissions.of_tree
    assert [await of_tree(SES), await of_tree(CHILD), await of_tree(GRANDCHILD)] == [
        (first, second, third),
        (first, second),
        (first,),
    ]
    store = Story(desk.database, desk.log).store
    found = [await store.asker(session, first.id) for session in (SES, CHILD, GRANDCHILD, "ses_other")]
    assert [session.id if session else None for session in found] == [GRANDCHILD] * 3 + [None]
    assert await store.asker(CHILD, third.id) is None


async def test_a_plain_no_ends_only_the_requests_of_the_child(desk: Desk) -> None:
    """SES-361: its parent and its siblings go on waiting."""
    await family(desk, root=[rule("ask")])
    await born(desk, "ses_sibling", CHILD, agent="child")
    task, request = await desk.wait(want(session=GRANDCHILD, agent="grandchild"))
    same, _ = await desk.wait(want("bash", session=GRANDCHILD, agent="grandchild"))
    _, sibling = await desk.wait(want(session="ses_sibling", agent="child"))
    _, parent = await desk.wait(want(session=CHILD, agent="child"))
    await desk.permissions.reply(GRANDCHILD, request.id, "reject")
    for denied in (task, same):
        with pytest.raises(DeniedByPerson):
            await soon(denied)
    assert await desk.permissions.list() == (sibling, parent)
